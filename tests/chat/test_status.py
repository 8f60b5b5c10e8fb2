"""Both ways of writing the status of a call are read, and one is written."""

from __future__ import annotations

import pytest

from holdfast.agent.conversation import Status
from holdfast.chat import render
from holdfast.chat.document import Document
from holdfast.chat.nodes import ToolResultSegment


def result(block: str) -> ToolResultSegment:
    (segment,) = Document.parse(f"@You:\n\n{block}\n").messages[0].segments
    assert isinstance(segment, ToolResultSegment)
    return segment


def in_header(suffix: str) -> tuple[str | None, bool, str | None]:
    found = result(f"**Tool Result:** `toolu_1`{suffix}\n\n```\n```")
    return found.status, found.error, found.form


@pytest.mark.spec("D3")
@pytest.mark.parametrize("status", [*Status])
def test_a_status_is_written_in_the_fence_and_read_from_there(status: Status) -> None:
    block = render.placeholder("toolu_1", status, "\n", "my words")
    assert block == f"**Tool Result:** `toolu_1`\n\n```flemma:tool status={status.value}\nmy words\n```"
    found = result(block)
    assert (found.status, found.form, found.content, found.error) == (status.value, "fence", "my words", False)


@pytest.mark.spec("D3")
@pytest.mark.parametrize(
    ("suffix", "status"),
    [
        (" (pending)", "pending"),
        ("(approved) ", "approved"),
        (" (deny)", "denied"),
        (" (reject)", "rejected"),
        (' (status=denied policy="no shell" n=2)', "denied"),
        (' (note="approved" rejected)', "rejected"),
        (" (pending status=approved)", "approved"),
        (' (status="aborted")', "aborted"),
        (" (status=aproved)", "pending"),
    ],
)
def test_a_status_after_the_id_is_read(suffix: str, status: str) -> None:
    assert in_header(suffix) == (status, False, "header")


@pytest.mark.spec("D3")
@pytest.mark.parametrize("suffix", ["", " (frobnicate)", " approved", ' ("approved")', " (approved) and more"])
def test_words_that_are_no_status_leave_a_result(suffix: str) -> None:
    assert in_header(suffix) == (None, False, None)


@pytest.mark.spec("D1", "D3")
def test_an_error_is_no_status_and_goes_with_a_placeholder() -> None:
    assert in_header(" (error)") == (None, True, None)
    found = result("**Tool Result:** `toolu_1` (error)\n```flemma:tool status=denied\n```")
    assert (found.status, found.error, found.form) == ("denied", True, "fence")


@pytest.mark.spec("D3")
@pytest.mark.parametrize("info", ["flemma:tool", "flemma:tool status=", "flemma:tool approved", "flemma:tool x=y"])
def test_a_placeholder_without_a_status_is_pending(info: str) -> None:
    assert result(f"**Tool Result:** `a`\n```{info}\n```").status == "pending"


@pytest.mark.spec("D3")
@pytest.mark.parametrize("word", ["aproved", "Approved", "error", "yes"])
def test_a_status_nobody_knows_is_pending_and_is_said(word: str) -> None:
    document = Document.parse(f"@You:\n\n**Tool Result:** `a`\n```flemma:tool status={word}\n```\n")
    (segment,) = document.messages[0].segments
    assert isinstance(segment, ToolResultSegment) and segment.status == "pending"
    (found,) = document.diagnostics
    assert (found.severity, found.line) == ("warning", 3) and f'"{word}"' in found.message


@pytest.mark.spec("D3")
def test_the_fence_says_more_than_the_header() -> None:
    assert result("**Tool Result:** `a` (approved)\n```flemma:tool status=pending\n```").status == "pending"


@pytest.mark.spec("D3")
def test_the_language_of_other_fences_means_nothing() -> None:
    found = result('**Tool Result:** `a`\n```json\n{"status": 1}\n```')
    assert (found.status, found.form, found.content) == (None, None, '{"status": 1}')


@pytest.mark.spec("D3")
def test_quotes_that_never_close_take_no_time() -> None:
    assert in_header(" (" + "\\'" * 200_000 + ")") == (None, False, None)

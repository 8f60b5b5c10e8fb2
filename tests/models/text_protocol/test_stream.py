"""The preview of a streamed reply: everything before its first call, however it is chunked."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from holdfast.models.text_protocol.parser import parse
from holdfast.models.text_protocol.stream import TextPreview
from holdfast.models.text_protocol.syntax import FRAMES, TAGS, ProblemKind, SyntaxProblem, TextPiece
from tests.soak import rounds

from .parsing import before_calls, in_steps, previewed, text_of
from .strategies import EDIT, REPLY, WRITE

HAND_MADE = (
    "I look at it.\n[read_file: src/a[0].py]\n[list_dir: ]\n[git_status] and [git_log]",
    "[read_file: a[b] then [read_file: c] and [git_diff]\nmore [read_file: [x]\n",
    "[read_file: a[b] then [read_file: c] and [git_diff]",
    "[read_file: [call: a] ```\n[git_status]\n```\n[git_log]\n",
    "```\n[git_status]\n   ```\n[git_log] ``` [git_diff] ``` [git_status]",
    "````md\n```\n[git_status]\n```\n[git_log]\n````\n[git_diff]",
    "``` never closed [git_status]\n[git_log]\n",
    "text\n~~~ one ~~~ [git_status]\n~~~\n[git_log]",
    "    ~~~^~~\n[git_log]",
    WRITE.format("[git_status]\n[write_file]\n[/write_file]\nx"),
    "Use [write_file].\n" + WRITE.format("a") + "\n" + EDIT.format("[git_log]"),
    WRITE.format("a [/write_file] b") + "\n[git_status]",
    "[search_code]\nquery: a\n[/search_code] [search_code] [git_status] [/search_code]\n[search_code]\n\nb",
    "[search_code] a\n \r\nb[/search_code] [git_log]",
    '[call: a]\n```json\n{"b": "[/call] \\" [git_status]"}\n```\n[/call][git_log]',
    '[call: a]{"b": "x}[/call] [git_status] "}[/call]',
    "[call: a] no [call: b]{}[/call] [call: c]{} x [/call] [git_status]",
    "[edit_file]\r\npath: a\r\n<<<<<<< S\r\nb\r\n=======\r\nc\r\n>>>>>>> R\r\n[/edit_file]\r\n[git_status]",
    "[write_file]path: a\n---content---b[/write_file]",
    "=== tool_result: read_file ===\n[git_status]\n=== /tool_result ===",
    "[read_file: \ud800\U0001f600][git_status",
    "> 10. ~~~\n>     [git_log]\n>     ~~~\u00a0\n[git_status]\n- ```\n[git_log]\n  ```\n[git_diff]\n-~~~",
    WRITE.format("a").replace("\n[/", "[/") + " \t\n[git_status]\n" + EDIT.format("a").replace("\n[/", "[/"),
    WRITE.format("a [/write_file], b [git_status]\n[write_file]\nc [/write_file]") + "\n[git_log]",
    WRITE.format("a [/write_file], then [git_status]").replace("\n[/write_file]", ""),
    "[write_file: a.py]\n\n```python\nprint(1)\n```\n[write_file: b[0].py] \n---content---\nx\n[/write_file]",
    "[write_file: a.py]\n--- no ---\n[write_file: b[0 ]\n~~ no\n[write_file: c]\n[/write_file][/write_file]",
    "[git_status]\n``` never closed",
)


def _first_line(problems: tuple[SyntaxProblem, ...]) -> float:
    """The line of the first problem that is visible before the reply is complete."""
    return min(
        (problem.line for problem in problems if problem.kind is not ProblemKind.OPEN_FENCE), default=float("inf")
    )


def assert_shown_before_the_first_call(text: str, pieces: list[str]) -> None:
    """The preview is the same for all chunkings and ends before the first call and the first problem."""
    whole, shown = parse(text), previewed(pieces)
    assert shown == previewed([text])
    assert before_calls(whole).startswith(shown)
    assert shown.count("\n") < _first_line(whole.problems)
    assert shown == text or any(sign in text[len(shown) :] for sign in "[`~=")


@pytest.mark.spec("M3")
@pytest.mark.parametrize("text", HAND_MADE)
@pytest.mark.parametrize("step", [1, 2, 3, 4, 7, 11])
def test_a_chunked_reply_is_previewed_up_to_its_first_call(text: str, step: int) -> None:
    assert_shown_before_the_first_call(text, in_steps(text, step))


@pytest.mark.spec("M3")
@settings(max_examples=rounds(120, 600), deadline=None)
@given(text=REPLY, cuts=st.lists(st.integers(0, 400), max_size=20), step=st.sampled_from([1, 2, 3, 5]))
@example(text="a ``` b ``` [git_log]", cuts=[], step=1)
@example(text="> ~~~\n[git_log]\n> ~~~\n[git_log]", cuts=[], step=1)
def test_any_reply_in_any_chunks_is_previewed_up_to_its_first_call(text: str, cuts: list[int], step: int) -> None:
    places = [0, *sorted(cut for cut in cuts if cut < len(text)), len(text)]
    assert_shown_before_the_first_call(text, [text[a:b] for a, b in pairwise(places)])
    assert_shown_before_the_first_call(text, in_steps(text, step))


@pytest.mark.spec("M3")
@settings(max_examples=rounds(60, 300), deadline=None)
@given(text=REPLY)
def test_all_lines_before_the_first_tag_or_frame_are_previewed(text: str) -> None:
    first = min((at for word in (*TAGS, *FRAMES) if (at := text.find(word)) >= 0), default=len(text))
    shown = previewed([text])
    assert len(shown) > text.rfind("\n", 0, first)


@pytest.mark.spec("M3")
@settings(max_examples=rounds(60, 300), deadline=None)
@given(text=REPLY)
def test_nothing_of_a_reply_is_lost(text: str) -> None:
    parsed = parse(text)
    assert text_of(parsed) == text
    assert all(piece.text for piece in parsed.pieces)
    neighbours = pairwise(parsed.pieces)
    assert not any(isinstance(a, TextPiece) and isinstance(b, TextPiece) for a, b in neighbours)
    assert all(1 <= problem.line <= text.count("\n") + 1 for problem in parsed.problems)


@pytest.mark.spec("M3")
def test_text_is_previewed_as_soon_as_it_cannot_be_a_call() -> None:
    preview = TextPreview()
    assert preview.feed("I will [re") == "I will "
    assert preview.feed("ally) look: ``") == "[really) look: "
    assert preview.feed("`\n[git_status]\n=") == "```\n[git_status]\n"
    assert preview.feed("= x\n``") == "== x\n"
    assert preview.feed("`\nSo [git_") == "```\nSo "
    assert not preview.over
    assert preview.feed("log] is it.\nMore.") == ""
    assert preview.over


@pytest.mark.spec("M3")
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Now.\n{}\nMore.", "Now.\n"),
        ("```\n{}\nMore.\n```\n", "```\n"),
        ("``` a ``` {}\nMore.", "``` a ``` "),
        ("``` a {}\nMore.", "``` a "),
        ("> ~~~\n> a {}", "> ~~~\n> a "),
        ("a ~~~ {}\n", "a ~~~ "),
    ],
)
@pytest.mark.parametrize("step", [1, 3, 100])
def test_a_fabricated_result_is_never_previewed(text: str, shown: str, step: int) -> None:
    for frame in FRAMES:
        assert previewed(in_steps(text.format(frame), step)) == shown

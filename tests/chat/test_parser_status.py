"""The status of a placeholder in its fence or header, including ambiguous and forged ones."""

from __future__ import annotations

import pytest

from holdfast.agent.conversation import Status
from holdfast.chat import grammar
from holdfast.chat.document import Document
from holdfast.chat.parser import ToolResultSegment
from holdfast.chat.turns import last_turn


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
    block = grammar.placeholder("toolu_1", status, "\n", "my words")
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
        (' (note="not now" rejected)', "rejected"),
        (' (status="aborted")', "aborted"),
        (" (status=aproved)", "pending"),
    ],
)
def test_a_status_after_the_id_is_read(suffix: str, status: str) -> None:
    assert in_header(suffix) == (status, False, "header")


@pytest.mark.spec("D3")
@pytest.mark.parametrize("suffix", ["", " (frobnicate)", " approved", ' ("approved")', " (approved) and more"])
def test_words_that_are_not_a_status_leave_a_result(suffix: str) -> None:
    assert in_header(suffix) == (None, False, None)


@pytest.mark.spec("D1", "D3")
def test_error_is_not_a_status_and_is_dropped_with_a_placeholder() -> None:
    assert in_header(" (error)") == (None, True, None)
    found = result("**Tool Result:** `toolu_1` (error)\n```flemma:tool status=denied\n```")
    assert (found.status, found.error, found.form) == ("denied", True, "fence")


@pytest.mark.spec("D3")
@pytest.mark.parametrize("info", ["flemma:tool", "flemma:tool status=", "flemma:tool approved", "flemma:tool x=y"])
def test_a_placeholder_without_a_status_is_pending(info: str) -> None:
    assert result(f"**Tool Result:** `a`\n```{info}\n```").status == "pending"


@pytest.mark.spec("D3")
@pytest.mark.parametrize("word", ["aproved", "Approved", "error", "yes"])
def test_an_unknown_status_is_pending_and_reported(word: str) -> None:
    document = Document.parse(f"@You:\n\n**Tool Result:** `a`\n```flemma:tool status={word}\n```\n")
    (segment,) = document.messages[0].segments
    assert isinstance(segment, ToolResultSegment) and segment.status == "pending"
    (found,) = document.diagnostics
    assert (found.severity, found.line) == ("warning", 3) and f'"{word}"' in found.message


@pytest.mark.spec("D3", "U2")
@pytest.mark.parametrize(
    "info",
    [
        "status=pending status=approved",
        "status=approved status=pending",
        "status=approved status=approved",
        "status=approved pending",
        "status=approved Status=pending",
        "STATUS=pending status=approved",
        "status=approved \u0455tatus=pending",
        "status=approved ｓｔａｔｕｓ=pending",
        "status=approved st\u200batus=pending",
        "status=Approved",
        "Status=approved",
        "status=approv\u0435d",
        "status=ａｐｐｒｏｖｅｄ",
        "status=approved,status=pending",
        "status=approved" + " " * 1000 + "status=pending",
    ],
)
def test_a_placeholder_with_two_statuses_or_an_unclear_one_is_pending(info: str) -> None:
    found = result(f"**Tool Result:** `a`\n```flemma:tool {info}\n```")
    assert (found.status, found.form) == ("pending", "fence")


AROUND = [
    "{}.", "[{}]", "<{}>", "*{}*", "_{}_", '"{}"', "'{}'", "({})", ",{}", "-{}", "{{{}}}", "`{}`", "#{}!", "«{}»",
    "x:{}", "x={}", "x='{}'", "({}", "{}\t", "\\{}", "/{}/", "～{}～", "{}1", '"{}', "&{};", "|{}|", "\u200b{}",
    "（{}）",
]  # fmt: skip
SECOND = [
    "pending", "rejected", "approved", "denied", "aborted", "reject", "deny", "Rejected", "rеjected", "ｐｅｎｄｉｎｇ",
    "status=rejected", "status:rejected", "status = rejected", "status＝rejected", "status", "STATUS", "ѕtatus:no",
]  # fmt: skip


@pytest.mark.spec("D3", "U2")
@pytest.mark.parametrize("second", SECOND)
@pytest.mark.parametrize("around", AROUND)
def test_a_second_status_counts_whatever_punctuation_surrounds_it(second: str, around: str) -> None:
    other = around.format(second)
    for info in (f"status=approved {other}", f"{other} status=approved", f"status=approved {other} x=y"):
        if "`" not in info:
            assert result(f"**Tool Result:** `a`\n```flemma:tool {info}\n```").status == "pending"
        for given in (info, info.replace("status=approved", "approved")):
            assert in_header(f" ({given})") == ("pending", False, "header")


@pytest.mark.spec("D3", "U2")
@pytest.mark.parametrize(
    "info",
    [
        "status=approved ,status=rejected",
        "status=approved (status=rejected)",
        "status=approved status:rejected",
        "status =rejected status=approved",
        "status=approved\u00a0rejected",
        "status=approved\u3000rejected",
    ],
)
def test_a_second_status_with_odd_separators_counts_too(info: str) -> None:
    assert result(f"**Tool Result:** `a`\n```flemma:tool {info}\n```").status == "pending"


@pytest.mark.spec("D3")
@pytest.mark.parametrize("more", ["x=y", "note='all well'", "unapproved", "statuses", "pendingly", "n=2 (why not?)"])
def test_other_words_beside_a_status_are_ignored(more: str) -> None:
    assert result(f"**Tool Result:** `a`\n```flemma:tool status=approved {more}\n```").status == "approved"
    assert in_header(f" (approved {more})") == ("approved", False, "header")


@pytest.mark.spec("D3", "U2")
@pytest.mark.parametrize(
    "suffix",
    [
        " (pending status=approved)",
        " (approved status=pending)",
        " (approved approved)",
        " (approved, pending)",
        " (approved/rejected)",
        " (approved) (pending)",
        " (status=approved status=rejected)",
        " (status=approved STATUS=pending)",
        " (Approved)",
        " (APPROVED)",
        " (\u0430pproved)",
        " (ａｐｐｒｏｖｅｄ)",
        " (approved error)",
        " (approved" + " " * 1000 + "pending)",
    ],
)
def test_a_header_with_two_statuses_or_an_unclear_one_is_pending(suffix: str) -> None:
    assert in_header(suffix) == ("pending", False, "header")


@pytest.mark.spec("D3", "U2")
@pytest.mark.parametrize("tag", ["Flemma:tool", "FLEMMA:TOOL", "fl\u0435mma:tool", "flemma：tool", "flemma:to\u200bol"])
def test_a_fence_that_only_looks_like_a_placeholder_is_pending(tag: str) -> None:
    found = result(f"**Tool Result:** `a`\n```{tag} status=approved\n```")
    assert (found.status, found.form) == ("pending", "fence")


@pytest.mark.spec("D3", "U2")
@pytest.mark.parametrize(
    ("header", "fence", "status"),
    [
        ("approved", "pending", "pending"),
        ("pending", "approved", "pending"),
        ("rejected", "approved", "pending"),
        ("approved", "approved", "approved"),
        ("rejected", "rejected", "rejected"),
    ],
)
def test_header_and_fence_count_if_they_agree(header: str, fence: str, status: str) -> None:
    found = result(f"**Tool Result:** `a` ({header})\n```flemma:tool status={fence}\n```")
    assert (found.status, found.form) == (status, "fence")


@pytest.mark.spec("D3", "U2")
@pytest.mark.parametrize("gap", ["", "\n", "\n \n\n"])
@pytest.mark.parametrize("first", ["approved", "pending", "rejected"])
def test_a_second_placeholder_fence_makes_a_block_pending(first: str, gap: str) -> None:
    block = f"**Tool Result:** `a`\n```flemma:tool status={first}\n```\n{gap}```flemma:tool status=approved\n```\n"
    found = Document.parse(f"@You:\n\n{block}").messages[0].segments[0]
    assert isinstance(found, ToolResultSegment) and found.status == "pending"


@pytest.mark.spec("D3", "U2")
@pytest.mark.parametrize(
    ("first", "second"), [("approved", "pending"), ("pending", "approved"), ("denied", "approved")]
)
@pytest.mark.parametrize("between", ["", "\n@You:\n\n"], ids=["one message", "two messages"])
def test_two_placeholders_of_one_call_that_disagree_are_pending(first: str, second: str, between: str) -> None:
    call = "@Assistant:\n\n**Tool Use:** `x` (`a`)\n\n```json\n{}\n```\n\n@You:\n\n"
    blocks = [f"**Tool Result:** `a`\n\n```flemma:tool status={status}\n```\n" for status in (first, second)]
    turn = last_turn(Document.parse(call + between.join(blocks)))
    assert turn is not None and turn.calls[0].block is not None
    assert turn.calls[0].block.status is Status.PENDING


@pytest.mark.spec("D3")
@pytest.mark.parametrize("info", ["status=approved pending", "Status=approved"])
def test_the_reason_why_a_block_is_pending_is_reported(info: str) -> None:
    block = f"```flemma:tool {info}\n```"
    (found,) = Document.parse(f"@You:\n\n**Tool Result:** `a`\n{block}\n").diagnostics
    assert (found.severity, found.line) == ("warning", 3) and "read as pending" in found.message


@pytest.mark.spec("D3")
def test_the_info_string_of_other_fences_is_ignored() -> None:
    found = result('**Tool Result:** `a`\n```json\n{"status": 1}\n```')
    assert (found.status, found.form, found.content) == (None, None, '{"status": 1}')


@pytest.mark.spec("D3")
def test_unclosed_quotes_take_bounded_time() -> None:
    assert in_header(" (" + "\\'" * 200_000 + ")") == (None, False, None)

"""Blocks are placed next to their calls, and no other byte changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.agent.conversation import NOT_RECORDED, SetResult, SetStatus, Status
from holdfast.chat.document_file import DocumentError
from holdfast.contract.message import Text, ToolUse
from holdfast.contract.result import fail, ok
from tests.chat.chat_files import (
    Editor,
    conversation_with_calls,
    open_conversation,
    text_of,
    write_results,
    write_statuses,
)

pytestmark = pytest.mark.usefixtures("user_state_dir")


def use(*names: str) -> str:
    return "\n".join(f"**Tool Use:** `x` (`{name}`)\n\n```json\n{{}}\n```\n" for name in names)


def result(name: str, content: str = "done") -> str:
    return f"**Tool Result:** `{name}`\n\n```\n{content}\n```\n"


def pending(name: str, status: str = "pending", content: str = "") -> str:
    return f"**Tool Result:** `{name}`\n\n```flemma:tool status={status}\n{content}```\n"


CALLS = f"@You:\nGo.\n\n@Assistant:\n{use('a', 'b', 'c')}"
PLACES = [
    pytest.param(CALLS, f"{CALLS}\n@You:\n\n{pending('b')}", id="no message yet"),
    pytest.param(CALLS + "\n", f"{CALLS}\n@You:\n\n{pending('b')}", id="a blank line at the end"),
    pytest.param(CALLS[:-1], f"{CALLS}\n@You:\n\n{pending('b')}", id="no line end at the end"),
    pytest.param(f"{CALLS}\n@You:", f"{CALLS}\n@You:\n\n{pending('b')}", id="a bare marker"),
    pytest.param(f"{CALLS}\n@You:\n", f"{CALLS}\n@You:\n\n{pending('b')}", id="an empty message"),
    pytest.param(f"{CALLS}\n@You:\n\n", f"{CALLS}\n@You:\n\n{pending('b')}\n", id="an empty message with room"),
    pytest.param(f"{CALLS}\n@You:\nHm.", f"{CALLS}\n@You:\n\n{pending('b')}\nHm.", id="words"),
    pytest.param(f"{CALLS}\n@You:\n\nHm.\n", f"{CALLS}\n@You:\n\n{pending('b')}\nHm.\n", id="words after a blank line"),
    pytest.param(
        f"{CALLS}\n@You:\n\n{result('a')}\nHm.",
        f"{CALLS}\n@You:\n\n{result('a')}\n{pending('b')}\nHm.",
        id="after the result of the call before",
    ),
    pytest.param(
        f"{CALLS}\n@You:\n\n{result('a')[:-1]}",
        f"{CALLS}\n@You:\n\n{result('a')}\n{pending('b')}",
        id="after a result without line end",
    ),
    pytest.param(
        f"{CALLS}\n@You:\nHm.\n{result('c')}",
        f"{CALLS}\n@You:\nHm.\n\n{pending('b')}\n{result('c')}",
        id="before the first result",
    ),
    pytest.param(
        f"{CALLS}\n@You:\n{result('c')}{result('a')}Hm.",
        f"{CALLS}\n@You:\n{result('c')}{result('a')}\n{pending('b')}\nHm.",
        id="after the call before, wherever that is",
    ),
    pytest.param(
        f"{CALLS}\n@System:\nBe.\n",
        f"{CALLS}\n@You:\n\n{pending('b')}\n@System:\nBe.\n",
        id="another message follows",
    ),
]


@pytest.mark.spec("D2")
@pytest.mark.parametrize(("before", "after"), PLACES)
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_a_placeholder_is_inserted_in_the_order_of_the_calls(
    tmp_path: Path, before: str, after: str, newline: str
) -> None:
    conversation = open_conversation(tmp_path, before.replace("\n", newline))
    [slot] = [slot for slot in conversation.slots() if slot.use.id == "b"]
    conversation.change([SetStatus(slot, Status.PENDING)])
    assert text_of(conversation) == after.replace("\n", newline)
    [again] = [slot for slot in conversation.slots() if slot.use.id == "b"]
    assert again.status is Status.PENDING
    conversation.change([SetStatus(again, Status.PENDING)])
    assert text_of(conversation) == after.replace("\n", newline)


@pytest.mark.spec("D2")
def test_many_changes_at_once_equal_the_same_changes_one_by_one(tmp_path: Path) -> None:
    text = f"{CALLS}\n@You:\n{result('b')}Hm."
    together = open_conversation(tmp_path, text, "one.chat")
    write_results(together)
    each = open_conversation(tmp_path, text, "two.chat")
    for name in ("c", "a"):
        [slot] = [slot for slot in each.slots() if slot.use.id == name]
        each.change([SetResult(slot, ok("content"))])
    expected = f"{CALLS}\n@You:\n\n{result('a', 'content')}\n{result('b')}\n{result('c', 'content')}\nHm."
    assert text_of(together) == text_of(each) == expected


@pytest.mark.spec("U3")
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("words", ["I ran it: 3 passed\n", "  two\n\nlines \n"])
def test_a_result_typed_by_the_user_loses_only_its_tag(tmp_path: Path, words: str, newline: str) -> None:
    header = f"**Tool Result:** `c` (status=pending n=1)\n\n```text\n{words}```\n"
    text = f"{CALLS}\n@You:\n{result('a')}\n{pending('b', content=words)}\n{header}\nHm.".replace("\n", newline)
    conversation = open_conversation(tmp_path, text)
    conversation.change([SetResult(slot, ok(slot.text)) for slot in conversation.slots()])
    plain = text.replace("flemma:tool status=pending", "").replace(" (status=pending n=1)", "")
    assert text_of(conversation) == plain
    assert conversation.slots() == []
    assert conversation.awaits_reply()


@pytest.mark.spec("U3")
def test_both_marks_of_a_placeholder_are_removed(tmp_path: Path) -> None:
    block = pending("b", content="mine\n").replace("`b`", "`b` (pending)")
    conversation = open_conversation(tmp_path, f"{CALLS}\n@You:\n{block}")
    [slot] = [slot for slot in conversation.slots() if slot.use.id == "b"]
    conversation.change([SetResult(slot, ok("mine"))])
    assert text_of(conversation) == f"{CALLS}\n@You:\n{result('b', 'mine')}"


@pytest.mark.spec("D2")
def test_a_no_op_change_does_not_touch_the_file(tmp_path: Path) -> None:
    conversation = open_conversation(tmp_path, f"{CALLS}\n@You:\n\n{pending('a')}\n{pending('b')}\n{pending('c')}")
    before = conversation.path.stat()
    write_statuses(conversation)
    after = conversation.path.stat()
    assert (after.st_ino, after.st_ctime_ns) == (before.st_ino, before.st_ctime_ns)


@pytest.mark.spec("U3")
def test_a_typed_result_changed_by_the_runtime_is_written_as_changed(tmp_path: Path) -> None:
    conversation = open_conversation(tmp_path, f"{CALLS}\n@You:\n{pending('b', content='secret' + chr(10))}")
    [slot] = [slot for slot in conversation.slots() if slot.use.id == "b"]
    conversation.change([SetResult(slot, ok("[redacted]"))])
    assert "secret" not in text_of(conversation)
    assert "[redacted]" in text_of(conversation)


@pytest.mark.spec("D5")
def test_orphans_get_their_result_next_to_the_call(tmp_path: Path) -> None:
    text = (
        f"@Assistant:\n{use('a')}\n@Assistant:\n{use('a', 'b')}\n@You:\n{result('b')}\nHm.\n\n@Assistant:\n{use('c')}"
    )
    missing = f"**Tool Result:** `a` (error)\n\n```\n{NOT_RECORDED}\n```\n"
    conversation = open_conversation(tmp_path, text)
    assert conversation.repair() == 2
    assert text_of(conversation) == (
        f"@Assistant:\n{use('a')}\n@You:\n\n{missing}\n@Assistant:\n{use('a', 'b')}\n@You:\n\n{missing}\n"
        f"{result('b')}\nHm.\n\n@Assistant:\n{use('c')}"
    )
    assert conversation.repair() == 0
    assert [slot.use.id for slot in conversation.slots()] == ["c"]


@pytest.mark.spec("D5")
def test_text_typed_into_an_orphans_placeholder_stays(tmp_path: Path) -> None:
    said = pending("a", content="I ran it.\n") + pending("b", "rejected", "Not that.\n") + pending("c", "approved")
    conversation = open_conversation(tmp_path, f"{CALLS}\n@You:\n{said}\n@Assistant:\nOn.\n")
    assert conversation.repair() == 3
    assert text_of(conversation) == (
        f"{CALLS}\n@You:\n{result('a', 'I ran it.')}"
        "**Tool Result:** `b` (error)\n\n```\nNot that.\n```\n"
        f"**Tool Result:** `c` (error)\n\n```\n{NOT_RECORDED}\n```\n\n@Assistant:\nOn.\n"
    )


@pytest.mark.spec("D2")
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("@You:\nHi.", "@You:\nHi.\n\n@Assistant:\nHo.\n\n@You:\n\n"),
        ("@You:\nHi.\n", "@You:\nHi.\n\n@Assistant:\nHo.\n\n@You:\n\n"),
        ("@You:\nHi.\n\n\n", "@You:\nHi.\n\n\n@Assistant:\nHo.\n\n@You:\n\n"),
        ("@You:\nHi.\n\n@You:\n\n", "@You:\nHi.\n\n@Assistant:\nHo.\n\n@You:\n\n"),
    ],
)
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_a_reply_is_followed_by_an_empty_user_message(tmp_path: Path, before: str, after: str, newline: str) -> None:
    conversation = open_conversation(tmp_path, before.replace("\n", newline))
    conversation.messages()
    conversation.add_reply([Text("Ho.")])
    assert text_of(conversation) == after.replace("\n", newline)
    assert not conversation.awaits_reply()


@pytest.mark.spec("D2")
def test_a_reply_with_calls_adds_no_user_message(tmp_path: Path) -> None:
    conversation = conversation_with_calls(tmp_path, ToolUse("a", "x"), text="@You:\nHi.\n")
    assert text_of(conversation) == f"@You:\nHi.\n\n@Assistant:\nCalls.\n\n{use('a')}"
    write_statuses(conversation, Status.APPROVED)
    write_results(conversation)
    assert text_of(conversation).endswith(f"{use('a')}\n@You:\n\n{result('a', 'content')}")


@pytest.mark.spec("D2")
def test_an_error_is_marked_in_its_header(tmp_path: Path) -> None:
    conversation = conversation_with_calls(tmp_path, ToolUse("a", "x"))
    conversation.change([SetResult(slot, fail("no", output="half")) for slot in conversation.slots()])
    assert text_of(conversation).endswith("**Tool Result:** `a` (error)\n\n```\nno\n\nPartial output:\nhalf\n```\n")


@pytest.mark.spec("D2")
@pytest.mark.parametrize("text", ["@You:\nHi.\n\n```py\n", "@You:\nHi.\n\n```\n@Assistant:\n"])
def test_nothing_is_written_after_an_unclosed_fence(tmp_path: Path, text: str) -> None:
    conversation = open_conversation(tmp_path, text)
    assert [one.severity for one in conversation.diagnostics()] == ["error"]
    with pytest.raises(DocumentError, match="is not closed"):
        conversation.add_reply([Text("Ho.")])
    assert text_of(conversation) == text


@pytest.mark.spec("D2")
def test_a_header_with_an_unclosed_fence_is_not_a_call(tmp_path: Path) -> None:
    conversation = open_conversation(tmp_path, "@Assistant:\n**Tool Use:** `x` (`a`)\n\n```json\n{}\n")
    assert conversation.slots() == []
    assert [one.severity for one in conversation.diagnostics()] == ["error"]


@pytest.mark.spec("D5")
@pytest.mark.parametrize("broken", ["**Tool Result:** `a`\n", "**Tool Result:** `a`\n\n```flemma:tool status=denied\n"])
def test_an_incomplete_result_block_is_not_a_result(tmp_path: Path, broken: str) -> None:
    calls = f"@Assistant:\n{use('a')}"
    conversation = open_conversation(tmp_path, f"{calls}\n@You:\n{broken}")
    assert [slot.status for slot in conversation.slots()] == [None]
    write_results(conversation)
    assert text_of(conversation) == f"{calls}\n@You:\n\n{result('a', 'content')}\n{broken}"
    assert conversation.slots() == []


@pytest.mark.spec("D2")
def test_writing_through_a_symlink_keeps_the_link(tmp_path: Path) -> None:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    real = folder / "real.chat"
    real.write_text(CALLS)
    (tmp_path / "a.chat").symlink_to(real)
    conversation = open_conversation(tmp_path)
    write_statuses(conversation)
    assert (tmp_path / "a.chat").is_symlink()
    assert "status=pending" in real.read_text()
    assert [slot.status for slot in open_conversation(folder, name="real.chat").slots()] == [Status.PENDING] * 3


@pytest.mark.spec("D2")
def test_unusual_characters_are_preserved_and_results_are_written_as_utf8(tmp_path: Path) -> None:
    wild = b"\xef\xbb\xbf@You:\nGo \x00\xc3\xa9.\n\n@Assistant:\n" + use("a%FF").encode()
    conversation = open_conversation(tmp_path, wild)
    write_statuses(conversation)
    write_results(conversation, "lone \ud800 and \udcff")
    assert conversation.path.read_bytes().startswith(wild)
    assert "lone \ufffd and \ufffd" in conversation.path.read_text("utf-8")
    Editor(conversation.path).say("On.")
    conversation.refresh()
    assert conversation.messages()[-1].parts[-1] == Text("On.")

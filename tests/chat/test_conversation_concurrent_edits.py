"""Concurrent edits during a turn are merged, or both versions are kept."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

import pytest

from holdfast.agent.conversation import Conflict, SetResult, SetStatus, Status
from holdfast.chat import document_file
from holdfast.chat.conversation import DocumentConversation
from holdfast.chat.document_file import DocumentError, UnreadableDocument
from holdfast.contract.message import Text, ToolResult
from holdfast.contract.result import ok
from tests.chat.chat_files import (
    ONE,
    THREE,
    TWO,
    Editor,
    conversation_with_calls,
    only_slot,
    open_conversation,
    text_of,
    write_results,
    write_statuses,
)

pytestmark = pytest.mark.usefixtures("user_state_dir")

EARLIER = "@System:\nBe brief.\n\n@You:\nBegin.\n\n@Assistant:\nBegun.\n\n@You:\nPlease.\n"


def conflicts(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.conflict-*"))


@pytest.mark.spec("U6")
def test_a_result_is_placed_while_text_and_other_placeholders_are_edited(tmp_path: Path) -> None:
    conversation = conversation_with_calls(tmp_path, ONE, TWO, THREE, text=EARLIER)
    write_statuses(conversation)
    slot = conversation.slots()[0]
    editor = Editor(conversation.path)
    editor.replace("Be brief.", "Be very brief.")
    editor.replace("Begun.\n", "Begun, as you said.\n")
    editor.set_status("a2", Status.APPROVED)
    editor.put_text("a3", "my own words")
    editor.say("And then?")
    theirs = text_of(conversation)
    conversation.change([SetResult(slot, ok("content"))])
    mine = theirs.replace("```flemma:tool status=pending\n```", "```\ncontent\n```", 1)
    assert text_of(conversation) == mine
    assert [(slot.use.id, slot.status, slot.text) for slot in conversation.slots()] == [
        ("a2", Status.APPROVED, ""),
        ("a3", Status.PENDING, "my own words"),
    ]
    assert conflicts(tmp_path) == []


@pytest.mark.spec("U6")
@pytest.mark.parametrize("change", ["gone", "come"])
def test_a_result_finds_its_call_when_earlier_replies_are_added_or_removed(tmp_path: Path, change: str) -> None:
    conversation = conversation_with_calls(tmp_path, ONE, text=EARLIER)
    slot = only_slot(conversation)
    editor = Editor(conversation.path)
    if change == "gone":
        editor.replace("@Assistant:\nBegun.\n\n", "")
    else:
        editor.replace("@You:\nBegin.\n", "@You:\nHello.\n\n@Assistant:\nHello.\n\n@You:\nBegin.\n")
    conversation.change([SetResult(slot, ok("content"))])
    assert conversation.slots() == []
    assert conversation.messages()[-1].parts == (ToolResult("a1", "file.read", "content"),)


@pytest.mark.spec("U6")
def test_a_result_never_goes_to_a_similar_call(tmp_path: Path) -> None:
    conversation = conversation_with_calls(tmp_path, ONE)
    write_results(conversation)
    conversation.messages()
    conversation.add_reply([ONE])
    slot = only_slot(conversation)
    write_results(conversation)
    before = text_of(conversation)
    with pytest.raises(Conflict):
        conversation.change([SetResult(slot, ok("late"))])
    assert text_of(conversation) == before


@pytest.mark.spec("U6")
def test_an_ambiguous_call_is_a_conflict(tmp_path: Path) -> None:
    call = "@Assistant:\n**Tool Use:** `file.read` (`a1`)\n\n```json\n{}\n```\n\n"
    conversation = open_conversation(tmp_path, f"{call}{call}{call}")
    slot = only_slot(conversation)
    conversation.path.write_text(f"{call}{call}")
    with pytest.raises(Conflict):
        conversation.change([SetResult(slot, ok("content"))])
    assert text_of(conversation) == f"{call}{call}"


def _edit(editor: Editor, how: str) -> None:
    if how == "status":
        editor.set_status("a1", Status.REJECTED)
    elif how == "text":
        editor.put_text("a1", "mine")
    elif how == "result":
        editor.put_text("a1", "mine")
        editor.remove_fence("a1")
    elif how == "placeholder":
        editor.remove_placeholder("a1")
    elif how == "arguments":
        editor.edit_call("a1", "{}")
    else:
        editor.remove_call("a1")


@pytest.mark.spec("U6")
@pytest.mark.parametrize("how", ["status", "text", "result", "placeholder", "arguments", "call"])
def test_a_changed_call_is_a_conflict_and_both_versions_are_kept(tmp_path: Path, how: str) -> None:
    conversation = conversation_with_calls(tmp_path)
    write_statuses(conversation, Status.APPROVED)
    slot = conversation.slots()[0]
    _edit(Editor(conversation.path), how)
    theirs = conversation.path.read_bytes()
    with pytest.raises(Conflict) as conflict:
        conversation.change([SetResult(slot, ok("what the tool said"))])
    assert conversation.path.read_bytes() == theirs
    [kept] = conflicts(tmp_path)
    assert kept.name == "a.conflict-1.chat"
    assert "what the tool said" in kept.read_text()
    assert str(kept) in str(conflict.value)
    assert str(conversation.path) in str(conflict.value)
    again = DocumentConversation(kept, state=tmp_path / "state")
    assert [one.use.id for one in again.slots()] == ["a2"]


@pytest.mark.spec("U6")
def test_the_result_of_a_removed_call_is_kept_too(tmp_path: Path) -> None:
    conversation = conversation_with_calls(tmp_path)
    slot = conversation.slots()[0]
    Editor(conversation.path).remove_call("a1")
    conversation.refresh()
    with pytest.raises(Conflict):
        conversation.change([SetResult(slot, ok("what the tool said"))])
    [kept] = conflicts(tmp_path)
    assert "what the tool said" in kept.read_text()


@pytest.mark.spec("U6")
def test_text_added_while_the_model_answers_comes_after_the_reply(tmp_path: Path) -> None:
    conversation = open_conversation(tmp_path, EARLIER)
    conversation.messages()
    with conversation.path.open("a") as file:
        file.write("\n@You:\nOne more thing.\n")
    conversation.refresh()
    conversation.add_reply([Text("An answer.")])
    assert text_of(conversation) == f"{EARLIER}\n@Assistant:\nAn answer.\n\n@You:\nOne more thing.\n"
    assert conversation.awaits_reply()


@pytest.mark.spec("U6")
def test_frontmatter_and_blank_lines_may_change_while_the_model_answers(tmp_path: Path) -> None:
    conversation = open_conversation(tmp_path, f"```toml\na = 1\n```\n{EARLIER}")
    conversation.messages()
    editor = Editor(conversation.path)
    editor.replace("a = 1", "a = 2\nb = 3")
    editor.replace("Please.\n", "Please.\n\n\n")
    theirs = text_of(conversation)
    conversation.add_reply([Text("An answer.")])
    assert text_of(conversation).startswith(theirs)
    assert "An answer." in text_of(conversation)


@pytest.mark.spec("U6")
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Be brief.", "Be long."),
        ("Begun.", "Not begun."),
        ("Please.\n", "Please do not.\n"),
        ("Please.\n", "Please.\nAnd more.\n"),
        ("Please.\n", "Please.\n\n@Assistant:\nI did it myself.\n"),
        ("@You:\nPlease.\n", ""),
    ],
)
def test_a_reply_to_a_changed_message_is_kept_as_a_conflict(tmp_path: Path, old: str, new: str) -> None:
    conversation = open_conversation(tmp_path, EARLIER)
    conversation.messages()
    Editor(conversation.path).replace(old, new)
    theirs = conversation.path.read_bytes()
    for _ in range(2):
        with pytest.raises(Conflict):
            conversation.add_reply([Text("An answer.")])
    assert conversation.path.read_bytes() == theirs
    kept = conflicts(tmp_path)
    assert [one.name for one in kept] == ["a.conflict-1.chat", "a.conflict-2.chat"]
    assert kept[0].read_text().startswith(f"{EARLIER}\n@Assistant:\nAn answer.\n")


@pytest.mark.spec("U6")
@pytest.mark.parametrize("what", ["file", "folder", "directory"])
def test_a_deleted_document_is_a_conflict_and_nothing_is_lost(tmp_path: Path, what: str) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    path = folder / "a.chat"
    path.write_text(EARLIER)
    conversation = DocumentConversation(path, state=tmp_path / "state")
    conversation.messages()
    path.unlink()
    if what == "folder":
        shutil.rmtree(folder)
    elif what == "directory":
        path.mkdir()
    with pytest.raises(Conflict):
        conversation.add_reply([Text("An answer.")])
    [kept] = conflicts(tmp_path / "state" if what == "folder" else folder)
    assert "An answer." in kept.read_text()
    with pytest.raises(UnreadableDocument):
        conversation.refresh()


@pytest.mark.spec("U6")
@pytest.mark.parametrize("when", ["new_file", "_swap_in"])
def test_an_edit_between_the_read_and_the_write_is_merged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    conversation = conversation_with_calls(tmp_path, ONE, text=EARLIER)
    editor = Editor(conversation.path)
    real = getattr(document_file, when)
    left = [("Be brief.", "Be long."), ("Begun.", "Not begun.")]

    def late(*given: object, **named: object) -> object:
        if left:
            editor.replace(*left.pop())
        return real(*given, **named)

    monkeypatch.setattr(document_file, when, late)
    write_statuses(conversation)
    text = text_of(conversation)
    assert "Be long." in text
    assert "Not begun." in text
    assert only_slot(conversation).status is Status.PENDING
    assert conflicts(tmp_path) == []


@pytest.mark.spec("U6")
def test_writing_gives_up_on_a_file_that_keeps_changing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    conversation = conversation_with_calls(tmp_path, ONE)

    def never(*_: object) -> None:
        raise document_file.FileChanged

    monkeypatch.setattr(document_file, "_swap_in", never)
    before = text_of(conversation)
    with pytest.raises(DocumentError, match="keeps changing"):
        write_statuses(conversation)
    assert text_of(conversation) == before


@pytest.mark.spec("U6")
@pytest.mark.parametrize("in_place", [False, True])
def test_no_save_of_an_editor_is_lost(tmp_path: Path, in_place: bool) -> None:
    """An editor saves increasing numbers, and never reads a lower one than it saved."""
    conversation = conversation_with_calls(tmp_path, ONE, TWO, text="@System:\nSaved 0 times.\n\n@You:\nPlease.\n")
    stop, lost = threading.Event(), list[str]()
    editor = threading.Thread(target=_save_often, args=(conversation.path, in_place, stop, lost))
    editor.start()
    try:
        done = 0
        for _ in range(200):
            conversation.refresh()
            try:
                conversation.change([SetStatus(slot, Status.APPROVED) for slot in conversation.slots()])
                conversation.change([SetStatus(slot, Status.PENDING) for slot in conversation.slots()])
            except Conflict:
                continue
            done += 1
            if done == 12:
                break
    finally:
        stop.set()
        editor.join(30)
    assert lost == []
    assert done == 12


def _save_often(path: Path, in_place: bool, stop: threading.Event, lost: list[str]) -> None:
    saved = 0
    while not stop.wait(0.07):
        text = path.read_text()
        for _ in range(1000):
            if f"Saved {saved} times." in text or stop.wait(0.001):
                break
            text = path.read_text()
        else:
            lost.append(f"{saved} in {text!r}")
            return
        saved += 1
        new = text.replace(f"Saved {saved - 1} times.", f"Saved {saved} times.")
        if in_place:
            path.write_text(new)
        else:
            beside = path.with_suffix(".editing")
            beside.write_text(new)
            beside.replace(path)

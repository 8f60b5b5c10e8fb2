"""What is remembered of a document outlives every process and belongs to no other document."""

from __future__ import annotations

import os
import stat
from decimal import Decimal
from pathlib import Path

import pytest

from holdfast.agent.conversation import Open
from holdfast.chat.document_file import DocumentError
from holdfast.chat.state_file import Memory, key_of, remembered_documents
from holdfast.contract.message import ToolUse
from holdfast.contract.result import Attachment
from holdfast.models.port import Usage

USE = ToolUse("a1", "file.read", '{"path": "a"}')
OPEN = Open(call_id="x-1", digest="d")


@pytest.mark.spec("A13b")
def test_an_open_call_is_found_by_another_process(tmp_path: Path) -> None:
    path, state = tmp_path / "a.chat", tmp_path / "state"
    Memory(path, state).open([(key_of(3, USE), OPEN)])
    [item] = Memory(path, state).read().open
    assert (item.key, item.open) == (key_of(3, USE), OPEN)
    [file] = state.glob("*.json")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    [document] = remembered_documents(state)
    assert (document.path, [item.key.id for item in document.open]) == (path, ["a1"])


@pytest.mark.spec("U2")
@pytest.mark.parametrize(
    ("turn", "use"),
    [
        (1, USE),
        (0, ToolUse("a2", USE.name, USE.arguments)),
        (0, ToolUse("a1", "shell.exec", USE.arguments)),
        (0, ToolUse("a1", USE.name, '{"path": "b"}')),
        (0, ToolUse("a1", USE.name + "{", USE.arguments[1:])),
    ],
)
def test_a_call_that_differs_in_anything_is_another(turn: int, use: ToolUse) -> None:
    assert key_of(turn, use) != key_of(0, USE)


@pytest.mark.spec("U2")
def test_a_moved_or_copied_document_has_nothing_remembered(tmp_path: Path) -> None:
    path, state = tmp_path / "a.chat", tmp_path / "state"
    path.write_text("x")
    Memory(path, state).open([(key_of(0, USE), OPEN)])
    moved = path.rename(tmp_path / "b.chat")
    assert Memory(moved, state).read().open == ()
    link = tmp_path / "c.chat"
    link.symlink_to(path)
    assert Memory(link, state).read().open != ()


def test_a_file_of_another_document_put_in_its_place_is_not_believed(tmp_path: Path) -> None:
    one, two, state = tmp_path / "a.chat", tmp_path / "b.chat", tmp_path / "state"
    Memory(one, state).open([(key_of(0, USE), OPEN)])
    [file] = state.glob("*.json")
    Memory(two, state).open([(key_of(0, USE), None)])
    file.rename(state / f"{'0' * 40}.json")
    assert remembered_documents(state) == []
    Memory(two, state).open([(key_of(1, USE), OPEN)])
    [other] = (path for path in state.glob("*.json") if "0000" not in path.name)
    (state / f"{'0' * 40}.json").replace(other)
    assert Memory(two, state).read().open == ()


@pytest.mark.spec("A13b")
def test_a_damaged_memory_is_not_taken_for_an_empty_one(tmp_path: Path) -> None:
    path, state = tmp_path / "a.chat", tmp_path / "state"
    memory = Memory(path, state)
    memory.open([(key_of(0, USE), OPEN)])
    [file] = state.glob("*.json")
    file.write_bytes(file.read_bytes()[:-5])
    with pytest.raises(DocumentError, match="cannot be read"):
        memory.read()
    with pytest.raises(DocumentError, match="cannot be read"):
        memory.open([(key_of(0, USE), None)])
    assert remembered_documents(state) == []


def test_usage_adds_up_and_begins_anew_with_the_first_reply(tmp_path: Path) -> None:
    memory = Memory(tmp_path / "a.chat", tmp_path / "state")
    memory.count(Usage(input=1, cost=Decimal("0.1")), first=True)
    memory.count(Usage(input=2, output=3, cost=Decimal("0.2")), first=False)
    found = memory.read()
    assert (found.usage, found.replies) == (Usage(input=3, output=3, cost=Decimal("0.3")), 2)
    memory.count(Usage(input=5), first=True)
    assert (memory.read().usage, memory.read().replies) == (Usage(input=5), 1)


def test_attachments_are_kept_with_their_bytes(tmp_path: Path) -> None:
    path, state = tmp_path / "a.chat", tmp_path / "state"
    image = Attachment(kind="image", mime_type="image/png", data=b"\x89PNG", name="a\udcff.png")
    Memory(path, state).keep([(key_of(0, USE), [image])])
    memory = Memory(path, state)
    [kept] = memory.attachments(memory.read())[key_of(0, USE)]
    assert (kept.mime_type, kept.data, kept.name) == ("image/png", b"\x89PNG", "a?.png")
    memory.keep([(key_of(0, USE), [])])
    assert memory.attachments(memory.read()) == {}


def test_any_path_and_any_id_can_be_remembered(tmp_path: Path) -> None:
    path, state = tmp_path / os.fsdecode(b"\xff %20.chat"), tmp_path / "state"
    use = ToolUse("\ud800", "x", "\udcff")
    Memory(path, state).open([(key_of(0, use), OPEN)])
    [document] = remembered_documents(state)
    assert document.path == path
    assert [item.key for item in document.open] == [key_of(0, use)]


def test_a_state_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "state").touch()
    with pytest.raises(DocumentError, match=r"could not be written|cannot be read"):
        Memory(tmp_path / "a.chat", tmp_path / "state").open([(key_of(0, USE), OPEN)])

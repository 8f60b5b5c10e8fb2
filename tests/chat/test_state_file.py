"""The stored state of a document survives processes and belongs to no other document."""

from __future__ import annotations

import os
import stat
from decimal import Decimal
from pathlib import Path

import pytest

from holdfast.agent.conversation import LedgerCall
from holdfast.chat.document_file import DocumentError
from holdfast.chat.state_file import StateFile, StoredAttachment, call_key, document_states, storable
from holdfast.contract.message import ToolUse
from holdfast.contract.result import Attachment
from holdfast.models.port import Usage

pytestmark = pytest.mark.usefixtures("user_state_dir")

USE = ToolUse("a1", "file.read", '{"path": "a"}')
OPEN = LedgerCall(call_id="x-1", digest="d")


@pytest.mark.spec("A13b")
def test_a_stored_call_is_found_by_another_process(tmp_path: Path) -> None:
    path, state = tmp_path / "a.chat", tmp_path / "state"
    StateFile(path, state).set_calls([(call_key(3, USE), OPEN)])
    [item] = StateFile(path, state).read().calls
    assert (item.key, item.call) == (call_key(3, USE), OPEN)
    [file] = state.glob("*.json")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    [document] = document_states(state)
    assert (document.path, [item.key.id for item in document.calls]) == (path, ["a1"])


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
def test_a_call_that_differs_in_any_field_is_another_call(turn: int, use: ToolUse) -> None:
    assert call_key(turn, use) != call_key(0, USE)


@pytest.mark.spec("U2")
def test_a_moved_or_copied_document_has_no_stored_state(tmp_path: Path) -> None:
    path, state = tmp_path / "a.chat", tmp_path / "state"
    path.write_text("x")
    StateFile(path, state).set_calls([(call_key(0, USE), OPEN)])
    moved = path.rename(tmp_path / "b.chat")
    assert StateFile(moved, state).read().calls == ()
    link = tmp_path / "c.chat"
    link.symlink_to(path)
    assert StateFile(link, state).read().calls != ()


def test_the_state_file_of_another_document_is_ignored(tmp_path: Path) -> None:
    one, two, state = tmp_path / "a.chat", tmp_path / "b.chat", tmp_path / "state"
    StateFile(one, state).set_calls([(call_key(0, USE), OPEN)])
    [file] = state.glob("*.json")
    StateFile(two, state).set_calls([(call_key(0, USE), None)])
    file.rename(state / f"{'0' * 40}.json")
    assert document_states(state) == []
    StateFile(two, state).set_calls([(call_key(1, USE), OPEN)])
    [other] = (path for path in state.glob("*.json") if "0000" not in path.name)
    (state / f"{'0' * 40}.json").replace(other)
    assert StateFile(two, state).read().calls == ()


@pytest.mark.spec("A13b")
def test_a_damaged_state_file_is_an_error(tmp_path: Path) -> None:
    path, state = tmp_path / "a.chat", tmp_path / "state"
    memory = StateFile(path, state)
    memory.set_calls([(call_key(0, USE), OPEN)])
    [file] = state.glob("*.json")
    file.write_bytes(file.read_bytes()[:-5])
    with pytest.raises(DocumentError, match="Cannot read"):
        memory.read()
    with pytest.raises(DocumentError, match="Cannot read"):
        memory.set_calls([(call_key(0, USE), None)])
    assert document_states(state) == []


def test_usage_adds_up_and_restarts_with_the_first_reply(tmp_path: Path) -> None:
    memory = StateFile(tmp_path / "a.chat", tmp_path / "state")
    memory.add_usage(Usage(input=1, cost=Decimal("0.1")), first=True)
    memory.add_usage(Usage(input=2, output=3, cost=Decimal("0.2")), first=False)
    found = memory.read()
    assert (found.usage, found.replies) == (Usage(input=3, output=3, cost=Decimal("0.3")), 2)
    memory.add_usage(Usage(input=5), first=True)
    assert (memory.read().usage, memory.read().replies) == (Usage(input=5), 1)


def test_what_is_known_of_an_attachment_is_stored_without_its_bytes(tmp_path: Path) -> None:
    path, state = tmp_path / "a.chat", tmp_path / "state"
    image = Attachment(kind="image", mime_type="image/png", data=b"\x89PNG", name="a\udcff.png")
    call = call_key(0, USE).digest
    StateFile(path, state).store_attachments([StoredAttachment(call, "f", storable(image))])
    [kept] = StateFile(path, state).read().attachments
    assert (kept.attachment.name, kept.attachment.data, kept.attachment.digest) == ("a?.png", b"", image.digest)
    StateFile(path, state).store_attachments([StoredAttachment(call, "f", storable(image))])
    assert len(StateFile(path, state).read().attachments) == 1


def test_any_path_and_any_id_can_be_stored(tmp_path: Path) -> None:
    path, state = tmp_path / os.fsdecode(b"\xff %20.chat"), tmp_path / "state"
    use = ToolUse("\ud800", "x", "\udcff")
    StateFile(path, state).set_calls([(call_key(0, use), OPEN)])
    [document] = document_states(state)
    assert document.path == path
    assert [item.key for item in document.calls] == [call_key(0, use)]


def test_a_state_folder_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    (tmp_path / "state").touch()
    with pytest.raises(DocumentError, match=r"Cannot (write|read)"):
        StateFile(tmp_path / "a.chat", tmp_path / "state").set_calls([(call_key(0, USE), OPEN)])

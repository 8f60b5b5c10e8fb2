"""The folder beside a document: private, never over a person's files, removed with the conversation."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.agent.conversation import SetResult
from holdfast.chat.attachment_files import AttachmentFiles, UnusableFile
from holdfast.chat.document_file import DocumentError
from holdfast.chat.state_file import remove_state
from holdfast.contract.result import Attachment, ok
from tests.chat.chat_files import ONE, conversation_with_calls, only_slot

ITEM = Attachment(kind="file", mime_type="text/plain", data=b"words", name="b.txt")
NAME = f"{ITEM.digest[:16]}-b.txt"


def test_files_are_private_and_equal_content_is_written_once(tmp_path: Path) -> None:
    files = AttachmentFiles(tmp_path / "a.chat")
    assert files.write(ITEM) == files.write(ITEM) == NAME
    folder = tmp_path / "a.chat.files"
    assert (folder.stat().st_mode & 0o777, (folder / NAME).stat().st_mode & 0o777) == (0o700, 0o600)
    assert [path.name for path in folder.iterdir()] == [NAME]


def test_content_is_read_again_only_if_the_file_changed(tmp_path: Path) -> None:
    files = AttachmentFiles(tmp_path / "a.chat")
    files.write(ITEM)
    assert files.read("a.chat.files", NAME, ITEM.digest) == (b"words", tmp_path / "a.chat.files" / NAME)
    assert files.read("", NAME, "")[0] == b"words"
    (tmp_path / "a.chat.files" / NAME).write_bytes(b"other")
    with pytest.raises(UnusableFile, match="was changed"):
        files.read("a.chat.files", NAME, ITEM.digest)


@pytest.mark.spec("T10i")
def test_deleting_a_conversation_removes_its_unchanged_files_and_says_what_it_kept(tmp_path: Path) -> None:
    conversation = conversation_with_calls(tmp_path, ONE)
    changed = Attachment(kind="file", mime_type="text/plain", data=b"draft", name="c.txt")
    conversation.change([SetResult(only_slot(conversation), ok("", attachments=(ITEM, changed)))])
    folder = tmp_path / "a.chat.files"
    kept = f"{changed.digest[:16]}-c.txt"
    (folder / kept).write_bytes(b"mine now")
    (folder / "own.txt").write_bytes(b"mine")
    removed = remove_state(conversation.path, tmp_path / "state")
    assert (removed.count, removed.size, removed.kept) == (1, 5, (f"a.chat.files/{kept}",))
    assert {path.name for path in folder.iterdir()} == {kept, "own.txt"}


@pytest.mark.spec("T10i")
def test_deleting_a_conversation_keeps_the_files_that_another_document_links_to(tmp_path: Path) -> None:
    conversation = conversation_with_calls(tmp_path, ONE)
    alone = Attachment(kind="file", mime_type="text/plain", data=b"alone", name="c.txt")
    conversation.change([SetResult(only_slot(conversation), ok("", attachments=(ITEM, alone)))])
    lines = conversation.path.read_text().splitlines(keepends=True)
    (tmp_path / "copy.chat").write_text("".join(line for line in lines if "c.txt" not in line))
    removed = remove_state(conversation.path, tmp_path / "state")
    assert (removed.count, removed.kept) == (1, (f"a.chat.files/{NAME}",))
    assert [path.name for path in (tmp_path / "a.chat.files").iterdir()] == [NAME]


@pytest.mark.spec("T10i")
def test_an_empty_folder_is_removed_with_the_last_file(tmp_path: Path) -> None:
    conversation = conversation_with_calls(tmp_path, ONE)
    conversation.change([SetResult(only_slot(conversation), ok("", attachments=(ITEM,)))])
    assert remove_state(conversation.path, tmp_path / "state").count == 1
    assert not (tmp_path / "a.chat.files").exists()
    assert remove_state(conversation.path, tmp_path / "state").count == 0


@pytest.mark.spec("T10g")
def test_a_document_whose_name_leaves_no_room_for_its_folder_is_told_apart_from_a_full_disk(tmp_path: Path) -> None:
    files = AttachmentFiles(tmp_path / f"{'a' * 246}.chat")
    with pytest.raises(DocumentError, match="is too long: attachments go into a folder of that name"):
        files.write(ITEM)

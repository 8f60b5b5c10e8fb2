"""Only one process at a time locks a document, and others are told which."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.chat.document_file import DocumentError
from holdfast.chat.state_file import DocumentBusy, DocumentLock, document_key, lock_owner

pytestmark = pytest.mark.usefixtures("user_state_dir")

HOLDER = """
import sys, pathlib
from holdfast.chat.state_file import DocumentLock
with DocumentLock(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])).acquire():
    print("held", flush=True)
    sys.stdin.readline()
"""


def holder(path: Path, state: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path), str(state)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


@pytest.mark.spec("U6")
def test_a_second_process_is_refused_at_once_and_told_the_lock_owner(tmp_path: Path) -> None:
    path, state = tmp_path / "a.chat", tmp_path / "state"
    with holder(path, state) as other:
        with pytest.raises(DocumentBusy, match=rf"a\.chat is in use by process {other.pid}\."):
            DocumentLock(path, state).acquire().__enter__()
        owner = lock_owner(path, state)
        assert owner is not None
        assert owner.pid == other.pid
        other.communicate("\n", timeout=60)
    assert lock_owner(path, state) is None
    with DocumentLock(path, state).acquire():
        owner = lock_owner(path, state)
        assert owner is not None
        assert owner.pid == os.getpid()


@pytest.mark.spec("U6")
def test_the_lock_of_a_killed_process_is_released(tmp_path: Path) -> None:
    path, state = tmp_path / "a.chat", tmp_path / "state"
    with holder(path, state) as other:
        other.kill()
        other.wait(60)
    assert lock_owner(path, state) is None
    with DocumentLock(path, state).acquire(wait=60):
        pass


@pytest.mark.spec("U6")
def test_waiting_for_the_lock_is_bounded(tmp_path: Path) -> None:
    path, state = tmp_path / "a.chat", tmp_path / "state"
    lock, other = DocumentLock(path, state), DocumentLock(path, state)
    with lock.acquire(), pytest.raises(DocumentBusy), other.acquire(wait=0.05):
        pass
    with other.acquire(), other.acquire():
        pass
    with lock.acquire():
        pass


def test_every_path_of_a_file_is_the_same_document(tmp_path: Path) -> None:
    path, link = tmp_path / "a.chat", tmp_path / "b.chat"
    path.touch()
    link.symlink_to(path)
    assert document_key(link) == document_key(path) == document_key(tmp_path / "x" / ".." / "a.chat")
    assert document_key(path) != document_key(tmp_path / "c.chat")


def test_a_state_folder_that_cannot_be_created_is_reported(tmp_path: Path) -> None:
    blocker = tmp_path / "state"
    blocker.touch()
    with pytest.raises(DocumentError, match="Cannot lock"):
        DocumentLock(tmp_path / "a.chat", blocker / "chats").acquire().__enter__()

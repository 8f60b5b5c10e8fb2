"""Atomic replacement, also if the process is killed at any point."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.fs import replace, temporary
from holdfast.fs.beneath import FOLDER_FLAGS, open_descriptor
from holdfast.fs.replace import exchange_files, new_file, read_metadata, write_private

CHANGES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.chmod"}
OLD, NEW = b"old" * 10_000, b"new" * 20_000


def _no_nameless(folder: int, mode: int) -> int:
    return -1


def _killed_at(point: int, work: Callable[[], None]) -> bool:
    """Run in a fork that is killed just before change number `point`. Returns whether it finished."""
    child = os.fork()
    if child == 0:
        seen = 0

        def watch(event: str, args: tuple[Any, ...]) -> None:
            nonlocal seen
            if event in CHANGES or (event == "open" and isinstance(args[2], int) and args[2] & os.O_WRONLY):
                seen += 1
                if seen == point:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(watch)
        work()
        os._exit(0)
    return os.WIFEXITED(os.waitpid(child, 0)[1])


def _replaced(path: Path) -> None:
    with open_descriptor(path.parent, FOLDER_FLAGS) as folder, new_file(folder, NEW) as new:
        new.replace(path.name)


def _private(path: Path) -> None:
    write_private(path, NEW, sync=True)


@pytest.mark.parametrize("write", [_replaced, _private])
@pytest.mark.parametrize("nameless", [True, False])
@pytest.mark.spec("B1", "T5")
def test_a_kill_at_any_point_leaves_the_old_or_the_new_file_and_nothing_else_after_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[[Path], None], nameless: bool
) -> None:
    if not nameless:
        monkeypatch.setattr(replace, "_open_tmpfile", _no_nameless)
    notes, path = tmp_path / "notes", tmp_path / "folder" / "file"
    monkeypatch.setattr(temporary, "_journal_folder", [notes])
    path.parent.mkdir()
    contents: set[bytes] = set()
    point, ended = 0, False
    while not ended:
        point += 1
        path.write_bytes(OLD)
        ended = _killed_at(point, lambda: write(path))
        contents.add(path.read_bytes())
        temporary.use_cleanup_journal(notes)
        assert [item.name for item in path.parent.iterdir()] == ["file"]
        assert not notes.exists() or list(notes.iterdir()) == []
    assert contents == {OLD, NEW}
    assert point > 3


@pytest.mark.spec("B1")
def test_a_new_file_inherits_metadata_but_no_privileges(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(OLD)
    path.chmod(0o4751)
    with open_descriptor(path, os.O_RDONLY) as old:
        traits = read_metadata(old)
    with open_descriptor(tmp_path, FOLDER_FLAGS) as folder, new_file(folder, NEW, traits) as new:
        new.replace("file")
    assert (path.read_bytes(), path.stat().st_mode & 0o7777) == (NEW, 0o751)


@pytest.mark.spec("B1")
def test_an_existing_name_is_not_claimed(tmp_path: Path) -> None:
    (tmp_path / "file").symlink_to("nowhere")
    with (
        open_descriptor(tmp_path, FOLDER_FLAGS) as folder,
        new_file(folder, NEW) as new,
        pytest.raises(FileExistsError),
    ):
        new.claim("file")
    assert (tmp_path / "file").is_symlink() and len(list(tmp_path.iterdir())) == 1


@pytest.mark.spec("U6")
def test_two_files_are_exchanged(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_bytes(b"1")
    second.write_bytes(b"2")
    assert exchange_files(first, second)
    assert (first.read_bytes(), second.read_bytes()) == (b"2", b"1")
    with pytest.raises(FileNotFoundError):
        exchange_files(first, tmp_path / "third")

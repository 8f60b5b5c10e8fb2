"""Documents on disk: what can be read, and atomic writes."""

from __future__ import annotations

import os
import re
import resource
import stat
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast.chat import document_file
from holdfast.chat.document_file import DocumentError, FileChanged, UnreadableDocument
from holdfast.fs.replace import exchange_files
from holdfast.fs.temporary import new_temporary_name

pytestmark = pytest.mark.usefixtures("user_state_dir")


def entries(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@contextmanager
def little_space(size: int) -> Generator[None]:
    """Limit the file size of this process, to simulate a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_any_text_round_trips_through_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.chat"
    wild = b"\xef\xbb\xbf@You:\r\n\x00\xc3\xa9 \xf0\x9f\x98\x80"
    path.write_bytes(wild)
    assert document_file.encode(document_file.decode(document_file.read(path).data)) == wild


@pytest.mark.spec("D2")
@pytest.mark.parametrize(
    ("data", "says"),
    [
        ("@You:\ncafé\n".encode("latin-1"), "a.chat:2 is not UTF-8 text (byte 0xE9). Save the file as UTF-8."),
        (b"\xff\xfe@\x00", "a.chat:1 is not UTF-8 text (byte 0xFF). Save the file as UTF-8."),
        (b"@You:\nhalf \xc3", "a.chat:2 is not UTF-8 text (byte 0xC3). Save the file as UTF-8."),
    ],
)
def test_invalid_utf8_is_refused_with_its_position(tmp_path: Path, data: bytes, says: str) -> None:
    path = tmp_path / "a.chat"
    path.write_bytes(data)
    with pytest.raises(UnreadableDocument, match=re.escape(says)):
        document_file.read(path)
    with pytest.raises(UnreadableDocument, match=re.escape(says)):
        document_file.read_stable(path, document_file.Snapshot(b"", (), 0))
    assert path.read_bytes() == data


@pytest.mark.parametrize("text", ["plain", "a\ud800b", "\udcff", "\udcc3\udca9", "\U0001f600"])
def test_surrogates_are_replaced_by_text_that_round_trips(text: str) -> None:
    kept = document_file.replace_surrogates(text)
    assert document_file.decode(document_file.encode(kept)) == kept


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("missing", "does not exist"),
        ("folder", "is a directory"),
        ("fifo", "not a regular file"),
        ("loop", "Cannot read"),
    ],
)
def test_an_unreadable_path_is_refused_by_name(tmp_path: Path, kind: str, says: str) -> None:
    path = tmp_path / "a.chat"
    if kind == "folder":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "loop":
        path.symlink_to(path)
    with pytest.raises(UnreadableDocument, match=says) as refused:
        document_file.read(path)
    assert str(path) in str(refused.value)


def test_a_file_above_the_size_limit_is_neither_read_nor_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.chat"
    path.write_bytes(b"x" * 11)
    monkeypatch.setattr(document_file, "MAX_BYTES", 10)
    with pytest.raises(UnreadableDocument, match="the limit is 10"):
        document_file.read(path)
    path.write_bytes(b"x")
    with pytest.raises(DocumentError, match="longer than 10"):
        document_file.replace(path, document_file.read(path), b"x" * 11)
    assert path.read_bytes() == b"x"


def test_a_permission_error_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(UnreadableDocument, match="Permission denied: cannot read"):
        document_file.read(tmp_path / "a.chat")


@pytest.mark.spec("U6")
def test_a_write_keeps_the_mode_and_leaves_no_temporary_file(tmp_path: Path) -> None:
    path = tmp_path / "a.chat"
    path.write_bytes(b"old")
    path.chmod(0o640)
    known = document_file.replace(path, document_file.read(path), b"new")
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"new", 0o640)
    assert known.data == b"new"
    assert entries(tmp_path) == ["a.chat"]


@pytest.mark.spec("U6")
def test_a_file_that_differs_from_the_known_version_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a.chat"
    path.write_bytes(b"old")
    known = document_file.read(path)
    path.write_bytes(b"odd")
    with pytest.raises(FileChanged):
        document_file.replace(path, known, b"new")
    assert path.read_bytes() == b"odd"
    assert entries(tmp_path) == ["a.chat"]


@pytest.mark.spec("U6")
@pytest.mark.parametrize("saves", [1, 2, 3])
def test_a_save_during_the_exchange_is_put_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, saves: int) -> None:
    """Before each exchange an editor saves another version."""
    path = tmp_path / "a.chat"
    path.write_bytes(b"old")
    known = document_file.read(path)
    left = list(range(saves))

    def late(first: Path, second: Path) -> bool:
        if left:
            beside = tmp_path / "editor"
            beside.write_bytes(b"edit %d" % left.pop(0))
            beside.replace(path)
        return exchange_files(first, second)

    monkeypatch.setattr(document_file, "exchange_files", late)
    with pytest.raises(FileChanged):
        document_file.replace(path, known, b"new")
    assert path.read_bytes() == b"edit %d" % (saves - 1)
    assert entries(tmp_path) == ["a.chat"]


@pytest.mark.spec("U6")
def test_without_renameat2_the_new_file_replaces_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def cannot(first: Path, second: Path) -> bool:
        return False

    monkeypatch.setattr(document_file, "exchange_files", cannot)
    path = tmp_path / "a.chat"
    path.write_bytes(b"old")
    document_file.replace(path, document_file.read(path), b"new")
    assert path.read_bytes() == b"new"
    path.write_bytes(b"theirs")
    with pytest.raises(FileChanged):
        document_file.replace(path, document_file.Snapshot(b"new", (), 0), b"newer")
    assert path.read_bytes() == b"theirs"


@pytest.mark.spec("U6")
def test_a_full_disk_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.chat"
    path.write_bytes(b"old")
    known = document_file.read(path)
    with little_space(4096), pytest.raises(DocumentError, match="disk is full"):
        document_file.replace(path, known, b"x" * 100_000)
    assert path.read_bytes() == b"old"
    assert entries(tmp_path) == ["a.chat"]


@pytest.mark.spec("U6")
def test_a_read_only_file_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a.chat"
    path.write_bytes(b"old")
    path.chmod(0o444)
    with pytest.raises(DocumentError, match="read-only"):
        document_file.replace(path, document_file.read(path), b"new")
    assert path.read_bytes() == b"old"


def _refusing_new_files_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.open

    def opened(path: str | Path, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        makes = flags & os.O_CREAT or flags & os.O_TMPFILE == os.O_TMPFILE
        if makes and dir_fd is not None and os.path.samestat(os.fstat(dir_fd), folder.stat()):
            raise PermissionError(13, "Permission denied")
        return real(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", opened)


@pytest.mark.spec("U6")
def test_in_a_read_only_folder_a_conflict_copy_goes_to_the_state_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, state = tmp_path / "project", tmp_path / "state"
    folder.mkdir()
    state.mkdir()
    path = folder / "a.chat"
    path.write_bytes(b"old")
    known = document_file.read(path)
    _refusing_new_files_in(folder, monkeypatch)
    with pytest.raises(DocumentError, match="folder is not writable"):
        document_file.replace(path, known, b"new")
    kept = document_file.write_conflict_copy(path, state, b"ours")
    assert (kept, kept.read_bytes()) == (state / "a.conflict-1.chat", b"ours")
    assert path.read_bytes() == b"old"


@pytest.mark.spec("U6")
def test_a_conflict_copy_never_overwrites_another(tmp_path: Path) -> None:
    path = tmp_path / "a.chat"
    kept = [document_file.write_conflict_copy(path, tmp_path, b"%d" % number) for number in range(3)]
    assert [one.name for one in kept] == [f"a.conflict-{number}.chat" for number in (1, 2, 3)]
    assert [one.read_bytes() for one in kept] == [b"0", b"1", b"2"]


def test_leftovers_of_a_killed_process_are_removed_and_files_in_use_are_kept(tmp_path: Path) -> None:
    path, mine = tmp_path / "a.chat", tmp_path / f".{new_temporary_name()}.tmp"
    pid = os.getpid()
    dead = tmp_path / mine.name.replace(f"-{pid}-", f"-{pid}-1", 1)
    other = tmp_path / ".b.chat.new"
    for one in (path, mine, dead, other):
        one.write_bytes(b"")
    document_file.remove_leftovers(path)
    assert entries(tmp_path) == sorted([path.name, mine.name, other.name])


def test_a_file_written_in_pieces_is_read_once_it_is_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.chat"
    path.write_bytes(b"old")
    known = document_file.read(path)
    pieces = [b"one", b" two", b" three"]
    path.write_bytes(b"")

    def meanwhile(_: float) -> None:
        if pieces:
            with path.open("ab") as file:
                file.write(pieces.pop(0))

    monkeypatch.setattr(time, "sleep", meanwhile)
    assert document_file.read_stable(path, known).data == b"one two three"


def test_a_recently_modified_file_is_read_again_despite_equal_timestamps(tmp_path: Path) -> None:
    path = tmp_path / "a.chat"
    path.write_bytes(b"old")
    assert not document_file.read(path).is_unchanged(path)
    os.utime(path, (1, 1))
    known = document_file.read(path)
    assert known.is_unchanged(path)
    path.write_bytes(b"new")
    assert not known.is_unchanged(path)

"""Opening beneath a root: both openers refuse symlinks, never block, and never leave the root."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from holdfast.fs import beneath
from holdfast.fs.beneath import (
    FILE_FLAGS,
    NotRegular,
    Opener,
    make_folders,
    open_beneath,
    open_file_beneath,
    open_folder,
)

OPENERS = {"openat2": beneath.openat2, "step_by_step": beneath.open_by_components}


@pytest.fixture(params=OPENERS, autouse=True)
def opener(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Opener:
    chosen = OPENERS[request.param]
    if chosen is beneath.openat2 and beneath.select_opener() is not beneath.openat2:
        pytest.fail("This kernel has no openat2: run the tests on Linux 5.6 or later.")
    monkeypatch.setattr(beneath, "select_opener", lambda: chosen)
    return chosen


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("SECRET")
    root = tmp_path / "root"
    (root / "sub" / "deep").mkdir(parents=True)
    (root / "sub" / "a.txt").write_text("inside")
    (root / "link").symlink_to(tmp_path / "outside")
    (root / "file-link").symlink_to(tmp_path / "outside" / "secret")
    (root / "inner-link").symlink_to("sub")
    (root / "dangling").symlink_to("nowhere")
    return root


def _read(root: Path, path: Path) -> bytes:
    with open_file_beneath(root, path) as opened:
        return os.read(opened, 100)


def _open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.spec("N3")
def test_a_file_beneath_the_root_is_opened(root: Path) -> None:
    assert _read(root, root / "sub" / "a.txt") == b"inside"
    with open_folder(root, root) as opened:
        assert os.stat("sub", dir_fd=opened).st_ino == (root / "sub").stat().st_ino


@pytest.mark.parametrize("path", ["link/secret", "file-link", "inner-link/a.txt", "link", "dangling"])
@pytest.mark.spec("N3")
def test_no_symlink_is_followed(root: Path, path: str) -> None:
    with pytest.raises(OSError):
        os.close(open_beneath(root, root / path, FILE_FLAGS))
    with pytest.raises(OSError), open_folder(root, root / path):
        pass


@pytest.mark.spec("N3")
def test_dot_dot_does_not_leave_the_root(root: Path) -> None:
    for path in (root / ".." / "outside" / "secret", root / "sub" / ".." / ".." / "outside" / "secret"):
        with pytest.raises(OSError, match="cross-device"):
            open_beneath(root, path, FILE_FLAGS)
        with pytest.raises(OSError, match="cross-device"):
            make_folders(root, path)
    with pytest.raises(ValueError):
        open_beneath(root, root.parent / "root-evil", FILE_FLAGS)


@pytest.mark.spec("N3")
def test_a_special_file_is_named_and_never_blocks(root: Path) -> None:
    os.mkfifo(root / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(os.fsencode(root / "socket"))
        for name, words in (("pipe", "a named pipe"), ("socket", "a socket"), ("sub", "a folder"), ("link", "a link")):
            with (
                pytest.raises(NotRegular, match=f"is {words}, not a regular file"),
                open_file_beneath(root, root / name),
            ):
                pass


@pytest.mark.timeout(60)
@pytest.mark.spec("N3")
def test_a_fifo_created_after_the_check_does_not_block(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(root / "pipe")
    regular = (root / "sub" / "a.txt").stat()

    def look(*_: object, **__: object) -> os.stat_result:
        return regular

    monkeypatch.setattr(os, "stat", look)
    with pytest.raises(NotRegular, match="a named pipe"), open_file_beneath(root, root / "pipe"):
        pass


@pytest.mark.spec("N3")
def test_folders_are_created_only_beneath_the_root(root: Path) -> None:
    make_folders(root, root / "sub" / "x" / "y")
    make_folders(root, root / "sub" / "x" / "y")
    assert (root / "sub" / "x" / "y").is_dir()
    with pytest.raises(OSError):
        make_folders(root, root / "link" / "made")
    assert [item.name for item in (root.parent / "outside").iterdir()] == ["secret"]


@pytest.mark.spec("N3")
def test_no_descriptor_stays_open(root: Path) -> None:
    before = _open_files()
    for path in ("sub/a.txt", "link/secret", "sub", "missing", "sub/a.txt/x"):
        try:
            _read(root, root / path)
        except (OSError, NotRegular):
            continue
    make_folders(root, root / "p" / "q")
    with open_folder(root, root / "p", create=True):
        pass
    assert _open_files() == before

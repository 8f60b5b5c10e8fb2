"""Private files: created once, readable only by their owner."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from holdfast.fs.replace import create_private_once, read_private

pytestmark = pytest.mark.spec("K3a")


def test_concurrent_callers_create_one_private_file(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "key"

    def first(_: int) -> bytes:
        create_private_once(path, lambda: os.urandom(16))
        return read_private(path, 100)

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(first, range(32)))) == 1
    assert path.stat().st_mode & 0o777 == 0o600 and path.parent.stat().st_mode & 0o777 == 0o700
    assert [item.name for item in path.parent.iterdir()] == ["key"]
    assert len(read_private(path, 4)) == 4


def test_a_failed_creation_leaves_nothing_behind(tmp_path: Path) -> None:
    def fail() -> bytes:
        raise ValueError

    with pytest.raises(ValueError):
        create_private_once(tmp_path / "key", fail)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("harm", "why"), [("link", "a link"), ("folder", "not a file"), ("pipe", "not a file"), ("mode", "alone")]
)
def test_a_private_file_that_others_can_access_is_not_read(tmp_path: Path, harm: str, why: str) -> None:
    path = tmp_path / "key"
    if harm == "link":
        create_private_once(tmp_path / "other", lambda: b"x")
        path.symlink_to(tmp_path / "other")
    elif harm == "folder":
        path.mkdir(0o700)
    elif harm == "pipe":
        os.mkfifo(path, 0o600)
    else:
        path.write_bytes(b"x")
        path.chmod(0o640)
    with pytest.raises(PermissionError, match=why):
        read_private(path, 10)


def test_a_symlink_is_never_written_through(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.symlink_to(tmp_path / "elsewhere")
    create_private_once(path, lambda: b"x")
    assert not (tmp_path / "elsewhere").exists() and path.is_symlink()

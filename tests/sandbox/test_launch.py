"""Launches: open files, folder use, and cleanup."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holdfast.contract.errors import SandboxRefused
from holdfast.sandbox.bubblewrap import Bubblewrap
from holdfast.sandbox.launch import (
    MAX_OPEN_FILES,
    FolderUse,
    Launch,
    OpenFiles,
    clean_up,
    open_unchanged,
)
from tests.sandbox.sandboxed_commands import bubblewraps, launched, policy_with_installation


@pytest.mark.spec("N2")
def test_open_files_of_a_command_that_never_starts_are_closed(tmp_path: Path) -> None:
    opened = OpenFiles()
    (tmp_path / "x").touch()
    opened.add(tmp_path, str(tmp_path / "x"))
    fd = opened.fds[0]
    opened.close()
    opened.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)


@pytest.mark.spec("N2")
def test_an_old_bubblewrap_refuses_to_pin_while_another_command_runs(tmp_path: Path) -> None:
    old = Bubblewrap(
        path=bubblewraps()[0].path, version=(0, 9), size=bubblewraps()[0].size, changed=bubblewraps()[0].changed
    )
    place = policy_with_installation(tmp_path)
    turn = FolderUse(tmp_path, exclusive=False)
    with pytest.raises(SandboxRefused, match=r"0\.10"):
        launched(old, place, ["true"], cwd=tmp_path)
    turn.end()
    clean_up(launched(old, place, ["true"], cwd=tmp_path))


@pytest.mark.spec("N2")
def test_a_path_is_opened_only_if_unchanged_and_free_of_symlinks(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "f").write_text("text")
    (tmp_path / "link").symlink_to("d")
    about = (tmp_path / "d" / "f").stat()
    known = (about.st_dev, about.st_ino)
    os.close(open_unchanged(tmp_path, str(tmp_path / "d" / "f"), known))
    for path, identity in (("link/f", known), ("d/f", (0, 0)), ("gone", known)):
        with pytest.raises(SandboxRefused, match="Try again"):
            open_unchanged(tmp_path, str(tmp_path / path), identity)


@pytest.mark.spec("N2")
def test_too_many_open_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "f").touch()
    opened = OpenFiles()
    try:
        for _ in range(MAX_OPEN_FILES):
            opened.add(tmp_path, str(tmp_path / "f"))
        with pytest.raises(SandboxRefused, match=r"Narrow sandbox\.writable"):
            opened.add(tmp_path, str(tmp_path / "f"))
    finally:
        opened.close()


@pytest.mark.spec("N2")
def test_every_cleanup_step_runs_even_if_one_fails() -> None:
    done: list[str] = []

    def fails() -> None:
        raise OSError("no")

    with pytest.raises(OSError, match="no"):
        clean_up(Launch(argv=("x",), cwd="/", env={}, cleanup=(fails, lambda: done.append("second"))))
    assert done == ["second"]

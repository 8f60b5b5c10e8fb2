"""Temporary files are cleaned up, also if the process is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from holdfast.fs import replace, temporary
from holdfast.fs.replace import NewFile
from holdfast.fs.temporary import (
    is_orphaned,
    make_temporary_folder,
    new_temporary_name,
    remove_temporary_folder,
    use_cleanup_journal,
)
from tests.kill_points import SCENARIOS
from tests.soak import rounds, some

SAMPLE = 3
POINTS = rounds(SAMPLE, 1_000_000)
"""Kill points per scenario, evenly spread."""


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "notes"
    monkeypatch.setattr(temporary, "_journal_folder", [folder])
    return folder


def killed_points(scenario: str, folder: Path, most: int, timeout: float) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.kill_points", scenario, str(folder), str(most)],
        cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=timeout, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("scenario", some(SCENARIOS, 4))
def test_no_temporary_file_stays_wherever_a_process_is_killed(tmp_path: Path, scenario: str) -> None:
    found = killed_points(scenario, tmp_path, POINTS, rounds(110, 3600))
    assert found["left"] == {}
    assert found["total"] > SAMPLE
    assert found["tried"] == min(POINTS, found["total"])


def opened(folder: Path) -> int:
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY)


@pytest.mark.parametrize("nameless", [True, False])
def test_a_new_file_is_visible_only_when_it_is_complete(
    tmp_path: Path, notes: Path, nameless: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not nameless:
        monkeypatch.setattr(replace, "_open_tmpfile", _no_nameless)
    folder = tmp_path / "folder"
    folder.mkdir()
    where = opened(folder)
    with NewFile(where) as new:
        new.write(b"one")
        assert [path.name.endswith(".tmp") for path in folder.iterdir()] == ([] if nameless else [True])
        new.link("a")
    assert [(path.name, path.read_bytes()) for path in folder.iterdir()] == [("a", b"one")]
    with NewFile(where) as new:
        new.write(b"two")
        with pytest.raises(FileExistsError):
            new.link("a")
        new.replace("a")
    with NewFile(where) as new:
        new.write(b"three")
    os.close(where)
    assert [(path.name, path.read_bytes()) for path in folder.iterdir()] == [("a", b"two")]
    assert not notes.exists() or list(notes.iterdir()) == []


def _no_nameless(folder: int, mode: int) -> int:
    return -1


def dead_name() -> str:
    """Return a name of a dead process."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, new_temporary_name().encode())
        os._exit(0)
    os.waitpid(child, 0)
    try:
        return os.read(reading, 200).decode()
    finally:
        os.close(reading)
        os.close(writing)


def test_a_name_shows_whether_its_process_is_dead() -> None:
    mine, dead = new_temporary_name(), dead_name()
    assert (is_orphaned(mine), is_orphaned(dead), is_orphaned(f".{dead}.tmp"), is_orphaned("notes.txt")) == (
        False,
        True,
        True,
        False,
    )


def test_a_zombie_counts_as_dead() -> None:
    child = os.fork()
    if child == 0:
        signal.pause()
    started = temporary.process_start_time(child)
    name = new_temporary_name().replace(f"holdfast-{os.getpid()}-", f"holdfast-{child}-", 1).split("-")
    name[2] = str(started)
    assert not is_orphaned("-".join(name))
    os.kill(child, signal.SIGKILL)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    assert is_orphaned("-".join(name))
    os.waitpid(child, 0)


def test_files_of_another_machine_or_container_are_kept_for_a_day() -> None:
    pid, started, _boot, container, end = new_temporary_name().removeprefix("holdfast-").split("-")
    for name in (f"holdfast-{pid}-{started}-00000000-{container}-{end}", f"holdfast-1-1-{_boot}-00000000-{end}"):
        assert not is_orphaned(name)
        assert not is_orphaned(name, time.time() - 3600)
        assert is_orphaned(name, time.time() - 100_000)


def test_the_next_start_removes_only_files_journaled_by_dead_processes(tmp_path: Path, notes: Path) -> None:
    dead, mine = dead_name(), new_temporary_name()
    project = tmp_path / "project"
    project.mkdir()
    notes.mkdir()
    for name in (f".{dead}.tmp", f".{mine}.tmp", "precious", ".envrc-file"):
        (project / name).write_text("x")
    (project / f"{dead}.folder" / "shut").mkdir(parents=True)
    (project / f"{dead}.folder" / "shut").chmod(0)
    (project / "full").mkdir()
    (project / "full" / "kept").touch()
    (project / "empty").mkdir()
    os.mknod(project / "socket", 0o140600)
    for number, name in enumerate(sorted(path.name for path in project.iterdir())):
        owner = mine if mine in name else dead
        (notes / f"{owner.rpartition('-')[0]}-{number:08x}").symlink_to(project / name)
    (notes / f"{dead.rpartition('-')[0]}-{99:08x}").symlink_to(tmp_path / "gone")
    use_cleanup_journal(notes)
    assert {path.name for path in project.iterdir()} == {f".{mine}.tmp", "precious", ".envrc-file", "full"}
    assert (project / "full" / "kept").exists()


def test_a_temporary_folder_of_any_mode_is_removed_with_its_contents(tmp_path: Path, notes: Path) -> None:
    folder = make_temporary_folder("kind", tmp_path)
    assert folder.stat().st_mode & 0o777 == 0o700 and len(list(notes.iterdir())) == 1
    (folder / "a" / "b").mkdir(parents=True)
    (folder / "a" / "b" / "c").touch()
    for name in ("a/b/c", "a/b", "a"):
        (folder / name).chmod(0)
    remove_temporary_folder(folder)
    remove_temporary_folder(folder)
    assert not folder.exists() and not notes.exists()


def test_everything_works_without_a_journal_if_the_state_folder_is_not_writable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(temporary, "_journal_folder", [tmp_path / "file" / "notes"])
    folder = make_temporary_folder("kind", tmp_path)
    remove_temporary_folder(folder)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_the_journal_folders_a_process_created_are_removed_with_its_last_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(temporary, "_journal_folder", [tmp_path / "state" / "holdfast" / "notes"])
    first, second = make_temporary_folder("kind", tmp_path), make_temporary_folder("kind", tmp_path)
    remove_temporary_folder(first)
    assert (tmp_path / "state" / "holdfast" / "notes").is_dir()
    remove_temporary_folder(second)
    assert list(tmp_path.iterdir()) == []
    again = make_temporary_folder("kind", tmp_path)
    (tmp_path / "state" / "holdfast" / "ledger.db").touch()
    remove_temporary_folder(again)
    assert [path.name for path in (tmp_path / "state" / "holdfast").iterdir()] == ["ledger.db"]
    (tmp_path / "state" / "holdfast" / "notes").mkdir()
    remove_temporary_folder(make_temporary_folder("kind", tmp_path))
    assert (tmp_path / "state" / "holdfast" / "notes").is_dir()


def test_concurrent_threads_leave_no_temporary_folder(tmp_path: Path, notes: Path) -> None:
    def work(_: int) -> None:
        for _ in range(20):
            remove_temporary_folder(make_temporary_folder("x", tmp_path))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert not notes.exists() or list(notes.iterdir()) == []

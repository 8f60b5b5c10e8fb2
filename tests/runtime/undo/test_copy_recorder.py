"""What the copy recorder stores, its limits, and the note if undo is not possible."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holdfast.config.config import SandboxConfig
from holdfast.contract.result import Result
from holdfast.fs.temporary import new_temporary_name
from holdfast.runtime.undo import copy_recorder
from holdfast.runtime.undo.recorder import Recorder
from tests.runtime.undo.support import FakeSandbox, RecordedProject, fill


@pytest.mark.spec("X11")
def test_copying_is_limited_and_the_note_says_why(tmp_path: Path) -> None:
    (tmp_path / "few").mkdir()
    few = RecordedProject(tmp_path / "few", "copy", SandboxConfig(undo_max_files=3))
    fill(few.root)
    assert few.recorder.begin("c") is None
    assert "more than 3 files" in (few.recorder.note() or "")
    few.ledger.close()
    (tmp_path / "small").mkdir()
    small = RecordedProject(tmp_path / "small", "copy", SandboxConfig(undo_max_bytes=1024 * 1024))
    (small.root / "big").write_bytes(bytes(1024 * 1024 + 1))
    assert small.recorder.begin("c") is None
    assert "undo_max_bytes" in (small.recorder.note() or "")
    small.ledger.close()


@pytest.mark.spec("X11")
def test_the_note_says_why_undo_is_not_possible(tmp_path: Path) -> None:
    project = RecordedProject(tmp_path, "copy")
    assert project.recorder.note() is None
    for config, ledger, words in (
        (SandboxConfig(undo="off"), project.ledger, "switched off"),
        (SandboxConfig(undo="overlay"), project.ledger, "no overlay can be mounted over"),
        (SandboxConfig(), None, "no ledger"),
    ):
        recorder = Recorder(ledger, project.sandbox, config, project.state)
        assert recorder.begin("c") is None
        assert words in (recorder.note() or "")
    inside = Recorder(project.ledger, project.sandbox, SandboxConfig(), project.root / "state")
    assert inside.begin("c") is None
    bare = Recorder(project.ledger, FakeSandbox(project.root, mode="off"), SandboxConfig(), project.state)
    assert (bare.note(), bare.only_in()) == (None, (str(project.root),))
    assert project.recorder.only_in() == ()
    recording = bare.begin("c")
    assert recording is not None
    (project.root / ".envrc").write_text("x")
    assert [change.kind for change in recording.finish().changes] == ["created"]
    assert (project.root / ".envrc").exists()
    project.ledger.close()


@pytest.mark.spec("X5", "X11")
def test_changes_of_other_calls_are_not_recorded_as_the_commands(tmp_path: Path) -> None:
    project = RecordedProject(tmp_path, "copy")
    for name in ("theirs", "both"):
        (project.root / name).write_text("old")
    calls, other = (project.begin(), project.begin()), project.begin()
    recording = project.recorder.begin(calls[0], overlays=False)
    assert recording is not None
    for name in ("theirs", "both", "new/file", ".envrc"):
        path = project.root / name
        project.ledger.before_image(other, path, path.read_bytes() if path.exists() else None)
        path.parent.mkdir(exist_ok=True)
        path.write_text("another call")
        project.ledger.after_image(other, path, b"another call")
    (project.root / "both").write_text("the command")
    (project.root / "own").mkdir()
    (project.root / "own" / "file").write_text("the command")

    done = recording.finish(calls)
    assert project.changed(done) == {"both": "modified", "own": "created", "own/file": "created"}
    assert (done.violations, (project.root / ".envrc").read_text()) == ((), "another call")
    for call_id in (*calls, other):
        project.ledger.end_now(call_id, Result(True))
    plan = project.undo.plan(calls[1])
    assert [(Path(item.path).name, item.action) for item in plan.items if item.action == "refused"] == [
        ("both", "refused")
    ]
    assert project.undo_call(calls[1], partial=True).success
    left = {name: (project.root / name).read_text() for name in ("theirs", "both", "new/file")}
    assert left == {"theirs": "another call", "both": "the command", "new/file": "another call"}
    assert not (project.root / "own").exists()
    project.ledger.close()


@pytest.mark.spec("X11")
def test_a_second_copy_reads_only_changed_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = RecordedProject(tmp_path, "copy")
    fill(project.root)
    monkeypatch.setattr(copy_recorder, "_RACY_NS", -(10**12))
    read: list[str] = []
    real = copy_recorder.open_file

    def counted(folder: int, name: str) -> int:
        read.append(name)
        return real(folder, name)

    monkeypatch.setattr(copy_recorder, "open_file", counted)
    project.shell("true")
    assert sorted(read) == ["a.txt", "b.bin", "c.txt", "d.txt"]
    read.clear()
    again = Recorder(project.ledger, project.sandbox, SandboxConfig(), project.state)
    (project.root / "a.txt").write_text("another\n")
    recording = again.begin("c9")
    assert recording is not None
    assert read == ["a.txt"]
    (project.root / "b.bin").unlink()
    recording.finish()
    assert project.undo_call("c9").success
    assert (project.root / "b.bin").read_bytes() == bytes(range(256))
    project.ledger.close()


@pytest.mark.spec("X11", "X15")
def test_unused_stored_contents_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = RecordedProject(tmp_path, "copy")
    monkeypatch.setattr(copy_recorder, "_RACY_NS", -(10**12))
    monkeypatch.setattr(copy_recorder, "_SLACK", 10_000)
    folder = project.state / "undo" / "contents"
    for turn in range(20):
        (project.root / "a").write_bytes(bytes([turn]) * 4000)
        (project.root / f"stays-{turn}").write_text("x")
        project.shell("true")
        for pack in folder.glob("pack-*"):
            os.utime(pack, (1e9, 1e9))
    kept = sum(pack.stat().st_size for pack in folder.glob("pack-*"))
    assert kept < 30_000
    (project.root / "a").unlink()
    project.ledger.close()


@pytest.mark.spec("X11")
def test_a_file_rewritten_within_the_same_timestamp_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def coarse(facts: os.stat_result) -> copy_recorder.Key:
        return facts.st_dev, facts.st_ino, facts.st_size, 0, 0

    monkeypatch.setattr(copy_recorder, "key_of", coarse)
    monkeypatch.setattr(copy_recorder, "_RACY_NS", 10**12)  # enough for a slow machine
    project = RecordedProject(tmp_path, "copy")
    (project.root / "f").write_text("aaaa")
    recording = project.recorder.begin("c1")
    assert recording is not None
    (project.root / "f").write_text("bbbb")
    assert [change.kind for change in recording.finish().changes] == ["modified"]
    again = project.recorder.begin("c2")
    assert again is not None
    (project.root / "f").write_text("cccc")
    again.finish()
    assert project.undo_call("c2").success
    assert (project.root / "f").read_text() == "bbbb"
    project.ledger.close()


@pytest.mark.spec("X11")
def test_folders_of_dead_processes_are_removed_and_those_of_live_ones_stay(tmp_path: Path) -> None:
    project = RecordedProject(tmp_path, "copy")
    runs = project.state / "undo" / "runs"
    mine = project.recorder.begin("c1")
    assert mine is not None
    dead = runs / new_temporary_name().replace(f"-{os.getpid()}-", f"-{os.getpid()}-1", 1)
    (dead / "0" / "work" / "work").mkdir(parents=True)
    (dead / "0" / "work" / "work").chmod(0)
    here = dead / "0"
    for _ in range(400):
        here = here / "d"
        try:
            here.mkdir()
        except OSError:
            break
    other = project.recorder.begin("c2")
    assert other is not None
    assert not dead.exists()
    assert len(list(runs.iterdir())) == 2
    mine.discard()
    other.discard()
    assert list(runs.iterdir()) == []
    project.ledger.close()

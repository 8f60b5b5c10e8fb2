"""What the recorder keeps beforehand, what it does not, and what it says where undo cannot serve."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holdfast.config.config import SandboxConfig
from holdfast.contract.result import Result
from holdfast.fs.temporary import new_temporary_name
from holdfast.runtime.undo import copy_recorder
from holdfast.runtime.undo.recorder import Recorder
from tests.runtime.undo.support import Ground, Place, fill


@pytest.mark.spec("X11")
def test_the_copy_is_bounded_and_the_preview_says_why(tmp_path: Path) -> None:
    (tmp_path / "few").mkdir()
    few = Place(tmp_path / "few", "copy", SandboxConfig(undo_max_files=3))
    fill(few.root)
    assert few.recorder.begin("c") is None
    assert "more than 3 files" in (few.recorder.note() or "")
    few.ledger.close()
    (tmp_path / "small").mkdir()
    small = Place(tmp_path / "small", "copy", SandboxConfig(undo_max_bytes=1024 * 1024))
    (small.root / "big").write_bytes(bytes(1024 * 1024 + 1))
    assert small.recorder.begin("c") is None
    assert "undo_max_bytes" in (small.recorder.note() or "")
    small.ledger.close()


@pytest.mark.spec("X11")
def test_where_undo_cannot_serve_the_note_says_so(tmp_path: Path) -> None:
    place = Place(tmp_path, "copy")
    assert place.recorder.note() is None
    for config, ledger, words in (
        (SandboxConfig(undo="off"), place.ledger, "switched off"),
        (SandboxConfig(undo="overlay"), place.ledger, "no overlay can be mounted over"),
        (SandboxConfig(), None, "no ledger"),
    ):
        recorder = Recorder(ledger, place.ground, config, place.state)
        assert recorder.begin("c") is None
        assert words in (recorder.note() or "")
    inside = Recorder(place.ledger, place.ground, SandboxConfig(), place.root / "state")
    assert inside.begin("c") is None
    bare = Recorder(place.ledger, Ground(place.root, mode="off"), SandboxConfig(), place.state)
    assert (bare.note(), bare.only_in()) == (None, (str(place.root),))
    assert place.recorder.only_in() == ()
    recording = bare.begin("c")
    assert recording is not None
    (place.root / ".envrc").write_text("x")
    assert [change.kind for change in recording.finish().changes] == ["created"]
    assert (place.root / ".envrc").exists()
    place.ledger.close()


@pytest.mark.spec("X5", "X11")
def test_what_another_call_changes_meanwhile_is_not_the_commands(tmp_path: Path) -> None:
    place = Place(tmp_path, "copy")
    for name in ("theirs", "both"):
        (place.root / name).write_text("old")
    calls, other = (place.begin(), place.begin()), place.begin()
    recording = place.recorder.begin(calls[0], overlays=False)
    assert recording is not None
    for name in ("theirs", "both", "new/file", ".envrc"):
        path = place.root / name
        place.ledger.before_image(other, path, path.read_bytes() if path.exists() else None)
        path.parent.mkdir(exist_ok=True)
        path.write_text("another call")
        place.ledger.after_image(other, path, b"another call")
    (place.root / "both").write_text("the command")
    (place.root / "own").mkdir()
    (place.root / "own" / "file").write_text("the command")

    done = recording.finish(calls)
    assert place.changed(done) == {"both": "modified", "own": "created", "own/file": "created"}
    assert (done.violations, (place.root / ".envrc").read_text()) == ((), "another call")
    for call_id in (*calls, other):
        place.ledger.end_now(call_id, Result(True))
    plan = place.undo.plan(calls[1])
    assert [(Path(item.path).name, item.action) for item in plan.items if item.action == "refused"] == [
        ("both", "refused")
    ]
    assert place.undo_call(calls[1], partial=True).success
    left = {name: (place.root / name).read_text() for name in ("theirs", "both", "new/file")}
    assert left == {"theirs": "another call", "both": "the command", "new/file": "another call"}
    assert not (place.root / "own").exists()
    place.ledger.close()


@pytest.mark.spec("X11")
def test_a_second_copy_reads_only_what_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place(tmp_path, "copy")
    fill(place.root)
    monkeypatch.setattr(copy_recorder, "_RACY_NS", -(10**12))
    read: list[str] = []
    real = copy_recorder.open_file

    def counted(folder: int, name: str) -> int:
        read.append(name)
        return real(folder, name)

    monkeypatch.setattr(copy_recorder, "open_file", counted)
    place.shell("true")
    assert sorted(read) == ["a.txt", "b.bin", "c.txt", "d.txt"]
    read.clear()
    again = Recorder(place.ledger, place.ground, SandboxConfig(), place.state)
    (place.root / "a.txt").write_text("another\n")
    recording = again.begin("c9")
    assert recording is not None
    assert read == ["a.txt"]
    (place.root / "b.bin").unlink()
    recording.finish()
    assert place.undo_call("c9").success
    assert (place.root / "b.bin").read_bytes() == bytes(range(256))
    place.ledger.close()


@pytest.mark.spec("X11", "X15")
def test_contents_nothing_leads_to_are_let_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place(tmp_path, "copy")
    monkeypatch.setattr(copy_recorder, "_RACY_NS", -(10**12))
    monkeypatch.setattr(copy_recorder, "_SLACK", 10_000)
    folder = place.state / "undo" / "contents"
    for turn in range(20):
        (place.root / "a").write_bytes(bytes([turn]) * 4000)
        (place.root / f"stays-{turn}").write_text("x")
        place.shell("true")
        for pack in folder.glob("pack-*"):
            os.utime(pack, (1e9, 1e9))
    kept = sum(pack.stat().st_size for pack in folder.glob("pack-*"))
    assert kept < 30_000
    (place.root / "a").unlink()
    place.ledger.close()


@pytest.mark.spec("X11")
def test_a_file_written_again_within_the_same_tick_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def coarse(facts: os.stat_result) -> copy_recorder.Key:
        return facts.st_dev, facts.st_ino, facts.st_size, 0, 0

    monkeypatch.setattr(copy_recorder, "key_of", coarse)
    monkeypatch.setattr(copy_recorder, "_RACY_NS", 10**12)  # on a slow machine, too
    place = Place(tmp_path, "copy")
    (place.root / "f").write_text("aaaa")
    recording = place.recorder.begin("c1")
    assert recording is not None
    (place.root / "f").write_text("bbbb")
    assert [change.kind for change in recording.finish().changes] == ["modified"]
    again = place.recorder.begin("c2")
    assert again is not None
    (place.root / "f").write_text("cccc")
    again.finish()
    assert place.undo_call("c2").success
    assert (place.root / "f").read_text() == "bbbb"
    place.ledger.close()


@pytest.mark.spec("X11")
def test_leftovers_of_dead_processes_are_removed_and_those_of_the_living_stay(tmp_path: Path) -> None:
    place = Place(tmp_path, "copy")
    runs = place.state / "undo" / "runs"
    mine = place.recorder.begin("c1")
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
    other = place.recorder.begin("c2")
    assert other is not None
    assert not dead.exists()
    assert len(list(runs.iterdir())) == 2
    mine.discard()
    other.discard()
    assert list(runs.iterdir()) == []
    place.ledger.close()

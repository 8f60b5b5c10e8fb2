"""Changes of real commands are recorded, applied and undone, with an overlay and with a copy."""

from __future__ import annotations

import os
import stat
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from holdfast.contract.errors import LedgerUnavailable
from holdfast.runtime.undo import overlay_recorder, tree
from holdfast.sandbox.launch import Changes
from holdfast.store.changes import net_changes
from tests.runtime.undo.marks import needs_overlay
from tests.runtime.undo.support import Mechanism, RecordedProject, fill, snapshot

MECHANISMS = [pytest.param("overlay", marks=needs_overlay), "copy"]
both = pytest.mark.parametrize("mechanism", MECHANISMS)


@both
@pytest.mark.spec("X11")
def test_every_kind_of_change_is_applied_reported_and_undone(tmp_path: Path, mechanism: Mechanism) -> None:
    project = RecordedProject(tmp_path, mechanism)
    fill(project.root)
    before = snapshot(project.root)
    call_id, changes = project.shell(
        "echo more >> a.txt; chmod 755 b.bin; rm sub/c.txt; ln -sfn elsewhere link; mkdir -p new/deep; "
        "echo x > new/deep/file; rm sub/d.txt; mkdir sub/d.txt; mkfifo pipe; touch -d 2001-01-01 b.bin"
    )
    assert project.changed(changes) == {
        "a.txt": "modified",
        "b.bin": "mode",
        "link": "modified",
        "new": "created",
        "new/deep": "created",
        "new/deep/file": "created",
        "pipe": "created",
        "sub/c.txt": "deleted",
        "sub/d.txt": "replaced",
    }
    assert changes.violations == ()
    assert (project.root / "a.txt").read_text() == "one\nmore\n"
    assert (project.root / "b.bin").stat().st_mtime < 1e9
    assert stat.S_ISFIFO((project.root / "pipe").stat().st_mode)
    assert project.undo_call(call_id).success
    assert snapshot(project.root) == before
    assert project.ledger.verify().ok
    project.ledger.close()


@both
@pytest.mark.spec("X11")
def test_a_command_that_changes_nothing_leaves_no_record(tmp_path: Path, mechanism: Mechanism) -> None:
    project = RecordedProject(tmp_path, mechanism)
    fill(project.root)
    call_id, changes = project.shell("cat a.txt; : >> a.txt; chmod u+x a.txt; chmod u-x a.txt; touch a.txt")
    assert changes.changes == ()
    assert net_changes(project.ledger, call_id) == []
    assert list((project.state / "undo" / "runs").iterdir()) == []
    project.ledger.close()


@both
@pytest.mark.spec("X11")
def test_names_of_any_bytes_and_files_without_permissions_are_undone(tmp_path: Path, mechanism: Mechanism) -> None:
    project = RecordedProject(tmp_path, mechanism)
    odd = os.fsdecode(b"b\xffd\nname")
    (project.root / odd).write_text("odd")
    (project.root / "closed").mkdir()
    (project.root / "closed" / "f").write_text("f")
    (project.root / "closed" / "f").chmod(0)
    (project.root / "closed").chmod(0o500)
    before = snapshot(project.root)
    call_id, changes = project.shell(
        "rm -- $'b\\xffd\\nname'; echo > $'n\\xfe'; ln -s $'t\\xfd' l; chmod u+w closed; rm -f closed/f; chmod 0 closed"
    )
    assert "closed" in project.changed(changes)
    assert not (project.root / odd).exists()
    assert project.undo_call(call_id).success
    assert snapshot(project.root) == before
    project.ledger.close()


@both
@pytest.mark.spec("X11", "N2")
def test_protected_paths_are_not_changed_and_are_reported(tmp_path: Path, mechanism: Mechanism) -> None:
    project = RecordedProject(tmp_path, mechanism)
    hooks = project.root / "sub" / ".git" / "hooks"
    hooks.mkdir(parents=True)
    (hooks / "pre-commit").write_text("mine\n")
    (project.root / "sub" / ".git" / "HEAD").write_text("ref\n")
    before = snapshot(project.root)
    _, changes = project.shell(
        "echo evil > sub/.git/hooks/pre-commit; echo x > sub/.git/index; mkdir -p deep/.vscode; "
        "echo y > deep/.vscode/tasks.json; echo 'gitdir: /x' > deep/.git; echo fine > fine.txt; echo z > .envrc"
    )
    assert {os.path.relpath(path, project.root) for path in changes.violations} == {
        "sub/.git/hooks/pre-commit",
        "deep/.vscode/tasks.json",
        "deep/.git",
        ".envrc",
    }
    now = snapshot(project.root)
    assert now["sub/.git/hooks/pre-commit"] == before["sub/.git/hooks/pre-commit"]
    assert now["sub/.git/index"][2] == b"x\n"
    assert now["fine.txt"][2] == b"fine\n"
    left = {"deep/.vscode"} if mechanism == "copy" else set[str]()  # an empty folder has no effect
    assert set(now) - set(before) == {"sub/.git/index", "deep", "fine.txt"} | left
    project.ledger.close()


@both
@pytest.mark.spec("X11", "N2")
def test_a_folder_with_protected_content_is_not_removed(tmp_path: Path, mechanism: Mechanism) -> None:
    project = RecordedProject(tmp_path, mechanism)
    (project.root / "app").mkdir()
    (project.root / "app" / ".envrc").write_text("export A=1\n")
    (project.root / "app" / "code.py").write_text("pass\n")
    call_id, changes = project.shell("rm -rf app; echo file > app")
    assert [Path(path).name for path in changes.violations] == [".envrc"]
    assert sorted(path.name for path in (project.root / "app").iterdir()) == [".envrc"]
    assert project.undo_call(call_id).success
    assert sorted(path.name for path in (project.root / "app").iterdir()) == [".envrc", "code.py"]
    project.ledger.close()


@pytest.mark.spec("X11", "N2")
def test_mount_points_of_another_command_are_left_alone(tmp_path: Path) -> None:
    project = RecordedProject(tmp_path, "copy")
    (project.root / ".vscode").mkdir()
    recording = project.recorder.begin("c1")
    assert recording is not None
    (project.root / ".vscode").rmdir()
    (project.root / ".idea").mkdir()
    assert recording.finish() == Changes()
    assert [path.name for path in project.root.iterdir()] == [".idea"]
    project.ledger.close()


@needs_overlay
@pytest.mark.spec("X11")
def test_changes_that_could_not_be_recorded_are_not_applied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = RecordedProject(tmp_path)
    fill(project.root)
    before = snapshot(project.root)
    full = LedgerUnavailable("The disk is full.")

    def refuse(*_: object) -> None:
        raise full

    monkeypatch.setattr(project.ledger, "run", refuse, raising=True)
    call_id = "c"
    recording = project.recorder.begin(call_id)
    assert recording is not None
    (recording.overlays[0].upper / "a.txt").write_text("changed")
    found = recording.finish()
    assert found.lost == ("The disk is full.",) and found.changes == ()
    assert found.kept is not None and Path(found.kept, "0", "upper", "a.txt").read_text() == "changed"
    assert snapshot(project.root) == before
    assert list((project.state / "undo" / "runs").iterdir()) == []
    monkeypatch.undo()
    project.ledger.close()


@pytest.mark.spec("X11")
def test_applying_never_writes_outside_the_root_in_a_symlink_race(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = RecordedProject(tmp_path)

    def works(root: Path) -> bool:
        return True

    monkeypatch.setattr(project.sandbox, "overlay_works", works)
    outside = tmp_path / "outside"
    outside.mkdir()
    (project.root / "sub").mkdir()
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            for step in (
                lambda: (project.root / "sub").rename(project.root / "kept"),
                lambda: (project.root / "sub").symlink_to(outside),
                (project.root / "sub").unlink,
                lambda: (project.root / "kept").rename(project.root / "sub"),
            ):
                with suppress(OSError):
                    step()

    swapping = threading.Thread(target=swap)
    swapping.start()
    merged = 0
    try:
        for turn in range(40):
            recording = project.recorder.begin(f"c{turn}")
            assert recording is not None
            upper = recording.overlays[0].upper
            (upper / "sub").mkdir()
            (upper / "sub" / "file").write_text(f"{turn}")
            try:
                recording.finish()
            except OSError:
                continue
            merged += 1
    finally:
        stop.set()
        swapping.join(60)
    assert list(outside.iterdir()) == []
    assert merged
    project.ledger.close()


@both
@pytest.mark.spec("X11")
def test_a_recreated_folder_has_only_its_new_content(tmp_path: Path, mechanism: Mechanism) -> None:
    project = RecordedProject(tmp_path, mechanism)
    fill(project.root)
    before = snapshot(project.root)
    call_id, changes = project.shell("rm -r sub; mkdir sub; echo three > sub/c.txt; echo new > sub/new")
    assert project.changed(changes) == {"sub/d.txt": "deleted", "sub/new": "created"}
    assert sorted(path.name for path in (project.root / "sub").iterdir()) == ["c.txt", "new"]
    assert project.undo_call(call_id).success
    assert snapshot(project.root) == before
    project.ledger.close()


@pytest.mark.spec("X11")
def test_a_folder_swapped_for_a_symlink_before_applying_does_not_lead_outside(tmp_path: Path) -> None:
    project = RecordedProject(tmp_path)
    fill(project.root)
    outside = tmp_path / "outside"
    outside.mkdir()
    part = overlay_recorder.OverlayRecording(project.root, tmp_path / "run", project.ledger.blobs)
    (tmp_path / "run" / "upper" / "sub").mkdir()
    (tmp_path / "run" / "upper" / "sub" / "c.txt").write_text("changed")
    changes = part.changes()
    (project.root / "sub").rename(project.root / "kept")
    (project.root / "sub").symlink_to(outside)
    assert [item.partition(":")[0] for item in part.apply(changes)] == ["sub/c.txt"]
    assert list(outside.iterdir()) == []
    assert (project.root / "kept" / "c.txt").read_text() == "three\n"
    part.close()
    project.ledger.close()


@pytest.mark.spec("X11")
def test_tampered_stored_content_is_not_restored(tmp_path: Path) -> None:
    project = RecordedProject(tmp_path, "copy")
    fill(project.root)
    call_id, _ = project.shell("echo new > a.txt")
    (change,) = net_changes(project.ledger, call_id)
    project.ledger.blobs.path(change.before.blob or "").write_text("forged")
    result = project.undo_call(call_id)
    assert not result.success
    assert "has changed since it was stored" in (result.error or "")
    assert (project.root / "a.txt").read_text() == "new\n"
    assert tree.parents_first(["b/c", "", "a-b", "b", "a/b", "a"]) == ["", "a", "a/b", "a-b", "b", "b/c"]
    project.ledger.close()

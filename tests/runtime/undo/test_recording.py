"""What a real command changes is recorded, taken over, and can be put back; with an overlay and with a copy."""

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
from tests.runtime.undo.support import Mechanism, Place, fill, snapshot

MECHANISMS = [pytest.param("overlay", marks=needs_overlay), "copy"]
both = pytest.mark.parametrize("mechanism", MECHANISMS)


@both
@pytest.mark.spec("X11")
def test_every_kind_of_change_is_taken_over_reported_and_undone(tmp_path: Path, mechanism: Mechanism) -> None:
    place = Place(tmp_path, mechanism)
    fill(place.root)
    before = snapshot(place.root)
    call_id, changes = place.shell(
        "echo more >> a.txt; chmod 755 b.bin; rm sub/c.txt; ln -sfn elsewhere link; mkdir -p new/deep; "
        "echo x > new/deep/file; rm sub/d.txt; mkdir sub/d.txt; mkfifo pipe; touch -d 2001-01-01 b.bin"
    )
    assert place.changed(changes) == {
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
    assert (place.root / "a.txt").read_text() == "one\nmore\n"
    assert (place.root / "b.bin").stat().st_mtime < 1e9
    assert stat.S_ISFIFO((place.root / "pipe").stat().st_mode)
    assert place.undo_call(call_id).success
    assert snapshot(place.root) == before
    assert place.ledger.verify().ok
    place.ledger.close()


@both
@pytest.mark.spec("X11")
def test_a_command_that_changes_nothing_leaves_no_record(tmp_path: Path, mechanism: Mechanism) -> None:
    place = Place(tmp_path, mechanism)
    fill(place.root)
    call_id, changes = place.shell("cat a.txt; : >> a.txt; chmod u+x a.txt; chmod u-x a.txt; touch a.txt")
    assert changes.changes == ()
    assert net_changes(place.ledger, call_id) == []
    assert list((place.state / "undo" / "runs").iterdir()) == []
    place.ledger.close()


@both
@pytest.mark.spec("X11")
def test_names_of_any_bytes_and_files_without_permissions_are_undone(tmp_path: Path, mechanism: Mechanism) -> None:
    place = Place(tmp_path, mechanism)
    odd = os.fsdecode(b"b\xffd\nname")
    (place.root / odd).write_text("odd")
    (place.root / "closed").mkdir()
    (place.root / "closed" / "f").write_text("f")
    (place.root / "closed" / "f").chmod(0)
    (place.root / "closed").chmod(0o500)
    before = snapshot(place.root)
    call_id, changes = place.shell(
        "rm -- $'b\\xffd\\nname'; echo > $'n\\xfe'; ln -s $'t\\xfd' l; chmod u+w closed; rm -f closed/f; chmod 0 closed"
    )
    assert "closed" in place.changed(changes)
    assert not (place.root / odd).exists()
    assert place.undo_call(call_id).success
    assert snapshot(place.root) == before
    place.ledger.close()


@both
@pytest.mark.spec("X11", "N2")
def test_what_is_protected_is_not_changed_and_is_reported(tmp_path: Path, mechanism: Mechanism) -> None:
    place = Place(tmp_path, mechanism)
    hooks = place.root / "sub" / ".git" / "hooks"
    hooks.mkdir(parents=True)
    (hooks / "pre-commit").write_text("mine\n")
    (place.root / "sub" / ".git" / "HEAD").write_text("ref\n")
    before = snapshot(place.root)
    _, changes = place.shell(
        "echo evil > sub/.git/hooks/pre-commit; echo x > sub/.git/index; mkdir -p deep/.vscode; "
        "echo y > deep/.vscode/tasks.json; echo 'gitdir: /x' > deep/.git; echo fine > fine.txt; echo z > .envrc"
    )
    assert {os.path.relpath(path, place.root) for path in changes.violations} == {
        "sub/.git/hooks/pre-commit",
        "deep/.vscode/tasks.json",
        "deep/.git",
        ".envrc",
    }
    now = snapshot(place.root)
    assert now["sub/.git/hooks/pre-commit"] == before["sub/.git/hooks/pre-commit"]
    assert now["sub/.git/index"][2] == b"x\n"
    assert now["fine.txt"][2] == b"fine\n"
    left = {"deep/.vscode"} if mechanism == "copy" else set[str]()  # an empty folder, which nothing obeys
    assert set(now) - set(before) == {"sub/.git/index", "deep", "fine.txt"} | left
    place.ledger.close()


@both
@pytest.mark.spec("X11", "N2")
def test_a_folder_with_something_protected_in_it_is_not_removed(tmp_path: Path, mechanism: Mechanism) -> None:
    place = Place(tmp_path, mechanism)
    (place.root / "app").mkdir()
    (place.root / "app" / ".envrc").write_text("export A=1\n")
    (place.root / "app" / "code.py").write_text("pass\n")
    call_id, changes = place.shell("rm -rf app; echo file > app")
    assert [Path(path).name for path in changes.violations] == [".envrc"]
    assert sorted(path.name for path in (place.root / "app").iterdir()) == [".envrc"]
    assert place.undo_call(call_id).success
    assert sorted(path.name for path in (place.root / "app").iterdir()) == [".envrc", "code.py"]
    place.ledger.close()


@pytest.mark.spec("X11", "N2")
def test_folders_that_only_hold_a_place_for_another_command_are_left_alone(tmp_path: Path) -> None:
    place = Place(tmp_path, "copy")
    (place.root / ".vscode").mkdir()
    recording = place.recorder.begin("c1")
    assert recording is not None
    (place.root / ".vscode").rmdir()
    (place.root / ".idea").mkdir()
    assert recording.finish() == Changes()
    assert [path.name for path in place.root.iterdir()] == [".idea"]
    place.ledger.close()


@needs_overlay
@pytest.mark.spec("X11")
def test_nothing_is_taken_over_that_could_not_be_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place(tmp_path)
    fill(place.root)
    before = snapshot(place.root)
    full = LedgerUnavailable("The disk is full.")

    def refuse(*_: object) -> None:
        raise full

    monkeypatch.setattr(place.ledger, "run", refuse, raising=True)
    call_id = "c"
    recording = place.recorder.begin(call_id)
    assert recording is not None
    (recording.overlays[0].upper / "a.txt").write_text("changed")
    found = recording.finish()
    assert found.lost == ("The disk is full.",) and found.changes == ()
    assert found.kept is not None and Path(found.kept, "0", "upper", "a.txt").read_text() == "changed"
    assert snapshot(place.root) == before
    assert list((place.state / "undo" / "runs").iterdir()) == []
    monkeypatch.undo()
    place.ledger.close()


@pytest.mark.spec("X11")
def test_merging_never_writes_outside_the_root_while_folders_are_swapped_for_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place(tmp_path)

    def works(root: Path) -> bool:
        return True

    monkeypatch.setattr(place.ground, "overlay_works", works)
    outside = tmp_path / "outside"
    outside.mkdir()
    (place.root / "sub").mkdir()
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            for step in (
                lambda: (place.root / "sub").rename(place.root / "kept"),
                lambda: (place.root / "sub").symlink_to(outside),
                (place.root / "sub").unlink,
                lambda: (place.root / "kept").rename(place.root / "sub"),
            ):
                with suppress(OSError):
                    step()

    swapping = threading.Thread(target=swap)
    swapping.start()
    merged = 0
    try:
        for turn in range(40):
            recording = place.recorder.begin(f"c{turn}")
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
        swapping.join(10)
    assert list(outside.iterdir()) == []
    assert merged
    place.ledger.close()


@both
@pytest.mark.spec("X11")
def test_a_folder_made_anew_has_only_what_the_command_put_into_it(tmp_path: Path, mechanism: Mechanism) -> None:
    place = Place(tmp_path, mechanism)
    fill(place.root)
    before = snapshot(place.root)
    call_id, changes = place.shell("rm -r sub; mkdir sub; echo three > sub/c.txt; echo new > sub/new")
    assert place.changed(changes) == {"sub/d.txt": "deleted", "sub/new": "created"}
    assert sorted(path.name for path in (place.root / "sub").iterdir()) == ["c.txt", "new"]
    assert place.undo_call(call_id).success
    assert snapshot(place.root) == before
    place.ledger.close()


@pytest.mark.spec("X11")
def test_a_folder_swapped_for_a_link_before_taking_over_does_not_lead_outside(tmp_path: Path) -> None:
    place = Place(tmp_path)
    fill(place.root)
    outside = tmp_path / "outside"
    outside.mkdir()
    part = overlay_recorder.OverlayRecording(place.root, tmp_path / "run", place.ledger.blobs)
    (tmp_path / "run" / "upper" / "sub").mkdir()
    (tmp_path / "run" / "upper" / "sub" / "c.txt").write_text("changed")
    changes = part.changes()
    (place.root / "sub").rename(place.root / "kept")
    (place.root / "sub").symlink_to(outside)
    assert [item.partition(":")[0] for item in part.apply(changes)] == ["sub/c.txt"]
    assert list(outside.iterdir()) == []
    assert (place.root / "kept" / "c.txt").read_text() == "three\n"
    part.close()
    place.ledger.close()


@pytest.mark.spec("X11")
def test_changed_kept_content_is_not_put_back(tmp_path: Path) -> None:
    place = Place(tmp_path, "copy")
    fill(place.root)
    call_id, _ = place.shell("echo new > a.txt")
    (change,) = net_changes(place.ledger, call_id)
    place.ledger.blobs.path(change.before.blob or "").write_text("forged")
    result = place.undo_call(call_id)
    assert not result.success
    assert "has changed since it was stored" in (result.error or "")
    assert (place.root / "a.txt").read_text() == "new\n"
    assert tree.parents_first(["b/c", "", "a-b", "b", "a/b", "a"]) == ["", "a", "a/b", "a-b", "b", "b/c"]
    place.ledger.close()

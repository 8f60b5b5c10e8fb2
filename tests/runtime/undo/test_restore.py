"""Undo restores only paths that are as the call left them, all or nothing, and can itself be undone."""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from holdfast.contract.errors import UndoRefused
from holdfast.contract.result import Result
from holdfast.runtime.results import LedgerCallStorage
from holdfast.runtime.undo.restore import last_to_undo, plan_digest
from holdfast.store.changes import changing_calls, undone_by
from tests.runtime.undo.support import RecordedProject, snapshot

Tool = Callable[[dict[str, str | None]], str]


@pytest.fixture
def project(tmp_path: Path) -> Generator[RecordedProject]:
    project = RecordedProject(tmp_path, "copy")
    (project.root / "sub").mkdir()
    (project.root / "a").write_text("a\n")
    (project.root / "sub" / "b").write_text("b\n")
    yield project
    project.ledger.close()


def tool(project: RecordedProject, contents: dict[str, str | None]) -> str:
    """What a file tool does: store the before-image, record the after-image, write."""
    call_id = project.begin()
    keep = LedgerCallStorage(call_id, project.ledger)
    for name, content in contents.items():
        path = project.root / name
        old = path.read_bytes() if path.exists() else None
        keep.before_image(path, old, path.stat().st_mode & 0o7777 if path.exists() else None)
        path.unlink(missing_ok=True) if content is None else path.write_text(content)
        keep.after_image(path, None if content is None else content.encode(), None)
    project.ledger.end_now(call_id, Result(True))
    return call_id


@pytest.mark.spec("X11")
def test_files_that_a_file_tool_wrote_deleted_and_created_are_restored(project: RecordedProject) -> None:
    (project.root / "a").chmod(0o640)
    before = snapshot(project.root)
    call_id = tool(project, {"a": "new\n", "sub/b": None, "sub/c": "c\n"})
    assert [(item.inside, item.change.kind, item.action) for item in project.undo.plan(call_id).items] == [
        ("a", "modified", "put_back"),
        ("sub/b", "deleted", "put_back"),
        ("sub/c", "created", "put_back"),
    ]
    assert project.undo_call(call_id).output == f"Put back 3 paths that call {call_id} had changed."
    assert snapshot(project.root) == before


@pytest.mark.parametrize("how", ["content", "deleted", "mode", "kind"])
@pytest.mark.spec("X11")
def test_nothing_is_restored_if_a_path_changed_since(project: RecordedProject, how: str) -> None:
    call_id, _ = project.shell("echo new > a; echo new > sub/b")
    path = project.root / "a"
    if how == "content":
        path.write_text("mine\n")
    elif how == "mode":
        path.chmod(0o600)
    else:
        path.unlink()
        if how == "kind":
            path.symlink_to("sub/b")
    now = snapshot(project.root)
    with pytest.raises(UndoRefused, match=r"Nothing was put back: .*/a cannot be, because it has changed since"):
        project.undo_call(call_id)
    assert snapshot(project.root) == now
    result = project.undo_call(call_id, partial=True)
    assert result.output == f"Put back 1 path that call {call_id} had changed; 1 left as they are."
    assert (project.root / "sub" / "b").read_text() == "b\n"
    assert snapshot(project.root)["sub/b"] != now["sub/b"]


@pytest.mark.spec("X11")
def test_an_undo_can_be_undone_and_runs_once(project: RecordedProject) -> None:
    before = snapshot(project.root)
    call_id, _ = project.shell("echo new > a; rm -r sub; mkdir d; ln -s d l")
    after = snapshot(project.root)
    undone = project.undo_call(call_id)
    assert snapshot(project.root) == before
    assert project.ledger.call(undone.call_id).call.tool == "holdfast.undo"
    assert undone_by(project.ledger, call_id) == undone.call_id
    with pytest.raises(UndoRefused, match=f"was undone already; `holdfast undo {undone.call_id}`"):
        project.undo_call(call_id)
    again = project.undo_call(undone.call_id)
    assert again.success
    assert snapshot(project.root) == after
    assert undone_by(project.ledger, call_id) is None
    assert changing_calls(project.ledger, 10) == [again.call_id, undone.call_id, call_id]
    assert project.undo_call(call_id).success
    assert snapshot(project.root) == before
    assert project.ledger.verify().ok


@pytest.mark.spec("X11")
def test_a_folder_with_other_content_is_not_removed(project: RecordedProject) -> None:
    call_id, _ = project.shell("mkdir -p made/inner; echo x > made/inner/x")
    (project.root / "made" / "mine").write_text("mine")
    with pytest.raises(UndoRefused, match="it holds mine, which stays"):
        project.undo_call(call_id)
    assert project.undo_call(call_id, partial=True).success
    assert {name for name in snapshot(project.root) if name.startswith("made")} == {"made", "made/mine"}


@pytest.mark.spec("X11")
def test_nothing_is_restored_into_a_folder_that_is_gone_or_is_a_symlink(
    project: RecordedProject, tmp_path: Path
) -> None:
    call_id, _ = project.shell("rm sub/b")
    (project.root / "sub").rmdir()
    with pytest.raises(UndoRefused, match="its folder is not there any more"):
        project.undo_call(call_id)
    outside = tmp_path / "outside"
    outside.mkdir()
    (project.root / "sub").symlink_to(outside)
    with pytest.raises(UndoRefused):
        project.undo_call(call_id)
    assert list(outside.iterdir()) == []
    (project.root / "sub").unlink()
    (project.root / "sub").mkdir()
    assert project.undo_call(call_id).success


@pytest.mark.spec("X11")
def test_a_path_outside_the_roots_is_never_restored(project: RecordedProject, tmp_path: Path) -> None:
    call_id = project.begin()
    other = tmp_path / "other"
    other.write_text("after")
    project.ledger.before_image(call_id, other, b"before")
    project.ledger.after_image(call_id, other, b"after")
    project.ledger.end_now(call_id, Result(True))
    with pytest.raises(UndoRefused, match="outside the project"):
        project.undo_call(call_id)
    assert other.read_text() == "after"


@pytest.mark.spec("X11")
def test_an_interrupted_call_without_an_after_image_is_refused(project: RecordedProject) -> None:
    call_id = project.begin()
    project.ledger.before_image(call_id, project.root / "a", b"a\n", None)
    with pytest.raises(UndoRefused, match="still running"):
        project.undo.plan(call_id)
    project.ledger.end_now(call_id, Result(False))
    assert project.undo.plan(call_id).items[0].action == "already"
    (project.root / "a").write_text("half")
    with pytest.raises(UndoRefused, match="the state it left is not known"):
        project.undo_call(call_id)


@pytest.mark.spec("X11")
def test_a_file_that_changes_after_the_plan_is_left_alone(project: RecordedProject) -> None:
    call_id, _ = project.shell("echo new > a; echo new > sub/b")
    plan = project.undo.plan(call_id)
    (project.root / "sub" / "b").write_text("mine\n")
    result = project.undo.run(plan, by="ada")
    assert not result.success
    assert "has changed since the plan was made" in (result.error or "")
    assert (project.root / "a").read_text() == "new\n"
    assert (project.root / "sub" / "b").read_text() == "mine\n"


@pytest.mark.spec("X11", "X15")
def test_undo_of_pruned_content_says_so(project: RecordedProject) -> None:
    call_id, _ = project.shell("echo new > a")
    for blob in project.ledger.blobs.folder.glob("*/*"):
        blob.unlink()
    with pytest.raises(UndoRefused, match="its previous content has been pruned"):
        project.undo_call(call_id)


@pytest.mark.spec("X11")
def test_a_call_that_changed_nothing_has_nothing_to_undo(project: RecordedProject) -> None:
    call_id, _ = project.shell("true")
    with pytest.raises(UndoRefused, match="changed no files that were recorded"):
        project.undo_call(call_id)


@pytest.mark.spec("X11")
def test_a_large_file_is_stored_and_restored_in_blocks(project: RecordedProject) -> None:
    import tracemalloc

    size = 24 * 1024 * 1024
    with (project.root / "big").open("wb") as file:
        file.truncate(size)
        file.write(b"begin")
    tracemalloc.start()
    call_id, _ = project.shell("echo small > big")
    assert project.undo_call(call_id).success
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (project.root / "big").stat().st_size == size
    assert peak < size / 3


@pytest.mark.parametrize("partial", [False, True])
@pytest.mark.spec("X11")
def test_partial_undo_is_not_offered_if_nothing_can_be_restored(project: RecordedProject, partial: bool) -> None:
    call_id = tool(project, {"a": "new\n", "sub/b": "new\n"})
    (project.root / "a").write_text("mine\n")
    (project.root / "sub" / "b").write_text("mine\n")
    every = f"Every path call {call_id} changed has been changed since, so nothing was put back."
    with pytest.raises(UndoRefused, match=f"^{every}$"):
        project.undo.run(project.undo.plan(call_id), by="test", partial=partial)
    (project.root / "a").write_text("a\n")
    with pytest.raises(UndoRefused, match=r"^Nothing was put back: .*/sub/b cannot be, .*; no others are left\.$"):
        project.undo.run(project.undo.plan(call_id), by="test", partial=partial)


def test_the_digest_of_a_plan_changes_with_what_it_would_do(project: RecordedProject) -> None:
    call_id = tool(project, {"a": "new\n", "sub/b": None})
    shown = plan_digest(project.undo.plan(call_id))
    assert plan_digest(project.undo.plan(call_id)) == shown
    (project.root / "a").write_text("edited\n")
    changed = plan_digest(project.undo.plan(call_id))
    assert changed != shown
    (project.root / "a").write_text("edited again\n")
    assert plan_digest(project.undo.plan(call_id)) != changed


def test_the_last_call_to_undo_is_no_undo_and_not_undone(project: RecordedProject) -> None:
    with pytest.raises(UndoRefused, match="No call here has changes to undo"):
        last_to_undo(project.ledger)
    first, second = tool(project, {"a": "one\n"}), tool(project, {"a": "two\n"})
    assert last_to_undo(project.ledger) == second
    project.undo_call(second)
    assert last_to_undo(project.ledger) == first

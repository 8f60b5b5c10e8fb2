"""Undo puts back only what is as the call left it, all of it or nothing, and is itself a call that can be undone."""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from holdfast.contract.errors import UndoRefused
from holdfast.contract.result import Result
from holdfast.runtime.results import LedgerCallStorage
from holdfast.store.changes import changing_calls, undone_by
from tests.runtime.undo.support import Place, snapshot

Tool = Callable[[dict[str, str | None]], str]


@pytest.fixture
def place(tmp_path: Path) -> Generator[Place]:
    place = Place(tmp_path, "copy")
    (place.root / "sub").mkdir()
    (place.root / "a").write_text("a\n")
    (place.root / "sub" / "b").write_text("b\n")
    yield place
    place.ledger.close()


def tool(place: Place, contents: dict[str, str | None]) -> str:
    """What a file tool does: keeps what was there, says what it leaves, writes."""
    call_id = place.begin()
    keep = LedgerCallStorage(call_id, place.ledger)
    for name, content in contents.items():
        path = place.root / name
        old = path.read_bytes() if path.exists() else None
        keep.before_image(path, old, path.stat().st_mode & 0o7777 if path.exists() else None)
        path.unlink(missing_ok=True) if content is None else path.write_text(content)
        keep.after_image(path, None if content is None else content.encode(), None)
    place.ledger.end_now(call_id, Result(True))
    return call_id


@pytest.mark.spec("X11")
def test_what_a_file_tool_wrote_deleted_and_made_is_put_back(place: Place) -> None:
    (place.root / "a").chmod(0o640)
    before = snapshot(place.root)
    call_id = tool(place, {"a": "new\n", "sub/b": None, "sub/c": "c\n"})
    assert [(item.inside, item.change.kind, item.action) for item in place.undo.plan(call_id).items] == [
        ("a", "modified", "put_back"),
        ("sub/b", "deleted", "put_back"),
        ("sub/c", "created", "put_back"),
    ]
    assert place.undo_call(call_id).output == f"Put back 3 paths that call {call_id} had changed."
    assert snapshot(place.root) == before


@pytest.mark.parametrize("how", ["content", "deleted", "mode", "kind"])
@pytest.mark.spec("X11")
def test_what_changed_since_is_refused_and_then_nothing_is_put_back(place: Place, how: str) -> None:
    call_id, _ = place.shell("echo new > a; echo new > sub/b")
    path = place.root / "a"
    if how == "content":
        path.write_text("mine\n")
    elif how == "mode":
        path.chmod(0o600)
    else:
        path.unlink()
        if how == "kind":
            path.symlink_to("sub/b")
    now = snapshot(place.root)
    with pytest.raises(UndoRefused, match=r"Nothing was put back: .*/a cannot be, because it has changed since"):
        place.undo_call(call_id)
    assert snapshot(place.root) == now
    result = place.undo_call(call_id, partial=True)
    assert result.output == f"Put back 1 path that call {call_id} had changed; 1 left as they are."
    assert (place.root / "sub" / "b").read_text() == "b\n"
    assert snapshot(place.root)["sub/b"] != now["sub/b"]


@pytest.mark.spec("X11")
def test_an_undo_is_a_call_that_can_be_undone_and_is_done_once(place: Place) -> None:
    before = snapshot(place.root)
    call_id, _ = place.shell("echo new > a; rm -r sub; mkdir d; ln -s d l")
    after = snapshot(place.root)
    undone = place.undo_call(call_id)
    assert snapshot(place.root) == before
    assert place.ledger.call(undone.call_id).call.tool == "holdfast.undo"
    assert undone_by(place.ledger, call_id) == undone.call_id
    with pytest.raises(UndoRefused, match=f"was undone already; `holdfast undo {undone.call_id}`"):
        place.undo_call(call_id)
    again = place.undo_call(undone.call_id)
    assert again.success
    assert snapshot(place.root) == after
    assert undone_by(place.ledger, call_id) is None
    assert changing_calls(place.ledger, 10) == [again.call_id, undone.call_id, call_id]
    assert place.undo_call(call_id).success
    assert snapshot(place.root) == before
    assert place.ledger.verify().ok


@pytest.mark.spec("X11")
def test_a_folder_someone_else_uses_stays(place: Place) -> None:
    call_id, _ = place.shell("mkdir -p made/inner; echo x > made/inner/x")
    (place.root / "made" / "mine").write_text("mine")
    with pytest.raises(UndoRefused, match="it holds mine, which stays"):
        place.undo_call(call_id)
    assert place.undo_call(call_id, partial=True).success
    assert {name for name in snapshot(place.root) if name.startswith("made")} == {"made", "made/mine"}


@pytest.mark.spec("X11")
def test_nothing_is_put_back_into_a_folder_that_is_gone_or_leads_elsewhere(place: Place, tmp_path: Path) -> None:
    call_id, _ = place.shell("rm sub/b")
    (place.root / "sub").rmdir()
    with pytest.raises(UndoRefused, match="its folder is not there any more"):
        place.undo_call(call_id)
    outside = tmp_path / "outside"
    outside.mkdir()
    (place.root / "sub").symlink_to(outside)
    with pytest.raises(UndoRefused):
        place.undo_call(call_id)
    assert list(outside.iterdir()) == []
    (place.root / "sub").unlink()
    (place.root / "sub").mkdir()
    assert place.undo_call(call_id).success


@pytest.mark.spec("X11")
def test_what_lies_outside_is_never_put_back(place: Place, tmp_path: Path) -> None:
    call_id = place.begin()
    other = tmp_path / "other"
    other.write_text("after")
    place.ledger.before_image(call_id, other, b"before")
    place.ledger.after_image(call_id, other, b"after")
    place.ledger.end_now(call_id, Result(True))
    with pytest.raises(UndoRefused, match="outside the project"):
        place.undo_call(call_id)
    assert other.read_text() == "after"


@pytest.mark.spec("X11")
def test_a_call_that_was_interrupted_before_it_said_what_it_left_is_not_guessed_at(place: Place) -> None:
    call_id = place.begin()
    place.ledger.before_image(call_id, place.root / "a", b"a\n", None)
    with pytest.raises(UndoRefused, match="still running"):
        place.undo.plan(call_id)
    place.ledger.end_now(call_id, Result(False))
    assert place.undo.plan(call_id).items[0].action == "already"
    (place.root / "a").write_text("half")
    with pytest.raises(UndoRefused, match="the state it left is not known"):
        place.undo_call(call_id)


@pytest.mark.spec("X11")
def test_a_file_that_changes_between_the_look_and_the_deed_is_left_alone(place: Place) -> None:
    call_id, _ = place.shell("echo new > a; echo new > sub/b")
    plan = place.undo.plan(call_id)
    (place.root / "sub" / "b").write_text("mine\n")
    result = place.undo.run(plan, by="ada")
    assert not result.success
    assert "has changed since the plan was made" in (result.error or "")
    assert (place.root / "a").read_text() == "new\n"
    assert (place.root / "sub" / "b").read_text() == "mine\n"


@pytest.mark.spec("X11", "X15")
def test_undoing_what_was_pruned_says_so(place: Place) -> None:
    call_id, _ = place.shell("echo new > a")
    for blob in place.ledger.blobs.folder.glob("*/*"):
        blob.unlink()
    with pytest.raises(UndoRefused, match="not kept any more; it was pruned"):
        place.undo_call(call_id)


@pytest.mark.spec("X11")
def test_a_call_that_changed_nothing_has_nothing_to_undo(place: Place) -> None:
    call_id, _ = place.shell("true")
    with pytest.raises(UndoRefused, match="changed no files that were recorded"):
        place.undo_call(call_id)


@pytest.mark.spec("X11")
def test_a_large_file_is_kept_and_put_back_in_blocks(place: Place) -> None:
    import tracemalloc

    size = 24 * 1024 * 1024
    with (place.root / "big").open("wb") as file:
        file.truncate(size)
        file.write(b"begin")
    tracemalloc.start()
    call_id, _ = place.shell("echo small > big")
    assert place.undo_call(call_id).success
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (place.root / "big").stat().st_size == size
    assert peak < size / 3


@pytest.mark.parametrize("partial", [False, True])
@pytest.mark.spec("X11")
def test_where_nothing_can_be_put_back_that_is_said_and_no_rest_is_offered(place: Place, partial: bool) -> None:
    call_id = tool(place, {"a": "new\n", "sub/b": "new\n"})
    (place.root / "a").write_text("mine\n")
    (place.root / "sub" / "b").write_text("mine\n")
    every = f"Every path call {call_id} changed has been changed since, so nothing was put back."
    with pytest.raises(UndoRefused, match=f"^{every}$"):
        place.undo.run(place.undo.plan(call_id), by="test", partial=partial)
    (place.root / "a").write_text("a\n")
    with pytest.raises(UndoRefused, match=r"^Nothing was put back: .*/sub/b cannot be, .*; no others are left\.$"):
        place.undo.run(place.undo.plan(call_id), by="test", partial=partial)

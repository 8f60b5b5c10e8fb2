"""File changes in the ledger: paths of any bytes, net changes, other calls, undo."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.store.changes import (
    ABSENT,
    PathChange,
    PathState,
    changing_calls,
    concurrent_with,
    content_state,
    decode_path,
    encode_path,
    exclude_other_calls,
    kind_of_change,
    last_entry,
    mark_undone,
    net_changes,
    rebase_on_other_calls,
    record_changes,
    record_concurrent,
    states_from_other_calls,
    undone_by,
)
from holdfast.store.ledger import Ledger

OLD, NEW = content_state(b"old", 0o644), content_state(b"new", 0o644)
FOLDER = PathState(kind="directory", mode=0o755)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.open(tmp_path / "l.db") as opened:
        yield opened


@pytest.mark.spec("X11")
@given(st.binary(min_size=1).filter(lambda raw: b"\0" not in raw))
def test_a_path_of_any_bytes_is_encoded_as_valid_text_and_decoded_again(raw: bytes) -> None:
    path = os.fsdecode(raw)
    text = encode_path(path)
    text.encode()
    assert decode_path(text) == path


@pytest.mark.spec("X11")
@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        (ABSENT, NEW, "created"),
        (OLD, None, "modified"),
        (OLD, NEW, "modified"),
        (OLD, ABSENT, "deleted"),
        (OLD, FOLDER, "replaced"),
        (OLD, content_state(b"old", 0o755), "mode"),
    ],
)
def test_the_kind_of_a_change_follows_from_the_two_states(
    before: PathState, after: PathState | None, kind: str
) -> None:
    assert kind_of_change(before, after) == kind


@pytest.mark.spec("X11")
def test_net_changes_combine_the_first_state_before_and_the_last_after(ledger: Ledger) -> None:
    odd = os.fsdecode(b"\xff")
    record_changes(ledger, "c1", "/p", [PathChange("a", ABSENT, OLD), PathChange(odd, OLD, ABSENT)])
    record_changes(ledger, "c1", "/p", [PathChange("a", OLD, NEW)])
    found = {change.path: (change.before, change.after, change.kind) for change in net_changes(ledger, "c1")}
    assert found == {"/p/a": (ABSENT, NEW, "created"), f"/p/{odd}": (OLD, ABSENT, "deleted")}
    assert net_changes(ledger, "c2") == []
    assert changing_calls(ledger, 10) == ["c1"]


@pytest.mark.spec("X11")
def test_a_before_image_without_an_after_image_is_an_interrupted_change(ledger: Ledger) -> None:
    ledger.before_image("c1", Path("/p/a"), b"old", 0o644)
    ledger.before_image("c1", Path("/p/b"), None)
    ledger.after_image("c1", Path("/p/b"), b"new", 0o644)
    interrupted, created = net_changes(ledger, "c1")
    assert (interrupted.path, interrupted.after, interrupted.before.content) == ("/p/a", None, OLD.content)
    assert (created.path, created.before, created.after) == ("/p/b", ABSENT, NEW)


@pytest.mark.spec("X11")
def test_changes_of_concurrent_commands_belong_to_the_first_call(ledger: Ledger) -> None:
    record_changes(ledger, "c1", "/p", [PathChange("a", ABSENT, NEW)])
    record_concurrent(ledger, ["c1", "c2"])
    assert concurrent_with(ledger, "c2") == ("c1", "c2")
    assert concurrent_with(ledger, "c3") == ("c3",)
    assert net_changes(ledger, "c2") == net_changes(ledger, "c1") != []


@pytest.mark.spec("X11", "X5")
def test_changes_of_other_calls_are_excluded_with_the_folders_that_only_they_needed(ledger: Ledger) -> None:
    since = last_entry(ledger)
    record_changes(ledger, "other", "/p", [PathChange("made/theirs", ABSENT, NEW)])
    ledger.before_image("tool", Path("/p/edited"), b"old", 0o644)
    ledger.after_image("tool", Path("/p/edited"), b"new", 0o644)
    others = states_from_other_calls(ledger, since, ["mine"])
    assert others == {"/p/made/theirs": NEW, "/p/edited": NEW}
    assert states_from_other_calls(ledger, since, ["other", "tool"]) == {}
    seen = [
        PathChange("made", ABSENT, FOLDER),
        PathChange("made/theirs", ABSENT, NEW),
        PathChange("edited", OLD, NEW),
        PathChange("mine", ABSENT, NEW),
    ]
    assert exclude_other_calls("/p", seen, others) == [PathChange("mine", ABSENT, NEW)]


@pytest.mark.spec("X11", "X5")
def test_a_change_on_top_of_another_call_starts_from_what_that_call_left() -> None:
    mine = content_state(b"mine", 0o644)
    changes = [PathChange("a", OLD, mine), PathChange("b", OLD, mine)]
    assert rebase_on_other_calls("/p", changes, {"/p/a": NEW}) == [PathChange("a", NEW, mine), changes[1]]


@pytest.mark.spec("X11")
def test_an_undo_counts_until_it_is_undone_itself(ledger: Ledger) -> None:
    assert undone_by(ledger, "c1") is None
    mark_undone(ledger, "c1", "u1", "ada")
    assert undone_by(ledger, "c1") == "u1"
    mark_undone(ledger, "u1", "u2", "ada")
    assert undone_by(ledger, "c1") is None

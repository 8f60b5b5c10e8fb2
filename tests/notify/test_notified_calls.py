"""What was notified survives a restart, in a private file."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from holdfast.notify.notified_calls import FOLDER, MAX_CALLS, NotifiedCalls
from tests.notify.support import PROJECT, pending_call

pytestmark = pytest.mark.spec("E7n")


def file_in(state: Path) -> Path:
    (found,) = (state / FOLDER).iterdir()
    return found


def test_a_restart_remembers_entries_by_project(tmp_path: Path) -> None:
    NotifiedCalls(tmp_path).record(PROJECT, [(7, pending_call("a")), (5, pending_call("b"))])
    again = NotifiedCalls(tmp_path)
    assert (again.last_entry(PROJECT), again.last_entry("/other")) == (7, 0)
    assert again.covers(PROJECT, 6, pending_call("c"))
    assert not again.covers(PROJECT, 8, pending_call("c"))
    assert not again.covers("/other", 6, pending_call("c"))
    assert file_in(tmp_path).stat().st_mode & 0o777 == 0o600


def test_the_same_call_under_a_later_entry_is_covered_and_a_changed_one_is_not(tmp_path: Path) -> None:
    notified = NotifiedCalls(tmp_path)
    notified.record(PROJECT, [(7, pending_call("a"))])
    assert notified.covers(PROJECT, 9, pending_call("a"))
    assert not notified.covers(PROJECT, 9, pending_call("a", digest="d2"))


def test_daemons_of_different_projects_do_not_overwrite_each_other(tmp_path: Path) -> None:
    one, other = NotifiedCalls(tmp_path), NotifiedCalls(tmp_path)
    assert (one.last_entry("/a"), other.last_entry("/b")) == (0, 0)
    one.record("/a", [(3, pending_call("a"))])
    other.record("/b", [(4, pending_call("b"))])
    again = NotifiedCalls(tmp_path)
    assert (again.last_entry("/a"), again.last_entry("/b")) == (3, 4)


def test_what_is_remembered_is_bounded() -> None:
    notified = NotifiedCalls(None)
    notified.record(PROJECT, [(number, pending_call(f"c{number}")) for number in range(MAX_CALLS + 10)])
    assert not notified.covers(PROJECT, 10**6, pending_call("c0"))
    assert notified.covers(PROJECT, 10**6, pending_call(f"c{MAX_CALLS}"))


@pytest.mark.parametrize("content", [b"", b"{", b'{"entry": "x"}', b"\xff\xfe"])
def test_a_damaged_file_starts_again_with_a_warning(
    tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    NotifiedCalls(tmp_path).record(PROJECT, [(7, pending_call())])
    file_in(tmp_path).write_bytes(content)
    with caplog.at_level(logging.WARNING, "holdfast"):
        assert NotifiedCalls(tmp_path).last_entry(PROJECT) == 0
    assert "notifications may be repeated" in caplog.text


def test_a_folder_that_cannot_be_written_warns_once_and_stops_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    notified = NotifiedCalls(tmp_path / "file" / "state")
    with caplog.at_level(logging.WARNING, "holdfast"):
        notified.record(PROJECT, [(1, pending_call())])
        notified.record(PROJECT, [(2, pending_call("b"))])
    assert caplog.text.count("Cannot write") == 1
    assert notified.last_entry(PROJECT) == 2

"""What was notified survives a restart, in a private file."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from holdfast.notify.notified_calls import FILE, MAX_CALLS, MAX_PROJECTS, NotifiedCalls
from tests.notify.support import PROJECT, pending_call

pytestmark = pytest.mark.spec("E7n")


def test_a_restart_remembers_entries_by_project(tmp_path: Path) -> None:
    NotifiedCalls(tmp_path).record(PROJECT, [(7, pending_call("a")), (5, pending_call("b"))])
    again = NotifiedCalls(tmp_path)
    assert (again.last_entry(PROJECT), again.last_entry("/other")) == (7, 0)
    assert again.covers(PROJECT, 6, pending_call("c"))
    assert not again.covers(PROJECT, 8, pending_call("c"))
    assert not again.covers("/other", 6, pending_call("c"))
    assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o600


def test_the_same_call_under_a_later_entry_is_covered_and_a_changed_one_is_not(tmp_path: Path) -> None:
    notified = NotifiedCalls(tmp_path)
    notified.record(PROJECT, [(7, pending_call("a"))])
    assert notified.covers(PROJECT, 9, pending_call("a"))
    assert not notified.covers(PROJECT, 9, pending_call("a", digest="d2"))


def test_the_file_stays_bounded(tmp_path: Path) -> None:
    notified = NotifiedCalls(None)
    notified.record(PROJECT, [(number, pending_call(f"c{number}")) for number in range(MAX_CALLS + 10)])
    assert not notified.covers(PROJECT, 10**6, pending_call("c0"))
    assert notified.covers(PROJECT, 10**6, pending_call(f"c{MAX_CALLS}"))
    for number in range(MAX_PROJECTS):
        notified.record(f"/p{number}", [(1, pending_call())])
    assert notified.last_entry(PROJECT) == 0 and notified.last_entry("/p0") == 1


@pytest.mark.parametrize("content", [b"", b"{", b'{"/p": 3}', b"\xff\xfe"])
def test_a_damaged_file_starts_again_with_a_warning(
    tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / FILE).write_bytes(content)
    (tmp_path / FILE).chmod(0o600)
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

"""The record of which version of a pending call this user has seen."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.store.shown_calls import ShownCalls
from tests.store.calls import make_pending


@pytest.mark.spec("A23")
def test_the_digest_of_the_last_shown_version_is_returned(tmp_path: Path) -> None:
    shown = ShownCalls(tmp_path)
    first, second = make_pending("c1", args={"n": 1}), make_pending("c1", args={"n": 2})
    assert shown.digest("c1") is None
    shown.record(first)
    assert shown.digest("c1") == first.digest
    shown.record(second)
    assert ShownCalls(tmp_path).digest("c1") == second.digest
    assert shown.digest("c2") is None


@pytest.mark.spec("A23")
@pytest.mark.parametrize("content", [b"", b"nonsense", b"\xff", b"d" * 64 + b"\nanother\n"])
def test_a_record_that_is_damaged_or_of_another_call_counts_as_not_shown(tmp_path: Path, content: bytes) -> None:
    shown = ShownCalls(tmp_path)
    shown.record(make_pending("c1"))
    (file,) = [path for path in tmp_path.rglob("*") if path.is_file()]
    file.write_bytes(content)
    assert shown.digest("c1") is None


@pytest.mark.spec("A23")
def test_records_are_private_and_any_call_id_is_a_safe_file_name(tmp_path: Path) -> None:
    shown = ShownCalls(tmp_path)
    for call_id in ("../../etc/passwd", "a/b", "x" * 500):
        pending = make_pending(call_id)
        shown.record(pending)
        assert shown.digest(call_id) == pending.digest
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) == 3
    assert all(path.stat().st_mode & 0o077 == 0 for path in files)


@pytest.mark.spec("A23")
def test_a_record_that_cannot_be_written_is_ignored(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    shown = ShownCalls(blocked)
    shown.record(make_pending("c1"))
    assert shown.digest("c1") is None

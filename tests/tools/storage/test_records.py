"""The records of ingested objects."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from msgspec.structs import replace

from holdfast.tools.storage.records import Record, Records, RecordsUnavailable, Source

pytestmark = pytest.mark.spec("B9j")
A = Source("http://s", "bucket", "p/a", "n/a")
B = Source("http://s", "bucket", "p/b", "n/b")


def test_a_record_is_begun_finished_and_found_again(tmp_path: Path) -> None:
    records = Records(tmp_path / "state" / "storage.db")
    assert records.find(A) is None and records.below("http://s", "bucket", "") == []
    assert not (tmp_path / "state").exists()  # reading creates nothing
    records.begin(A, "call-1")
    records.begin(A, "call-2")
    found = records.find(A)
    assert found is not None and (found.state, sorted(found.calls)) == ("unfinished", ["call-1", "call-2"])
    records.finish(A, call="call-2", etag="e1", chars=10, items=["i1", "i2"], earlier=found)
    records.close()
    found = Records(tmp_path / "state" / "storage.db").find(A)
    assert found is not None and found.at > 0
    assert replace(found, at=0.0) == Record(
        key="p/a", namespace="n/a", etag="e1", state="ingested", chars=10, items=("i1", "i2")
    )


def test_two_calls_that_overlap_keep_the_items_of_each_other_known(tmp_path: Path) -> None:
    """Otherwise no later `replace` would forget them."""
    records = Records(tmp_path / "storage.db")
    records.finish(A, call="c", etag="e0", chars=10, items=["old"])
    earlier = records.find(A)
    records.begin(A, "call-1")
    records.begin(A, "call-2")
    records.finish(A, call="call-1", etag="e1", chars=10, items=["i1"], earlier=earlier)
    found = records.find(A)
    assert found is not None and (found.items, found.calls) == (("i1",), ("call-2",))
    records.finish(A, call="call-2", etag="e2", chars=10, items=["i2"], earlier=earlier)
    found = records.find(A)
    assert found is not None and (found.items, found.calls, found.etag) == (("i1", "i2"), (), "e2")


def test_a_skipped_or_failed_object_keeps_the_calls_that_did_not_finish(tmp_path: Path) -> None:
    records = Records(tmp_path / "storage.db")
    records.finish(A, call="c", etag="e1", chars=10, items=["i1"])
    records.begin(A, "crashed")
    records.skip(A, etag="e2", reason="no text", forced=False)
    found = records.find(A)
    assert found is not None and (found.items, found.calls) == (("i1",), ("crashed",))
    records.fail(A, etag="e3", reason="the server answered 400")
    found = records.find(A)
    assert found is not None and (found.state, found.items, found.calls) == ("failed", ("i1",), ("crashed",))


def test_a_new_state_keeps_the_items_until_it_is_finished(tmp_path: Path) -> None:
    records = Records(tmp_path / "storage.db")
    records.finish(A, call="c", etag="e1", chars=10, items=["i1"])
    records.begin(A, "call-1")
    found = records.find(A)
    assert found is not None and (found.state, found.items, found.etag) == ("unfinished", ("i1",), "e1")
    records.skip(A, etag="e2", reason="no text", forced=True)
    found = records.find(A)
    assert found is not None and (found.state, found.items, found.forced) == ("skipped", ("i1",), True)


def test_records_are_of_one_server_bucket_and_prefix(tmp_path: Path) -> None:
    records = Records(tmp_path / "storage.db")
    for source in (A, B, Source("http://other", "bucket", "p/a", "n/a"), Source("http://s", "b2", "p/a", "n/a")):
        records.finish(source, call="c", etag="e", chars=1, items=[])
    records.finish(Source("http://s", "bucket", "P/c", "n/c"), call="c", etag="e", chars=1, items=[])
    assert [record.key for record in records.below("http://s", "bucket", "p/")] == ["p/a", "p/b"]
    assert records.below("http://s", "bucket", "p/%") == []


def test_the_file_is_private(tmp_path: Path) -> None:
    previous = os.umask(0)
    try:
        records = Records(tmp_path / "storage.db")
        records.begin(A, "call-1")
    finally:
        os.umask(previous)
    for path in tmp_path.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_damaged_file_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "storage.db").write_bytes(b"not a database" * 100)
    with pytest.raises(RecordsUnavailable, match="move it away"):
        Records(tmp_path / "storage.db").find(A)

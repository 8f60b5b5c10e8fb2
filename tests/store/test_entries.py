"""Encoding of ledger entries, and the hash chain."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.contract.result import Attachment, Result
from holdfast.store.entries import chain_hash, matches_chain
from holdfast.store.ledger import Ledger
from tests.soak import rounds
from tests.store.calls import APPROVED, DONE, make_call, make_pending

ROOT = Path(__file__).parents[2]


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.open(tmp_path / "l.db") as opened:
        yield opened


@pytest.mark.spec("X10")
def test_values_that_json_cannot_represent_are_recorded_as_text(ledger: Ledger) -> None:
    looped: list[object] = []
    looped.append(looped)
    original = {"half": "a\udc80b", "object": ledger, "set": {1}, "nan": float("nan"), "loop": looped, ("k", 1): 2}
    result = Result(True, "half \ud800", attachments=(Attachment(kind="file", mime_type="x/y", data=b"z"),))
    call = make_call()
    asyncio.run(ledger.record_call(call, APPROVED, result, original_args=original))
    record = ledger.call(call.id)
    assert record.result is not None and record.result.output == "half ?"
    assert record.result.attachments == result.attachments
    assert isinstance(record.original_args, dict)
    assert record.original_args["half"] == "a?b"
    assert ledger.verify().ok


@pytest.mark.spec("X10", "X15")
def test_a_large_body_is_stored_as_a_blob(ledger: Ledger) -> None:
    call = make_call(args={"content": "x" * 3_000_000})
    pending_call = make_pending(args={"content": "y" * 3_000_000})
    asyncio.run(ledger.record_call(call, APPROVED, DONE))
    asyncio.run(ledger.add_pending(pending_call))
    assert ledger.rows("SELECT max(length(body)) FROM entries")[0][0] < 1000
    ledger.uncache_pending(pending_call.call.id)
    assert ledger.call(call.id).call == call
    assert ledger.pending() == [pending_call]
    assert ledger.verify().ok


@pytest.mark.spec("X10")
def test_the_hash_depends_on_every_column_and_on_where_the_call_id_ends() -> None:
    previous, at = bytes(32), 1.5
    digest = chain_hash(previous, "c1", "ended", at, "{}")
    assert matches_chain(digest, previous, "c1", "ended", at, "{}")
    for changed in (
        (b"\1" * 32, "c1", "ended", at, "{}"),
        (previous, "c2", "ended", at, "{}"),
        (previous, "c1", "call", at, "{}"),
        (previous, "c1", "ended", 1.6, "{}"),
        (previous, "c1", "ended", at, "{ }"),
        (previous, "c1{", "ended", at, "}"),
    ):
        assert not matches_chain(digest, *changed)


@pytest.mark.spec("X10")
@pytest.mark.parametrize("column", [None, 3, b"c1", "\ud800"])
def test_a_row_with_a_column_of_the_wrong_type_does_not_match_the_chain(column: object) -> None:
    digest = chain_hash(bytes(32), "c1", "ended", 1.5, "{}")
    assert not matches_chain(digest, bytes(32), column, "ended", 1.5, "{}")
    assert not matches_chain(digest, bytes(32), "c1", "ended", 1.5, column)


_RACE = """
import sys, threading
import msgspec
from holdfast.store.entries import CallPending, decoder_of
from tests.store.calls import make_pending

body = msgspec.json.encode(CallPending(make_pending()))
start = threading.Barrier(4)
read = []

def decode():
    start.wait()
    read.append(decoder_of(CallPending).decode(body))

sys.setswitchinterval(1e-5)
threads = [threading.Thread(target=decode) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert len(read) == 4
"""


@pytest.mark.spec("X10")
def test_threads_that_read_at_once_do_not_crash_the_process() -> None:
    for _ in range(rounds(5, 100)):
        done = subprocess.run(
            [sys.executable, "-c", _RACE], cwd=ROOT, capture_output=True, text=True, check=False, timeout=120
        )
        assert done.returncode == 0, (done.returncode, done.stderr)

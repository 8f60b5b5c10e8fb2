"""Calls in the ledger: recording, pending calls across a restart, before-images, file permissions, durability."""

from __future__ import annotations

import asyncio
import gc
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.contract.enums import State
from holdfast.contract.errors import LedgerUnavailable, NotPending
from holdfast.contract.result import Attachment, Result
from holdfast.store.ledger import Ledger
from tests.store.calls import APPROVED, DONE, YES, before_images, begin, make_call, make_pending


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.open(tmp_path / "state" / "project" / "ledger.db") as opened:
        yield opened


@pytest.mark.spec("X10")
def test_a_finished_call_is_one_entry_with_all_its_data(ledger: Ledger) -> None:
    call = make_call(args={"path": "ä.txt", "n": [1, {"deep": None}], "big": 2**70})
    result = Result(
        True,
        "out\n",
        structured={"a": [1]},
        metadata={"ms": 3},
        attachments=(Attachment(kind="image", mime_type="image/png", data=b"\x89PNG\x00"),),
    )
    asyncio.run(ledger.record_call(call, APPROVED, result, original_args={"path": "ä.txt "}))
    record = ledger.call(call.id)
    assert record.call == call
    assert record.decisions == (APPROVED,)
    assert record.result == result
    assert record.original_args == {"path": "ä.txt "}
    assert record.state is State.DONE
    assert record.ended_at is not None
    assert [entry.kind for entry in ledger.entries(call=call.id)] == ["call"]


@pytest.mark.spec("X10")
def test_a_mutating_call_is_recorded_before_it_runs_and_after_it_ends(ledger: Ledger) -> None:
    call = make_call()

    async def scenario() -> None:
        await begin(ledger, call)
        assert ledger.call(call.id).state is State.RUNNING
        assert ledger.result(call.id) is None
        assert await ledger.end(call.id, DONE) is True

    asyncio.run(scenario())
    record = ledger.call(call.id)
    assert (record.state, record.result, record.decisions) == (State.DONE, DONE, (APPROVED,))
    assert record.received_at <= (record.began_at or 0) <= (record.ended_at or 0)


@pytest.mark.spec("X10")
def test_a_second_end_is_ignored_and_the_first_result_stays(ledger: Ledger) -> None:
    call = make_call()

    async def scenario() -> tuple[bool, bool]:
        await begin(ledger, call)
        return await ledger.end(call.id, DONE), await ledger.end(call.id, Result(False, error="late"))

    assert asyncio.run(scenario()) == (True, False)
    assert ledger.result(call.id) == DONE
    assert ledger.end_now("never-begun", DONE) is False


@pytest.mark.spec("X10")
def test_a_call_id_can_be_used_only_once(ledger: Ledger) -> None:
    call = make_call()

    async def scenario() -> None:
        await begin(ledger, call)
        with pytest.raises(NotPending, match="already"):
            await begin(ledger, call)
        await ledger.end(call.id, DONE)
        with pytest.raises(NotPending, match="already"):
            await begin(ledger, call)
        with pytest.raises(NotPending, match="already"):
            await ledger.add_pending(make_pending(call.id))
        with pytest.raises(NotPending, match="already"):
            await ledger.record_call(call, APPROVED, DONE)

    asyncio.run(scenario())
    assert len(ledger.call(call.id).entries) == 2


@pytest.mark.spec("A13a")
def test_a_pending_call_survives_a_restart_with_all_that_was_shown(tmp_path: Path) -> None:
    pending_call = make_pending()
    with Ledger.open(tmp_path / "l.db") as first:
        asyncio.run(first.add_pending(pending_call))
    with Ledger.open(tmp_path / "l.db") as second:
        assert second.recover() == []
        assert second.pending() == [pending_call]
        assert second.find_pending(pending_call.call.id) == pending_call


@pytest.mark.spec("X10", "X11")
def test_before_images_are_stored_byte_for_byte_in_order(ledger: Ledger) -> None:
    call = make_call()
    asyncio.run(begin(ledger, call))
    ledger.before_image(call.id, Path("/p/a"), b"\xff\x00 token ghp_0123456789012345678901234567890123456789", 0o755)
    ledger.before_image(call.id, Path("/p/new"), None)
    first, second = before_images(ledger, call.id)
    assert (first.path, first.mode, second.path, second.blob) == ("/p/a", 0o755, "/p/new", None)
    assert ledger.blobs.read(first.blob or "") == b"\xff\x00 token ghp_0123456789012345678901234567890123456789"


@pytest.mark.spec("X10")
def test_files_and_folders_are_private(ledger: Ledger) -> None:
    ledger.before_image("c", Path("/p/a"), b"x")
    folder = ledger.path.parent
    blob = ledger.blobs.path(before_images(ledger, "c")[0].blob or "")
    assert stat.S_IMODE(folder.stat().st_mode) == stat.S_IMODE(folder.parent.stat().st_mode) == 0o700
    files = [ledger.path, ledger.path.with_name("ledger.db-wal"), blob]
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    assert stat.S_IMODE(blob.parent.stat().st_mode) == 0o700


@pytest.mark.spec("X10")
def test_a_ledger_readable_by_others_is_made_private(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    Ledger.open(path).close()
    path.chmod(0o644)
    Ledger.open(path).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.spec("X10")
def test_durability_against_power_loss_is_configurable(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "a.db") as process, Ledger.open(tmp_path / "b.db", durability="power") as power:
        assert process.rows("PRAGMA synchronous") == [(1,)]
        assert power.rows("PRAGMA synchronous") == [(2,)]
        assert power.rows("PRAGMA journal_mode") == [("wal",)]


@pytest.mark.spec("X10")
def test_a_ledger_in_memory_behaves_like_one_on_disk() -> None:
    pending_call = make_pending(args={"content": "x" * 2_000_000})
    with Ledger.in_memory() as ledger:
        asyncio.run(ledger.add_pending(pending_call))
        ledger.answer(pending_call.call.id, YES, digest=pending_call.digest)
        asyncio.run(begin(ledger, pending_call.call, digest=pending_call.digest))
        assert ledger.end_now(pending_call.call.id, DONE)
        assert ledger.verify().ok


@pytest.mark.spec("X10")
def test_a_closed_ledger_raises_ledger_unavailable(tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path / "l.db")
    ledger.close()
    with pytest.raises(LedgerUnavailable):
        ledger.record_call_now(make_call(), APPROVED, DONE)


def test_a_ledger_that_is_forgotten_is_closed_without_a_warning(tmp_path: Path) -> None:
    """Python 3.13 warns of a connection that is left to the garbage collector, and here a warning is an error."""
    ledger = Ledger.open(tmp_path / "l.db")
    asyncio.run(begin(ledger, make_call()))
    log = tmp_path / "l.db-wal"
    assert log.exists()
    del ledger
    gc.collect()
    assert not log.exists()

"""Recovery of the calls of a dead process."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.contract.call import ProcessIdentity
from holdfast.contract.enums import Failure, State
from holdfast.store import ledger as ledger_module
from holdfast.store.ledger import Ledger
from tests.store.calls import DONE, YES, begin, dead_process, make_call, make_pending


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.open(tmp_path / "l.db") as opened:
        yield opened


@pytest.fixture
def dead(monkeypatch: pytest.MonkeyPatch) -> ProcessIdentity:
    owner = dead_process()
    monkeypatch.setattr(ledger_module, "this_process", lambda: owner)
    return owner


@pytest.mark.spec("X10")
def test_an_interrupted_mutation_becomes_unknown_and_an_interrupted_read_failed(
    ledger: Ledger, dead: ProcessIdentity
) -> None:
    writing, reading = make_call(), make_call()
    asyncio.run(begin(ledger, writing))
    asyncio.run(begin(ledger, reading, mutates=False))
    assert sorted(ledger.recover()) == sorted([writing.id, reading.id])
    unknown, failed = ledger.result(writing.id), ledger.result(reading.id)
    assert unknown is not None and failed is not None
    assert (unknown.state, unknown.failure, unknown.exit_code) == (State.UNKNOWN, Failure.OUTCOME_UNKNOWN, 6)
    assert "whether it took effect is not known" in unknown.text
    assert failed.state is State.FAILED
    assert "it changed nothing and can be called again" in failed.text
    assert ledger.recover() == []
    assert ledger.end_now(writing.id, DONE) is False
    assert ledger.verify().ok


@pytest.mark.spec("X10", "A13a")
def test_recovery_keeps_pending_calls_and_calls_of_live_processes(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    running, pending, approved, lost = make_call(), make_pending(), make_pending(), make_pending()

    async def scenario() -> None:
        await begin(ledger, running)
        for pending_call in (pending, approved, lost):
            await ledger.add_pending(pending_call)
        for pending_call in (approved, lost):
            ledger.answer(pending_call.call.id, YES, digest=pending_call.digest)
        owner = dead_process()
        monkeypatch.setattr(ledger_module, "this_process", lambda: owner)
        await begin(ledger, lost.call, digest=lost.digest)

    asyncio.run(scenario())
    assert ledger.recover() == [lost.call.id]
    assert ledger.call(running.id).state is State.RUNNING
    assert [pending_call.state for pending_call in ledger.pending()] == [State.PENDING, State.APPROVED]

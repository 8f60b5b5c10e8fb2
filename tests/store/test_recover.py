"""What is left of a process that died."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.contract.call import ProcessIdentity
from holdfast.contract.enums import Failure, State
from holdfast.store import ledger as ledger_module
from holdfast.store.ledger import Ledger
from holdfast.store.operations import interrupt
from holdfast.store.process_identity import is_alive, this_process
from tests.store.making import DONE, YES, begin, make_call, make_held


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.open(tmp_path / "l.db") as opened:
        yield opened


def owner_of_a_dead_process() -> ProcessIdentity:
    """Its pid was real, but the process is gone."""
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait(30)
    return ProcessIdentity(child.pid, this_process().started)


@pytest.fixture
def dead(monkeypatch: pytest.MonkeyPatch) -> ProcessIdentity:
    owner = owner_of_a_dead_process()
    monkeypatch.setattr(ledger_module, "this_process", lambda: owner)
    return owner


@pytest.mark.spec("X10")
def test_an_interrupted_mutation_becomes_unknown_and_an_interrupted_reading_failed(
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
def test_what_waits_keeps_waiting_and_what_lives_keeps_running(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    running, pending, approved, lost = make_call(), make_held(), make_held(), make_held()

    async def scenario() -> None:
        await begin(ledger, running)
        for held in (pending, approved, lost):
            await ledger.add_pending(held)
        for held in (approved, lost):
            ledger.answer(held.call.id, YES, digest=held.digest)
        owner = owner_of_a_dead_process()
        monkeypatch.setattr(ledger_module, "this_process", lambda: owner)
        await begin(ledger, lost.call, digest=lost.digest)

    asyncio.run(scenario())
    assert ledger.recover() == [lost.call.id]
    assert ledger.call(running.id).state is State.RUNNING
    assert [held.state for held in ledger.pending()] == [State.PENDING, State.APPROVED]


@pytest.mark.spec("X10")
def test_a_call_that_another_process_has_taken_meanwhile_is_not_ended(ledger: Ledger) -> None:
    running, waiting = make_call(), make_held()
    asyncio.run(begin(ledger, running))
    asyncio.run(ledger.add_pending(waiting))
    dead = owner_of_a_dead_process()
    seen_before = [(call_id, dead.pid, dead.started, True) for call_id in (running.id, waiting.call.id, "ended")]
    assert ledger.run(interrupt(ledger.encode_body, seen_before)) == []
    assert ledger.call(running.id).state is State.RUNNING
    assert ledger.pending() == [waiting]


@pytest.mark.spec("X10")
def test_a_reused_pid_is_not_taken_for_the_process_that_had_it() -> None:
    me = this_process()
    boot, container, ticks = me.started.split(":")
    assert is_alive(me)
    assert not is_alive(ProcessIdentity(me.pid, f"{boot}:{container}:{int(ticks) - 1}"))
    assert not is_alive(ProcessIdentity(me.pid, f"another-boot:{container}:{ticks}"))


@pytest.mark.spec("X10")
def test_a_process_that_only_waits_to_be_reaped_is_dead_and_a_live_one_is_not() -> None:
    script = (
        "from holdfast.store.process_identity import this_process; print(this_process().started, flush=True); input()"
    )
    child = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with child:
        assert child.stdout is not None
        owner = ProcessIdentity(child.pid, child.stdout.readline().strip())
        assert is_alive(owner)
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert Path(f"/proc/{child.pid}/stat").exists()
        assert not is_alive(owner)


@pytest.mark.spec("X10")
def test_a_process_that_cannot_be_judged_from_here_counts_as_alive() -> None:
    me = this_process()
    boot, _, ticks = me.started.split(":")
    assert is_alive(ProcessIdentity(2**22 + 1, f"{boot}:another-container:{ticks}"))
    assert is_alive(ProcessIdentity(2**22 + 1, ""))

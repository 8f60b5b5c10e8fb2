"""Any process can answer: one leaves a call pending, another approves it, and it runs once."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from holdfast import Answer, Result, State, Tool
from holdfast.contract.call import PendingCall
from holdfast.contract.enums import Failure
from holdfast.runtime.pending import POLL_SECONDS, PendingCalls
from tests.runtime.support import open_ledger, recorder, run, runtime_in, until_pending

MAKE_PENDING = """
import asyncio, sys
from pathlib import Path
from tests.runtime.support import recorder, runtime_in
note, _ = recorder()
folder = Path(sys.argv[1])
print(asyncio.run(runtime_in(folder, note, nobody="pending").call("note", {"text": "parked"})).call_id)
"""
ANSWER = """
import sys
from pathlib import Path
from holdfast import Answer
from tests.runtime.support import open_ledger
ledger = open_ledger(Path(sys.argv[1]) / "state")
(held,) = ledger.pending()
ledger.answer(held.call.id, Answer(kind="approve", by="elsewhere"), digest=held.digest)
"""


def _python(program: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program, str(folder)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.spec("A13a")
def test_a_pending_call_of_a_dead_program_runs_in_the_process_that_approves_it(tmp_path: Path) -> None:
    call_id = _python(MAKE_PENDING, tmp_path)
    note, seen = recorder()
    here = runtime_in(tmp_path, note)
    result = run(here.approve(call_id, by="bob"))
    assert (result.state, result.output, seen) == (State.DONE, "noted parked", [{"text": "parked"}])
    assert here.ledger is not None
    record = here.ledger.call(call_id)
    assert [given.answer.by for given in record.answers] == ["bob"]


@pytest.mark.spec("A13a")
def test_a_call_of_an_unknown_tool_runs_when_its_program_starts_again(tmp_path: Path) -> None:
    call_id = _python(MAKE_PENDING, tmp_path)
    stranger = runtime_in(tmp_path)
    approved = run(stranger.approve(call_id, by="bob"))
    assert (approved.state, approved.failure) == (State.APPROVED, Failure.AWAITING_PROGRAM)
    assert "runs in the program that has 'note'" in (approved.error or "")
    note, seen = recorder()

    async def back() -> Result | None:
        async with runtime_in(tmp_path, note) as runtime:
            return runtime.pending.result(call_id)

    result = run(back())
    assert result is not None
    assert result.output == "noted parked"
    assert seen == [{"text": "parked"}]


@pytest.mark.spec("A13a")
def test_a_waiting_process_sees_an_answer_from_another_process_at_its_next_poll(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    polls: list[str] = []
    polls_until_run: list[int] = []
    get = PendingCalls.get

    def counted(pending: PendingCalls, call_id: str) -> PendingCall | None:
        polls.append(call_id)
        return get(pending, call_id)

    async def execute(args: Any) -> str:
        polls_until_run.append(len(polls))
        return "ran"

    async def main() -> int:
        waits = Tool(name="waits", execute=execute, effects=frozenset({"external"}))
        runtime = runtime_in(tmp_path, waits, nobody="wait")
        _, call = await until_pending(runtime, runtime.call("waits"))
        answering = await asyncio.create_subprocess_exec(sys.executable, "-c", ANSWER, str(tmp_path))
        assert await asyncio.wait_for(answering.wait(), 60) == 0
        polls_until_answered = len(polls)
        result = await asyncio.wait_for(call, 60)
        assert result.output == "ran"
        return polls_until_run[0] - polls_until_answered

    monkeypatch.setattr(PendingCalls, "get", counted)
    assert run(main(), 130) <= 1, "the answer was there, and a poll missed it"
    assert POLL_SECONDS <= 0.1


@pytest.mark.spec("A13a")
def test_an_approved_call_runs_in_the_process_that_waits_for_it(tmp_path: Path) -> None:
    note, seen = recorder()

    async def main() -> tuple[Result, Result]:
        waiter = runtime_in(tmp_path, note, nobody="wait")
        pending, call = await until_pending(waiter, waiter.call("note", {"text": "x"}))
        other = runtime_in(tmp_path, note)
        approved = await other.approve(pending.call.id, by="bob")
        return approved, await call

    approved, result = run(main())
    assert approved.state is State.APPROVED
    assert (result.output, len(seen)) == ("noted x", 1)


@pytest.mark.spec("A12", "A13a")
def test_a_race_for_an_approval_uses_it_once(tmp_path: Path) -> None:
    call_id = _python(MAKE_PENDING, tmp_path)
    ledger = open_ledger(tmp_path / "state")
    pending = ledger.find_pending(call_id)
    assert pending is not None
    ledger.answer(call_id, Answer(kind="approve", by="bob"), digest=pending.digest)
    note, seen = recorder()

    async def main() -> list[list[Result]]:
        return await asyncio.gather(*(runtime_in(tmp_path, note).lifecycle.resume_all() for _ in range(8)))

    results = [result for batch in run(main()) for result in batch]
    assert seen == [{"text": "parked"}]
    assert {result.output for result in results} == {"noted parked"}

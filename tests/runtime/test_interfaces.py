"""Several interfaces at once: each is asked about every pending call, and the first valid answer counts."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from holdfast import Answer, PendingCall, Result, State
from tests.runtime.support import recorder, run, runtime_in, until_pending

LONG = 60.0


@pytest.mark.spec("A13")
def test_every_interface_is_asked_and_the_first_answer_wins(tmp_path: Path) -> None:
    note, seen = recorder()
    runtime = runtime_in(tmp_path, note)
    asked: list[str] = []
    told: list[tuple[PendingCall, PendingCall | Result]] = []
    both = asyncio.Event()

    async def slow(pending: PendingCall) -> bool:
        asked.append("slow")
        if len(asked) == 2:
            both.set()
        await asyncio.sleep(LONG)
        return False

    async def quick(pending: PendingCall) -> Answer:
        asked.append("quick")
        if len(asked) == 2:
            both.set()
        await both.wait()
        return Answer(kind="approve", by="ann")

    async def main() -> Result:
        runtime.attach(slow, on_answered=lambda pending, end: told.append((pending, end)))
        runtime.attach(quick)
        return await runtime.call("note", {"text": "x"})

    result = run(main())
    assert result.state is State.DONE and seen == [{"text": "x"}]
    assert sorted(asked) == ["quick", "slow"]
    ((pending, end),) = told
    assert isinstance(end, PendingCall) and end.state is State.APPROVED and end.approver == "ann"
    assert pending.call.id == end.call.id == result.call_id


@pytest.mark.spec("A13")
@pytest.mark.parametrize(("said", "state"), [(True, State.DONE), (False, State.REJECTED)])
def test_a_plain_function_can_block_and_return_a_bool(tmp_path: Path, said: bool, state: State) -> None:
    note, seen = recorder()
    runtime = runtime_in(tmp_path, note)
    threads: list[int] = []

    def ask(pending: PendingCall) -> bool:
        threads.append(threading.get_ident())
        return said

    runtime.attach(ask, by="bob")
    result = run(runtime.call("note", {"text": "x"}))
    assert result.state is state
    assert len(seen) == (1 if said else 0)
    assert threads != [threading.get_ident()]
    assert runtime.ledger is not None
    (given,) = runtime.ledger.call(result.call_id).answers
    assert given.answer.by == "bob"


@pytest.mark.spec("A13")
def test_an_interface_that_is_attached_later_is_asked_about_pending_calls(tmp_path: Path) -> None:
    note, _ = recorder()
    runtime = runtime_in(tmp_path, note, nobody="wait")

    async def main() -> Result:
        _, task = await until_pending(runtime, runtime.call("note", {"text": "x"}))
        runtime.attach(lambda pending: True)
        return await asyncio.wait_for(task, LONG)

    assert run(main()).state is State.DONE


@pytest.mark.spec("A13")
def test_a_removed_interface_is_not_asked_and_a_failing_one_does_not_approve(tmp_path: Path) -> None:
    note, seen = recorder()
    runtime = runtime_in(tmp_path, note, nobody="deny")

    def broken(pending: PendingCall) -> bool:
        raise RuntimeError("no terminal")

    with runtime.attach(broken):
        result = run(runtime.call("note", {"text": "x"}))
        assert result.state is State.PENDING
    assert run(runtime.call("note", {"text": "y"})).state is State.DENIED
    assert seen == []

"""Pending calls and unused approvals expire; an expired call never runs."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from holdfast import Answer, Config, PendingCall, Runtime, State, Tool
from holdfast.config.config import PENDING_TTL, ApprovalConfig, PendingConfig
from holdfast.contract.call import Caller
from holdfast.contract.enums import Failure
from holdfast.contract.errors import UnknownCall
from tests.runtime.support import recorder, run, runtime_in

DAY = 86_400.0


class Clock:
    """The real time plus an offset."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> float:
        return time.time() + self.ahead


def _waiting(
    folder: Path, clock: Clock, note: Tool, *, config: Config | None = None, caller: Caller | None = None
) -> tuple[Runtime, PendingCall]:
    runtime = runtime_in(folder, note, config=config or Config(), nobody="pending", clock=clock)
    result = run(runtime.call("note", {"text": "x"}, caller=caller))
    assert result.state is State.PENDING
    (pending,) = runtime.pending.list()
    return runtime, pending


def _ended(runtime: Runtime, pending: PendingCall) -> State:
    assert runtime.ledger is not None
    assert runtime.ledger.verify().ok
    return runtime.ledger.call(pending.call.id).state


@pytest.mark.spec("A21")
def test_an_unanswered_call_expires_and_its_result_says_that_it_was_not_run(tmp_path: Path) -> None:
    clock, (note, seen) = Clock(), recorder()
    runtime, pending = _waiting(tmp_path, clock, note)
    clock.ahead = PENDING_TTL - 60
    assert runtime.pending.list() == [pending]
    clock.ahead = PENDING_TTL + 60
    assert runtime.pending.list() == []
    result = runtime.pending.result(pending.call.id)
    assert result is not None
    assert (result.state, result.failure, result.exit_code) == (State.EXPIRED, Failure.EXPIRED, 3)
    assert result.error == "Tool 'note' was not run: nobody answered within 7 days. Ask again if it is needed."
    assert _ended(runtime, pending) is State.EXPIRED
    assert seen == []


@pytest.mark.spec("A21")
def test_a_late_answer_is_refused(tmp_path: Path) -> None:
    clock, (note, seen) = Clock(), recorder()
    runtime, pending = _waiting(tmp_path, clock, note, config=Config(pending=PendingConfig(ttl=60)))
    clock.ahead = 61
    with pytest.raises(UnknownCall):
        run(runtime.approve(pending.call.id, digest=pending.digest))
    assert _ended(runtime, pending) is State.EXPIRED
    assert seen == []


@pytest.mark.spec("A21")
def test_an_unused_approval_expires(tmp_path: Path) -> None:
    clock, (note, seen) = Clock(), recorder()
    runtime, pending = _waiting(tmp_path, clock, note)
    runtime.pending.answer(pending.call.id, Answer(kind="approve", by="ann"), pending.digest)
    clock.ahead = DAY - 60
    assert [call.state for call in runtime.pending.list()] == [State.APPROVED]
    clock.ahead = DAY + 60
    again = runtime_in(tmp_path, note, nobody="pending", clock=clock)
    assert run(again.lifecycle.resume_all()) == []
    result = again.pending.result(pending.call.id)
    assert result is not None and result.state is State.EXPIRED
    assert result.error is not None and "its approval was not used within 1 day" in result.error
    assert seen == []


@pytest.mark.spec("A21")
def test_an_approval_expires_counted_from_when_it_was_given(tmp_path: Path) -> None:
    clock, (note, seen) = Clock(), recorder()
    config = Config(approval=ApprovalConfig(expires=3600), pending=PendingConfig(ttl=10 * DAY))
    runtime, pending = _waiting(tmp_path, clock, note, config=config)
    runtime.pending.answer(pending.call.id, Answer(kind="approve", by="ann"), pending.digest)
    clock.ahead = 3000
    (result,) = run(runtime.lifecycle.resume_all())
    assert result.state is State.DONE and seen == [{"text": "x"}]


@pytest.mark.spec("A21")
def test_calls_of_a_document_expire_only_if_a_ttl_is_set(tmp_path: Path) -> None:
    clock, (note, _) = Clock(), recorder()
    caller = Caller(document="/somewhere/talk.chat")
    runtime, pending = _waiting(tmp_path / "a", clock, note, caller=caller)
    clock.ahead = 100 * DAY
    assert runtime.pending.list() == [pending]
    clock.ahead = 0.0
    runtime, pending = _waiting(
        tmp_path / "b", clock, note, caller=caller, config=Config(pending=PendingConfig(ttl=60))
    )
    clock.ahead = 61
    assert runtime.pending.list() == []
    assert _ended(runtime, pending) is State.EXPIRED


@pytest.mark.spec("A21")
def test_a_waiting_program_gets_the_expired_result(tmp_path: Path) -> None:
    clock, (note, seen) = Clock(), recorder()

    def asked(pending: PendingCall) -> Any:
        clock.ahead = 61.0

    config = Config(pending=PendingConfig(ttl=60))
    runtime = runtime_in(tmp_path, note, config=config, asker=asked, nobody="wait", clock=clock)
    result = run(runtime.call("note", {"text": "x"}))
    assert result.state is State.EXPIRED
    assert seen == []


@pytest.mark.spec("A21")
def test_the_time_at_which_a_call_expires_is_known_in_each_state(tmp_path: Path) -> None:
    clock, (note, _) = Clock(), recorder()
    config = Config(pending=PendingConfig(ttl=60), approval=ApprovalConfig(expires=600))
    runtime, pending = _waiting(tmp_path, clock, note, config=config)
    assert runtime.pending.expires_at(pending) == pending.held_at + 60
    assert runtime.ledger is not None
    approved = runtime.ledger.answer(pending.call.id, Answer(kind="approve", by="ann"), digest=pending.digest)
    ends = runtime.pending.expires_at(approved)
    assert ends is not None and ends >= pending.held_at + 600
    clock.ahead = ends - time.time() + 1
    assert runtime.pending.list() == []


@pytest.mark.spec("A21")
def test_a_call_of_a_document_has_no_time_at_which_it_expires(tmp_path: Path) -> None:
    clock, (note, _) = Clock(), recorder()
    runtime, pending = _waiting(tmp_path, clock, note, caller=Caller(document="/project/a.chat"))
    assert runtime.pending.expires_at(pending) is None

"""Approvals by several people: counted per version of a call, in the ledger, across processes."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from holdfast.contract.call import Answer, PendingCall
from holdfast.contract.enums import State
from holdfast.contract.errors import AlreadyApproved, CallError, NotPending, StaleApproval
from holdfast.contract.widening import Widening
from holdfast.store.ledger import Ledger
from tests.store.calls import make_pending

pytestmark = pytest.mark.spec("E7e")


def _yes(identity: str) -> Answer:
    return Answer(kind="approve", by="someone", identity=identity)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


@pytest.fixture
def ledger(path: Path) -> Ledger:
    return Ledger.open(path)


@pytest.fixture
def held(ledger: Ledger) -> PendingCall:
    pending = replace(make_pending(), approvals_needed=2)
    asyncio.run(ledger.add_pending(pending))
    return pending


def _read(ledger: Ledger, held: PendingCall) -> tuple[State, tuple[str, ...]]:
    """The state and the approvers of the call, which the list, the id and the record must agree about."""
    assert ledger.verify().ok
    found = ledger.find_pending(held.call.id)
    assert found is not None and [found] == ledger.pending()
    assert ledger.call(held.call.id).state is found.state
    return found.state, found.approved_by


def test_the_first_approval_leaves_the_call_pending_and_the_second_approves_it(
    ledger: Ledger, held: PendingCall
) -> None:
    first = ledger.answer(held.call.id, _yes("token:ann"), digest=held.digest)
    assert (first.state, first.approved_by) == (State.PENDING, ("token:ann",))
    assert _read(ledger, held) == (State.PENDING, ("token:ann",))
    second = ledger.answer(held.call.id, _yes("token:bob"), digest=held.digest)
    assert (second.state, second.approved_by) == (State.APPROVED, ("token:ann", "token:bob"))
    assert _read(ledger, held) == (State.APPROVED, ("token:ann", "token:bob"))


def test_the_same_person_cannot_approve_twice_under_another_name(ledger: Ledger, held: PendingCall) -> None:
    ledger.answer(held.call.id, Answer(kind="approve", by="ann"), digest=held.digest)
    with pytest.raises(AlreadyApproved, match="Another person must"):
        ledger.answer(held.call.id, Answer(kind="approve", by="bob"), digest=held.digest)
    assert _read(ledger, held)[0] is State.PENDING
    assert len(ledger.call(held.call.id).answers) == 1


def test_approvals_survive_a_restart_and_count_across_processes(ledger: Ledger, path: Path, held: PendingCall) -> None:
    ledger.answer(held.call.id, _yes("token:ann"), digest=held.digest)
    ledger.close()
    with Ledger.open(path) as one, Ledger.open(path) as other:
        assert _read(one, held) == (State.PENDING, ("token:ann",))
        with pytest.raises(AlreadyApproved):
            one.answer(held.call.id, _yes("token:ann"), digest=held.digest)
        assert other.answer(held.call.id, _yes("token:bob"), digest=held.digest).state is State.APPROVED
        assert _read(one, held) == (State.APPROVED, ("token:ann", "token:bob"))


def test_a_process_that_stops_waiting_does_not_lose_the_approval(ledger: Ledger, held: PendingCall) -> None:
    ledger.answer(held.call.id, _yes("token:ann"), digest=held.digest)
    asyncio.run(ledger.replace_pending(replace(held, waiter=None), "nobody answered here", only_pending=True))
    assert _read(ledger, held) == (State.PENDING, ("token:ann",))


def test_a_changed_call_needs_every_approval_again(ledger: Ledger, held: PendingCall) -> None:
    ledger.answer(held.call.id, _yes("token:ann"), digest=held.digest)
    changed = replace(make_pending(held.call.id, args={"path": "b.txt"}), approvals_needed=2)
    asyncio.run(ledger.replace_pending(changed, "the file changed"))
    assert _read(ledger, held) == (State.PENDING, ())
    with pytest.raises(StaleApproval):
        ledger.answer(held.call.id, _yes("token:bob"), digest=held.digest)
    asyncio.run(ledger.replace_pending(held, "and back"))
    assert _read(ledger, held) == (State.PENDING, ())


def test_an_edit_loses_the_approvals_even_if_it_changes_nothing(ledger: Ledger, held: PendingCall) -> None:
    ledger.answer(held.call.id, _yes("token:ann"), digest=held.digest)
    edit = Answer(kind="edit", by="bob", identity="token:bob", args=held.call.args)
    ledger.answer(held.call.id, edit, digest=held.digest)
    asyncio.run(ledger.replace_pending(held, "arguments changed by bob"))
    assert _read(ledger, held) == (State.PENDING, ())


def test_approvals_that_were_complete_do_not_count_again(ledger: Ledger, held: PendingCall) -> None:
    for name in ("token:ann", "token:bob"):
        ledger.answer(held.call.id, _yes(name), digest=held.digest)
    asyncio.run(ledger.replace_pending(held, "it changed since it was approved"))
    assert _read(ledger, held) == (State.PENDING, ())


def test_another_process_cannot_lower_the_number_of_people(ledger: Ledger, held: PendingCall) -> None:
    asyncio.run(ledger.replace_pending(replace(held, approvals_needed=1), "a looser configuration"))
    assert ledger.answer(held.call.id, _yes("token:ann"), digest=held.digest).state is State.PENDING
    assert _read(ledger, held) == (State.PENDING, ("token:ann",))


def test_one_person_is_enough_to_reject(ledger: Ledger, held: PendingCall) -> None:
    ledger.answer(held.call.id, _yes("token:ann"), digest=held.digest)
    no = Answer(kind="reject", by="bob", identity="token:bob")
    assert ledger.answer(held.call.id, no, digest=held.digest).state is State.REJECTED
    with pytest.raises(NotPending):
        ledger.answer(held.call.id, _yes("token:cleo"), digest=held.digest)
    assert ledger.verify().ok


def test_an_approval_cannot_widen_a_call_that_two_people_must_approve(ledger: Ledger, held: PendingCall) -> None:
    wide = replace(held, digest="f" * 64, widened=Widening(network=True))
    with pytest.raises(CallError, match="two people"):
        ledger.answer(held.call.id, _yes("token:ann"), digest=held.digest, becomes=wide)
    assert _read(ledger, held) == (State.PENDING, ())

"""State changes of a call: pending, answered, edited, begun, interrupted."""

from __future__ import annotations

import asyncio
import os
import pwd
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import structs

from holdfast.contract.call import Answer
from holdfast.contract.enums import Failure, State
from holdfast.contract.errors import NotPending, StaleApproval, UnknownCall
from holdfast.contract.result import Result
from holdfast.store.ledger import Ledger
from holdfast.store.operations import interrupt
from tests.store.calls import APPROVED, ASKED, DONE, YES, begin, dead_process, make_call, make_pending


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.open(tmp_path / "l.db") as opened:
        yield opened


@pytest.mark.spec("A12", "A13a")
def test_an_approval_is_recorded_with_its_approver_and_used_once(ledger: Ledger) -> None:
    pending_call = make_pending()
    call_id = pending_call.call.id

    async def scenario() -> None:
        await ledger.add_pending(pending_call)
        approved = ledger.answer(call_id, YES, digest=pending_call.digest)
        assert (approved.state, approved.approver) == (State.APPROVED, "ada")
        assert [waiting.state for waiting in ledger.pending()] == [State.APPROVED]
        await begin(ledger, pending_call.call, digest=pending_call.digest)
        running = ledger.find_pending(call_id)
        assert running is not None and running.state is State.RUNNING
        with pytest.raises(NotPending, match="only once"):
            await begin(ledger, pending_call.call, digest=pending_call.digest)
        await ledger.end(call_id, DONE)
        with pytest.raises(NotPending, match="already ended"):
            await begin(ledger, pending_call.call, digest=pending_call.digest)

    asyncio.run(scenario())
    record = ledger.call(call_id)
    account = pwd.getpwuid(os.getuid()).pw_name
    assert [given.answer for given in record.answers] == [structs.replace(YES, user=account, identity=f"os:{account}")]
    assert record.answers[0].digest == pending_call.digest
    assert record.decisions == (ASKED, APPROVED)
    assert ledger.find_pending(call_id) is None


@pytest.mark.spec("A12")
def test_an_approval_with_another_digest_is_refused_and_changes_nothing(ledger: Ledger) -> None:
    pending_call = make_pending()
    asyncio.run(ledger.add_pending(pending_call))
    with pytest.raises(StaleApproval, match="has changed"):
        ledger.answer(pending_call.call.id, YES, digest="0" * 64)
    assert ledger.pending() == [pending_call]
    ledger.answer(pending_call.call.id, YES, digest=pending_call.digest)
    with pytest.raises(StaleApproval):
        asyncio.run(begin(ledger, pending_call.call, digest="0" * 64))
    asyncio.run(begin(ledger, pending_call.call, digest=pending_call.digest))


@pytest.mark.spec("A12")
def test_a_call_is_answered_once_and_only_while_it_is_pending(ledger: Ledger) -> None:
    pending_call = make_pending()
    asyncio.run(ledger.add_pending(pending_call))
    ledger.answer(pending_call.call.id, YES, digest=pending_call.digest)
    for answer in (YES, Answer(kind="reject", by="eve")):
        with pytest.raises(NotPending):
            ledger.answer(pending_call.call.id, answer, digest=pending_call.digest)
    with pytest.raises(UnknownCall, match="No call has the id 'nope'"):
        ledger.answer("nope", YES, digest=pending_call.digest)
    assert len(ledger.call(pending_call.call.id).answers) == 1


@pytest.mark.spec("A14")
@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (Answer(kind="reject", by="ada", message="not today"), Result(False, error="not today")),
        (Answer(kind="reject", by="ada"), Result(False, error="This tool has been rejected by the user.")),
    ],
)
def test_a_rejection_ends_the_call_with_a_message_for_the_model(
    ledger: Ledger, answer: Answer, expected: Result
) -> None:
    pending_call = make_pending()
    asyncio.run(ledger.add_pending(pending_call))
    assert ledger.answer(pending_call.call.id, answer, digest=pending_call.digest).state is State.REJECTED
    result = ledger.result(pending_call.call.id)
    assert result is not None
    assert (result.error, result.state, result.failure) == (expected.error, State.REJECTED, Failure.REJECTED)
    assert ledger.find_pending(pending_call.call.id) is None


@pytest.mark.spec("X12")
@pytest.mark.parametrize(("success", "state"), [(True, State.DONE), (False, State.FAILED)])
def test_a_response_in_the_tools_place_ends_the_call(ledger: Ledger, success: bool, state: State) -> None:
    pending_call = make_pending()
    asyncio.run(ledger.add_pending(pending_call))
    ledger.answer(
        pending_call.call.id, Answer(kind="respond", by="ci", message="42", success=success), digest=pending_call.digest
    )
    result = ledger.result(pending_call.call.id)
    assert result is not None
    assert (result.success, result.text, result.state) == (success, "42", state)


@pytest.mark.spec("A14")
def test_an_edit_does_not_approve_and_the_edited_call_needs_its_own_approval(ledger: Ledger) -> None:
    pending_call = make_pending()
    edited = make_pending(pending_call.call.id, args={"path": "b.txt"})
    answer = Answer(kind="edit", by="ada", args={"path": "b.txt"})

    async def scenario() -> None:
        await ledger.add_pending(pending_call)
        assert ledger.answer(pending_call.call.id, answer, digest=pending_call.digest).state is State.PENDING
        await ledger.replace_pending(edited, "arguments changed by ada")

    asyncio.run(scenario())
    assert ledger.pending() == [edited]
    with pytest.raises(StaleApproval):
        ledger.answer(pending_call.call.id, YES, digest=pending_call.digest)
    assert ledger.answer(pending_call.call.id, YES, digest=edited.digest).call.args == {"path": "b.txt"}
    record = ledger.call(pending_call.call.id)
    assert record.call == edited.call
    assert [given.answer.kind for given in record.answers] == ["edit", "approve"]


@pytest.mark.spec("A12")
def test_a_replaced_pending_call_loses_its_approval(ledger: Ledger) -> None:
    pending_call = make_pending()

    async def scenario() -> None:
        await ledger.add_pending(pending_call)
        ledger.answer(pending_call.call.id, YES, digest=pending_call.digest)
        await ledger.replace_pending(pending_call, "the file has changed")
        with pytest.raises(NotPending):
            await begin(ledger, pending_call.call, digest=pending_call.digest)

    asyncio.run(scenario())
    waiting = ledger.pending()
    assert [(one.state, one.approver) for one in waiting] == [(State.PENDING, None)]


@pytest.mark.spec("A12", "A13")
def test_a_change_by_another_process_is_visible(ledger: Ledger) -> None:
    pending_call = make_pending()
    changed = make_pending(pending_call.call.id, args={"path": "b.txt"})
    asyncio.run(ledger.add_pending(pending_call))
    with Ledger.open(ledger.path) as other:
        asyncio.run(other.replace_pending(changed, "edited elsewhere"))
    assert ledger.pending() == [changed]
    assert ledger.find_pending(pending_call.call.id) == changed


@pytest.mark.spec("X10")
def test_a_running_call_cannot_become_pending_again(ledger: Ledger) -> None:
    call = make_call()
    asyncio.run(begin(ledger, call))
    with pytest.raises(NotPending, match="is running"):
        asyncio.run(ledger.replace_pending(make_pending(call.id), "why"))


@pytest.mark.spec("X10")
def test_interrupt_skips_calls_whose_owner_or_state_has_changed(ledger: Ledger) -> None:
    running, waiting = make_call(), make_pending()
    asyncio.run(begin(ledger, running))
    asyncio.run(ledger.add_pending(waiting))
    dead = dead_process()
    seen_before = [(call_id, dead.pid, dead.started, True) for call_id in (running.id, waiting.call.id, "ended")]
    assert ledger.run(interrupt(ledger.encode_body, seen_before)) == []
    assert ledger.call(running.id).state is State.RUNNING
    assert ledger.pending() == [waiting]

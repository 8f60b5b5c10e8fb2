"""Ledger operations that change the state of a call. Each function returns an operation for one transaction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, cast

from msgspec import Struct
from msgspec.structs import replace

from holdfast.contract.call import Answer, Call, Decision, PendingCall, ProcessIdentity
from holdfast.contract.enums import Failure, State
from holdfast.contract.errors import (
    AlreadyApproved,
    CallError,
    LedgerCorrupt,
    NotPending,
    StaleApproval,
    UnknownCall,
)
from holdfast.contract.result import Result
from holdfast.store.approval_count import APPROVALS, count_approvals
from holdfast.store.database import Op, Transaction
from holdfast.store.entries import BodyReader, CallAnswered, CallBegun, CallEnded, CallPending, CallRecorded

EncodeBody = Callable[[Struct], str]

_NOT_WIDENED: Final = (
    "Call {} must be approved by two people, so an approval cannot widen its sandbox. Approve it as it is, or write a "
    "rule with network, read or write (approval.commands)."
)
REJECTED: Final = "This tool has been rejected by the user."
INTERRUPTED: Final = "was interrupted; whether it took effect is not known."
INTERRUPTED_READING: Final = "was interrupted before it finished; it changed nothing and can be called again."


def record_call(encode: EncodeBody, call: Call, decision: Decision, result: Result, original_args: object) -> Op[None]:
    call_id = call.id
    body = encode(CallRecorded(call, decision, result, original_args))

    def op(tx: Transaction) -> None:
        tx.append(call_id, "call", body, first=True)

    return op


def add_pending(encode: EncodeBody, pending: PendingCall) -> Op[None]:
    call_id = pending.call.id
    body = encode(CallPending(pending))

    def op(tx: Transaction) -> None:
        entry = tx.append(call_id, "pending", body, first=True)
        tx.execute(
            "INSERT INTO open_calls (call, state, digest, mutates, entry) VALUES (?, 'pending', ?, 1, ?)",
            (call_id, pending.digest, entry),
        )

    return op


def replace_pending(
    encode: EncodeBody, read: BodyReader, pending: PendingCall, reason: str, *, only_pending: bool = False
) -> Op[None]:
    call_id = pending.call.id

    def op(tx: Transaction) -> None:
        state, _ = open_state(tx, call_id)
        if state is not State.PENDING and (only_pending or state is not State.APPROVED):
            raise NotPending(f"Call {call_id} is {state}, so it cannot be made pending again.")
        # A process with another configuration must not lower the number of people that one asked for.
        needed = max(read_pending(tx, read, call_id).approvals_needed, pending.approvals_needed)
        stored = replace(pending, approvals_needed=needed, approved_by=())
        entry = tx.append(call_id, "pending", encode(CallPending(stored, reason)))
        tx.execute(
            "UPDATE open_calls SET state = 'pending', digest = ?, approver = NULL, entry = ? WHERE call = ?",
            (pending.digest, entry, call_id),
        )

    return op


def answer(
    encode: EncodeBody,
    read: BodyReader,
    call_id: str,
    answer: Answer,
    digest: str,
    given: Result | None = None,
    becomes: PendingCall | None = None,
) -> Op[PendingCall]:
    result = given or _result_of(call_id, answer)
    body = encode(CallAnswered(answer, digest if becomes is None else becomes.digest, result))
    stored = read(body, CallAnswered)
    by = stored.answer.by
    changed = None if becomes is None else encode(CallPending(becomes, f"widened by {by}"))

    def op(tx: Transaction) -> PendingCall:
        state, shown = open_state(tx, call_id)
        if state is not State.PENDING:
            raise NotPending(f"Call {call_id} is {state}, so it cannot be answered.")
        if shown != digest:
            raise StaleApproval(f"Call {call_id} has changed since it was shown. Review it again.")
        if becomes is not None and changed is not None:
            if max(read_pending(tx, read, call_id).approvals_needed, becomes.approvals_needed) > 1:
                raise CallError(_NOT_WIDENED.format(call_id))
            entry = tx.append(call_id, "pending", changed)
            tx.execute("UPDATE open_calls SET digest = ?, entry = ? WHERE call = ?", (becomes.digest, entry, call_id))
        pending = read_pending(tx, read, call_id)
        if answer.kind == "approve" and pending.approvals_needed > 1:
            count = count_approvals(tx.execute(APPROVALS, (call_id,)).fetchall(), read)
            if stored.answer.identity in count.identities:
                raise AlreadyApproved(
                    f"You ({stored.answer.identity}) have already approved call {call_id}. Another person must "
                    f"approve it: it needs {count.needed} people."
                )
            count = count.after_answer(stored)
            pending = replace(pending, approved_by=count.identities)
            if not count.complete:
                tx.append(call_id, "answered", body)
                return pending
        tx.append(call_id, "answered", body)
        if answer.kind == "approve":
            tx.execute("UPDATE open_calls SET state = 'approved', approver = ? WHERE call = ?", (by, call_id))
            return replace(pending, state=State.APPROVED, approver=by)
        if result is not None:
            tx.execute("DELETE FROM open_calls WHERE call = ?", (call_id,))
            return replace(pending, state=result.state, approver=by)
        return pending

    return op


def begin(
    encode: EncodeBody,
    owner: ProcessIdentity,
    call: Call,
    digest: str | None,
    definition_digest: str,
    mutates: bool,
    decision: Decision,
) -> Op[None]:
    call_id, pid, started = call.id, owner.pid, owner.started
    shown = call if digest is None else None
    body = encode(CallBegun(decision, definition_digest, mutates, pid, started, digest, shown))

    def start(tx: Transaction) -> None:
        entry = tx.append(call_id, "intent", body, first=True)
        tx.execute(
            "INSERT INTO open_calls (call, state, pid, pid_start, mutates, entry) VALUES (?, 'running', ?, ?, ?, ?)",
            (call_id, pid, started, mutates, entry),
        )

    def start_approved(tx: Transaction) -> None:
        state, approved = open_state(tx, call_id)
        if state is not State.APPROVED:
            raise NotPending(f"Call {call_id} is {state}, so it cannot start. An approval is used only once.")
        if approved != digest:
            raise StaleApproval(f"Call {call_id} has changed since it was approved. Review it again.")
        tx.append(call_id, "intent", body)
        tx.execute(
            "UPDATE open_calls SET state = 'running', pid = ?, pid_start = ?, mutates = ? WHERE call = ?",
            (pid, started, mutates, call_id),
        )

    return start if digest is None else start_approved


def end(encode: EncodeBody, call_id: str, result: Result, *, unless_running: bool = False) -> Op[bool]:
    """The operation returns False if the call is not open, or with `unless_running` if it is running."""
    body = encode(CallEnded(result))
    excluded_state = "running" if unless_running else ""

    def op(tx: Transaction) -> bool:
        if tx.execute("DELETE FROM open_calls WHERE call = ? AND state != ?", (call_id, excluded_state)).rowcount == 0:
            return False
        tx.append(call_id, "ended", body)
        return True

    return op


def expire(encode: EncodeBody, pending: PendingCall, result: Result) -> Op[bool]:
    """The operation returns False if the call was answered, changed or begun in the meantime."""
    call_id, state = pending.call.id, pending.state.value
    body = encode(CallEnded(result))

    def op(tx: Transaction) -> bool:
        sql = "DELETE FROM open_calls WHERE call = ? AND state = ? AND digest = ?"
        if tx.execute(sql, (call_id, state, pending.digest)).rowcount == 0:
            return False
        tx.append(call_id, "ended", body)
        return True

    return op


def interrupt(encode: EncodeBody, rows: Sequence[tuple[str, int, str, bool]]) -> Op[list[str]]:
    """End running calls whose owner is dead. The operation skips calls that another process has already ended."""
    bodies = [(row, encode(CallEnded(_interrupted(row[0], mutates=row[3])))) for row in rows]

    def op(tx: Transaction) -> list[str]:
        ended: list[str] = []
        for (call_id, pid, started, _), body in bodies:
            gone = tx.execute(
                "DELETE FROM open_calls WHERE call = ? AND state = 'running' AND pid = ? AND pid_start = ?",
                (call_id, pid, started),
            )
            if gone.rowcount:
                tx.append(call_id, "ended", body)
                ended.append(call_id)
        return ended

    return op


def open_state(tx: Transaction, call_id: str) -> tuple[State, str | None]:
    row = tx.execute("SELECT state, digest FROM open_calls WHERE call = ?", (call_id,)).fetchone()
    if row is not None:
        return parse_state(row[0]), row[1]
    if _is_known(tx, call_id):
        raise NotPending(f"Call {call_id} has already ended.")
    raise unknown_call(call_id)


def parse_state(text: object) -> State:
    try:
        return State(cast(str, text))
    except ValueError:
        raise LedgerCorrupt(f"The ledger has a call in the unknown state {str(text)[:80]!a}.") from None


def unknown_call(call_id: str) -> UnknownCall:
    return UnknownCall(f"No call has the id '{call_id}'; `holdfast ledger` lists the calls.")


def read_pending(tx: Transaction, read: BodyReader, call_id: str) -> PendingCall:
    sql = "SELECT body FROM entries WHERE id = (SELECT entry FROM open_calls WHERE call = ?)"
    row = tx.execute(sql, (call_id,)).fetchone()
    if row is None:
        raise LedgerCorrupt(f"The entry that contains call {call_id} is missing.")
    return read(row[0], CallPending).pending


def _is_known(tx: Transaction, call_id: str) -> bool:
    sql = "SELECT 1 FROM entries WHERE call = ? AND place = 0"
    found: Any = tx.execute(sql, (call_id,)).fetchone()
    return found is not None


def _result_of(call_id: str, answer: Answer) -> Result | None:
    if answer.kind == "reject":
        return Result(
            False, error=answer.message or REJECTED, state=State.REJECTED, failure=Failure.REJECTED, call_id=call_id
        )
    if answer.kind == "respond" and answer.success:
        return Result(True, answer.message, state=State.DONE, call_id=call_id)
    if answer.kind == "respond":
        return Result(False, error=answer.message, state=State.FAILED, failure=Failure.TOOL_ERROR, call_id=call_id)
    return None


def _interrupted(call_id: str, *, mutates: bool) -> Result:
    if mutates:
        text, state, failure = INTERRUPTED, State.UNKNOWN, Failure.OUTCOME_UNKNOWN
    else:
        text, state, failure = INTERRUPTED_READING, State.FAILED, Failure.CANCELLED
    return Result(False, error=f"Call {call_id} {text}", state=state, failure=failure, call_id=call_id)

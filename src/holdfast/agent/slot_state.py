"""The state of a slot: what the ledger and the placeholder together require the loop to do."""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from holdfast.agent.approval_provenance import could_be_forged
from holdfast.agent.conversation import Slot, Status
from holdfast.contract.call import PendingCall
from holdfast.contract.enums import Failure, State
from holdfast.contract.errors import UnknownCall
from holdfast.contract.json import encode_json
from holdfast.contract.result import Result
from holdfast.runtime.pending import REJECTED_BY_USER
from holdfast.runtime.runtime import Runtime
from holdfast.store.queries import CallRecord

DENIED: Final = "The tool was denied by a policy."
_CHANGED: Final = "The arguments were changed to "
INTERRUPTED: Final = "Response interrupted by the user."
_NOT_RUN: Final = frozenset({State.REJECTED, State.CANCELLED, State.DENIED})
_REFUSALS: Final = (Status.REJECTED, Status.DENIED, Status.ABORTED)


class SlotAction(Enum):
    """What the loop does next about a slot."""

    JUDGE = auto()
    """No valid decision yet: decide."""
    RUN = auto()
    """Submit it to the pipeline, which decides whether it runs."""
    APPROVE = auto()
    """A person approved the pending call."""
    RESUME = auto()
    """It was approved, here or elsewhere, and has not run."""
    AWAIT = auto()
    """It is running elsewhere."""
    WRITE_RESULT = auto()
    """It has ended, or a person refused it or typed its result."""
    MARK_PENDING = auto()
    """It is pending, but its placeholder is missing, outdated or has an approval that does not count."""
    WAIT_FOR_ANSWER = auto()
    """It waits for a person."""
    EDITED = auto()
    """A person typed text where its result would go."""


class SlotState(Struct, frozen=True):
    """A slot and its call in the ledger."""

    slot: Slot
    record: CallRecord | None = None
    pending: PendingCall | None = None
    redacted_text: str = ""
    """The slot's text as the ledger stores it."""
    maybe_forged: bool = False
    """A tool could have typed the approval since the call became pending."""

    @property
    def state(self) -> State | None:
        return None if self.record is None else self.record.state

    @property
    def action(self) -> SlotAction:
        slot = self.slot
        if self.record is not None and self.record.result is not None:
            return SlotAction.EDITED if self._contradicts(self.record.result) else SlotAction.WRITE_RESULT
        if self.state is State.RUNNING:
            return SlotAction.AWAIT
        if slot.aborted is not None and slot.status is None:
            return SlotAction.JUDGE
        if slot.aborted is not None or slot.status in _REFUSALS:
            return SlotAction.WRITE_RESULT
        if slot.text.strip():
            return SlotAction.EDITED if slot.status is Status.APPROVED else SlotAction.WRITE_RESULT
        if self.state is State.APPROVED:
            return SlotAction.RESUME
        if self.pending is not None:
            return self._pending_action(self.pending)
        return SlotAction.RUN if slot.status is Status.APPROVED else SlotAction.JUDGE

    def _pending_action(self, pending: PendingCall) -> SlotAction:
        if self.slot.status is Status.PENDING:
            return SlotAction.WAIT_FOR_ANSWER
        counts = is_as_shown(self.slot, pending) and not self.arguments_changed and not self.maybe_forged
        return SlotAction.APPROVE if self.slot.status is Status.APPROVED and counts else SlotAction.MARK_PENDING

    @property
    def arguments_changed(self) -> bool:
        """Whether another interface edited the arguments, so that the conversation does not show the real ones."""
        return self.record is not None and any(given.answer.kind == "edit" for given in self.record.answers)

    def _contradicts(self, result: Result) -> bool:
        """Whether the typed text differs from the result of a call that ran. If it did not run, the text wins."""
        text = self.redacted_text
        if not text or text in (result.output.strip(), (result.error or "").strip()):
            return False
        return self.slot.status is Status.APPROVED or result.state not in _NOT_RUN


def is_as_shown(slot: Slot, pending: PendingCall) -> bool:
    """Whether the pending call is still the one for which the placeholder was written."""
    return slot.call is not None and slot.call.digest == pending.digest


def read_slot_state(runtime: Runtime, slot: Slot) -> SlotState:
    if slot.call is None:
        return SlotState(slot)
    ledger = runtime.pending.ledger
    try:
        record = ledger.call(slot.call.call_id)
    except UnknownCall:
        return SlotState(slot)
    pending = ledger.find_pending(slot.call.call_id) if record.result is None else None
    typed = pending is not None and pending.state is State.PENDING and slot.status is Status.APPROVED
    maybe_forged = typed and pending is not None and could_be_forged(runtime, pending)
    return SlotState(slot, record, pending, runtime.redactor(slot.text.strip()), maybe_forged)


def user_result(slot: Slot) -> Result | None:
    """The result that a person typed, or the refusal that the status means; None if there is neither."""
    text = slot.text.strip()
    if slot.aborted is not None or slot.status is Status.ABORTED:
        return _refusal(slot.aborted or INTERRUPTED, State.CANCELLED, Failure.CANCELLED)
    if slot.status is Status.DENIED:
        return _refusal(DENIED, State.DENIED, Failure.DENIED_BY_POLICY)
    if slot.status is Status.REJECTED:
        return _refusal(text or REJECTED_BY_USER, State.REJECTED, Failure.REJECTED)
    return Result(True, slot.text) if text and slot.status is not Status.APPROVED else None


def result_for_model(state: SlotState, result: Result) -> Result:
    """The final result of a call with the text that the model receives."""
    slot, record = state.slot, state.record
    typed = user_result(slot) if result.state in _NOT_RUN and slot.status is not Status.DENIED else None
    if typed is not None:
        return replace(typed, call_id=result.call_id)
    if result.failure is Failure.DENIED_BY_POLICY:
        reason = record.decisions[-1].reason if record is not None and record.decisions else result.error or ""
        return replace(result, error=f"{DENIED} {reason}")
    if record is None:
        return result
    if not state.arguments_changed or record.began_at is None:
        return result
    note = f"{_CHANGED}{encode_json(record.call.args).decode()} before it ran.\n\n"
    if result.success:
        return replace(result, output=f"{note}{result.output}")
    return replace(result, error=f"{note}{result.error or 'Unknown error'}")


def without_change_note(output: str) -> str:
    """The tool's own output, without the note that its arguments were changed."""
    return output.partition("\n\n")[2] if output.startswith(_CHANGED) else output


def _refusal(text: str, state: State, failure: Failure) -> Result:
    return Result(False, error=text, state=state, failure=failure)

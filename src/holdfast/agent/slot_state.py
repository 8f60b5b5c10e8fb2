"""What the ledger knows of a slot, whether a tool could have typed its approval, and what that asks for."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from enum import Enum, auto
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from holdfast.agent.conversation import Slot, Status
from holdfast.config.roots import find_root
from holdfast.contract.call import PendingCall
from holdfast.contract.enums import Failure, State
from holdfast.contract.errors import HoldfastError, LedgerError, UnknownCall
from holdfast.contract.json import encode_json
from holdfast.contract.result import Result
from holdfast.contract.tool import Tool
from holdfast.fs.paths import fold_path
from holdfast.runtime.pending import REJECTED_BY_USER
from holdfast.runtime.runtime import Runtime
from holdfast.store.changes import net_changes
from holdfast.store.ledger import Ledger
from holdfast.store.queries import CallRecord

_UNDO: Final = "holdfast.undo"
"""The tool of calls that undo others: all they write is recorded."""
_LEDGER: Final = "ledger.db"
_CLOCKS: Final = 1.0
"""Seconds by which the times of files may lag behind the clock."""


def can_write_unrecorded(tool: Tool | None) -> bool:
    """Whether it could write where nobody looks: of the tools holdfast comes with only those that run programs."""
    if tool is None:
        return True
    return tool.mutates and (tool.source != "builtin" or tool.effects is None or "process" in tool.effects)


def could_be_forged(runtime: Runtime, held: PendingCall) -> bool:
    """Whether anything but a person could have written an approval since a call was held: a process that lived, a call
    of another conversation that acted unseen, or any call that is recorded to have changed the document."""
    if runtime.services.writers_alive(since=held.held_at):
        return True
    try:
        return _acted_here(runtime, held) or _acted_in_others(runtime, held)
    except LedgerError:
        return True  # nobody can tell what an entry that cannot be read was


def _acted_here(runtime: Runtime, held: PendingCall) -> bool:
    ledger, document = runtime.pending.ledger, runtime.workspace.document
    ours = (held.call.request or "").rpartition(":")[0]
    for record in _acted(ledger, held.held_at):
        own = ours and (record.call.request or "").startswith(f"{ours}:")
        if not own and _is_unseen(runtime, record):
            return True
        if document is not None and _changed(ledger, record, document):
            return True
    return False


def _acted_in_others(runtime: Runtime, held: PendingCall) -> bool:
    document, since = runtime.workspace.document, held.held_at
    if document is None:
        return False
    return any(_reached(runtime, other, document, since) for other in _other_projects(runtime.workspace.state, since))


def _reached(runtime: Runtime, ledger: Path, document: Path, since: float) -> bool:
    """Whether a call of another project changed the document, or acted unseen in a project the document lies in. What
    cannot be read may have."""
    try:
        with Ledger.open(ledger, read_only=True) as opened:
            return _changed_or_around(runtime, opened, document, since)
    except (HoldfastError, OSError):
        return True


def _changed_or_around(runtime: Runtime, ledger: Ledger, document: Path, since: float) -> bool:
    for record in _acted(ledger, since):
        root = find_root(Path(record.call.cwd))
        around = Path(record.call.cwd) if root is None else root
        if _is_unseen(runtime, record) and document.is_relative_to(os.path.realpath(around)):
            return True
        if _changed(ledger, record, document):
            return True
    return False


def _acted(ledger: Ledger, since: float) -> Iterator[CallRecord]:
    records = (ledger.call(call_id) for call_id in ledger.active_since(since))
    return (record for record in records if record.began_at is not None)


def _is_unseen(runtime: Runtime, record: CallRecord) -> bool:
    return record.call.tool != _UNDO and can_write_unrecorded(runtime.registry.find(record.call.tool))


def _changed(ledger: Ledger, record: CallRecord, document: Path) -> bool:
    """Whether a call is recorded to have changed a file, under whatever name it was known to it."""
    wanted = fold_path(str(document))
    return any(
        fold_path(change.path) == wanted or _is_same_file(change.path, document)
        for change in net_changes(ledger, record.call.id)
    )


def _is_same_file(path: str, document: Path) -> bool:
    with suppress(OSError, ValueError):
        return document.samefile(path)
    return False


def _other_projects(state: Path | None, since: float) -> list[Path]:
    """The ledgers of other projects that were written since: one project may lie in another."""
    found = [] if state is None else sorted(state.parent.glob(f"*/{_LEDGER}"))
    return [file for file in found if file.parent != state and _written_since(file, since)]


def _written_since(ledger: Path, since: float) -> bool:
    for file in (ledger, ledger.with_name(f"{_LEDGER}-wal")):
        with suppress(OSError):
            if file.stat().st_mtime >= since - _CLOCKS:
                return True
    return False


DENIED: Final = "The tool was denied by a policy."
_CHANGED: Final = "The arguments were changed to "
INTERRUPTED: Final = "Response interrupted by the user."
_NOT_RUN: Final = frozenset({State.REJECTED, State.CANCELLED, State.DENIED})
_REFUSALS: Final = (Status.REJECTED, Status.DENIED, Status.ABORTED)


class SlotAction(Enum):
    """What is to be done about a slot."""

    JUDGE = auto()
    """Nobody has said anything about it that counts."""
    RUN = auto()
    """It runs if the path lets it."""
    APPROVE = auto()
    """A person approved what is held."""
    RESUME = auto()
    """It was approved, here or elsewhere, and has not run."""
    AWAIT = auto()
    """It runs elsewhere, right now."""
    WRITE_RESULT = auto()
    """It has ended; or a person answers for it, or against it."""
    MARK_PENDING = auto()
    """It is held, but the conversation does not say so, or says it about something else."""
    WAIT_FOR_ANSWER = auto()
    """It waits for a person."""
    EDITED = auto()
    """A person wrote where a result was to go."""


class SlotState(Struct, frozen=True):
    """A slot as the ledger knows it."""

    slot: Slot
    record: CallRecord | None = None
    pending: PendingCall | None = None
    redacted_text: str = ""
    """The slot's text as the ledger would keep it."""
    maybe_forged: bool = False
    """Something but a person could have typed what stands there since it was held."""

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
            return self._step_held(self.pending)
        return SlotAction.RUN if slot.status is Status.APPROVED else SlotAction.JUDGE

    def _step_held(self, held: PendingCall) -> SlotAction:
        if self.slot.status is Status.PENDING:
            return SlotAction.WAIT_FOR_ANSWER
        counts = is_as_shown(self.slot, held) and not self.arguments_changed and not self.maybe_forged
        return SlotAction.APPROVE if self.slot.status is Status.APPROVED and counts else SlotAction.MARK_PENDING

    @property
    def arguments_changed(self) -> bool:
        """Somebody gave it other arguments elsewhere: it is not what the conversation shows."""
        return self.record is not None and any(given.answer.kind == "edit" for given in self.record.answers)

    def _contradicts(self, result: Result) -> bool:
        """A person's text beside a call that has ended as something else; where it did not run, the person is right."""
        text = self.redacted_text
        if not text or text in (result.output.strip(), (result.error or "").strip()):
            return False
        return self.slot.status is Status.APPROVED or result.state not in _NOT_RUN


def is_as_shown(slot: Slot, held: PendingCall) -> bool:
    """Whether what is held is still what was held when the placeholder was written."""
    return slot.call is not None and slot.call.digest == held.digest


def read_slot_state(runtime: Runtime, slot: Slot) -> SlotState:
    if slot.call is None:
        return SlotState(slot)
    ledger = runtime.pending.ledger
    try:
        record = ledger.call(slot.call.call_id)
    except UnknownCall:
        return SlotState(slot)
    held = ledger.find_pending(slot.call.call_id) if record.result is None else None
    typed = held is not None and held.state is State.PENDING and slot.status is Status.APPROVED
    doubtful = typed and held is not None and could_be_forged(runtime, held)
    return SlotState(slot, record, held, runtime.redactor(slot.text.strip()), doubtful)


def user_result(slot: Slot) -> Result | None:
    """What a person says in the tool's place, or against it; None where nobody does."""
    text = slot.text.strip()
    if slot.aborted is not None or slot.status is Status.ABORTED:
        return _refusal(slot.aborted or INTERRUPTED, State.CANCELLED, Failure.CANCELLED)
    if slot.status is Status.DENIED:
        return _refusal(DENIED, State.DENIED, Failure.DENIED_BY_POLICY)
    if slot.status is Status.REJECTED:
        return _refusal(text or REJECTED_BY_USER, State.REJECTED, Failure.REJECTED)
    return Result(True, slot.text) if text and slot.status is not Status.APPROVED else None


def result_for_model(standing: SlotState, result: Result) -> Result:
    """The result a call ended with, in the words the model is told."""
    slot, record = standing.slot, standing.record
    said = user_result(slot) if result.state in _NOT_RUN and slot.status is not Status.DENIED else None
    if said is not None:
        return replace(said, call_id=result.call_id)
    if result.failure is Failure.DENIED_BY_POLICY:
        reason = record.decisions[-1].reason if record is not None and record.decisions else result.error or ""
        return replace(result, error=f"{DENIED} {reason}")
    if record is None:
        return result
    if not standing.arguments_changed or record.began_at is None:
        return result
    note = f"{_CHANGED}{encode_json(record.call.args).decode()} before it ran.\n\n"
    if result.success:
        return replace(result, output=f"{note}{result.output}")
    return replace(result, error=f"{note}{result.error or 'Unknown error'}")


def without_change_note(output: str) -> str:
    """What a tool said itself, without the note that it ran with other arguments."""
    return output.partition("\n\n")[2] if output.startswith(_CHANGED) else output


def _refusal(text: str, state: State, failure: Failure) -> Result:
    return Result(False, error=text, state=state, failure=failure)

"""Tracks whether an `approved` typed into the document can be trusted to come from a person.

A document is a file, and a command may find a way to write to it. An approval counts only if no tool, background
process or server could have typed it since the call became pending.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from holdfast.agent.conversation import Conversation, LedgerCall, SetResult, SetStatus, Slot, Status
from holdfast.config.roots import find_root
from holdfast.contract.call import PendingCall
from holdfast.contract.errors import HoldfastError, LedgerError
from holdfast.contract.tool import Tool
from holdfast.fs.paths import fold_path
from holdfast.runtime.runtime import Runtime
from holdfast.store.changes import net_changes
from holdfast.store.ledger import Ledger
from holdfast.store.queries import CallRecord

_UNDO: Final = "holdfast.undo"
"""The tool of undo calls, which record everything they write."""
_LEDGER: Final = "ledger.db"
_CLOCK_SKEW: Final = 1.0
"""Seconds by which file timestamps may lag behind the clock."""


class ApprovalProvenance:
    """Forgets which calls were shown while a call runs that could type an approval, and restores that afterwards."""

    def __init__(self, runtime: Runtime, conversation: Conversation) -> None:
        self._runtime = runtime
        self._conversation = conversation
        self._running = 0
        self._shown: dict[str, str] = {}
        """Digests of shown pending calls, by call id, which do not count while a writer is active."""

    @property
    def writer_active(self) -> bool:
        """Whether something is running that could write to the conversation without being recorded."""
        return self._running > 0 or self._runtime.services.writers_alive()

    @contextmanager
    def while_running(self, slots: Sequence[Slot]) -> Generator[None]:
        """Wrap the execution of these calls."""
        if not any(can_write_unrecorded(self._runtime.registry.find(slot.use.name)) for slot in slots):
            yield
            return
        ours = {slot.call.call_id for slot in slots if slot.call is not None}
        others: list[tuple[Slot, LedgerCall]] = []
        for slot in self._conversation.slots():
            if slot.call is not None and slot.call.digest and slot.call.call_id not in ours:
                self._shown[slot.call.call_id] = slot.call.digest
                others.append((slot, LedgerCall(call_id=slot.call.call_id, digest="")))
        # Before the calls start: if the process dies while they run, an approval they typed must not count either.
        if others:
            self._conversation.remember_all(others)
        self._running += 1
        try:
            yield
        finally:
            self._running -= 1

    def restore_shown(self, waiting: Iterable[tuple[Slot, PendingCall]]) -> None:
        """Count calls that still say `pending` as shown again, once no writer is active."""
        if not self._shown or self.writer_active:
            return
        again = [
            (slot, LedgerCall(call_id=slot.call.call_id, digest=pending.digest))
            for slot, pending in waiting
            if slot.call is not None
            and slot.call.digest != pending.digest
            and self._shown.get(slot.call.call_id) == pending.digest
        ]
        if again:
            self._conversation.remember_all(again)
        self._shown.clear()

    def record_shown(self, changes: Sequence[SetStatus | SetResult]) -> None:
        """After writing placeholders: remember the digests of the pending calls that they show."""
        ledger = self._runtime.pending.ledger
        shown: list[tuple[Slot, LedgerCall]] = []
        for change in changes:
            call = change.slot.call
            if isinstance(change, SetStatus) and change.status is Status.PENDING and call is not None:
                pending = ledger.find_pending(call.call_id)
                if pending is not None and pending.digest != call.digest:
                    shown.append((change.slot, LedgerCall(call_id=call.call_id, digest=pending.digest)))
        if self.writer_active:
            self._shown.update((call.call_id, call.digest) for _, call in shown)
        elif shown:
            self._conversation.remember_all(shown)


def can_write_unrecorded(tool: Tool | None) -> bool:
    """Whether a tool could change files without recording it. Of the built-in tools, only those that run programs."""
    if tool is None:
        return True
    return tool.mutates and (tool.source != "builtin" or tool.effects is None or "process" in tool.effects)


def could_be_forged(runtime: Runtime, pending: PendingCall) -> bool:
    """Whether anything but a person could have typed an approval since the call became pending.

    That is a process that was alive, an unrecorded writer of another conversation, or a call that changed the document.
    """
    if runtime.services.writers_alive(since=pending.held_at):
        return True
    try:
        return _written_in_project(runtime, pending) or _written_by_other_projects(runtime, pending)
    except LedgerError:
        return True  # an unreadable entry could have been a writer


def _written_in_project(runtime: Runtime, pending: PendingCall) -> bool:
    ledger, document = runtime.pending.ledger, runtime.workspace.document
    conversation = (pending.call.request or "").rpartition(":")[0]
    for record in _calls_since(ledger, pending.held_at):
        own = conversation and (record.call.request or "").startswith(f"{conversation}:")
        # `ApprovalProvenance` tracks the unrecorded writers of this conversation while they run.
        if not own and _may_have_written(runtime, record):
            return True
        if document is not None and _changed_document(ledger, record, document):
            return True
    return False


def _written_by_other_projects(runtime: Runtime, pending: PendingCall) -> bool:
    document, since = runtime.workspace.document, pending.held_at
    if document is None:
        return False
    others = _other_ledgers(runtime.workspace.state, since)
    return any(_written_by_project(runtime, other, document, since) for other in others)


def _written_by_project(runtime: Runtime, path: Path, document: Path, since: float) -> bool:
    """Whether a call in this ledger could have written to the document; True if the ledger is unreadable."""
    try:
        with Ledger.open(path, read_only=True) as ledger:
            return any(_may_have_reached(runtime, ledger, record, document) for record in _calls_since(ledger, since))
    except (HoldfastError, OSError):
        return True


def _may_have_reached(runtime: Runtime, ledger: Ledger, record: CallRecord, document: Path) -> bool:
    """Whether a call changed the document, or was an unrecorded writer in a project that contains it."""
    root = find_root(Path(record.call.cwd))
    folder = Path(record.call.cwd) if root is None else root
    if _may_have_written(runtime, record) and document.is_relative_to(os.path.realpath(folder)):
        return True
    return _changed_document(ledger, record, document)


def _calls_since(ledger: Ledger, since: float) -> Iterator[CallRecord]:
    records = (ledger.call(call_id) for call_id in ledger.active_since(since))
    return (record for record in records if record.began_at is not None)


def _may_have_written(runtime: Runtime, record: CallRecord) -> bool:
    return record.call.tool != _UNDO and can_write_unrecorded(runtime.registry.find(record.call.tool))


def _changed_document(ledger: Ledger, record: CallRecord, document: Path) -> bool:
    """Whether a call recorded a change of the document, under any path."""
    wanted = fold_path(str(document))
    return any(
        fold_path(change.path) == wanted or _is_same_file(change.path, document)
        for change in net_changes(ledger, record.call.id)
    )


def _is_same_file(path: str, document: Path) -> bool:
    with suppress(OSError, ValueError):
        return document.samefile(path)
    return False


def _other_ledgers(state: Path | None, since: float) -> list[Path]:
    """The ledgers of other projects written since: projects may be nested."""
    found = [] if state is None else sorted(state.parent.glob(f"*/{_LEDGER}"))
    return [file for file in found if file.parent != state and _modified_since(file, since)]


def _modified_since(ledger: Path, since: float) -> bool:
    for file in (ledger, ledger.with_name(f"{_LEDGER}-wal")):
        with suppress(OSError):
            if file.stat().st_mtime >= since - _CLOCK_SKEW:
                return True
    return False

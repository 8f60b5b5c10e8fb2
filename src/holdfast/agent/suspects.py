"""Tracks whether an `approved` typed into the document can be trusted to come from a person.

A document is a file, and tools write files. What they write is in the ledger, where it was recorded; where it was not,
whatever ran since the call was held could have done it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from holdfast.config.patterns import fold_path
from holdfast.config.roots import find_root
from holdfast.contract.call import HeldCall
from holdfast.contract.errors import HoldfastError, LedgerError
from holdfast.contract.tool import Tool
from holdfast.runtime.runtime import Runtime
from holdfast.store.changes import changes_of
from holdfast.store.ledger import Ledger
from holdfast.store.queries import CallRecord

_UNDO: Final = "holdfast.undo"
"""The tool of calls that undo others: all they write is recorded."""
_LEDGER: Final = "ledger.db"
_CLOCKS: Final = 1.0
"""Seconds by which the times of files may lag behind the clock."""


def acts_unseen(tool: Tool | None) -> bool:
    """Whether it could write where nobody looks: of the tools holdfast comes with only those that run programs."""
    if tool is None:
        return True
    return tool.mutates and (tool.source != "builtin" or tool.effects is None or "process" in tool.effects)


def could_have_typed(runtime: Runtime, held: HeldCall) -> bool:
    """Whether anything but a person could have written an approval since a call was held: a process that lived, a call
    of another conversation that acted unseen, or any call that is recorded to have changed the document."""
    if runtime.hands.background_alive(since=held.held_at):
        return True
    try:
        return _acted_here(runtime, held) or _acted_in_others(runtime, held)
    except LedgerError:
        return True  # nobody can tell what an entry that cannot be read was


def _acted_here(runtime: Runtime, held: HeldCall) -> bool:
    ledger, document = runtime.ledger_for_held(), runtime.document
    ours = (held.call.request or "").rpartition(":")[0]
    for record in _acted(ledger, held.held_at):
        own = ours and (record.call.request or "").startswith(f"{ours}:")
        if not own and _is_unseen(runtime, record):
            return True
        if document is not None and _changed(ledger, record, document):
            return True
    return False


def _acted_in_others(runtime: Runtime, held: HeldCall) -> bool:
    document, since = runtime.document, held.held_at
    if document is None:
        return False
    return any(_reached(runtime, other, document, since) for other in _other_projects(runtime.hands.state, since))


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
    return record.call.tool != _UNDO and acts_unseen(runtime.registry.find(record.call.tool))


def _changed(ledger: Ledger, record: CallRecord, document: Path) -> bool:
    """Whether a call is recorded to have changed a file, under whatever name it was known to it."""
    wanted = fold_path(str(document))
    return any(
        fold_path(change.path) == wanted or _is_same_file(change.path, document)
        for change in changes_of(ledger, record.call.id)
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

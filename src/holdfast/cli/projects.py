"""Pending calls of all projects of the user, and working in the project of one of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Literal

from holdfast.cli import console
from holdfast.cli.errors import UsageProblem
from holdfast.cli.pending_view import find_held
from holdfast.cli.project_context import Flags, setting_here
from holdfast.cli.wrap import note_folded
from holdfast.config.roots import find_root, state_dir
from holdfast.contract.call import PendingCall
from holdfast.contract.enums import State
from holdfast.contract.errors import LedgerError, NotPending, UnknownCall
from holdfast.import_path import forget_projects
from holdfast.store.ledger import Ledger

Projects = Literal["this", "all"]


def ledgers_everywhere(flags: Flags) -> Iterator[Ledger]:
    """The ledger of every project of this user, to look at."""
    for path in sorted(setting_here(flags).state.parent.glob("*/ledger.db")):
        try:
            with Ledger.open(path, read_only=True) as ledger:
                yield ledger
        except LedgerError as error:
            note_folded(console.shown(str(error)), "Warning:")


def enter_project(flags: Flags, call_id: str | None, command: str) -> None:
    """Work in the project of the pending call that is meant, as with -C: it is answered under the rules there."""
    found = [(held, ledger.path.parent) for ledger in ledgers_everywhere(flags) for held in _meant(ledger, call_id)]
    if len(found) == 1:
        _enter(*found[0])
    elif not found and call_id is None:
        raise NotPending("Nothing is pending.")
    elif not found:
        raise UnknownCall(
            f"No call '{call_id}' is pending in your projects; `holdfast pending --project all` lists those that are."
        )
    elif call_id is None:
        raise UsageProblem(f"{len(found):,} calls are pending. Use `holdfast {command} ID --project all`, or --all.")
    else:
        folders = ", ".join(held.call.cwd for held, _ in found)
        raise UsageProblem(f"Several projects have a call '{call_id}': {folders}. Use `holdfast -C DIR {command} ID`.")


def each_project(flags: Flags, projects: Projects) -> Iterator[None]:
    """Work here, or in one project after another that has pending calls."""
    if projects == "this":
        yield
        return
    found = ((_meant(ledger, None), ledger.path.parent) for ledger in ledgers_everywhere(flags))
    waiting = [(calls[0], state) for calls, state in found if calls]
    if not waiting:
        raise NotPending("Nothing is pending.")
    for held, state in waiting:
        try:
            _enter(held, state)
        except NotPending as error:
            note_folded(console.shown(str(error)), "Warning:")
            continue
        note_folded(f"In {console.shown(held.call.cwd)}:")
        yield


def say_where(flags: Flags, call_id: str, command: str, error: UnknownCall) -> UnknownCall:
    """What to do about an id that no call of this project has: a call of another project may have it."""
    for ledger in ledgers_everywhere(flags):
        for held in _meant(ledger, call_id):
            return UnknownCall(
                f"Call {held.call.id} is pending in another project, {held.call.cwd}. "
                f"Use `holdfast {command} {held.call.id} --project all`."
            )
    return error


def _meant(ledger: Ledger, call_id: str | None) -> list[PendingCall]:
    if call_id is None:
        return [held for held in ledger.pending() if held.state is State.PENDING]
    with suppress(UnknownCall, NotPending):
        return [find_held(ledger, call_id)]
    return []


def _enter(held: PendingCall, state: Path) -> None:
    folder = Path(held.call.cwd)
    if not folder.is_dir() or state_dir(find_root(folder) or folder) != state:
        raise NotPending(f"Call {held.call.id} cannot be answered: its project at {folder} is gone or was moved.")
    os.chdir(folder)
    forget_projects()

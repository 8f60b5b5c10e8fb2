"""Pending calls in all projects of the user (`--project all`), and switching to the project of one of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Literal

from holdfast.cli.errors import UsageProblem
from holdfast.cli.layout import print_message
from holdfast.cli.pending_view import find_pending
from holdfast.cli.project_context import Flags, project_here
from holdfast.config.roots import find_root, state_dir
from holdfast.contract.call import PendingCall
from holdfast.contract.enums import State
from holdfast.contract.errors import LedgerError, NotPending, UnknownCall
from holdfast.import_path import remove_projects
from holdfast.store.ledger import Ledger
from holdfast.text.escape import escape_once

ProjectScope = Literal["this", "all"]


def all_ledgers(flags: Flags) -> Iterator[Ledger]:
    """Yield the ledger of every project of this user, opened read-only."""
    for path in sorted(project_here(flags).state.parent.glob("*/ledger.db")):
        try:
            with Ledger.open(path, read_only=True) as ledger:
                yield ledger
        except LedgerError as error:
            print_message(escape_once(str(error)), "Warning:")


def enter_project(flags: Flags, call_id: str | None, command: str) -> None:
    """Change to the project of the pending call, as with -C, so that its rules apply to the answer."""
    found = [
        (pending, ledger.path.parent) for ledger in all_ledgers(flags) for pending in _matching_calls(ledger, call_id)
    ]
    if len(found) == 1:
        _change_directory(*found[0])
    elif not found and call_id is None:
        raise NotPending("Nothing is pending.")
    elif not found:
        raise UnknownCall(
            f"No call '{call_id}' is pending in your projects. `holdfast pending --project all` lists those that are."
        )
    elif call_id is None:
        raise UsageProblem(f"{len(found):,} calls are pending. Use `holdfast {command} ID --project all`, or --all.")
    else:
        folders = ", ".join(pending.call.cwd for pending, _ in found)
        raise UsageProblem(f"Several projects have a call '{call_id}': {folders}. Use `holdfast -C DIR {command} ID`.")


def each_project(flags: Flags, projects: ProjectScope) -> Iterator[None]:
    """Yield once here, or once in each project that has pending calls."""
    if projects == "this":
        yield
        return
    found = ((_matching_calls(ledger, None), ledger.path.parent) for ledger in all_ledgers(flags))
    open_projects = [(calls[0], state) for calls, state in found if calls]
    if not open_projects:
        raise NotPending("Nothing is pending.")
    for pending, state in open_projects:
        try:
            _change_directory(pending, state)
        except NotPending as error:
            print_message(escape_once(str(error)), "Warning:")
            continue
        print_message(f"In {escape_once(pending.call.cwd)}:")
        yield


def locate_unknown_call(flags: Flags, call_id: str, command: str, error: UnknownCall) -> UnknownCall:
    """Return the error for an id that is unknown here. It names the project whose pending call has that id, if any."""
    for ledger in all_ledgers(flags):
        for pending in _matching_calls(ledger, call_id):
            return UnknownCall(
                f"Call {pending.call.id} is pending in another project, {pending.call.cwd}. "
                f"Use `holdfast {command} {pending.call.id} --project all`."
            )
    return error


def _matching_calls(ledger: Ledger, call_id: str | None) -> list[PendingCall]:
    if call_id is None:
        return [pending for pending in ledger.pending() if pending.state is State.PENDING]
    with suppress(UnknownCall, NotPending):
        return [find_pending(ledger, call_id)]
    return []


def _change_directory(pending: PendingCall, state: Path) -> None:
    folder = Path(pending.call.cwd)
    if not folder.is_dir() or state_dir(find_root(folder) or folder) != state:
        raise NotPending(f"Cannot answer call {pending.call.id}: its project at {folder} was deleted or moved.")
    os.chdir(folder)
    remove_projects()

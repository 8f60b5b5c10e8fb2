"""`holdfast chat run`: run one call of a document."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from holdfast.agent.conversation import LedgerCall, Status
from holdfast.cli import console
from holdfast.cli.chat.documents import find_call, project_of
from holdfast.cli.chat.runner import ChatOptions, ChatRunner, interrupts
from holdfast.cli.errors import PENDING
from holdfast.cli.pending_view import review, was_shown
from holdfast.cli.project_context import Flags, install_warning_handler
from holdfast.cli.root import complete_pending, with_flags
from holdfast.contract.enums import State
from holdfast.factory.runtime import open_ledger


@click.command()
@click.argument("call", metavar="ID", shell_complete=complete_pending)
@click.argument("file", required=False, type=click.Path())
@click.option("--digest", metavar="DIGEST", help="Approve the call with this digest: 12 or more of its digits.")
@with_flags
def run(flags: Flags, call: str, file: str | None, digest: str | None, as_json: bool) -> int:
    """Run one call of a document, and no other.

    ID is the full id in the document, or the one that `holdfast pending` prints.
    This approves a pending call, as it was last shown to you in full or as
    --digest names it, and runs it. FILE may be left out if no other call of this
    project has or had that id.

    \b
    Example:
      holdfast chat run call_1 plan.chat
    """
    path, slot = find_call(call, file, flags)
    approved = None
    if slot.call is not None and slot.status is Status.PENDING and not slot.text.strip():
        with open_ledger(project_of(path, flags), read_only=True) as ledger:
            pending = ledger.find_pending(slot.call.call_id)
            if pending is not None and pending.state is State.PENDING and not pending.definition_only:
                if not was_shown(ledger, pending, digest) and not asyncio.run(review(pending)):
                    console.print_err(f"Call {pending.call.id} is still pending.")
                    return PENDING
                approved = LedgerCall(call_id=pending.call.id, digest=pending.digest)
    install_warning_handler()
    return asyncio.run(_run(path, slot.use.id, approved, ChatOptions(flags=flags, as_json=as_json)))


async def _run(path: Path, use_id: str, approved: LedgerCall | None, options: ChatOptions) -> int:
    with interrupts() as interrupt:
        return (await ChatRunner(path, options, interrupt).run_one(use_id, approved)).exit_code

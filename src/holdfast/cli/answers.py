"""Delivers an answer to a pending call: shared by `holdfast approve`, `reject` and `respond`."""

from __future__ import annotations

import asyncio
import sys
from typing import NamedTuple

import click
from msgspec.structs import replace

from holdfast.cli import console
from holdfast.cli.approval_prompt import create_grant
from holdfast.cli.call_runner import show_result, shown_progress
from holdfast.cli.chat.documents import location
from holdfast.cli.elicitation import TerminalElicitor, attach_silent_elicitor
from holdfast.cli.layout import print_message
from holdfast.cli.pending_view import PendingView, find_pending, print_pending, review
from holdfast.cli.project_context import Flags, is_builtin, open_runtime, require_ledger, servers_for
from holdfast.cli.projects import locate_unknown_call
from holdfast.cli.prompt import PromptDismissed
from holdfast.cli.root import complete_pending
from holdfast.contract.call import Answer, PendingCall
from holdfast.contract.enums import State
from holdfast.contract.errors import UnknownCall
from holdfast.contract.result import Result
from holdfast.runtime.runtime import Runtime
from holdfast.store.entries import Scope
from holdfast.store.ledger import Ledger
from holdfast.store.process_identity import is_alive
from holdfast.text.escape import escape_name

by_option = click.option("--by", metavar="NAME", help="Answer under this name instead of your user name.")
project_option = click.option(
    "--project", type=click.Choice(["this", "all"]), default="this", help="Find the call in all your projects."
)
optional_id_argument = click.argument("call_id", metavar="[ID]", required=False, shell_complete=complete_pending)


class Always(NamedTuple):
    """The grant that an approval also creates."""

    scope: Scope
    expires: float | None = None
    """Unix time."""


Delivered = tuple[Result, PendingCall | None, str]
"""The result, the call if it is still pending, and the digest of the call as it was shown here."""


def find_by_id(flags: Flags, ledger: Ledger, call_id: str, command: str) -> PendingCall:
    return find_pending(ledger, find_id(flags, ledger, call_id, command))


def find_id(flags: Flags, ledger: Ledger, call_id: str, command: str) -> str:
    """Return the full id. An unknown one raises an error that names the project whose pending call has it, if any."""
    try:
        return ledger.find(call_id)
    except UnknownCall as error:
        raise locate_unknown_call(flags, call_id, command, error) from None


def deliver_answer(
    flags: Flags, pending: PendingCall, answer: Answer, *, quiet: bool, always: Always | None = None
) -> Delivered:
    """Answer the call, showing it first unless `quiet`. An approved call runs here unless its own process runs it.

    With `always`, the other pending calls that the new grant covers are approved as well.
    """
    if answer.kind != "edit" and not answer.widen and not quiet:
        print_pending(pending, sys.stderr, whole=answer.kind == "approve")
    runs_here = answer.kind in ("approve", "edit") and not _has_live_waiter(pending)
    servers = servers_for(pending.call.tool) if runs_here else ()
    with open_runtime(flags, entry_points=not is_builtin(pending.call.tool), servers=servers) as runtime:
        if console.can_ask() or servers != ():
            attach_silent_elicitor(runtime, servers)
            if console.can_ask():
                runtime.attach(elicitor=TerminalElicitor(runtime))
        return asyncio.run(_deliver(runtime, pending, answer, quiet=quiet, always=always))


async def _deliver(
    runtime: Runtime, pending: PendingCall, answer: Answer, *, quiet: bool, always: Always | None
) -> Delivered:
    async with runtime:
        if runtime.registry.find(pending.call.tool) is None:
            await runtime.pipeline.wait_for_sources()
        if answer.kind == "edit":
            pending = await runtime.lifecycle.edit(pending, answer.args or {}, by=answer.by)
            answer = replace(answer, kind="approve", args=None)
            if not quiet and not answer.widen:
                await _show_changed(pending)
        digest = pending.digest
        if answer.widen:
            wide = await runtime.lifecycle.with_widening(pending, answer.widen)
            digest = await _show_widened(wide, pending)
        grant = None
        if always is not None:
            grant = await create_grant(runtime, pending, always.scope, answer.by, expires=always.expires)
        with shown_progress(runtime):
            result = await runtime.answer(pending.call.id, answer, digest=digest)
            covered = [] if grant is None else await runtime.approve_covered(grant, by=answer.by)
        for item in covered:
            state = item.result.state.replace("_", " ")
            print_message(f"The grant also approves call {escape_name(item.pending.call.id)}, which is {state}.")
        return _explain_approved(result, pending), require_ledger(runtime).find_pending(pending.call.id), pending.digest


async def _show_changed(pending: PendingCall) -> None:
    """Show a call with its new arguments. One that does not fit in a list is confirmed on a terminal."""
    if PendingView(pending).list_is_whole or not console.can_ask():
        print_pending(pending, sys.stderr)
    else:
        await review_or_dismiss(pending)


async def _show_widened(wide: PendingCall, pending: PendingCall) -> str:
    """Show the call with its wider sandbox; return the digest the answer is bound to.

    Without a terminal that is the digest of the call as it was seen before, with nothing but these limits changed.
    """
    if console.can_ask():
        await review_or_dismiss(wide)
        return wide.digest
    print_pending(wide, sys.stderr, whole=True)
    return pending.digest


async def review_or_dismiss(pending: PendingCall) -> None:
    """Show the call and ask; raise `PromptDismissed` unless the person approves it."""
    if not await review(pending):
        raise PromptDismissed


def _explain_approved(result: Result, pending: PendingCall) -> Result:
    """Say who runs an approved call that did not run here: the process that waits for it, or its document."""
    if result.state is not State.APPROVED:
        return result
    if pending.waiter is not None and _has_live_waiter(pending):
        text = f"Call {result.call_id} is approved. Process {pending.waiter.pid} is waiting for it and runs it."
    elif pending.call.caller.document is not None:
        document = location(pending.call.caller.document)
        text = f"Call {result.call_id} is approved. Run it with `holdfast chat {document}`; --watch runs it by itself."
    else:
        return result
    return replace(result, error=text)


def _has_live_waiter(pending: PendingCall) -> bool:
    return pending.waiter is not None and is_alive(pending.waiter)


def report_accepted(result: Result, message: str, *, as_json: bool) -> int:
    if as_json:
        show_result(result, as_json=True)
    else:
        console.print_err(message)
    return 0

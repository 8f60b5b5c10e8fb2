"""`holdfast pending`, `approve`, `reject` and `respond`: held calls, and the answers to them from any terminal."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import click
from msgspec.structs import replace

from holdfast.cli import console
from holdfast.cli.approval_prompt import absolute_paths, ask_questions, create_grant
from holdfast.cli.arguments import parse_object, read_text
from holdfast.cli.call_runner import show_result
from holdfast.cli.chat.documents import location
from holdfast.cli.elicitation import TerminalElicitor, attach_silent_elicitor
from holdfast.cli.errors import PENDING, UsageProblem
from holdfast.cli.json_output import PendingOutput
from holdfast.cli.layout import field_lines, print_message, quoted_field_lines, wrap_sentence
from holdfast.cli.pending_view import (
    PendingView,
    find_pending,
    group_identical,
    origin,
    print_pending,
    print_unreadable,
    record_shown,
    require_single_pending,
    review,
    review_all,
    was_shown,
)
from holdfast.cli.project_context import (
    Flags,
    is_builtin,
    open_runtime,
    read_ledger,
    require_ledger,
    servers_for,
    whoami,
)
from holdfast.cli.projects import ProjectScope, all_ledgers, each_project, enter_project, locate_unknown_call
from holdfast.cli.prompt import PromptDismissed
from holdfast.cli.root import complete_pending, with_flags
from holdfast.contract.call import Answer, PendingCall
from holdfast.contract.enums import Failure, State
from holdfast.contract.errors import NotPending, UnknownCall
from holdfast.contract.result import Result
from holdfast.contract.widening import Widening
from holdfast.runtime.runtime import Runtime
from holdfast.store.ledger import Ledger
from holdfast.store.process_identity import is_alive
from holdfast.text.escape import escape_name


@click.command()
@click.argument("call_id", metavar="[ID]", required=False, shell_complete=complete_pending)
@click.option("--project", type=click.Choice(["this", "all"]), default="this", help="Look in all your projects.")
@with_flags
def pending(flags: Flags, call_id: str | None, project: ProjectScope, as_json: bool) -> int:
    """List the calls that wait for a person, or show all about one.

    Each is listed under where it comes from: a document, an agent or a program.
    ID may be cut short before its dash, if only one call has it. What is shown in
    full, with ID or --json, is what `holdfast approve ID` approves.
    """
    if project == "all":
        if call_id is None:
            return _list_everywhere(flags, as_json=as_json)
        enter_project(flags, call_id, "pending")
    with read_ledger(flags, expire=True) as ledger:
        waiting = ledger.pending() if call_id is None else [_found(flags, ledger, call_id, "pending")]
        print_unreadable(ledger.unreadable_pending() if call_id is None else ())
    if as_json:
        for pending_call in waiting:
            console.print_json(PendingOutput.of(pending_call))
        record_shown(ledger.path.parent, waiting)
    elif call_id is not None:
        print_pending(waiting[0], sys.stdout, whole=True)
        record_shown(ledger.path.parent, waiting)
    elif not waiting:
        console.print_out("Nothing is waiting.")
    else:
        show_list(waiting, ledger.path.parent)
        if any(pending_call.state is State.PENDING for pending_call in waiting):
            print_message(
                "Answer with `holdfast approve ID`, `holdfast reject ID -m TEXT` or `holdfast respond ID TEXT`."
            )
    return 0


def _list_everywhere(flags: Flags, *, as_json: bool) -> int:
    """The pending calls of every project of this user."""
    found = 0
    for ledger in all_ledgers(flags):
        waiting = ledger.pending()
        found += len(waiting)
        for where in dict.fromkeys(pending_call.call.cwd for pending_call in waiting):
            here = [pending_call for pending_call in waiting if pending_call.call.cwd == where]
            if as_json:
                record_shown(ledger.path.parent, here)
                for pending_call in here:
                    console.print_json(PendingOutput.of(pending_call))
                continue
            console.print_out_lines(quoted_field_lines("folder", where, sys.stdout))
            show_list(here, ledger.path.parent)
    if not found and not as_json:
        console.print_out("Nothing is waiting.")
    elif not as_json:
        print_message("Answer with `holdfast approve ID --project all` or `holdfast reject ID --project all`.")
    return 0


def _found(flags: Flags, ledger: Ledger, call_id: str, command: str) -> PendingCall:
    return find_pending(ledger, _id(flags, ledger, call_id, command))


def _id(flags: Flags, ledger: Ledger, call_id: str, command: str) -> str:
    try:
        return ledger.find(call_id)
    except UnknownCall as error:
        raise locate_unknown_call(flags, call_id, command, error) from None


def show_list(waiting: Sequence[PendingCall], state: Path) -> None:
    """Every pending call under where it comes from, the same ones together."""
    groups = group_identical(waiting)
    for where in dict.fromkeys(origin(group[0]) for group in groups):
        console.print_out_lines(wrap_sentence(f"From {where}:", sys.stdout, "bold"))
        for group in (group for group in groups if origin(group[0]) == where):
            if print_pending(group[0], sys.stdout, listed=True):
                record_shown(state, group)
            if len(group) > 1:
                same = ", ".join(escape_name(pending_call.call.id) for pending_call in group[1:])
                console.print_out_lines(field_lines("same", same, sys.stdout))
            console.print_out()


_by = click.option("--by", metavar="NAME", help="Who answers; your user name unless given.")
_call_id = click.argument("call_id", metavar="ID", shell_complete=complete_pending)
_project = click.option(
    "--project", type=click.Choice(["this", "all"]), default="this", help="Find the call in all your projects."
)
_maybe_id = click.argument("call_id", metavar="[ID]", required=False, shell_complete=complete_pending)


@click.command()
@_maybe_id
@click.option("--all", "every", is_flag=True, help="Every pending call, after all of them are shown.")
@click.option("--args", "new_args", metavar="JSON", help="Approve it with these arguments instead (- reads stdin).")
@click.option("--digest", metavar="DIGEST", help="What you approve: at least 12 digits of the digest of the call.")
@click.option("--always", type=click.Choice(["project", "user"]), help="Also allow this exact call from now on.")
@click.option("--host", "hosts", metavar="HOST", multiple=True, help="Let this call reach a host by HTTP and HTTPS.")
@click.option("--network", is_flag=True, help="Let this call reach every host.")
@click.option("--read", metavar="PATH", multiple=True, help="Let this call read a path that the sandbox hides.")
@click.option("--write", metavar="PATH", multiple=True, help="Let this call change files in another folder.")
@click.option("--no-sandbox", "outside", is_flag=True, help="Run this call without a sandbox.")
@_project
@_by
@with_flags
def approve(
    flags: Flags,
    call_id: str | None,
    every: bool,
    new_args: str | None,
    digest: str | None,
    always: Literal["project", "user"] | None,
    project: ProjectScope,
    by: str | None,
    as_json: bool,
    **wider: Any,
) -> int:
    """Say yes to a waiting call.

    Without ID, to the only one that is pending. ID may be cut short before its
    dash, if only one call has it. What is approved is the call as you were last
    shown it in full, or as --digest names it; if it has changed since, nothing is
    approved and the exit code is 4. On a terminal a call you were never shown is
    shown first. A call of another project (--project all) is answered, and runs,
    under the rules of that project.

    If the tool is known here and nobody else waits to run the call, it runs at
    once, and the exit code is that of its result. A call of a document runs when
    its document goes on: with `holdfast chat FILE`, or by itself where that is
    watched. Until then the exit code is 4.

    --host, --network, --read, --write and --no-sandbox widen the sandbox for this
    call and no other. The call is shown with its new limits first; on a terminal
    you are asked again. To widen a command each time, write a rule with `network`,
    `read` or `write` (approval.commands).
    """
    if every:
        if any(given is not None for given in (call_id, new_args, digest, always)) or any(wider.values()):
            raise UsageProblem("--all stands alone: every other option is about one call.")
        return max((_approve_all(flags, by, as_json=as_json) for _ in each_project(flags, project)), default=PENDING)
    args = None if new_args is None else parse_object(new_args, "--args")
    widen = _widening(**wider)
    if widen and always is not None:
        raise UsageProblem(
            "--always does not remember what is widened: write a rule with network, read or write (approval.commands)."
        )
    answer = Answer(kind="approve" if args is None else "edit", by=whoami(by), args=args, widen=widen or None)
    if project == "all":
        enter_project(flags, call_id, "approve")
    with read_ledger(flags, expire=True) as ledger:
        pending_call = (
            require_single_pending(ledger, "approve") if call_id is None else _found(flags, ledger, call_id, "approve")
        )
        state = ledger.path.parent
        unseen = not pending_call.definition_only and not was_shown(ledger, pending_call, digest)
    try:
        if unseen and not widen:
            asyncio.run(_review(pending_call))
            record_shown(state, [pending_call])
        result, now, shown = _answer(flags, pending_call, answer, quiet=as_json or unseen, always=always)
    except PromptDismissed:
        console.print_err(f"Call {escape_name(pending_call.call.id)} still waits.")
        return PENDING
    return show_result(result, now, as_json=as_json, state=state, seen=now is not None and now.digest == shown)


def _approve_all(flags: Flags, by: str | None, *, as_json: bool) -> int:
    """Every call that is pending now, as it is shown now: a person says yes to all, or was shown each before."""
    with read_ledger(flags, expire=True) as ledger:
        waiting = [
            pending_call
            for pending_call in ledger.pending()
            if pending_call.state is State.PENDING and not pending_call.definition_only
        ]
        state = ledger.path.parent
        if not console.can_ask():
            for pending_call in waiting:
                was_shown(ledger, pending_call, None)  # raises where it was not
    if not waiting:
        raise NotPending("Nothing is pending.")
    if console.can_ask():
        if not asyncio.run(review_all(waiting)):
            console.print_err("Nothing was approved.")
            return PENDING
        record_shown(state, waiting)
    code = 0
    for pending_call in waiting:
        result, now, _ = _answer(flags, pending_call, Answer(kind="approve", by=whoami(by)), quiet=True)
        code = max(code, show_result(result, now, as_json=as_json, state=state, seen=True))
    return code


@click.command()
@_maybe_id
@click.option("--all", "every", is_flag=True, help="Every pending call, after all of them are shown.")
@click.option("-m", "--message", default="", metavar="TEXT", help="What the model is told.")
@_project
@_by
@with_flags
def reject(
    flags: Flags, call_id: str | None, every: bool, message: str, project: ProjectScope, by: str | None, as_json: bool
) -> int:
    """Say no to a waiting call.

    Without ID, to the only one that is pending. ID may be cut short before its
    dash, if only one call has it. The exit code is 0 when the answer was taken.
    """
    said = Answer(kind="reject", by=whoami(by), message=message)
    if every:
        if call_id is not None:
            raise UsageProblem("--all stands alone; leave ID out.")
        for _ in each_project(flags, project):
            _reject_all(flags, said, as_json=as_json)
        return 0
    if project == "all":
        enter_project(flags, call_id, "reject")
    with read_ledger(flags, expire=True) as ledger:
        found = (
            require_single_pending(ledger, "reject").call.id
            if call_id is None
            else _id(flags, ledger, call_id, "reject")
        )
        pending_call = None if found in ledger.unreadable_pending() else find_pending(ledger, found)
    result = (
        _ended(flags, found, said) if pending_call is None else _answer(flags, pending_call, said, quiet=as_json)[0]
    )
    return _taken(result, "Rejected.", as_json=as_json)


def _reject_all(flags: Flags, said: Answer, *, as_json: bool) -> None:
    with read_ledger(flags, expire=True) as ledger:
        waiting = [pending_call for pending_call in ledger.pending() if pending_call.state is State.PENDING]
    if not waiting:
        raise NotPending("Nothing is pending.")
    for pending_call in waiting:
        _taken(
            _answer(flags, pending_call, said, quiet=as_json)[0], f"Rejected {pending_call.call.id}.", as_json=as_json
        )


@click.command()
@_call_id
@click.argument("text", required=False)
@click.option("--failed", is_flag=True, help="The text is an error, not a success.")
@_project
@_by
@with_flags
def respond(
    flags: Flags, call_id: str, text: str | None, failed: bool, project: ProjectScope, by: str | None, as_json: bool
) -> int:
    """Give the result of a waiting call in the tool's place.

    ID may be cut short before its dash, if only one call has it. TEXT is the
    result, - reads it from standard input. Questions of a model are asked one by
    one on a terminal when no TEXT is given. The exit code is 0 when the answer
    was taken.
    """
    if project == "all":
        enter_project(flags, call_id, "respond")
    with read_ledger(flags, expire=True) as ledger:
        pending_call = _found(flags, ledger, call_id, "respond")
    said = _asked(pending_call) if text is None else read_text(text)
    given = Answer(kind="respond", by=whoami(by), message=said, success=not failed)
    result, *_ = _answer(flags, pending_call, given, quiet=as_json)
    return _taken(result, "Answered.", as_json=as_json)


def _answer(
    flags: Flags,
    pending_call: PendingCall,
    answer: Answer,
    *,
    quiet: bool,
    always: Literal["project", "user"] | None = None,
) -> tuple[Result, PendingCall | None, str]:
    """The result, the call if it still waits, and the digest under which it was shown here."""
    if answer.kind != "edit" and not answer.widen and not quiet:
        print_pending(pending_call, sys.stderr, whole=answer.kind == "approve")
    runs_here = answer.kind in ("approve", "edit") and not _is_waited_for(pending_call)
    servers = servers_for(pending_call.call.tool) if runs_here else ()
    with open_runtime(flags, entry_points=not is_builtin(pending_call.call.tool), servers=servers) as runtime:
        if console.can_ask() or servers != ():
            attach_silent_elicitor(runtime, servers)
            if console.can_ask():
                runtime.attach(elicitor=TerminalElicitor(runtime))
        return asyncio.run(_take(runtime, pending_call, answer, quiet=quiet, always=always))


async def _take(
    runtime: Runtime,
    pending_call: PendingCall,
    answer: Answer,
    *,
    quiet: bool,
    always: Literal["project", "user"] | None,
) -> tuple[Result, PendingCall | None, str]:
    async with runtime:
        if runtime.registry.find(pending_call.call.tool) is None:
            await runtime.pipeline.wait_for_sources()
        if answer.kind == "edit":
            pending_call = await runtime.lifecycle.edit(pending_call, answer.args or {}, by=answer.by)
            answer = replace(answer, kind="approve", args=None)
            if not quiet and not answer.widen:
                await _show_changed(pending_call)
        digest = pending_call.digest
        if answer.widen:
            wide = await runtime.lifecycle.with_widening(pending_call, answer.widen)
            digest = await _show_widened(wide, pending_call)
        if always is not None:
            await create_grant(runtime, pending_call, always, answer.by)
        result = await runtime.answer(pending_call.call.id, answer, digest=digest)
        return (
            _who_runs(result, pending_call),
            require_ledger(runtime).find_pending(pending_call.call.id),
            pending_call.digest,
        )


async def _show_changed(pending_call: PendingCall) -> None:
    """What a call would do with other arguments. What a person cannot see at once they are asked about."""
    if PendingView(pending_call).list_is_whole or not console.can_ask():
        print_pending(pending_call, sys.stderr)
    else:
        await _review(pending_call)


def _widening(
    *, hosts: Sequence[str], network: bool, read: Sequence[str], write: Sequence[str], outside: bool
) -> Widening:
    return Widening(
        hosts=tuple(hosts), network=network, read=absolute_paths(read), write=absolute_paths(write), outside=outside
    )


async def _show_widened(wide: PendingCall, pending_call: PendingCall) -> str:
    """The digest of what the person agrees to: the call as it is shown now, or, where nobody can be asked, the call as
    they saw it before, with nothing but these limits changed."""
    if console.can_ask():
        await _review(wide)
        return wide.digest
    print_pending(wide, sys.stderr, whole=True)
    return pending_call.digest


async def _review(pending_call: PendingCall) -> None:
    if not await review(pending_call):
        raise PromptDismissed


def _who_runs(result: Result, pending_call: PendingCall) -> Result:
    """An approved call whose own process waits for it is run there; one of a document when that goes on."""
    if result.state is not State.APPROVED:
        return result
    if pending_call.waiter is not None and _is_waited_for(pending_call):
        text = f"Call {result.call_id} is approved; process {pending_call.waiter.pid}, which waits for it, runs it."
    elif pending_call.call.caller.document is not None:
        goes_on = f"`holdfast chat {location(pending_call.call.caller.document)}`"
        text = f"Call {result.call_id} is approved; {goes_on} runs it, or `--watch` by itself where that is on."
    else:
        return result
    return replace(result, error=text)


def _is_waited_for(pending_call: PendingCall) -> bool:
    return pending_call.waiter is not None and is_alive(pending_call.waiter)


def _ended(flags: Flags, call_id: str, answer: Answer) -> Result:
    """The end of a call that nobody can be shown any more, because its record cannot be read."""
    with open_runtime(flags, entry_points=False) as runtime:
        text = answer.message or f"Call {call_id} was ended by {answer.by}: its record could not be read."
        result = Result(False, error=text, state=State.REJECTED, failure=Failure.REJECTED, call_id=call_id)
        require_ledger(runtime).end_now(call_id, result, unless_running=True)
        return result


def _asked(pending_call: PendingCall) -> str:
    if not console.can_ask():
        raise UsageProblem(
            f"Give the result: holdfast respond {pending_call.call.id} TEXT, or - to read it from stdin."
        )
    text = asyncio.run(ask_questions(pending_call))
    if text is None:
        raise UsageProblem(f"No answer was given; call {pending_call.call.id} still waits.")
    return text


def _taken(result: Result, word: str, *, as_json: bool) -> int:
    if as_json:
        show_result(result, as_json=True)
    else:
        console.print_err(word)
    return 0

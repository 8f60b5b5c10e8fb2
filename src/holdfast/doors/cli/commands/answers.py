"""`holdfast approve`, `reject` and `answer`: the answers to a held call, from any terminal."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Literal

import click
from msgspec.structs import replace

from holdfast.contract.call import Answer
from holdfast.contract.vocabulary import State
from holdfast.doors.cli import screen
from holdfast.doors.cli.arguments import read_object, read_text
from holdfast.doors.cli.calling import is_builtin, show_result
from holdfast.doors.cli.failures import WAITING, UsageProblem
from holdfast.doors.cli.held import show_held
from holdfast.doors.cli.holding import find_held
from holdfast.doors.cli.options import common, complete_pending
from holdfast.doors.cli.place import Flags, kept_ledger, ledger_here, runtime_here, servers_for, whoami

if TYPE_CHECKING:
    from holdfast.contract.call import HeldCall
    from holdfast.contract.result import Result
    from holdfast.runtime.runtime import Runtime

_by = click.option("--by", metavar="NAME", help="Who answers; your user name unless given.")
_call_id = click.argument("call_id", metavar="ID", shell_complete=complete_pending)


@click.command()
@_call_id
@click.option("--args", "new_args", metavar="JSON", help="Approve it with these arguments instead (- reads stdin).")
@click.option("--always", type=click.Choice(["project", "user"]), help="Also allow this exact call from now on.")
@_by
@common
@click.pass_obj
def approve(
    flags: Flags,
    call_id: str,
    new_args: str | None,
    always: Literal["project", "user"] | None,
    by: str | None,
    as_json: bool,
) -> int:
    """Say yes to a waiting call.

    ID may be the beginning of the id. What is approved is shown. If the tool is
    known here and nobody else waits to run the call, it runs at once, and the
    exit code is that of its result. A call of a document runs when its document
    goes on: with `holdfast chat FILE`, or by itself where that is watched. Until
    then the exit code is 4.
    """
    args = None if new_args is None else read_object(new_args, "--args")
    answer = Answer(kind="approve" if args is None else "edit", by=whoami(by), args=args)
    from holdfast.doors.cli.asking import Leave

    try:
        result, held = _answer(flags, call_id, answer, as_json=as_json, always=always)
    except Leave:
        screen.note("Not approved; it still waits.")
        return WAITING
    return show_result(result, held, as_json=as_json, seen=True)


@click.command()
@_call_id
@click.option("-m", "--message", default="", metavar="TEXT", help="What the model is told.")
@_by
@common
@click.pass_obj
def reject(flags: Flags, call_id: str, message: str, by: str | None, as_json: bool) -> int:
    """Say no to a waiting call.

    ID may be the beginning of the id. The exit code is 0 when the answer was taken.
    """
    result, _ = _answer(flags, call_id, Answer(kind="reject", by=whoami(by), message=message), as_json=as_json)
    return _taken(result, "Rejected.", as_json=as_json)


@click.command()
@_call_id
@click.argument("text", required=False)
@click.option("--failed", is_flag=True, help="The text is an error, not a success.")
@_by
@common
@click.pass_obj
def answer(flags: Flags, call_id: str, text: str | None, failed: bool, by: str | None, as_json: bool) -> int:
    """Give the result of a waiting call in the tool's place.

    ID may be the beginning of the id. TEXT is the result, - reads it from
    standard input. Questions of a model are asked one by one on a terminal when
    no TEXT is given. The exit code is 0 when the answer was taken.
    """
    said = _asked(flags, call_id) if text is None else read_text(text)
    given = Answer(kind="result", by=whoami(by), message=said, success=not failed)
    result, _ = _answer(flags, call_id, given, as_json=as_json)
    return _taken(result, "Answered.", as_json=as_json)


def _answer(
    flags: Flags, prefix: str, answer: Answer, *, as_json: bool, always: Literal["project", "user"] | None = None
) -> tuple[Result, HeldCall | None]:
    with ledger_here(flags) as ledger:
        held = find_held(ledger, prefix)
    if answer.kind != "edit":
        asyncio.run(_show(held, answer, as_json=as_json))
    runs_here = answer.kind in ("approve", "edit") and not _is_waited_for(held)
    servers = servers_for(held.call.tool) if runs_here else ()
    with runtime_here(flags, entry_points=not is_builtin(held.call.tool), servers=servers) as runtime:
        if screen.can_ask() or servers != ():
            from holdfast.doors.cli.inquiring import TerminalInquirer, stand_in

            stand_in(runtime, servers)
            if screen.can_ask():
                runtime.inquirer = TerminalInquirer(runtime)
        return asyncio.run(_take(runtime, held, answer, as_json=as_json, always=always))


async def _take(
    runtime: Runtime, held: HeldCall, answer: Answer, *, as_json: bool, always: Literal["project", "user"] | None
) -> tuple[Result, HeldCall | None]:
    async with runtime:
        if runtime.registry.find(held.call.tool) is None:
            await runtime.wait_for_sources()
        if answer.kind == "edit":
            held = await runtime.desk.change(held, answer.args or {}, by=answer.by)
            answer = Answer(kind="approve", by=answer.by)
            await _show(held, answer, as_json=as_json)
        if always is not None:
            from holdfast.doors.cli.granting import allow

            allow(runtime, held, always, answer.by)
        result = await runtime.answer(held.call.id, answer, digest=held.digest)
        return _who_runs(result, held), kept_ledger(runtime).held(held.call.id)


async def _show(held: HeldCall, answer: Answer, *, as_json: bool) -> None:
    """What is approved is shown whole: page by page where a person can turn them, who is then asked once more."""
    if as_json:
        return
    if answer.kind == "approve" and screen.can_ask():
        from holdfast.doors.cli.asking import review

        await review(held)
    else:
        show_held(held, sys.stderr, whole=answer.kind == "approve")


def _who_runs(result: Result, held: HeldCall) -> Result:
    """An approved call whose own process waits for it is run there; one of a document when that goes on."""
    if result.state is not State.APPROVED:
        return result
    if held.waiter is not None and _is_waited_for(held):
        text = f"Call {result.call_id} is approved; process {held.waiter.pid}, which waits for it, runs it."
    elif held.call.caller.document is not None:
        from holdfast.doors.cli.chatting.documents import place

        goes_on = f"`holdfast chat {place(held.call.caller.document)}`"
        text = f"Call {result.call_id} is approved; {goes_on} runs it, or `--watch` by itself where that is on."
    else:
        return result
    return replace(result, error=text)


def _is_waited_for(held: HeldCall) -> bool:
    from holdfast.store.owner import alive

    return held.waiter is not None and alive(held.waiter)


def _asked(flags: Flags, prefix: str) -> str:
    with ledger_here(flags) as ledger:
        held = find_held(ledger, prefix)
    if not screen.can_ask():
        raise UsageProblem(f"Give the result: holdfast answer {held.call.id} TEXT, or - to read it from stdin.")
    from holdfast.doors.cli.questions import ask_questions

    text = asyncio.run(ask_questions(held))
    if text is None:
        raise UsageProblem(f"No answer was given; call {held.call.id} still waits.")
    return text


def _taken(result: Result, word: str, *, as_json: bool) -> int:
    if as_json:
        show_result(result, as_json=True)
    else:
        screen.note(word)
    return 0

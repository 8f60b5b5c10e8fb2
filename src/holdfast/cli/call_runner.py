"""Makes one tool call and prints its result. Imports no click: `app.run_quick_call` uses it to start faster."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from holdfast.cli import console
from holdfast.cli.arguments import parse_arguments
from holdfast.cli.layout import print_log_event, print_message, print_quoted
from holdfast.cli.project_context import (
    is_builtin,
    mute_source_warnings,
    open_runtime,
    require_server,
    servers_for,
    wait_for_sources,
)
from holdfast.contract.enums import Failure, State
from holdfast.contract.json import Json
from holdfast.contract.names import mcp_server_name
from holdfast.text.escape import escape, escape_once

# The prompts, the views and the JSON structs are imported in functions: a call that is simply done needs none of them.
if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.contract.call import Caller, PendingCall
    from holdfast.contract.elicitation import Elicitation, ElicitationReply
    from holdfast.contract.result import Result
    from holdfast.contract.tool import Tool
    from holdfast.runtime.runtime import Runtime


Arguments = dict[str, Json] | str | bytes
Words = tuple[str, ...]
"""Arguments as typed, before the tool's schema is known."""
Ended = tuple["Result", "PendingCall | None", bool]
"""The result, the call if it is pending, and whether the person was shown it."""


def run_call(
    name: str,
    words: Sequence[str],
    *,
    as_json: bool,
    pending: bool = False,
    headless: bool = False,
    raw: bool = False,
    save: str | None = None,
    flags: Mapping[str, Json] | None = None,
) -> int:
    """Call a tool and return the exit code.

    A call that needs approval is asked about on a terminal, left pending without one, and denied if `headless`.
    """
    servers = servers_for(name)
    elsewhere = servers is None or not is_builtin(name)
    nobody = "deny" if headless else "pending"
    with open_runtime(flags or {}, entry_points=elsewhere, servers=servers, nobody=nobody) as runtime:
        if servers and runtime.registry.ready:
            require_server(runtime, name)
        args = _parse(runtime, name, words) if runtime.registry.ready else tuple(words)
        call = _call_and_ask if console.can_ask() and not pending and not headless else _call
        result, pending_call, seen = asyncio.run(call(runtime, name, args))
        state, hint = runtime.workspace.state, refusal_hint(runtime, name, result)
    return show_result(result, pending_call, as_json=as_json, state=state, seen=seen, raw=raw, hint=hint, save=save)


def refusal_hint(runtime: Runtime, name: str, result: Result) -> str:
    """Return what the user can change so that a refused call is allowed; empty if nothing is known."""
    tool = runtime.registry.find(name)
    if tool is None:
        return ""
    if result.failure is Failure.NOT_ALLOWED:
        return policy_reason(runtime, tool, runtime.caller)
    if result.failure is Failure.SECRET_UNAVAILABLE:
        tables = " and ".join(f"[secrets.{scope}]" for scope in tool.required_secret_scopes)
        return f"Define it in your user configuration, in {tables or '[secrets.NAME]'}."
    return ""


def policy_reason(runtime: Runtime, tool: Tool, caller: Caller) -> str:
    """Return the sentence of the rule that decides whether a caller may use a tool."""
    reason = runtime.access.policy.compile(caller).decide(tool).reason
    return f"{reason[:1].upper()}{reason[1:]}."


def _parse(runtime: Runtime, name: str, words: Sequence[str]) -> Arguments:
    tool = runtime.registry.find(name)
    return parse_arguments(words, tool.input_schema if tool is not None else {})


async def _call_and_ask(runtime: Runtime, name: str, args: Arguments | Words) -> Ended:
    from holdfast.cli.approval_prompt import TerminalAsker
    from holdfast.cli.errors import Cancelled

    async def elicit(elicitation: Elicitation) -> tuple[ElicitationReply, ...]:
        from holdfast.cli.elicitation import TerminalElicitor

        return await TerminalElicitor(runtime)(elicitation)

    asker = TerminalAsker(runtime)
    runtime.attach(asker, elicitor=elicit)
    try:
        result, pending_call, _ = await _call(runtime, name, args)
    except asyncio.CancelledError:
        if asker.asked and not asker.answered:
            raise Cancelled from None  # the pipeline has ended the call
        raise
    if asker.asked and not asker.answered and pending_call is None:
        console.print_err("The call was answered elsewhere.")
    return result, pending_call, asker.asked


async def _call(runtime: Runtime, name: str, args: Arguments | Words) -> Ended:
    """Make the call. Words are parsed once the tool sources are ready, since the tool's schema decides their types."""
    if not runtime.interfaces.can_elicit and isinstance(args, tuple):
        from holdfast.cli.elicitation import attach_silent_elicitor

        attach_silent_elicitor(runtime, servers_for(name))
    async with runtime:
        if isinstance(args, tuple):
            runtime.events.listen(print_log_event)
            if servers_for(name) is not None:
                mute_source_warnings()
            await wait_for_sources(runtime)
            require_server(runtime, name)
            args = _parse(runtime, name, args)
        with shown_progress(runtime):
            result = await runtime.call(name, args)
        is_pending = result.state in (State.PENDING, State.APPROVED)
        pending_call = (
            runtime.ledger.find_pending(result.call_id) if is_pending and runtime.ledger is not None else None
        )
        return result, pending_call, False


@contextmanager
def shown_progress(runtime: Runtime) -> Generator[None]:
    """Show on a terminal what a running call reports about its progress."""
    if not console.is_terminal(sys.stderr):
        yield
        return
    from holdfast.contract.event import Event, Progress

    with console.progress() as show:

        def listener(event: Event) -> None:
            if isinstance(event, Progress):
                show(escape(event.message))

        stop = runtime.events.listen(listener)
        try:
            yield
        finally:
            stop()


def show_result(
    result: Result,
    pending_call: PendingCall | None = None,
    *,
    as_json: bool,
    state: Path | None = None,
    seen: bool = False,
    raw: bool = False,
    hint: str = "",
    save: str | None = None,
) -> int:
    """Print the result on standard output and everything else on standard error; return the exit code.

    `hint` is a sentence that follows the error. A pending call is printed unless `seen`. If all of it was printed,
    `state` records it as shown to this user. Attachments are saved in `save`, else in a private folder of `state`.
    """
    code = result.exit_code
    if result.attachments:
        from holdfast.cli.attachment_view import is_missing, save_attachments

        result = save_attachments(result, state, save)
        if save is not None and is_missing(result.attachments):
            code = code or 1
    if as_json:
        from holdfast.json_output import result_output

        console.print_json(result_output(result, pending_call))
        if pending_call is not None:
            _record_shown(state, pending_call)
        return code
    console.print_output(result.output, raw=raw)
    if result.attachments:
        from holdfast.cli.attachment_view import print_attachments

        print_attachments(result.attachments)
    if pending_call is not None:
        if _print_pending(pending_call, result, seen=seen):
            _record_shown(state, pending_call)
    elif not result.success:
        error = result.error or "Unknown error"
        print_quoted(f"{error.removesuffix('.')}. {hint}" if hint else error, "Error:", "red")
    return code


def _record_shown(state: Path | None, pending_call: PendingCall) -> None:
    from holdfast.cli.pending_view import record_shown

    record_shown(state, [pending_call])


def _print_pending(pending_call: PendingCall, result: Result, *, seen: bool) -> bool:
    """Print a pending call and how to answer it; return whether all of it was shown."""
    from holdfast.cli.pending_view import print_pending
    from holdfast.rules.decider import CHANGED

    whole = not seen and print_pending(pending_call, sys.stderr, listed=True)
    print_message(escape_once(result.error or "The call is pending."))
    if pending_call.decision.source == CHANGED:
        server = mcp_server_name(pending_call.call.tool)
        review = f"`holdfast mcp review {server}`" if server else "`holdfast mcp review`"
        print_message(
            f"`holdfast pending {pending_call.call.id}` shows the difference. {review} accepts it without this call."
        )
    return whole

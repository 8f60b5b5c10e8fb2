"""Making a call and showing how it ended."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from holdfast.cli import console
from holdfast.cli.arguments import read_words
from holdfast.cli.project_context import is_builtin, runtime_here, servers_for
from holdfast.cli.wrap import note_folded, note_quoted
from holdfast.contract.enums import State
from holdfast.contract.json import Json
from holdfast.text.escape import escape

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.contract.call import PendingCall
    from holdfast.contract.elicitation import Elicitation, Reply
    from holdfast.contract.result import Result
    from holdfast.runtime.runtime import Runtime


Arguments = dict[str, Json] | str | bytes
Words = tuple[str, ...]
Ended = tuple["Result", "PendingCall | None", bool]
"""The result, the call if it waits, and whether a person was shown it."""


def run_call(
    name: str,
    words: Sequence[str],
    *,
    as_json: bool,
    pending: bool = False,
    headless: bool = False,
    raw: bool = False,
    flags: Mapping[str, Json] | None = None,
) -> int:
    """Call a tool. A person at the terminal is asked; without one, what needs a person is left pending, or denied."""
    servers = servers_for(name)
    elsewhere = servers is None or not is_builtin(name)
    nobody = "deny" if headless else "pending"
    with runtime_here(flags or {}, entry_points=elsewhere, servers=servers, nobody=nobody) as runtime:
        if servers and runtime.registry.ready:
            from holdfast.cli.project_context import need_server

            need_server(runtime, name)
        args = _read(runtime, name, words) if runtime.registry.ready else tuple(words)
        call = _call_and_ask if console.can_ask() and not pending and not headless else _call
        result, held, seen = asyncio.run(call(runtime, name, args))
        state = runtime.workspace.state
    return show_result(result, held, as_json=as_json, state=state, seen=seen, raw=raw)


def _read(runtime: Runtime, name: str, words: Sequence[str]) -> Arguments:
    tool = runtime.registry.find(name)
    return read_words(words, tool.input_schema if tool is not None else {})


async def _call_and_ask(runtime: Runtime, name: str, args: Arguments | Words) -> Ended:
    from holdfast.cli.approval_prompt import TerminalAsker
    from holdfast.cli.errors import Cancelled

    async def elicit(elicitation: Elicitation) -> tuple[Reply, ...]:
        from holdfast.cli.elicitation import TerminalElicitor

        return await TerminalElicitor(runtime)(elicitation)

    asker = TerminalAsker(runtime)
    runtime.attach(asker, elicitor=elicit)
    try:
        result, held, _ = await _call(runtime, name, args)
    except asyncio.CancelledError:
        if asker.asked and not asker.answered:
            raise Cancelled from None  # the pipeline has ended the call
        raise
    if asker.asked and not asker.answered and held is None:
        console.note("It was answered elsewhere.")
    return result, held, asker.asked


async def _call(runtime: Runtime, name: str, args: Arguments | Words) -> Ended:
    """Words are read when the sources have told what the tool wants."""
    if not runtime.interfaces.can_elicit and isinstance(args, tuple):
        from holdfast.cli.elicitation import stand_in

        stand_in(runtime, servers_for(name))
    async with runtime:
        if isinstance(args, tuple):
            from holdfast.cli.project_context import leave_out_warnings, need_server, wait_for_sources
            from holdfast.cli.wrap import note_logged

            runtime.events.listen(note_logged)
            if servers_for(name) is not None:
                leave_out_warnings()
            await wait_for_sources(runtime)
            need_server(runtime, name)
            args = _read(runtime, name, args)
        result = await runtime.call(name, args)
        waits = result.state in (State.PENDING, State.APPROVED)
        held = runtime.ledger.held(result.call_id) if waits and runtime.ledger is not None else None
        return result, held, False


def show_result(
    result: Result,
    held: PendingCall | None = None,
    *,
    as_json: bool,
    state: Path | None = None,
    seen: bool = False,
    raw: bool = False,
) -> int:
    """The result on standard output, everything else on standard error; the exit code.

    A call that waits is shown unless it was `seen`. It counts as shown to this user, if all of it was; `state` is where
    that is remembered.
    """
    if as_json:
        from holdfast.cli.json_output import result_output

        console.put_json(result_output(result, held))
        if held is not None:
            _note_shown(state, held)
        return result.exit_code
    console.put_output(result.output, raw=raw)
    for item in result.attachments:
        name = f" {escape(item.name)}" if item.name else ""
        console.note(f"[{item.kind}{name}: {escape(item.mime_type)}, {len(item.data):,} bytes; --json has it]")
    if held is not None:
        if _show_waiting(held, result, seen=seen):
            _note_shown(state, held)
    elif not result.success:
        note_quoted(result.error or "Unknown error", "Error:", "red")
    return result.exit_code


def _note_shown(state: Path | None, held: PendingCall) -> None:
    from holdfast.cli.pending_view import note_shown

    note_shown(state, [held])


def _show_waiting(held: PendingCall, result: Result, *, seen: bool) -> bool:
    """Whether all of it was shown here."""
    from holdfast.cli.pending_view import show_held
    from holdfast.rules.decider import CHANGED

    whole = not seen and show_held(held, sys.stderr, listed=True)
    note_folded(console.shown(result.error or "It waits."))

    if held.decision.source == CHANGED:
        from holdfast.contract.names import server_of

        review = f"`holdfast mcp review {server_of(held.call.tool) or ''}`".replace(" `", "`")
        note_folded(f"`holdfast pending {held.call.id}` shows the difference; {review} accepts it without this call.")
    return whole

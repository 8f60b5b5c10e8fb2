"""Calls a client was told about that they wait: whoever asks for the same again gets that call, and not another one."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from typing import TYPE_CHECKING, Any, Final

from holdfast.contract.errors import HoldfastError
from holdfast.contract.result import Result
from holdfast.contract.vocabulary import Failure, State
from holdfast.runtime.desk import POLL_SECONDS
from holdfast.runtime.refusals import awaiting_program
from holdfast.store import owner

if TYPE_CHECKING:
    from holdfast.contract.call import Caller, HeldCall
    from holdfast.contract.tool import Tool
    from holdfast.runtime.runtime import Runtime
    from holdfast.store.ledger import Ledger

MAX_PARKED: Final = 256
PARKED_SECONDS: Final = 3600.0
_WAITS: Final = frozenset({State.PENDING, State.APPROVED, State.RUNNING})


class Parked:
    """Remembers by who asked for what; a result is given once, and after that the same request is a new call."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._calls: dict[str, tuple[str, float]] = {}
        self._left: set[str] | None = None

    def key_of(self, caller: Caller, tool: Tool | None, args: Any) -> str:
        """The same for the same; empty where that cannot be told."""
        if tool is None:
            return ""
        try:
            said = json.dumps([caller.agent, caller.session, tool.name, args], sort_keys=True)
        except (TypeError, ValueError, RecursionError):
            return ""
        return hashlib.sha256(said.encode()).hexdigest()

    def find(self, key: str, caller: Caller, tool: Tool | None, args: Any) -> str | None:
        """The call that waits for this very thing, here or left behind by a server that has ended."""
        if not key or tool is None:
            return None
        call_id, since = self._calls.get(key, ("", 0.0))
        if call_id and time.monotonic() - since < PARKED_SECONDS:
            return call_id
        self._calls.pop(key, None)
        return self._left_behind(caller, tool, args)

    def ended(self, key: str, result: Result) -> None:
        """What a request was answered with: a call that goes on is remembered, any other is over."""
        self._calls.pop(key, None)
        if not key or result.state not in _WAITS or not result.call_id:
            return
        self._calls[key] = (result.call_id, time.monotonic())
        if len(self._calls) > MAX_PARKED:
            del self._calls[next(iter(self._calls))]

    def _left_behind(self, caller: Caller, tool: Tool, args: Any) -> str | None:
        """What servers before this one left in the ledger is looked through once: there is nothing new among it."""
        if self._left is None:
            own = f"{self._runtime.session}-"
            self._left = {held.call.id for held in self._runtime.pending() if not held.call.id.startswith(own)}
        if not self._left:
            return None
        try:
            accepted = tool.schema.accept(dict(args))
        except HoldfastError:
            return None
        for call_id in tuple(self._left):
            held = self._runtime.ledger_for_held().held(call_id)
            if held is None:
                self._left.discard(call_id)
            elif held.call.args == accepted and _is_of(held, caller, tool):
                return call_id
        return None


def _is_of(held: HeldCall, caller: Caller, tool: Tool) -> bool:
    """Asked for by nobody who still waits, and by the same client as far as that can be known."""
    call, asked = held.call, held.call.caller
    if (asked.door, asked.agent, call.tool, call.parent) != (caller.door, caller.agent, tool.name, None):
        return False
    return held.waiter is None or not owner.alive(held.waiter)


async def until_ended(runtime: Runtime, call_id: str) -> Result:
    """The result of a call that runs in another process, or what is known of it when `mcp.wait` is over."""
    ledger = runtime.ledger_for_held()
    end = time.monotonic() + runtime.config.mcp.wait
    while (result := runtime.result(call_id)) is None:
        held = ledger.held(call_id)
        if time.monotonic() >= end or not (_will_run(held) if held is not None else _runs(ledger, call_id)):
            return _so_far(call_id, held, runs=held is None and _runs(ledger, call_id))
        ledger.recover()
        await asyncio.sleep(POLL_SECONDS)
    return result


def _will_run(held: HeldCall) -> bool:
    """By itself, in the process that has it."""
    approved = held.state is State.APPROVED and held.waiter is not None and owner.alive(held.waiter)
    return approved or held.state is State.RUNNING


def _runs(ledger: Ledger, call_id: str) -> bool:
    """A call that was never held is known by its record only."""
    try:
        return ledger.call(call_id).state is State.RUNNING
    except HoldfastError:
        return False


def _so_far(call_id: str, held: HeldCall | None, *, runs: bool) -> Result:
    if runs or (held is not None and held.state is State.RUNNING):
        text = f"Call {call_id} runs in another process and has not ended yet; its end: holdfast ledger show {call_id}"
        return Result(False, error=text, state=State.RUNNING, failure=Failure.AWAITING_PROGRAM, call_id=call_id)
    if held is None:
        text = f"Call {call_id} is over, and no result of it is recorded: holdfast ledger show {call_id}"
        return Result(False, error=text, state=State.UNKNOWN, failure=Failure.OUTCOME_UNKNOWN, call_id=call_id)
    if held.state is State.PENDING:
        what, how = ("its result", "answer") if held.definition_only else ("approval", "approve")
        failure = Failure.AWAITING_ANSWER if held.definition_only else Failure.AWAITING_APPROVAL
        text = f"Call {call_id} waits for {what}: holdfast {how} {call_id}"
        return Result(False, error=text, state=State.PENDING, failure=failure, call_id=call_id)
    text = awaiting_program(held)
    return Result(False, error=text, state=held.state, failure=Failure.AWAITING_PROGRAM, call_id=call_id)

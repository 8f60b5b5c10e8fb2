"""Calls a client was told about that they wait: whoever asks for the same again gets that call, and not another one."""

from __future__ import annotations

import hashlib
import json
import time
from typing import TYPE_CHECKING, Any, Final

from holdfast.contract.errors import HoldfastError
from holdfast.contract.result import Result
from holdfast.contract.vocabulary import State
from holdfast.store import owner

if TYPE_CHECKING:
    from holdfast.contract.call import Caller, PendingCall
    from holdfast.contract.tool import Tool
    from holdfast.runtime.runtime import Runtime

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
            self._left = {held.call.id for held in self._runtime.pending.list() if not held.call.id.startswith(own)}
        if not self._left:
            return None
        try:
            accepted = tool.schema.accept(dict(args))
        except HoldfastError:
            return None
        for call_id in tuple(self._left):
            held = self._runtime.pending.get(call_id)
            if held is None:
                self._left.discard(call_id)
            elif held.call.args == accepted and _is_of(held, caller, tool):
                return call_id
        return None


def _is_of(held: PendingCall, caller: Caller, tool: Tool) -> bool:
    """Asked for by nobody who still waits, and by the same client as far as that can be known."""
    call, asked = held.call, held.call.caller
    if (asked.door, asked.agent, call.tool, call.parent) != (caller.door, caller.agent, tool.name, None):
        return False
    return held.waiter is None or not owner.alive(held.waiter)

"""Forwards progress and log messages of a call to the client that requested it, in order."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable
from math import isfinite
from typing import Any, Final

import mcp_types as types
from mcp.server.context import ServerRequestContext

from holdfast.contract.call import Call
from holdfast.contract.event import Event, Output, Pending, Progress, Received, ServerLogged
from holdfast.mcp.server.wire import clean_text

LEVELS: Final = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
_MAX_WAITING: Final = 256
"""Messages a slow client may lag behind; beyond that the oldest are dropped."""
_STEP: Final = 0.001
"""Progress step for a message without a number."""


class ClientNotifier:
    """The notifications of one request."""

    def __init__(self, ctx: ServerRequestContext[Any, Any], levels: frozenset[str]) -> None:
        self._ctx = ctx
        self._levels = levels
        self._waiting: deque[Callable[[], Awaitable[None]]] = deque(maxlen=_MAX_WAITING)
        self._pump: asyncio.Task[None] | None = None
        self._value: float | None = None
        self._total: float | None = None

    def progress(self, message: str, done: float | None, total: float | None) -> None:
        """Send progress. MCP values must increase, so a value that does not is sent as a small step."""
        done, total = _number(done), _number(total)
        if done is not None and (self._value is None or done > self._value):
            self._value, self._total = done, total
        else:
            self._value = 0.0 if self._value is None else self._value + _STEP
        value, at_most = self._value, self._total if self._total is not None and self._total >= self._value else None
        said = clean_text(message) or None
        self._say(lambda: self._ctx.session.report_progress(value, at_most, said))

    def log(self, level: str, logger: str, text: str) -> None:
        if level not in self._levels:
            return
        wire: dict[str, Any] = {"level": level, "logger": clean_text(logger), "data": clean_text(text)}
        params = types.LoggingMessageNotificationParams.model_validate(wire)
        note = types.LoggingMessageNotification(params=params)
        self._say(lambda: self._ctx.session.send_notification(note, related_request_id=self._ctx.request_id))

    async def finish(self) -> None:
        """Wait until everything is sent, so that nothing follows the response."""
        if self._pump is not None:
            await self._pump

    def drop(self) -> None:
        self._waiting.clear()
        if self._pump is not None:
            self._pump.cancel()

    def _say(self, send: Callable[[], Awaitable[None]]) -> None:
        self._waiting.append(send)
        if self._pump is None or self._pump.done():
            self._pump = asyncio.create_task(self._send_all())

    async def _send_all(self) -> None:
        with contextlib.suppress(Exception):  # a client that cannot be notified still gets its response
            while self._waiting:
                await self._waiting.popleft()()


_TOLD: Final = (Progress, Output, ServerLogged, Pending)


class EventForwarder:
    """The one event listener for all requests: maps events to the request of their call."""

    def __init__(self, teller_of: Callable[[str], ClientNotifier | None], line_of: Callable[[Call], str]) -> None:
        self._teller_of = teller_of
        self._line_of = line_of
        self._above: dict[str, tuple[str, str]] = {}
        """Per running call its outermost call and its tool."""
        self._below: dict[str, list[str]] = {}

    def begin(self, call_id: str, tool: str) -> None:
        self._above[call_id] = (call_id, tool)

    def end(self, call_id: str) -> None:
        """Stop forwarding events of a call and of the calls nested in it."""
        for below in (call_id, *self._below.pop(call_id, ())):
            self._above.pop(below, None)

    def __call__(self, event: Event) -> None:
        if isinstance(event, Received):
            self._received(event)
        elif isinstance(event, _TOLD):
            self._tell(event)

    def group_of(self, call_id: str) -> str:
        return self._above.get(call_id, ("", ""))[0]

    def _received(self, event: Received) -> None:
        above = self._above.get(event.parent) if event.parent is not None else None
        if above is not None:
            self._above[event.call_id] = (above[0], event.tool)
            self._below.setdefault(above[0], []).append(event.call_id)

    def _tell(self, event: Progress | Output | ServerLogged | Pending) -> None:
        found = self._above.get(event.call_id)
        teller = None if found is None else self._teller_of(found[0])
        if teller is None or found is None:
            return
        group, tool = found
        if isinstance(event, Output):
            teller.log("info", tool, event.text)
        elif isinstance(event, ServerLogged):
            teller.log(event.level if event.level in LEVELS else "info", event.source, event.message)
        elif isinstance(event, Pending):
            what = self._line_of(event.call)
            teller.progress(f"A call is pending, holdfast approve {event.call_id}: {what}", None, None)
        elif event.call_id == group:
            teller.progress(event.message, event.done, event.total)
        else:
            teller.progress(f"{tool}: {event.message}", None, None)


def _number(value: float | None) -> float | None:
    """The value as a number that JSON can express."""
    try:
        number = None if value is None else float(value)
    except OverflowError:
        return None
    return number if number is not None and isfinite(number) else None

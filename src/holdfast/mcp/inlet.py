"""The streams of a transport, watched: their end is noticed, a flood is slowed, too many open requests end it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from contextvars import Context
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from mcp_types import JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

if TYPE_CHECKING:
    from mcp.client import Transport
    from mcp.shared.message import SessionMessage

RATE: Final = 1000.0
"""Notifications and requests a second that a server may go on sending."""
BURST: Final = 2000.0
ANSWER_COST: Final = 0.05
"""Answers are wanted, except where nobody asked for so many."""
MAX_UNANSWERED: Final = 1000

Lost = Callable[[str], None]


class Inlet:
    """What comes from the server."""

    def __init__(self, inner: Any, unanswered: set[str | int], lost: Lost) -> None:
        self._inner = inner
        self._unanswered = unanswered
        self._lost = lost
        self._spent = 0.0
        self._since = monotonic()
        self._fault = ""

    @property
    def last_context(self) -> Context | None:
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        try:
            item = await self._inner.receive()
        except BaseException:
            self._lost(self._fault)
            raise
        return await self._passed(item)

    def __aiter__(self) -> Inlet:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            item = await self._inner.__anext__()
        except BaseException:
            self._lost(self._fault)
            raise
        return await self._passed(item)

    async def _passed(self, item: SessionMessage | Exception) -> SessionMessage | Exception:
        if isinstance(item, Exception):
            self._fault = str(item)
            self._spent += 1
        else:
            self._fault = ""
            message = item.message
            if isinstance(message, JSONRPCResponse):
                self._spent += ANSWER_COST
                message.result.setdefault("resultType", "complete")  # what its absence means; the SDK refuses it
            elif isinstance(message, JSONRPCError):
                self._spent += ANSWER_COST
            else:
                self._spent += 1
                self._count(message)
        if self._spent > BURST:
            await self._slow_down()
        return item

    def _count(self, message: JSONRPCRequest | JSONRPCNotification) -> None:
        if isinstance(message, JSONRPCRequest):
            self._unanswered.add(message.id)
            if len(self._unanswered) > MAX_UNANSWERED:
                self._lost(f"it asked {MAX_UNANSWERED:,} things and took no answer")
                raise StopAsyncIteration
        elif message.method == "notifications/cancelled" and message.params is not None:
            request = message.params.get("requestId")
            if isinstance(request, str | int):
                self._unanswered.discard(request)

    async def _slow_down(self) -> None:
        now = monotonic()
        self._spent = max(0.0, self._spent - (now - self._since) * RATE)
        self._since = now
        if self._spent > BURST:
            await asyncio.sleep((self._spent - BURST) / RATE + 0.05)

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> Inlet:
        await self._inner.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> bool | None:
        return await self._inner.__aexit__(*error)


class Outlet:
    """What goes to the server."""

    def __init__(self, inner: Any, unanswered: set[str | int]) -> None:
        self._inner = inner
        self._unanswered = unanswered

    async def send(self, item: SessionMessage) -> None:
        await self._inner.send(item)
        message = item.message
        if self._unanswered and isinstance(message, JSONRPCResponse | JSONRPCError) and message.id is not None:
            self._unanswered.discard(message.id)

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> Outlet:
        await self._inner.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> bool | None:
        return await self._inner.__aexit__(*error)


@asynccontextmanager
async def watched(
    transport: Transport | AbstractAsyncContextManager[Any], lost: Lost
) -> AsyncGenerator[tuple[Any, Any]]:
    """The streams of a transport; `lost` is called with what is known about it when nothing more will come."""
    async with transport as (read, write):
        unanswered: set[str | int] = set()

        def ended(reason: str) -> None:
            lost(reason or getattr(transport, "reason", ""))

        yield Inlet(read, unanswered, ended), Outlet(write, unanswered)

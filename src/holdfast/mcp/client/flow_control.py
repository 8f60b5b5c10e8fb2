"""Flow control for the streams of a transport: rate limits, back-pressure, and a bound on unanswered requests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from contextvars import Context
from time import monotonic
from typing import Any, Final, Self, cast

from anyio import EndOfStream
from mcp.client import Transport
from mcp.shared.dispatcher import as_request_id, coerce_request_id
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCMessage, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

RATE: Final = 1000.0
"""Sustained notifications and requests per second from a server."""
BURST: Final = 2000.0
ANSWER_COST: Final = 0.05
"""Messages that were requested, which are not limited."""
AS_LARGE: Final = 8 * 1024
"""Bytes of an unsolicited message that count as one more message."""
MAX_OWED: Final = 64
"""Unanswered requests of a server. Beyond that nothing more is read from it."""
MAX_OWED_BYTES: Final = 16 * 1024 * 1024
PATIENCE: Final = 60.0
"""Seconds until a server that has too many unanswered requests and reads no responses is given up."""
_MAX_ASKED: Final = 1000
_VALUE: Final = 64
"""Minimum memory of a parsed value, in bytes."""
_CANCELLED: Final = "notifications/cancelled"

_LIST: Final = "tools/list"

Lost = Callable[[str], None]
Sift = Callable[[dict[str, Any]], None]
"""Removes items that nothing can parse from a list of tools."""


class OutstandingRequests:
    """The requests that each side has not answered yet."""

    def __init__(self) -> None:
        self.asked: dict[int | str, str] = {}
        """Requests to the server, with their methods."""
        self._owed: dict[int | str, int] = {}
        """Requests of the server, with their sizes."""
        self._size = 0
        self._settled: asyncio.Future[None] | None = None

    @property
    def is_full(self) -> bool:
        return len(self._owed) >= MAX_OWED or self._size >= MAX_OWED_BYTES

    def owe(self, number: int | str, size: int) -> bool:
        """Register a request; False if its id is already in use, because the response would be ambiguous."""
        number = coerce_request_id(number)
        if number in self._owed:
            return False
        self._owed[number] = size
        self._size += size
        return True

    def settle(self, number: int | str) -> None:
        """Remove a request of the server that was answered or cancelled."""
        self._size -= self._owed.pop(coerce_request_id(number), 0)
        if self._settled is not None and not self._settled.done() and not self.is_full:
            self._settled.set_result(None)

    def sent(self, message: JSONRPCMessage) -> None:
        if isinstance(message, JSONRPCRequest):
            self.asked[coerce_request_id(message.id)] = message.method
            if len(self.asked) > _MAX_ASKED:
                del self.asked[next(iter(self.asked))]
        elif isinstance(message, JSONRPCNotification):
            if (number := _taken_back(message)) is not None:
                self.asked.pop(number, None)
        elif message.id is not None:
            self.settle(message.id)

    async def wait(self, gone: asyncio.Future[None] | None) -> bool:
        """Wait until fewer requests are outstanding, or the server is gone. False if neither happens in time."""
        if not self.is_full or (gone is not None and gone.done()):
            return True
        self._settled = asyncio.get_running_loop().create_future()
        done, _ = await asyncio.wait(
            (self._settled,) if gone is None else (self._settled, gone),
            timeout=PATIENCE,
            return_when=asyncio.FIRST_COMPLETED,
        )
        return bool(done)


class _Half:
    """One stream of a transport, passed through."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> bool | None:
        return await self._inner.__aexit__(*error)


class IncomingStream(_Half):
    """Messages from the server."""

    def __init__(self, inner: Any, account: OutstandingRequests, lost: Lost, sift: Sift) -> None:
        super().__init__(inner)
        self._sift = sift
        self._gone: asyncio.Future[None] | None = getattr(inner, "gone", None)
        self._account = account
        self._lost = lost
        self._spent = 0.0
        self._since = monotonic()
        self._fault = ""

    @property
    def last_context(self) -> Context | None:
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        while True:
            if self._account.is_full and not await self._account.wait(self._gone):
                self._lost(f"the server has {MAX_OWED} unanswered requests outstanding and is not reading responses")
                raise EndOfStream
            try:
                item: SessionMessage | Exception = await self._inner.receive()
            except BaseException:
                self._lost(self._fault)
                raise
            lets_in = self._lets_in(item)
            if self._spent > BURST:
                await self._slow_down()
            if lets_in:
                return item

    def __aiter__(self) -> IncomingStream:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except EndOfStream:
            raise StopAsyncIteration from None

    def _lets_in(self, item: SessionMessage | Exception) -> bool:
        if isinstance(item, Exception):
            self._fault = str(item)
            self._spent += 1
            return True
        self._fault = ""
        message = item.message
        if isinstance(message, JSONRPCResponse):
            # null is equivalent to a missing field, but the SDK rejects it
            message.result.setdefault("resultType", "complete")
        elif not isinstance(message, JSONRPCError):
            return self._is_heard(message)
        if message.id is not None and coerce_request_id(message.id) in self._account.asked:
            method = self._account.asked.pop(coerce_request_id(message.id))
            self._spent += ANSWER_COST
            if method == _LIST and isinstance(message, JSONRPCResponse):
                self._sift(message.result)
        else:
            said = message.result if isinstance(message, JSONRPCResponse) else message.error.data
            self._spent += 1 + _size([message.id, said]) / AS_LARGE
        return True

    def _is_heard(self, message: JSONRPCRequest | JSONRPCNotification) -> bool:
        asks = isinstance(message, JSONRPCRequest)
        size = _size([message.id if asks else None, message.method, message.params])
        self._spent += 1 + size / AS_LARGE
        if asks:
            return self._account.owe(message.id, size)
        if (number := _taken_back(message)) is not None:
            self._account.settle(number)
        return True

    async def _slow_down(self) -> None:
        now = monotonic()
        self._spent = max(0.0, self._spent - (now - self._since) * RATE)
        self._since = now
        if self._spent > BURST:
            await asyncio.sleep((self._spent - BURST) / RATE + 0.05)


class OutgoingStream(_Half):
    """Messages to the server."""

    def __init__(self, inner: Any, account: OutstandingRequests) -> None:
        super().__init__(inner)
        self._account = account

    async def send(self, item: SessionMessage) -> None:
        message = item.message
        if isinstance(message, JSONRPCRequest):
            self._account.sent(message)  # registered before sending: the response may arrive before `send` returns
            await self._inner.send(item)
            return
        try:
            await self._inner.send(item)
        finally:
            self._account.sent(message)


@asynccontextmanager
async def flow_controlled(
    transport: Transport | AbstractAsyncContextManager[Any], lost: Lost, sift: Sift = lambda page: None
) -> AsyncGenerator[tuple[Any, Any]]:
    """The streams of a transport under flow control; `lost` is called with the reason when nothing more will come."""
    async with transport as (read, write):
        account = OutstandingRequests()

        def ended(reason: str) -> None:
            lost(reason or getattr(transport, "reason", ""))

        yield IncomingStream(read, account, ended, sift), OutgoingStream(write, account)


def _taken_back(message: JSONRPCNotification) -> int | str | None:
    """The id of the request that a notification cancels."""
    if message.method != _CANCELLED or message.params is None:
        return None
    number = as_request_id(message.params.get("requestId"))
    return None if number is None else coerce_request_id(number)


def _size(value: Any) -> int:
    """The approximate size of a parsed value in bytes, counted up to the limit."""
    size = 0
    waiting = [value]
    while waiting and size < MAX_OWED_BYTES:
        item = waiting.pop()
        size += _VALUE
        if isinstance(item, str):
            size += len(item)
        elif isinstance(item, dict):
            fields = cast("dict[str, Any]", item)
            size += sum(map(len, fields))
            waiting += fields.values()
        elif isinstance(item, list):
            waiting += cast("list[Any]", item)
    return size

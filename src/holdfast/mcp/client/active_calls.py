"""Tracks the calls that a server is working on, so that its requests and log messages are attributed to one of them."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from contextvars import ContextVar
from typing import Any, Final, TypeVar

import httpx2
import msgspec
from msgspec import Struct

from holdfast.runtime.context import RunContext

T = TypeVar("T")

_FLYING: Final[ContextVar[ActiveCall | None]] = ContextVar("holdfast_mcp_call", default=None)


class ActiveCall:
    """One call in progress: `with active_calls.begin(ctx):` around it."""

    def __init__(self, active_calls: ActiveCalls, ctx: RunContext) -> None:
        self.ctx = ctx
        self._active_calls = active_calls
        self._ended: asyncio.Future[None] | None = None

    def __enter__(self) -> ActiveCall:
        self._active_calls.open[self] = None
        self._token = _FLYING.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._active_calls.open.pop(self, None)
        with suppress(ValueError):  # closed from another task, in which the context variable was never set
            _FLYING.reset(self._token)
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(None)

    @property
    def over(self) -> bool:
        """Whether the call has ended or is being stopped."""
        return self.ctx.cancelled or self not in self._active_calls.open

    async def while_it_lasts(self, work: Coroutine[Any, Any, T]) -> T | None:
        """Wait for the user on behalf of this call, with its timeout paused. None if the call ends first."""
        if self.over:
            work.close()
            return None
        if self._ended is None:
            self._ended = asyncio.get_running_loop().create_future()
        return await self.ctx.wait_for_user(_first(work, self._ended))


class ActiveCalls:
    def __init__(self) -> None:
        self.open: dict[ActiveCall, None] = {}

    def begin(self, ctx: RunContext) -> ActiveCall:
        return ActiveCall(self, ctx)

    def current(self) -> ActiveCall | None:
        """The call this code works for: known from its context, or because there is only one."""
        active_call = _FLYING.get()
        if active_call is not None and active_call in self.open:
            return active_call
        return next(iter(self.open)) if len(self.open) == 1 else None


def current_call() -> ActiveCall | None:
    """The call in whose context this code runs. It may have ended."""
    return _FLYING.get()


async def _first(work: Coroutine[Any, Any, T], ended: asyncio.Future[None]) -> T | None:
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait((task, ended), return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() else None
    finally:
        task.cancel()


class _Head(Struct, frozen=True):
    """The part of a JSON-RPC message that says what kind it is."""

    method: str | None = None
    id: str | int | None = None


async def expects_response(request: httpx2.Request) -> bool:
    """Whether the message is a request. Notifications, responses and the end of a session are only acknowledged."""
    if request.method == "POST" and (head := await _head_of(request)) is not None:
        return head.method is not None and head.id is not None
    return request.method != "DELETE"


async def active_call_of(request: httpx2.Request) -> ActiveCall | None:
    """The call that a request belongs to: transports send in the context of the caller."""
    active_call = current_call()
    if active_call is None or request.method != "POST":
        return None
    head = await _head_of(request)
    return active_call if head is not None and head.method == "tools/call" else None


async def _head_of(request: httpx2.Request) -> _Head | None:
    try:
        return msgspec.json.decode(await request.aread(), type=_Head)
    except msgspec.MsgspecError:
        return None

"""What an HTTP request to a server carries, as far as sending it depends on that."""

from __future__ import annotations

import httpx2
import msgspec
from msgspec import Struct

from holdfast.mcp.flights import Flight, flying


class _Head(Struct, frozen=True):
    """The part of a JSON-RPC message that tells what it is."""

    method: str | None = None
    id: str | int | None = None


async def wants_answer(request: httpx2.Request) -> bool:
    """Whether an answer may take its time: notifications, answers and the end of a session are only to be received."""
    if request.method == "POST" and (head := await _head_of(request)) is not None:
        return head.method is not None and head.id is not None
    return request.method != "DELETE"


async def call_of(request: httpx2.Request) -> Flight | None:
    """The call that is sent with it: transports send in the context of whoever has called."""
    flight = flying()
    if flight is None or request.method != "POST":
        return None
    head = await _head_of(request)
    return flight if head is not None and head.method == "tools/call" else None


async def _head_of(request: httpx2.Request) -> _Head | None:
    try:
        return msgspec.json.decode(await request.aread(), type=_Head)
    except msgspec.MsgspecError:
        return None

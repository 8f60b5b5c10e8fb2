"""The older HTTP transport: what the server says comes on one stream of events, what it is told goes to an address."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Any, Final
from urllib.parse import urljoin

import anyio
import httpx2
from anyio.abc import TaskGroup
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCRequest, jsonrpc_message_adapter

from holdfast.contract.errors import HoldfastError
from holdfast.net.hosts import origin_of

_REDIRECTS: Final = 5


@asynccontextmanager
async def sse_streams(client: httpx2.AsyncClient, url: str, most: int) -> AsyncGenerator[tuple[Any, Outward]]:
    """Streams for the SDK; `most` is the size of an event in bytes. A message that cannot be sent ends them.

    The SDK's own transport takes 1 MiB, sends one message after the other, and goes on as if it were well when it
    can send no more.
    """
    async with _opened(client, url, most) as events:
        inward, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        async with inward, read, anyio.create_task_group() as tasks:
            told: asyncio.Future[str] = asyncio.get_running_loop().create_future()
            outward = Outward(client, tasks)
            tasks.start_soon(_read, events, url, told, inward, outward)
            outward.address = await told
            yield read, outward
            tasks.cancel_scope.cancel()


class Outward:
    """What goes to the server. Requests do not wait for each other: each is sent in the context of its sender."""

    def __init__(self, client: httpx2.AsyncClient, tasks: TaskGroup) -> None:
        self.address = ""
        self.fault: Exception | None = None
        self.reading = anyio.CancelScope()
        self._client = client
        self._tasks = tasks

    async def send(self, item: SessionMessage) -> None:
        if self.fault is not None:
            raise anyio.BrokenResourceError
        if isinstance(item.message, JSONRPCRequest):
            self._tasks.start_soon(self._post, item)
        else:
            await self._post(item)

    async def _post(self, item: SessionMessage) -> None:
        message = item.message.model_dump(by_alias=True, mode="json", exclude_unset=True)
        try:
            response = await _sent(self._client, self._client.build_request("POST", self.address, json=message))
            await response.aclose()
            if not response.is_success:
                raise HoldfastError(f"it answered a message with HTTP status {response.status_code}")
        except Exception as error:
            self.fault = self.fault or error
            self.reading.cancel()

    async def aclose(self) -> None:
        return

    async def __aenter__(self) -> Outward:
        return self

    async def __aexit__(self, *error: object) -> None:
        return


async def _read(events: httpx2.EventSource, url: str, told: asyncio.Future[str], inward: Any, outward: Outward) -> None:
    """Until the stream ends; why it ended is the last thing that comes in."""
    fault: Exception | None = None
    try:
        with outward.reading:
            async for event in events:
                if event.event == "endpoint" and not told.done():
                    told.set_result(_endpoint(url, event.data))
                elif event.event == "message" and event.data:
                    await inward.send(_message(event.data))
    except httpx2.SSEError as error:
        fault = HoldfastError(f"what it sent is refused: {error}")
    except Exception as error:
        fault = error
    fault = outward.fault or fault
    if not told.done():
        told.set_exception(fault or HoldfastError("it did not say where messages go"))
    outward.fault = fault or anyio.EndOfStream()
    with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):  # nobody listens any more
        if fault is not None:
            await inward.send(fault)
    await inward.aclose()


def _endpoint(url: str, named: str) -> str:
    address = urljoin(url, named)
    if origin_of(address) != origin_of(url):
        raise HoldfastError("it wants messages to be sent to another origin than its own")
    return address


def _message(data: str) -> SessionMessage | Exception:
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(data, by_name=False))
    except ValueError as error:
        return error


@asynccontextmanager
async def _opened(client: httpx2.AsyncClient, url: str, most: int) -> AsyncGenerator[httpx2.EventSource]:
    wanted = {"Accept": "text/event-stream", "Cache-Control": "no-store"}
    response = await _sent(client, client.build_request("GET", url, headers=wanted))
    try:
        response.raise_for_status()
        yield httpx2.EventSource(response, max_event_size=most)
    finally:
        await response.aclose()


async def _sent(client: httpx2.AsyncClient, request: httpx2.Request) -> httpx2.Response:
    """The answer, after redirects that lead to the same origin with the same method."""
    for _ in range(_REDIRECTS):
        response = await client.send(request, stream=True, follow_redirects=False)
        following = response.next_request
        if (
            following is None
            or following.method != request.method
            or following.url.userinfo
            or origin_of(str(following.url)) != origin_of(str(request.url))
        ):
            return response
        await response.aclose()
        request = following
    raise HoldfastError("it redirects again and again")

"""Transports for servers with a URL: streamable HTTP and SSE, with bounded responses and same-origin headers."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import urljoin

import anyio
import httpx2
from anyio.abc import TaskGroup
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCRequest, jsonrpc_message_adapter

from holdfast.config.config import McpServer
from holdfast.config.options import dotted
from holdfast.config.secret_references import fill
from holdfast.contract.errors import ConfigError, HoldfastError
from holdfast.mcp.client.active_calls import active_call_of, expects_response
from holdfast.mcp.client.oauth import oauth_for
from holdfast.net.addresses import is_loopback
from holdfast.net.hosts import parse_origin
from holdfast.net.http import GatewayTransport
from holdfast.runtime.cancellation import ThreadPool
from holdfast.runtime.runtime import Runtime

MAX_ANSWER: Final = 16 * 1024 * 1024
_CONNECT_SECONDS: Final = 15.0
_PROMPT_SECONDS: Final = 3.0
"""Seconds for messages without a response. The SDK sends nothing else meanwhile."""
_RENEWAL_SECONDS: Final = 15.0
"""Additional seconds for a token that such a message needs."""
_NO_STREAMABLE_HTTP: Final = frozenset({400, 404, 405})
"""Status codes of a server that knows only SSE, by the protocol."""
_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE: Final = re.compile(r"(?:[!-~](?:[ -~]*[!-~])?)?")
_threads: Final = ThreadPool()
"""A pool of its own, because the event loop's default has few threads: a slow secret must not block other servers."""

Hold = Callable[[bool], None]
"""Called with True when a user is waited for, and with False when that is over."""


class HttpTransport:
    """How one server is reached. The transport that worked is remembered for the next attempt."""

    def __init__(self, runtime: Runtime, name: str, server: McpServer, state: Path | None, hold: Hold) -> None:
        assert server.url is not None
        self.url = server.url
        self.status: int | None = None
        """The last error status, for messages."""
        self.fault = ""
        """Why it can no longer be reached, if the status does not say it."""
        self._runtime = runtime
        self._name = name
        self._server = server
        self._state = state
        self._hold = hold
        self._kind: Literal["http", "sse"] = "sse" if server.transport == "sse" else "http"
        self._warn_if_open()

    @property
    def why(self) -> str:
        return "" if self.status is None else f"it answered with HTTP status {self.status}"

    def falls_back(self) -> bool:
        """After a failed start: whether to try the other transport at once."""
        if self._server.transport != "auto":
            return False
        if self._kind == "http" and self.status in _NO_STREAMABLE_HTTP:
            self._kind = "sse"
            return True
        self._kind = "http"
        return False

    @asynccontextmanager
    async def transport(self) -> AsyncGenerator[tuple[Any, Any]]:
        self.status, self.fault = None, ""
        headers = await _threads.run(self._headers)
        async with self._client(headers, self._auth(headers)) as http:
            if self._kind == "sse":
                streams = sse_streams(http, self.url, MAX_ANSWER)
            else:
                streams = streamable_http_client(self.url, http_client=http, max_sse_event_size=MAX_ANSWER)
            async with streams as (read, write):
                yield read, write

    def _client(self, headers: dict[str, str], auth: httpx2.Auth | None) -> httpx2.AsyncClient:
        gateway = self._runtime.network.gateway_to_origin(f"mcp:{self._name}", self.url)
        return httpx2.AsyncClient(
            headers={"accept-encoding": "identity", **headers},
            auth=auth,
            timeout=httpx2.Timeout(_CONNECT_SECONDS, read=None),  # the call's own timeout applies
            transport=_Bounded(GatewayTransport(gateway), self),
            trust_env=False,
            follow_redirects=False,
        )

    def _headers(self) -> dict[str, str]:
        """The configured headers. Checked here, because libraries repeat a bad header's value in their errors."""
        filled: dict[str, str] = {}
        for key, value in self._server.headers.items():
            filled[key] = fill(value, self._runtime.secrets.get)
            where = f"{dotted('mcp.servers', self._name)}.{dotted('headers', key)}"
            if not _HEADER_NAME.fullmatch(key):
                raise ConfigError(f"{where} is not a valid header name.")
            if not _HEADER_VALUE.fullmatch(filled[key]):
                raise ConfigError(
                    f"{where} holds what a header cannot have (a line break, a control character, a letter that is not "
                    "ASCII, or a space at an end); correct it, or the secret it refers to."
                )
        return filled

    def _auth(self, headers: dict[str, str]) -> httpx2.Auth | None:
        if any(key.lower() == "authorization" for key in headers):
            return None
        return _Unhurried(oauth_for(self._runtime, self._name, self._server, self._state), self._hold)

    def _warn_if_open(self) -> None:
        url = httpx2.URL(self.url)
        if url.scheme == "http" and not is_loopback(url.host):
            self._runtime.registry.warn(
                f"The MCP server '{self._name}' is reached over http://. Anyone on the network path can read or change "
                "what is sent. Use https:// if it can."
            )


class _Bounded(httpx2.AsyncBaseTransport):
    """Rejects responses that are too long or compressed, since their length would be unknown.

    All requests pass through here. A request of a call that ended while it waited for a login is not sent.
    """

    def __init__(self, inner: httpx2.AsyncBaseTransport, remote: HttpTransport) -> None:
        self._inner = inner
        self._remote = remote

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        call = await active_call_of(request)
        if call is not None and call.over:
            return httpx2.Response(202)
        patient = await expects_response(request)
        response = await self._answer(request, None if patient else _PROMPT_SECONDS)
        if response.status_code >= 400:
            self._remote.status = response.status_code
        if not patient or response.status_code == 401:
            # The rest is not read, and the server may never finish writing it.
            await response.aclose()
            kept = [pair for pair in response.headers.multi_items() if pair[0] in ("location", "www-authenticate")]
            return httpx2.Response(response.status_code, headers=kept)
        packing = response.headers.get("content-encoding", "identity").strip().lower()
        if packing not in ("", "identity"):
            await response.aclose()
            raise httpx2.DecodingError(f"the response is compressed ({packing[:40]!r}), which was not requested")
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "text/event-stream" or response.status_code >= 400:
            assert isinstance(response.stream, httpx2.AsyncByteStream)
            response.stream = _Counted(response.stream)
        return response

    async def _answer(self, request: httpx2.Request, seconds: float | None) -> httpx2.Response:
        try:
            async with asyncio.timeout(seconds):
                return await self._inner.handle_async_request(request)
        except TimeoutError:
            self._remote.fault = f"it did not accept a message within {seconds:g} s"
            raise httpx2.ReadTimeout(self._remote.fault) from None

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Counted(httpx2.AsyncByteStream):
    def __init__(self, inner: httpx2.AsyncByteStream) -> None:
        self._inner = inner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._inner:
            size += len(chunk)
            if size > MAX_ANSWER:
                raise httpx2.StreamError(f"the response is longer than {MAX_ANSWER:,} bytes")
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Unhurried(httpx2.Auth):
    """A login that pauses the start timeout: between its requests it waits for a user.

    A message without a response does not wait.
    """

    def __init__(self, inner: httpx2.Auth, hold: Hold) -> None:
        self._inner = inner
        self._hold = hold
        self.requires_request_body = inner.requires_request_body
        self.requires_response_body = inner.requires_response_body

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        seconds = None if await expects_response(request) else _RENEWAL_SECONDS
        flow = self._inner.async_auth_flow(request)
        try:
            outgoing = await self._held(flow.__anext__(), seconds)
            while True:
                response = yield outgoing
                outgoing = await self._held(flow.asend(response), seconds)
        except StopAsyncIteration:
            return
        finally:
            await flow.aclose()

    async def _held(self, step: Any, seconds: float | None) -> httpx2.Request:
        self._hold(True)
        try:
            async with asyncio.timeout(seconds):
                return await step
        finally:
            self._hold(False)


_REDIRECTS: Final = 5


@asynccontextmanager
async def sse_streams(client: httpx2.AsyncClient, url: str, most: int) -> AsyncGenerator[tuple[Any, SsePoster]]:
    """Streams for the SDK; `most` is the limit of an event in bytes. A message that cannot be sent ends them.

    The SDK's own transport is limited to 1 MiB, sends messages one after another, and does not report when it can no
    longer send.
    """
    async with _opened(client, url, most) as events:
        inward, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        async with inward, read, anyio.create_task_group() as tasks:
            told: asyncio.Future[str] = asyncio.get_running_loop().create_future()
            outward = SsePoster(client, tasks)
            tasks.start_soon(_read, events, url, told, inward, outward)
            outward.address = await told
            yield read, outward
            tasks.cancel_scope.cancel()


class SsePoster:
    """Sends messages by POST. Requests do not wait for each other; each is sent in the context of its sender."""

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

    async def __aenter__(self) -> SsePoster:
        return self

    async def __aexit__(self, *error: object) -> None:
        return


async def _read(
    events: httpx2.EventSource, url: str, told: asyncio.Future[str], inward: Any, outward: SsePoster
) -> None:
    """Read events until the stream ends; the reason is the last item delivered."""
    fault: Exception | None = None
    try:
        with outward.reading:
            async for event in events:
                if event.event == "endpoint" and not told.done():
                    told.set_result(_endpoint(url, event.data))
                elif event.event == "message" and event.data:
                    await inward.send(_message(event.data))
    except httpx2.SSEError as error:
        fault = HoldfastError(f"its message was rejected: {error}")
    except Exception as error:
        fault = error
    fault = outward.fault or fault
    if not told.done():
        told.set_exception(fault or HoldfastError("it did not send its message endpoint"))
    outward.fault = fault or anyio.EndOfStream()
    with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):  # the receiver is closed
        if fault is not None:
            await inward.send(fault)
    await inward.aclose()


def _endpoint(url: str, named: str) -> str:
    address = urljoin(url, named)
    if parse_origin(address) != parse_origin(url):
        raise HoldfastError("its message endpoint has another origin")
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
    """The response, after redirects to the same origin with the same method."""
    for _ in range(_REDIRECTS):
        response = await client.send(request, stream=True, follow_redirects=False)
        following = response.next_request
        if (
            following is None
            or following.method != request.method
            or following.url.userinfo
            or parse_origin(str(following.url)) != parse_origin(str(request.url))
        ):
            return response
        await response.aclose()
        request = following
    raise HoldfastError("it redirects too often")

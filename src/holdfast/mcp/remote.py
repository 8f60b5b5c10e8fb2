"""Servers with an address: streamable HTTP and SSE, with bounded answers and headers that stay at their origin."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import httpx2

from holdfast.config.model import McpServer
from holdfast.config.references import fill
from holdfast.mcp.oauth_address import on_this_machine

if TYPE_CHECKING:
    from holdfast.runtime.runtime import Runtime

MAX_ANSWER: Final = 16 * 1024 * 1024
_CONNECT_SECONDS: Final = 15.0
_PROMPT_SECONDS: Final = 3.0
"""For what needs no answer. The SDK sends nothing else meanwhile."""
_NO_STREAMABLE_HTTP: Final = frozenset({400, 404, 405})
"""What a server that knows only SSE answers to the first request, by the protocol."""

Hold = Callable[[bool], None]
"""Told with True when a person is waited for, and with False when that is over."""


class Remote:
    """How one server is reached. Which of the two transports it speaks is remembered from one try to the next."""

    def __init__(self, runtime: Runtime, name: str, server: McpServer, state: Path | None, hold: Hold) -> None:
        assert server.url is not None
        self.url = server.url
        self.status: int | None = None
        """The last status that was an error, for messages."""
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
        """After a start that failed: whether the other transport is to be tried, at once."""
        if self._server.transport != "auto":
            return False
        if self._kind == "http" and self.status in _NO_STREAMABLE_HTTP:
            self._kind = "sse"
            return True
        self._kind = "http"
        return False

    @asynccontextmanager
    async def transport(self) -> AsyncGenerator[tuple[Any, Any]]:
        from mcp.client.sse import sse_client
        from mcp.client.streamable_http import streamable_http_client

        self.status = None
        headers = await asyncio.to_thread(self._headers)
        auth = self._auth(headers)
        if self._kind == "sse":

            def client(
                headers: dict[str, str] | None = None,
                timeout: httpx2.Timeout | None = None,
                auth: httpx2.Auth | None = None,
            ) -> httpx2.AsyncClient:
                return self._client(headers or {}, auth)

            async with sse_client(self.url, headers=headers, httpx_client_factory=client, auth=auth) as streams:
                yield streams
            return
        async with (
            self._client(headers, auth) as http,
            streamable_http_client(self.url, http_client=http, max_sse_event_size=MAX_ANSWER) as streams,
        ):
            yield streams

    def _client(self, headers: dict[str, str], auth: httpx2.Auth | None) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(
            headers={"accept-encoding": "identity", **headers},
            auth=auth,
            timeout=httpx2.Timeout(_CONNECT_SECONDS, read=None),  # how long an answer may take is the call's business
            transport=_Bounded(httpx2.AsyncHTTPTransport(retries=0), self),
            trust_env=False,
            follow_redirects=False,
        )

    def _headers(self) -> dict[str, str]:
        return {key: fill(value, self._runtime.secrets.get) for key, value in self._server.headers.items()}

    def _auth(self, headers: dict[str, str]) -> httpx2.Auth | None:
        if any(key.lower() == "authorization" for key in headers):
            return None
        from holdfast.mcp.oauth import oauth_for

        return _Unhurried(oauth_for(self._runtime, self._name, self._server, self._state), self._hold)

    def _warn_if_open(self) -> None:
        url = httpx2.URL(self.url)
        if url.scheme == "http" and not on_this_machine(url.host):
            self._runtime.registry.warn(
                f"The MCP server '{self._name}' is reached over http://: whoever is on the way can read and change "
                "what is sent. Use https:// if it can."
            )


class _Bounded(httpx2.AsyncBaseTransport):
    """Answers that are too long, or packed so that their length cannot be known, are refused."""

    def __init__(self, inner: httpx2.AsyncHTTPTransport, remote: Remote) -> None:
        self._inner = inner
        self._remote = remote

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        async with asyncio.timeout(None if await _is_asking(request) else _PROMPT_SECONDS):
            response = await self._inner.handle_async_request(request)
        if response.status_code >= 400:
            self._remote.status = response.status_code
        packing = response.headers.get("content-encoding", "identity").strip().lower()
        if packing not in ("", "identity"):
            await response.aclose()
            raise httpx2.DecodingError(f"the answer is packed ({packing[:40]!r}), which was not asked for")
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "text/event-stream" or response.status_code >= 400:
            assert isinstance(response.stream, httpx2.AsyncByteStream)
            response.stream = _Counted(response.stream)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


async def _is_asking(request: httpx2.Request) -> bool:
    """Whether an answer may take its time: notifications, and the end of a session, are only to be received."""
    if request.method == "POST":
        return b'"id":' in await request.aread()
    return request.method != "DELETE"


class _Counted(httpx2.AsyncByteStream):
    def __init__(self, inner: httpx2.AsyncByteStream) -> None:
        self._inner = inner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._inner:
            size += len(chunk)
            if size > MAX_ANSWER:
                raise httpx2.StreamError(f"the answer is longer than {MAX_ANSWER:,} bytes")
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Unhurried(httpx2.Auth):
    """A login during which no time runs: what it does between its requests is waiting for a person."""

    def __init__(self, inner: httpx2.Auth, hold: Hold) -> None:
        self._inner = inner
        self._hold = hold
        self.requires_request_body = inner.requires_request_body
        self.requires_response_body = inner.requires_response_body

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        flow = self._inner.async_auth_flow(request)
        try:
            outgoing = await self._held(flow.__anext__())
            while True:
                response = yield outgoing
                outgoing = await self._held(flow.asend(response))
        except StopAsyncIteration:
            return
        finally:
            await flow.aclose()

    async def _held(self, step: Any) -> httpx2.Request:
        self._hold(True)
        try:
            return await step
        finally:
            self._hold(False)

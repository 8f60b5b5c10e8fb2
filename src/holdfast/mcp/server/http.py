"""The MCP server on HTTP, loopback only. Host, origin and token are checked before the body of a request is read."""

from __future__ import annotations

import hmac
from collections.abc import Callable
from typing import Final

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from holdfast.contract.errors import ConfigError
from holdfast.mcp.server.server import McpServer
from holdfast.net.server import LOOPBACK, NewConnections, TimedBody, listen, run
from holdfast.runtime.runtime import Runtime

MAX_BODY: Final = 4 * 1024 * 1024
MAX_SESSIONS: Final = 256
"""Concurrent sessions of clients that use the handshake protocols."""


async def serve(
    runtime: Runtime, *, token: str | None, host: str, path: str, port: int, started: Callable[[str], None] | None
) -> None:
    if token is not None and not token.strip():
        raise ConfigError("An empty token would let everybody in. Set a token, or none at all.")
    with listen(host, port) as listening:
        async with McpServer(runtime) as server:
            app = server.server.streamable_http_app(
                streamable_http_path=path, max_request_body_size=MAX_BODY, max_sessions=MAX_SESSIONS
            )
            actual: int = listening.getsockname()[1]
            if started is not None:
                started(f"http://{host}:{actual}{path}")
            await run(RequestFilter(app, token, actual), [listening])


class RequestFilter:
    """Rejects requests with a foreign `Host` or `Origin` (DNS rebinding) or without the token."""

    def __init__(self, app: ASGIApp, token: str | None, port: int) -> None:
        self._app = app
        self.newcomers = NewConnections()
        self._token = None if token is None else token.encode()
        self._hosts = frozenset(f"{name}:{port}" for name in LOOPBACK)
        self._origins = frozenset(f"http://{host}" for host in self._hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refusal = self._refusal(Headers(scope=scope))
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        self.newcomers.remove(scope.get("client"))
        await TimedBody.call(self._app, scope, receive, send)

    def _refusal(self, headers: Headers) -> PlainTextResponse | None:
        hosts, origins = headers.getlist("host"), headers.getlist("origin")
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            return PlainTextResponse("This server accepts requests to its own address only.", 421)
        if any(origin.lower() not in self._origins for origin in origins):
            return PlainTextResponse("Pages of other origins may not use this server.", 403)
        if self._token is None or self._holds_token(headers.getlist("authorization")):
            return None
        challenge = {"WWW-Authenticate": 'Bearer realm="holdfast"'}
        return PlainTextResponse("This server needs its token: Authorization: Bearer TOKEN", 401, challenge)

    def _holds_token(self, given: list[str]) -> bool:
        scheme, _, credential = given[0].partition(" ") if len(given) == 1 else ("", "", "")
        same = hmac.compare_digest(credential.strip().encode("latin-1"), self._token or b"")
        return same and scheme.lower() == "bearer"

"""A protected server and its authorisation server, real ones on loopback, that do as a test tells them."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route


@dataclass
class Authority:
    """What it answers, and what it has seen."""

    base: str = ""
    lifetime: int | None = 3600
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    resource: dict[str, Any] = field(default_factory=dict[str, Any])
    page: dict[str, str] = field(default_factory=dict[str, str])
    """What the login page puts into the address it sends the browser to, beside or instead of the right values."""
    refresh_status: int = 200
    refuse_all: bool = False
    need: str = ""
    """A scope without which a request is refused."""
    token: str = "access-token-{}"
    raw: tuple[bytes, dict[str, str]] | None = None
    """What it says of itself instead, byte for byte."""
    elsewhere: str = ""
    """Where `/elsewhere` redirects to."""
    answer_to_code: tuple[int, str] | None = None
    hold: threading.Event | None = None
    """While it is not set, a request with a token is not answered."""
    held: threading.Event = field(default_factory=threading.Event)
    """Set once such a request is there."""
    seen: list[tuple[str, dict[str, str]]] = field(default_factory=list[tuple[str, dict[str, str]]])
    authorised: list[str] = field(default_factory=list[str])
    """The Authorization header of each request for the protected thing."""
    valid: dict[str, str] = field(default_factory=dict[str, str])
    """Access tokens that are taken, with their scopes."""
    refreshers: set[str] = field(default_factory=set[str])
    told: list[str] = field(default_factory=list[str])
    """The methods of the MCP messages it has taken."""
    _challenges: dict[str, str] = field(default_factory=dict[str, str])
    _made: int = 0

    def reset(self) -> None:
        self.__init__(base=self.base)

    def count(self, what: str) -> int:
        return sum(1 for path, _ in self.seen if path == what)

    def last(self, what: str) -> dict[str, str]:
        return [values for path, values in self.seen if path == what][-1]

    async def protected(self, request: Request) -> Response:
        given = request.headers.get("authorization", "")
        self.authorised.append(given)
        token = given.removeprefix("Bearer ")
        if request.query_params.get("slow") and self.hold is not None:
            self.held.set()
            await asyncio.to_thread(self.hold.wait, 20)
        where = f'resource_metadata="{self.base}/.well-known/oauth-protected-resource/mcp"'
        if self.refuse_all or token not in self.valid:
            return Response(status_code=401, headers={"WWW-Authenticate": f"Bearer {where}"})
        if self.need and self.need not in self.valid[token].split():
            told = f'Bearer error="insufficient_scope", scope="{self.need}", {where}'
            return Response(status_code=403, headers={"WWW-Authenticate": told})
        body = await request.body()
        return self._speak(json.loads(body)) if body else JSONResponse({"ok": True})

    def _speak(self, message: dict[str, Any]) -> Response:
        """As an MCP server with one tool, which does nothing."""
        self.told.append(message.get("method", ""))
        results: dict[str, dict[str, Any]] = {
            "initialize": {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "docs", "version": "1"},
            },
            "tools/list": {"tools": [{"name": "look", "inputSchema": {"type": "object"}}]},
            "tools/call": {"content": [{"type": "text", "text": "seen"}]},
        }
        if "id" not in message or "method" not in message:
            return Response(status_code=202)
        result = results.get(message["method"])
        outcome = {"error": {"code": -32601, "message": "unknown"}} if result is None else {"result": result}
        return JSONResponse({"jsonrpc": "2.0", "id": message["id"], **outcome})

    async def about_resource(self, request: Request) -> Response:
        self.seen.append(("resource", {}))
        about = {"resource": f"{self.base}/mcp", "authorization_servers": [self.base], **self.resource}
        return JSONResponse(about)

    async def about_server(self, request: Request) -> Response:
        self.seen.append(("server", {}))
        if self.raw is not None:
            return Response(self.raw[0], headers=self.raw[1])
        return JSONResponse(
            {
                "issuer": self.base,
                "authorization_endpoint": f"{self.base}/authorize",
                "token_endpoint": f"{self.base}/issue",
                "registration_endpoint": f"{self.base}/register",
                "token_endpoint_auth_methods_supported": ["none"],
                "code_challenge_methods_supported": ["S256"],
                **self.metadata,
            }
        )

    async def register(self, request: Request) -> Response:
        body: dict[str, Any] = await request.json()
        self.seen.append(("register", {"redirect": body["redirect_uris"][0], "scope": str(body.get("scope", ""))}))
        self._made += 1
        return JSONResponse({**body, "client_id": f"client-{self._made}", "token_endpoint_auth_method": "none"}, 201)

    async def authorise(self, request: Request) -> Response:
        asked = dict(request.query_params)
        self.seen.append(("authorize", asked))
        self._made += 1
        code = f"code-number-{self._made}"
        self._challenges[code] = asked["code_challenge"]
        self.valid[code] = asked.get("scope", "")
        answer = {"code": code, "state": asked["state"], **self.page}
        return RedirectResponse(f"{asked['redirect_uri']}?{urlencode(answer)}", 302)

    async def issue(self, request: Request) -> Response:
        form = {name: str(value) for name, value in (await request.form()).items()}
        self.seen.append((form["grant_type"], {**form, "authorization": request.headers.get("authorization", "")}))
        if form["grant_type"] == "refresh_token":
            if self.refresh_status != 200 or form["refresh_token"] not in self.refreshers:
                status = self.refresh_status if self.refresh_status != 200 else 400
                return JSONResponse({"error": "invalid_grant"}, status)
            self.refreshers.discard(form["refresh_token"])
            return self._tokens("")
        if self.answer_to_code is not None:
            return Response(self.answer_to_code[1].replace("CODE", form["code"]), self.answer_to_code[0])
        digest = base64.urlsafe_b64encode(hashlib.sha256(form["code_verifier"].encode()).digest()).decode().rstrip("=")
        if self._challenges.pop(form["code"], None) != digest:
            return JSONResponse({"error": "invalid_grant"}, 400)
        return self._tokens(self.valid.pop(form["code"]))

    async def redirect(self, request: Request) -> Response:
        return RedirectResponse(self.elsewhere, 307)

    def _tokens(self, scope: str) -> Response:
        self._made += 1
        access, refresh = self.token.format(self._made), f"refresh-token-{self._made}"
        self.valid[access] = scope
        self.refreshers.add(refresh)
        given: dict[str, Any] = {"access_token": access, "token_type": "Bearer", "refresh_token": refresh}
        if self.lifetime is not None:
            given["expires_in"] = self.lifetime
        return JSONResponse(given)


@contextmanager
def authority() -> Generator[Authority]:
    """Served from a thread of its own, until left."""
    made = Authority()
    routes = [
        Route("/mcp", made.protected, methods=["GET", "POST", "DELETE"]),
        Route("/.well-known/oauth-protected-resource/mcp", made.about_resource),
        Route("/.well-known/oauth-authorization-server", made.about_server),
        Route("/register", made.register, methods=["POST"]),
        Route("/authorize", made.authorise),
        Route("/elsewhere", made.redirect, methods=["GET", "POST"]),
        Route("/issue", made.issue, methods=["POST"]),
    ]
    config = uvicorn.Config(Starlette(routes=routes), port=0, log_config=None, lifespan="off", ws="none")
    server = uvicorn.Server(config)
    listener = config.bind_socket()
    listener.listen()  # whoever comes before the thread has begun waits
    made.base = f"http://127.0.0.1:{listener.getsockname()[1]}"
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        yield made
    finally:
        server.should_exit = True
        thread.join(60)
        listener.close()

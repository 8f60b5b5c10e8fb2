"""A loopback server with Google's login service and the shapes of its APIs, and runtimes whose tools use it."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import threading
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qs, urlencode, urlsplit

from holdfast import Config, Result, Runtime
from holdfast.config.config import ToolsConfig
from holdfast.net.network import Network
from holdfast.net.network_log import NetworkLog
from holdfast.store.login_file import LoginFile
from holdfast.tools import builtin_tools
from holdfast.tools.google.endpoints import FAMILIES, SCOPES, Family, families_of
from holdfast.tools.google.oauth import NO_GRANT, Grant
from holdfast.tools.google.service import Google, GoogleSettings, configured_google
from tests.runtime.support import run, runtime_in, yes
from tests.tools.web.site import shared_extractor

CLIENT_ID = "1234-abc.apps.googleusercontent.com"
MESSAGING = Config(tools=ToolsConfig(profile="messaging"))
CLIENT_SECRET = "GOCSPX-the-client-secret"
_PREFIXES: dict[str, Family] = {
    "/gmail/": "gmail",
    "/calendar/": "gcal",
    "/v1/documents/": "gdocs",
    "/drive/": "gdrive",
    "/tasks/": "gtasks",
}


@dataclass
class Seen:
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    form: dict[str, str]


@dataclass
class Reply:
    body: Any = None
    """Bytes are sent as they are, everything else as JSON."""
    status: int = 200
    type: str = "application/json; charset=UTF-8"
    headers: dict[str, str] = field(default_factory=dict[str, str])

    def encoded(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


Page = Reply | Callable[[Seen], Reply]


def problem(status: int, reason: str = "", message: str = "It failed.", **headers: str) -> Reply:
    """An error in Google's error model."""
    errors = [{"message": message, "domain": "global", "reason": reason}]
    names = {401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND", 429: "RESOURCE_EXHAUSTED"}
    body = {"code": status, "message": message, "status": names.get(status, "UNKNOWN"), "errors": errors}
    return Reply({"error": body}, status, headers={key.replace("_", "-"): value for key, value in headers.items()})


@dataclass
class GoogleServer:
    """What it answers, and what it has seen."""

    port: int = 0
    pages: dict[str, Page] = field(default_factory=dict[str, Page])
    """API answers by path."""
    faults: list[Reply] = field(default_factory=list[Reply])
    """Answers to the next API requests, instead of the pages."""
    redirect: dict[str, str] = field(default_factory=dict[str, str])
    """What the login page puts into the redirect, beside or instead of the right values."""
    answer: dict[str, Any] = field(default_factory=dict[str, Any])
    """What a token answer contains, beside or instead of the right values; None removes a value."""
    token_reply: Reply | None = None
    lifetime: int = 3599
    rotates: bool = True
    untick: str = ""
    """A scope that the user does not grant on the consent page."""
    seen: list[Seen] = field(default_factory=list[Seen])
    issued: dict[str, str] = field(default_factory=dict[str, str])
    """Access tokens that are accepted, with their scopes."""
    refreshers: dict[str, str] = field(default_factory=dict[str, str])
    """Refresh tokens that are accepted, with their scopes."""
    codes: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])
    refused: list[str] = field(default_factory=list[str])
    """Why requests of the login were refused."""
    hold: threading.Event | None = None
    """While it is not set, a request for a token is not answered."""
    before: Callable[[Seen], object] | None = None
    """Called for each API request before its token is checked."""
    _made: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def entry(self) -> str:
        return f"127.0.0.1:{self.port}"

    def reset(self) -> None:
        self.__init__(port=self.port)

    def asked(self, path: str) -> list[Seen]:
        return [each for each in self.seen if each.path == path]

    def refreshed(self) -> int:
        return sum(1 for each in self.asked("/token") if each.form.get("grant_type") == "refresh_token")

    def grant(self, families: Iterable[Family] = FAMILIES, *, expires_at: float = 4e9) -> Grant:
        """A grant that this server has issued."""
        scopes = tuple(SCOPES[family] for family in families)
        access, refresh = self._issue(" ".join(scopes))
        return Grant(
            client_id=CLIENT_ID,
            endpoint=f"{self.url}/token",
            refresh_token=refresh,
            access_token=access,
            expires_at=expires_at,
            scopes=scopes,
            granted_at=1.7e9,
        )

    def _issue(self, scopes: str) -> tuple[str, str]:
        with self._lock:
            self._made += 1
            access, refresh = f"ya29.access-token-{self._made}", f"1//refresh-token-{self._made}"
        self.issued[access] = scopes
        self.refreshers[refresh] = scopes
        return access, refresh

    # ------------------------------------------------------------------ the login service

    def respond(self, seen: Seen) -> Reply:
        with self._lock:
            self.seen.append(seen)
        if seen.path == "/o/oauth2/v2/auth":
            return self._login_page(seen)
        if seen.path == "/token":
            return self._token(seen)
        if seen.path == "/revoke":
            known = self.refreshers.pop(seen.form.get("token", ""), None)
            return Reply({}) if known is not None else Reply({"error": "invalid_token"}, 400)
        return self._api(seen)

    def _login_page(self, seen: Seen) -> Reply:
        asked = seen.query
        wanted = {
            "response_type": "code",
            "client_id": CLIENT_ID,
            "code_challenge_method": "S256",
            "access_type": "offline",
        }
        wrong = [name for name, value in wanted.items() if asked.get(name) != value]
        wrong += [] if asked.get("redirect_uri", "").startswith("http://127.0.0.1:") else ["redirect_uri"]
        wrong += [] if len(asked.get("state", "")) >= 32 and len(asked.get("code_challenge", "")) == 43 else ["state"]
        wrong += [] if set(asked.get("scope", "").split()) <= set(SCOPES.values()) else ["scope"]
        if wrong:
            self.refused += wrong
            return Reply({"error": wrong}, 400)
        with self._lock:
            self._made += 1
            code = f"4/code-{self._made}"
        self.codes[code] = asked
        answer = {"code": code, "state": asked["state"], **self.redirect}
        return Reply(b"", 302, "text/plain", {"Location": f"{asked['redirect_uri']}?{urlencode(answer)}"})

    def _token(self, seen: Seen) -> Reply:
        form = seen.form
        if form.get("client_id") != CLIENT_ID or form.get("client_secret", CLIENT_SECRET) != CLIENT_SECRET:
            return Reply({"error": "invalid_client", "error_description": "Unauthorized"}, 401)
        if self.hold is not None:
            self.hold.wait(60)
        if form.get("grant_type") == "refresh_token":
            if self.token_reply is not None:
                return self.token_reply
            scopes = self.refreshers.get(form["refresh_token"])
            if scopes is None:
                told = "Token has been expired or revoked."
                return Reply({"error": "invalid_grant", "error_description": told}, 400)
            return self._tokens(scopes, replaced=form["refresh_token"])
        if self.token_reply is not None:
            return self.token_reply
        asked = self.codes.pop(form.get("code", ""), None)
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        if asked is None or asked["code_challenge"] != challenge or asked["redirect_uri"] != form.get("redirect_uri"):
            self.refused.append("code")
            return Reply({"error": "invalid_grant", "error_description": "Malformed auth code."}, 400)
        return self._tokens(" ".join(scope for scope in asked["scope"].split() if scope != self.untick))

    def _tokens(self, scopes: str, replaced: str | None = None) -> Reply:
        access, refresh = self._issue(scopes)
        body: dict[str, Any] = {
            "access_token": access,
            "expires_in": self.lifetime,
            "scope": scopes,
            "token_type": "Bearer",
        }
        if replaced is None or self.rotates:
            body["refresh_token"] = refresh
            self.refreshers.pop(replaced or "", None)
        body |= self.answer
        return Reply({name: value for name, value in body.items() if value is not None})

    # ------------------------------------------------------------------ the APIs

    def _api(self, seen: Seen) -> Reply:
        if self.before is not None:
            self.before(seen)
        family = next((name for prefix, name in _PREFIXES.items() if seen.path.startswith(prefix)), None)
        scopes = self.issued.get(seen.headers.get("authorization", "").removeprefix("Bearer "))
        if scopes is None:
            return problem(401, "authError", "Invalid Credentials")
        if family is None or family not in families_of(scopes.split()):
            return problem(403, "insufficientPermissions", "Request had insufficient authentication scopes.")
        if seen.method != "GET":
            return problem(405, "methodNotAllowed")
        if self.faults:
            return self.faults.pop(0)
        page = self.pages.get(seen.path, problem(404, "notFound", "Requested entity was not found."))
        return page(seen) if callable(page) else page


@contextmanager
def google_server() -> Generator[GoogleServer]:
    there = GoogleServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            length = int(self.headers.get("content-length") or 0)
            seen = Seen(
                method=self.command,
                path=parts.path,
                query=_first(parts.query),
                headers={name.lower(): value for name, value in self.headers.items()},
                form=_first(self.rfile.read(length).decode()),
            )
            reply = there.respond(seen)
            body = reply.encoded()
            with suppress(OSError):
                self.send_response(reply.status)
                for name, value in {"Content-Type": reply.type, **reply.headers}.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = do_GET

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name in the base class
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    there.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield there
    finally:
        server.shutdown()
        server.server_close()
        thread.join(60)


def _first(query: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(query, keep_blank_values=True).items()}


class Account:
    """A runtime with the Google tools, logged in at the server, whose user approves every call."""

    def __init__(
        self,
        folder: Path,
        there: GoogleServer,
        *,
        grant: Grant | None = None,
        log: NetworkLog | None = None,
        answers: bool = True,
        config: Config = MESSAGING,
        **settings: Any,
    ) -> None:
        values: dict[str, Any] = {"client_id": CLIENT_ID, "endpoint": there.url, "backoff": 0.001, **settings}
        self.settings = GoogleSettings(**values)
        self.file = LoginFile(folder / "logins" / "default.json", NO_GRANT)
        self.file.write(there.grant() if grant is None else grant)
        self.registered: list[str] = []
        tools = [configured_google(tool, self.settings) for tool in builtin_tools()]
        self.runtime: Runtime = runtime_in(folder, *tools, nobody="pending", config=config)
        if answers:
            self.runtime.attach(yes())
        self.service = Google(
            Network(log=log),
            self.settings,
            self.file,
            register=self._register,
            extractor=shared_extractor(),
        )
        self.runtime.services.offer(Google, self.service)

    def _register(self, token: str) -> None:
        self.registered.append(token)
        self.runtime.redactor.add("google", token)

    def call(self, tool: str, **args: Any) -> Result:
        return run(self.runtime.call(tool, args))


def facts(result: Result) -> dict[str, Any]:
    """The structured output of a successful call."""
    assert result.success, result
    assert isinstance(result.structured, dict)
    return cast("dict[str, Any]", dict(result.structured))


def no_secret() -> str:
    return ""


def encoded(text: str | bytes) -> str:
    """base64url without padding, as Gmail sends it."""
    data = text.encode() if isinstance(text, str) else text
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


async def browse(url: str) -> tuple[int, str]:
    """Open a page like a browser and follow its redirects; returns the status and text of the last one."""
    import httpx2

    async with asyncio.timeout(60), httpx2.AsyncClient(follow_redirects=True, trust_env=False) as browser:
        page = await browser.get(url)
        return page.status_code, page.text

"""The gate in front of the daemon: who may send a request, from which page, and what the browser may do with the reply.

Checked before the body is read, in this order: the `Host` (DNS rebinding), the site the request comes from (requests
that another page forges), the method and the type of the body, and who it is. Every reply carries the headers that
confine the page.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import Final
from urllib.parse import quote, urlsplit

from msgspec import Struct
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holdfast.contract.errors import ConfigError, LedgerError
from holdfast.net.server import LOOPBACK, NewConnections, TimedBody
from holdfast.store.people import People, Person, local_person

MAX_BODY: Final = 4 * 1024 * 1024
PERSON: Final = "holdfast.person"
"""Where the authenticated person is kept in the scope of a request."""
STILL: Final = "holdfast.still"
"""Where a function is kept that says whether the person may still read; for replies that go on."""
LOGIN: Final = "/login"
_STATIC: Final = "/static/"
_ICON: Final = "/icon/"
_API: Final = "/api/"
_MAX_SESSIONS: Final = 4
_HOST: Final = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?|[0-9a-f:.]*:[0-9a-f:.]*", re.ASCII)
_METHODS: Final = frozenset({"GET", "HEAD", "POST"})
_SAME_SITE: Final = frozenset({"same-origin", "none"})
_FORM: Final = "application/x-www-form-urlencoded"
_JSON: Final = "application/json"
_CSP: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; media-src 'self'; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'; "
    "require-trusted-types-for 'script'; trusted-types holdfast"
)
HEADERS: Final = {
    "Content-Security-Policy": _CSP,
    "X-Content-Type-Options": "nosniff",
    # Not `no-referrer`: with it browsers send `Origin: null` with forms, which the gate refuses.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Frame-Options": "DENY",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "Cache-Control": "no-store",
}
"""On every reply. A reply may set its own policy or caching, which then stays."""


class Origins(Struct, frozen=True, kw_only=True):
    """The addresses under which the daemon may be used."""

    hosts: frozenset[str]
    origins: frozenset[str]

    @classmethod
    def of(cls, port: int, trusted: Collection[str] = ()) -> Origins:
        """The loopback addresses with this port, and the given origins (`https://box.example`)."""
        hosts = {f"{name}:{port}" for name in LOOPBACK}
        origins = {f"http://{host}" for host in hosts}
        for given in trusted:
            origin = check_origin(given)
            origins.add(origin)
            hosts.add(origin.partition("://")[2])
        return cls(hosts=frozenset(hosts), origins=frozenset(origins))


def check_origin(given: str) -> str:
    """The origin in the form that browsers send. Raises `ConfigError` for anything but `https://HOST[:PORT]`."""
    try:
        parts = urlsplit(given.lower())
        host, port = parts.hostname, parts.port
    except ValueError:
        parts, host, port = urlsplit(""), None, None
    extra = parts.path.strip("/") or parts.query or parts.fragment or parts.username is not None
    if parts.scheme != "https" or not host or not _HOST.fullmatch(host) or extra:
        raise ConfigError(
            f"'{given}' is not an origin that can be trusted. Use https://HOST or https://HOST:PORT: the address in "
            "the browser, of a proxy that adds TLS."
        )
    shown = f"[{host}]" if ":" in host else host
    return f"https://{shown}" if port in (None, 443) else f"https://{shown}:{port}"


def cookie_name(port: int) -> str:
    """The session cookie. Cookies are shared by all ports of a host, so the port is part of the name."""
    return f"holdfast-{port}"


class Gate:
    """Admits requests to the application. `local` is for the private socket: who can open it is this user."""

    def __init__(self, app: ASGIApp, people: People, origins: Origins, *, port: int, local: bool = False) -> None:
        self._app = app
        self._people = people
        self._origins = origins
        self._cookie = cookie_name(port)
        self._local = local
        self.newcomers = NewConnections()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        assert scope["type"] == "http", "the server speaks nothing else"
        headers = Headers(scope=scope)

        async def confined(message: Message) -> None:
            if message["type"] == "http.response.start":
                found = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    found.setdefault(name, value)
            await send(message)

        refusal = self._refusal(scope, headers) or self._admit(scope, headers)
        if refusal is not None:
            await refusal(scope, receive, confined)
            return
        await TimedBody.call(self._app, scope, receive, confined)

    def _admit(self, scope: Scope, headers: Headers) -> Response | None:
        """Note in the scope who sends the request; the refusal if nobody known does."""
        try:
            person = self._person(headers)
        except LedgerError as error:
            return _refused("unavailable", str(error), 503)
        if person is None and not _is_public(scope["path"]):
            return _unauthenticated(scope, headers)
        scope[PERSON] = person
        scope[STILL] = _StillAllowed(self._people, lambda: self._person(headers))
        if person is not None:
            self.newcomers.remove(scope.get("client"))
        return None

    def _refusal(self, scope: Scope, headers: Headers) -> Response | None:
        """The refusal of a request that no page of ours and no program of this user sends."""
        method, path = scope["method"], scope["path"]
        hosts, origins, sites = (headers.getlist(name) for name in ("host", "origin", "sec-fetch-site"))
        if not self._local and (len(hosts) != 1 or hosts[0].lower() not in self._origins.hosts):
            return _refused("misdirected", "This server answers requests to its own address only.", 421)
        if any(origin.lower() not in self._origins.origins for origin in origins):
            return _refused("foreign_origin", "Pages of other origins may not use this server.", 403)
        if any(site not in _SAME_SITE for site in sites):
            if method == "GET" and headers.get("sec-fetch-mode") == "navigate" and not path.startswith(_API):
                return _continue(scope)
            return _refused("cross_site", "Pages of other sites may not use this server.", 403)
        if method not in _METHODS:
            return _refused("method", f"The method {method} is not used here.", 405)
        if method == "POST":
            return self._post_refusal(path, headers)
        return None

    def _post_refusal(self, path: str, headers: Headers) -> Response | None:
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        wanted = _JSON if path.startswith(_API) else _FORM
        if kind != wanted:
            return _refused("content_type", f"The body must be {wanted}.", 415)
        by_cookie = "authorization" not in headers and not self._local
        if by_cookie and not headers.getlist("origin") and headers.get("sec-fetch-site") != "same-origin":
            # Every browser sends one of them with a POST; without either nobody knows which page sent it.
            return _refused("no_origin", "A request with a cookie must say which page it comes from (Origin).", 403)
        size = headers.get("content-length", "0")
        if not size.isdecimal() or not size.isascii() or int(size) > MAX_BODY:
            return _refused("too_large", f"The body must not be larger than {MAX_BODY:,} bytes.", 413)
        return None

    def _person(self, headers: Headers) -> Person | None:
        if self._local:
            return local_person()
        given = headers.getlist("authorization")
        if given:
            scheme, _, token = given[0].partition(" ")
            return self._people.with_token(token.strip()) if len(given) == 1 and scheme.lower() == "bearer" else None
        found = map(self._people.in_session, session_secrets(headers, self._cookie))
        return next((person for person in found if person is not None), None)


class _StillAllowed:
    """Whether a person may still read, asked again only after the list of people has changed."""

    def __init__(self, people: People, check: Callable[[], Person | None]) -> None:
        self._people = people
        self._check = check
        self._version = people.version()

    def __call__(self) -> bool:
        version = self._people.version()
        if version == self._version:
            return True
        self._version = version
        try:
            return self._check() is not None
        except LedgerError:
            return False


def session_secrets(headers: Headers, cookie: str) -> list[str]:
    """The secrets of the browser sessions that a request names.

    Programs on other ports of this host share its cookies: theirs may be malformed, or may have the same name.
    """
    found: list[str] = []
    for header in headers.getlist("cookie"):
        for pair in header.split(";"):
            name, _, value = pair.partition("=")
            if name.strip() == cookie:
                found.append(value.strip())
    return found[:_MAX_SESSIONS]


def _is_public(path: str) -> bool:
    return path == LOGIN or path.startswith((_STATIC, _ICON))


def _refused(kind: str, message: str, status: int) -> Response:
    return JSONResponse({"error": {"kind": kind, "message": message}}, status)


def _unauthenticated(scope: Scope, headers: Headers) -> Response:
    path: str = scope["path"]
    if "text/html" in headers.get("accept", "") and not path.startswith(_API) and "authorization" not in headers:
        query = scope["query_string"].decode("latin-1")
        wanted = quote(f"{path}?{query}" if query else path, safe="")
        return RedirectResponse(f"{LOGIN}?next={wanted}" if scope["method"] == "GET" else LOGIN, 303)
    reply = _refused("unauthenticated", "Send a token: Authorization: Bearer TOKEN.", 401)
    reply.headers["WWW-Authenticate"] = 'Bearer realm="holdfast"'
    return reply


def _continue(scope: Scope) -> Response:
    """A page for a link on another site: the strict cookie is not sent with it, but with the next click."""
    query = scope["query_string"].decode("latin-1")
    target = "/" + quote(scope["path"].lstrip("/"), safe="/") + (f"?{quote(query, safe='=&%+')}" if query else "")
    return HTMLResponse(
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>holdfast</title>'
        f'<p>Another site links to holdfast. <a href="{target.replace("&", "&amp;")}">Continue</a></p></html>'
    )

"""OAuth logins to MCP servers: adds the token to every request, refreshes it, and asks a user to log in."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, urlsplit
from weakref import WeakKeyDictionary

import httpx2
from mcp.client.auth.utils import extract_field_from_www_auth
from mcp.shared.auth import AuthorizationCodeResult, OAuthToken
from pydantic import AnyUrl

from holdfast.config.config import McpServer
from holdfast.contract.elicitation import Elicitation, UrlRequest
from holdfast.contract.errors import HoldfastError
from holdfast.mcp.client.active_calls import ActiveCall, active_call_of, expects_response
from holdfast.mcp.client.oauth_client import LoginFailed, LoginNeeded, StoredOAuthClient
from holdfast.net.addresses import LOCAL_KINDS, is_loopback
from holdfast.net.hosts import parse_origin, url_problem
from holdfast.net.http import GatewayTransport
from holdfast.net.oauth_callback import CallbackResult, CallbackServer
from holdfast.runtime.runtime import Runtime
from holdfast.text.escape import clip, escape, escape_url

__all__ = ["LOGIN_SECONDS", "LoginFailed", "LoginNeeded", "OAuthLogin", "oauth_for"]

LOGIN_SECONDS: float = 300.0
"""Seconds that a login waits for the user and the browser."""
_FETCH_SECONDS: Final = 30.0
_ALL_SECONDS: Final = 60.0
"""Seconds for all fetches of one login or refresh, because other requests wait for it."""
_FETCH_BYTES: Final = 1 << 20
_SCOPES_SHOWN: Final = 200
_UNFINISHED: Final = "the last login was not completed"

_Flow = AsyncGenerator[httpx2.Request, httpx2.Response]


def oauth_for(runtime: Runtime, name: str, server: McpServer, state: Path | None) -> OAuthLogin:
    """The login of one server. Connections of a runtime to the same server share it, so the user is asked once.

    `state` is the user's state directory; None keeps a login as long as the runtime.
    """
    here = _logins.setdefault(runtime, {})
    key = (name, server.url, server.oauth, state)
    if key not in here:
        here[key] = OAuthLogin(runtime, name, server, state)
    return here[key]


class OAuthLogin(StoredOAuthClient):
    """Sends the access token to the server's origin only.

    The SDK holds its lock while it waits for a response, so requests that need no login bypass it: a slow call would
    block every other one, and its own cancellation.
    """

    def __init__(self, runtime: Runtime, name: str, server: McpServer, state: Path | None) -> None:
        super().__init__(runtime, name, server, state)
        self._origin = parse_origin(self._url)
        self._local = is_loopback(self._origin[1])
        self._loaded = False
        self._callback: CallbackServer | None = None
        self._address = self._latest = ""
        self._over = ""
        """Why the user is not asked again: a declined login is not offered at every reconnect."""
        self._busy: asyncio.Future[None] | None = None
        """Done when the current login or refresh has ended."""
        self._left = _ALL_SECONDS
        self._call: ActiveCall | None = None
        """The call that the login is for."""

    async def async_auth_flow(self, request: httpx2.Request) -> _Flow:
        if not await self._is_mine(request):
            yield request
            return
        call, patient = await active_call_of(request), await expects_response(request)
        early: httpx2.Response | None = None
        if self.context.is_token_valid() or not self.context.can_refresh_token():
            self._put_token(request)
            early = yield request
            if not _is_challenge(early):
                return
            self._refused = _token_of(request) if early.status_code == 401 else None
        if not patient and self._busy is not None:
            # Every other request would queue behind it and wait for the user.
            if early is None:
                yield request
            return
        if not await self._turn(call):
            yield request
            return
        self._call, self._left = call, _ALL_SECONDS
        busy = self._busy = asyncio.get_running_loop().create_future()
        steps = self._steps(request, early, patient=patient or request.method == "DELETE")
        try:
            outgoing = await anext(steps, None)
            while outgoing is not None:
                response = yield outgoing
                try:
                    outgoing = await steps.asend(response)
                except StopAsyncIteration:
                    return
        except _CallOver:
            yield request  # the transport does not send it
        finally:
            await steps.aclose()
            self._busy = self._call = None
            busy.set_result(None)

    async def _steps(self, request: httpx2.Request, early: httpx2.Response | None, *, patient: bool) -> _Flow:
        """The SDK's OAuth flow, which yields only the request itself. `early` is the response without a login."""
        tried = _token_of(request)
        self._initialized = False
        callback: CallbackServer | None = None
        flow = super().async_auth_flow(request)
        try:
            async with httpx2.AsyncClient(timeout=_FETCH_SECONDS, trust_env=False, transport=self._reach()) as client:
                outgoing = await self._next(flow, None)
                while outgoing is not None:
                    if outgoing is not request:
                        response = await self._fetch(client, outgoing)
                    else:
                        response = early if early is not None and _token_of(request) == tried else (yield request)
                        early = None
                        if _is_challenge(response):
                            if not patient:
                                return
                            callback = await self._begin(callback, request, response)
                    outgoing = await self._next(flow, response)
        finally:
            if callback is not None:
                await callback.close()
            await flow.aclose()

    async def _turn(self, call: ActiveCall | None) -> bool:
        """Wait for the login in progress. A call behind it also waits for the user, so its timeout is paused.

        False if the call ends first.
        """
        while self._busy is not None:
            if call is None:
                await _until(self._busy)
            else:
                await call.while_it_lasts(_until(self._busy))
                if call.over:
                    return False
        return True

    async def _initialize(self) -> None:
        await super()._initialize()
        self._loaded = True
        tokens = self.context.current_tokens
        if tokens is not None and tokens.access_token != self._latest:
            # Another process logged in.
            self._latest, self._over = tokens.access_token, ""

    def given(self, tokens: OAuthToken) -> None:
        super().given(tokens)
        self._latest = tokens.access_token
        if self._over == _UNFINISHED:
            self._over = ""

    async def _is_mine(self, request: httpx2.Request) -> bool:
        if parse_origin(str(request.url)) != self._origin:
            return False
        if not self._loaded:
            async with self.context.lock:
                if not self._loaded:
                    await self._initialize()
        # A redirect within the origin carries the token again; any other header comes from the configuration.
        tokens = self.context.current_tokens
        return "Authorization" not in request.headers or (
            tokens is not None and _token_of(request) == tokens.access_token
        )

    def _put_token(self, request: httpx2.Request) -> None:
        request.headers.pop("Authorization", None)
        if self.context.is_token_valid():
            self._add_auth_header(request)

    async def _next(self, flow: _Flow, response: httpx2.Response | None) -> httpx2.Request | None:
        try:
            return await (anext(flow) if response is None else flow.asend(response))
        except StopAsyncIteration:
            return None
        except (HoldfastError, httpx2.HTTPError, _CallOver):
            raise
        except Exception as error:
            raise self.failed(str(error)) from None

    async def _fetch(self, client: httpx2.AsyncClient, request: httpx2.Request) -> httpx2.Response:
        """Fetch metadata, registration and tokens for a login, bounded in time and size."""
        self._check(str(request.url))
        request.headers["Accept-Encoding"] = "identity"
        began, seconds = asyncio.get_running_loop().time(), min(_FETCH_SECONDS, self._left)
        try:
            async with asyncio.timeout(seconds):
                answer = await client.send(request, stream=True, follow_redirects=False)
                try:
                    content = await self._content_of(answer)
                finally:
                    await answer.aclose()
        except TimeoutError:
            raise self.failed(f"{escape_url(str(request.url))} did not answer within {seconds:.0f} s") from None
        finally:
            self._left = max(0.0, self._left - asyncio.get_running_loop().time() + began)
        whole = httpx2.Response(answer.status_code, headers=answer.headers, content=content, request=answer.request)
        whole.next_request = answer.next_request
        return whole

    async def _content_of(self, answer: httpx2.Response) -> bytes:
        if answer.headers.get("Content-Encoding", "identity") != "identity":
            raise self.failed("its login service sends compressed content, which was not requested")
        content = bytearray()
        async for part in answer.aiter_raw():
            content += part
            if len(content) > _FETCH_BYTES:
                raise self.failed(f"its login service sent more than {_FETCH_BYTES} bytes")
        return bytes(content)

    def _reach(self) -> GatewayTransport:
        """The gateway for URLs that a server names: they may lead to this machine or its network only if the server is
        there."""
        gateway = self._runtime.network.gateway_to_origin(
            f"mcp:{self._name} login", self._url, others=frozenset() if self._local else LOCAL_KINDS
        )
        return GatewayTransport(gateway)

    def _check(self, url: str) -> None:
        fault = url_problem(url, loopback=self._local)
        if fault is not None:
            raise self.failed(f"it sends you to {escape_url(url)} for the login, but {fault}")

    async def _begin(
        self, callback: CallbackServer | None, request: httpx2.Request, response: httpx2.Response
    ) -> CallbackServer | None:
        """Open the callback server, whose address a registration needs. A second refusal ends the login."""
        if callback is not None:
            self._over = "it rejects the login that it has just issued"
            return callback
        if request.method == "DELETE":
            raise self._needed("the connection is closing, so no login is possible")
        if self._over or not self._runtime.interfaces.can_elicit:
            raise self._needed(self._over or "no interface can ask you to log in")
        self._check(self._url)
        callback = self._callback = await self._listen()
        address = callback.address
        self._metadata.want(" ".join(self._config.scopes), more=response.status_code == 403)
        self._metadata.redirect_uris = [AnyUrl(address)]
        client = self.context.client_info
        named = self._config.client_id is not None or (
            client is not None and client.client_id == self._config.client_metadata_url
        )
        if not named and self._redirect != address:
            self.context.client_info = None
        return callback

    async def _listen(self) -> CallbackServer:
        wanted = self._config.redirect_port
        try:
            return await CallbackServer.open(wanted or (urlsplit(self._redirect).port or 0))
        except OSError as error:
            if wanted:
                raise self.failed(f"port {wanted} for the login callback cannot be used: {error}") from None
        return await CallbackServer.open(0)

    async def _open(self, url: str) -> None:
        """The SDK's URL of the login page: checked, and the expected state noted."""
        assert self._callback is not None
        page = self.context.oauth_metadata and str(self.context.oauth_metadata.authorization_endpoint)
        if page and "?" in page and url.startswith(f"{page}?"):
            url = f"{page}&{url[len(page) + 1 :]}"
        self._check(url)
        issuer = self._expected_issuer()
        if self._config.client_id is not None and self._issuer not in ("", issuer):
            raise self.failed(
                f"it was at {escape_url(self._issuer)} and is now at {escape_url(issuer)}, which must not get your "
                f"client secret; if that is right, forget the old one with `holdfast mcp logout {self._name}`"
            )
        self._callback.expect(parse_qs(urlsplit(url).query).get("state", [""])[-1])
        self._address = url

    async def _answer(self) -> AuthorizationCodeResult:
        assert self._callback is not None
        call, asking = self._call, self._ask(self._callback)
        self._over = _UNFINISHED
        try:
            async with asyncio.timeout(LOGIN_SECONDS):
                arrival = await (asking if call is None else call.while_it_lasts(asking))
        except TimeoutError:
            self._over = f"no login was completed within {LOGIN_SECONDS:.0f} s"
            raise self._needed(self._over) from None
        except asyncio.CancelledError:
            if call is not None:
                self._over = ""  # the call was cancelled, not the login: the next call may ask again
            raise
        if arrival is None:
            self._over = ""
            raise _CallOver
        if arrival.error:
            self._over = f"the login page said '{clip(escape(arrival.error), 80)}'"
            raise self._needed(self._over)
        return AuthorizationCodeResult(code=arrival.code, state=arrival.state, iss=arrival.issuer)

    async def _ask(self, callback: CallbackServer) -> CallbackResult:
        """Wait until the browser returns or the user declines."""
        record = None if self._call is None else self._call.ctx.call_record
        about = {"call_id": record.id, "group": record.group} if record else {}
        visit = UrlRequest(message=self._message(), url=self._address)
        elicitation = Elicitation(asked_by=f"mcp:{self._name}", questions=(visit,), **about)
        asking = asyncio.create_task(self._runtime.interfaces.elicit(elicitation))
        arriving = asyncio.create_task(callback.arrival())
        try:
            await asyncio.wait((asking, arriving), return_when=asyncio.FIRST_COMPLETED)
            if not arriving.done() and [reply.action for reply in asking.result()] != ["accept"]:
                self._over = "the login was declined"
                raise self._needed(self._over)
            return await arriving
        finally:
            asking.cancel()
            arriving.cancel()
            await asyncio.gather(asking, arriving, return_exceptions=True)

    def _message(self) -> str:
        scopes = self._metadata.scope
        rights = f" It requests: {clip(escape(scopes), _SCOPES_SHOWN)}." if scopes else ""
        host = urlsplit(self._address).netloc
        return f"The MCP server '{self._name}' ({escape_url(self._url)}) requires a login at {host}.{rights}"

    def _needed(self, why: str) -> LoginNeeded:
        return LoginNeeded(
            f"The MCP server '{self._name}' needs a login ({why}). Log in with `holdfast mcp login {self._name}`."
        )


_logins: WeakKeyDictionary[Runtime, dict[tuple[object, ...], OAuthLogin]] = WeakKeyDictionary()


class _CallOver(Exception):
    """The call that needed the login has ended."""


async def _until(done: asyncio.Future[None]) -> None:
    await asyncio.wait((done,))


def _is_challenge(response: httpx2.Response) -> bool:
    return response.status_code == 401 or (
        response.status_code == 403 and extract_field_from_www_auth(response, "error") == "insufficient_scope"
    )


def _token_of(request: httpx2.Request) -> str | None:
    return request.headers.get("Authorization", "").removeprefix("Bearer ") or None

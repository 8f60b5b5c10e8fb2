"""OAuth 2.0 for installed applications (RFC 8252): loopback redirect, PKCE, state, refresh and revocation.

The tokens are bound to the client and the endpoint that issued them, and never sent to another.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from base64 import urlsafe_b64encode
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager, suppress
from hashlib import sha256
from typing import Final, Protocol
from urllib.parse import urlencode

import msgspec
from msgspec import Struct

from holdfast.contract.errors import HoldfastError, NetworkRefused
from holdfast.net.client import HttpClient, HttpRequest, Limits, RedirectRefused, RequestFailed
from holdfast.net.network import Network
from holdfast.net.oauth_callback import CallbackResult, CallbackServer
from holdfast.net.urls import HttpUrl
from holdfast.text.escape import clip, escape
from holdfast.tools.google.endpoints import SCOPES, Endpoints, Family, families_of, scopes_of

LOGIN_SECONDS: float = 300.0
"""Seconds that a login waits for the user and the browser."""
TOKEN_SECONDS: Final = 30.0
_TOKEN_BYTES: Final = 1 << 18
_EARLY_SECONDS: Final = 60.0
"""An access token counts as expired this long before it is, so that it does not expire on its way."""
_MAX_LIFETIME: Final = 86_400.0
_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/=-]{1,4096}")
"""RFC 6750, 2.1: what can stand in a header."""
_SHOWN: Final = 200

Register = Callable[[str], None]
"""Tells the redactor about a secret value."""
Visit = Callable[[str], Awaitable[bool]]
"""Shows the address of the login page to the user; False if the user declines."""


class GoogleLoginFailed(HoldfastError):
    """The login, or a refresh, did not succeed; the message is a sentence with the next step."""


class GoogleLoginNeeded(GoogleLoginFailed):
    """Only a new login helps: there is none, or it was revoked, has expired or does not cover the family."""


class Grant(Struct, frozen=True, kw_only=True):
    """What the user granted, as it is stored."""

    client_id: str = ""
    endpoint: str = ""
    """The token endpoint that issued the tokens."""
    refresh_token: str = ""
    access_token: str = ""
    expires_at: float = 0.0
    scopes: tuple[str, ...] = ()
    granted_at: float = 0.0
    ended: str = ""
    """Why the grant no longer counts, if it does not."""

    @property
    def families(self) -> tuple[Family, ...]:
        return families_of(self.scopes)

    def is_fresh(self, now: float) -> bool:
        return bool(self.access_token) and now < self.expires_at - _EARLY_SECONDS


NO_GRANT: Final = Grant()


class GrantFile(Protocol):
    """Where a grant is kept: `store.login_file.LoginFile`."""

    def read(self) -> Grant: ...
    def write(self, kept: Grant) -> None: ...
    def forget(self) -> bool: ...
    def locked(self, seconds: float) -> AbstractAsyncContextManager[None]: ...


class _TokenAnswer(Struct, frozen=True):
    """RFC 6749, 5.1 and 5.2, in one shape."""

    access_token: str = ""
    token_type: str = ""
    expires_in: float = 0.0
    refresh_token: str = ""
    scope: str = ""
    error: str = ""
    error_description: str = ""


class OAuthClient:
    """The configured client at the configured endpoints. `secret` is empty for a client that has none."""

    def __init__(
        self,
        network: Network,
        endpoints: Endpoints,
        *,
        client_id: str,
        account: str,
        user_agent: str,
        register: Register,
        secret: Callable[[], str],
    ) -> None:
        self._network = network
        self._endpoints = endpoints
        self._client_id = client_id
        self._account = account
        self._user_agent = user_agent
        self._register = register
        self._secret = secret

    # ------------------------------------------------------------------ login

    async def login(self, families: Iterable[Family], visit: Visit) -> Grant:
        """Ask the user for the read-only scopes of the families, in the browser. Raises `GoogleLoginFailed`."""
        asked = scopes_of(families)
        state, verifier = secrets.token_urlsafe(32), secrets.token_urlsafe(64)
        try:
            callback = await CallbackServer.open(0)
        except OSError as error:
            told = f"No port of 127.0.0.1 can be opened for the login: {error.strerror}. Try again."
            raise GoogleLoginFailed(told) from None
        try:
            callback.expect(state)
            arrival = await self._arrival(callback, visit, self._page(callback.address, asked, state, verifier))
            return await self._exchange(arrival, callback.address, verifier, asked)
        finally:
            await callback.close()

    def _page(self, redirect: str, scopes: tuple[str, ...], state: str, verifier: str) -> str:
        challenge = urlsafe_b64encode(sha256(verifier.encode("ascii")).digest()).decode("ascii").rstrip("=")
        query = {
            "response_type": "code",
            "client_id": self._client_id,
            "redirect_uri": redirect,
            "scope": " ".join(scopes),
            "state": state,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
            "access_type": "offline",
            # Without it, a second login returns no refresh token.
            "prompt": "consent",
        }
        return f"{self._endpoints.login}?{urlencode(query)}"

    async def _arrival(self, callback: CallbackServer, visit: Visit, page: str) -> CallbackResult:
        """Wait until the browser returns, the user declines, or the time is over."""
        asking, arriving = asyncio.ensure_future(visit(page)), asyncio.ensure_future(callback.arrival())
        try:
            async with asyncio.timeout(LOGIN_SECONDS):
                await asyncio.wait((asking, arriving), return_when=asyncio.FIRST_COMPLETED)
                if not arriving.done() and not asking.result():
                    raise GoogleLoginFailed("The login was declined. Nothing was stored.")
                arrival = await arriving
        except TimeoutError:
            told = f"No login was completed within {LOGIN_SECONDS:.0f} seconds. Run `holdfast google login` again."
            raise GoogleLoginFailed(told) from None
        finally:
            asking.cancel()
            arriving.cancel()
            await asyncio.gather(asking, arriving, return_exceptions=True)
        if arrival.issuer is not None and arrival.issuer != self._endpoints.login.origin:  # RFC 9207: mix-up attack
            raise GoogleLoginFailed(
                f"The login came from {quoted_words(arrival.issuer)}, which was not asked, so it is refused."
            )
        if arrival.error == "access_denied":
            raise GoogleLoginFailed("You did not grant access on the login page. Nothing was stored.")
        if arrival.error:
            raise GoogleLoginFailed(f"The login page answered {quoted_words(arrival.error)}. Nothing was stored.")
        return arrival

    async def _exchange(self, arrival: CallbackResult, redirect: str, verifier: str, asked: tuple[str, ...]) -> Grant:
        self._register(arrival.code)
        form = {
            "grant_type": "authorization_code",
            "code": arrival.code,
            "code_verifier": verifier,
            "redirect_uri": redirect,
        }
        status, answer = await self._ask(form)
        if status != 200 or answer.error:
            raise self._refused(status, answer)
        granted = tuple(answer.scope.split()) if answer.scope else asked
        try:
            self._check(answer, granted, asked)
            if not answer.refresh_token:
                raise GoogleLoginFailed("Google issued no refresh token, so the login would end within the hour.")
        except GoogleLoginFailed:
            await self.discard(answer.refresh_token or answer.access_token)
            raise
        return Grant(
            client_id=self._client_id,
            endpoint=str(self._endpoints.token),
            refresh_token=answer.refresh_token,
            access_token=answer.access_token,
            expires_at=_expiry(answer),
            scopes=granted,
            granted_at=time.time(),
        )

    # ------------------------------------------------------------------ use

    async def refresh(self, grant: Grant, seconds: float = TOKEN_SECONDS) -> Grant:
        """Return the grant with a new access token. Raises `GoogleLoginNeeded` if Google ended it."""
        self.check_binding(grant)
        form = {"grant_type": "refresh_token", "refresh_token": grant.refresh_token}
        status, answer = await self._ask(form, seconds)
        if status == 400 and answer.error == "invalid_grant":
            raise GoogleLoginNeeded(
                f"Google no longer accepts the login '{self._account}': it was revoked or has expired. "
                "Run `holdfast google login`."
            )
        if status != 200 or answer.error:
            raise self._refused(status, answer)
        granted = tuple(answer.scope.split()) if answer.scope else grant.scopes
        self._check(answer, granted, grant.scopes)
        return msgspec.structs.replace(
            grant,
            access_token=answer.access_token,
            refresh_token=answer.refresh_token or grant.refresh_token,
            expires_at=_expiry(answer),
            scopes=granted,
        )

    def check_binding(self, grant: Grant) -> None:
        """Raise if another client or endpoint issued the tokens: they must not be sent here."""
        if grant.client_id != self._client_id or grant.endpoint != str(self._endpoints.token):
            raise GoogleLoginNeeded(
                f"The login '{self._account}' belongs to another google.client_id or google.endpoint. "
                "Run `holdfast google login`."
            )

    async def discard(self, token: str) -> None:
        """Revoke a token that is not stored, as far as Google can be reached: it must not stay valid."""
        with suppress(HoldfastError):
            await self.revoke(token)

    async def revoke(self, token: str) -> bool:
        """Ask Google to end the grant; False if it did not know the token. Raises if it cannot be reached."""
        status, _ = await self._post(self._endpoints.revoke, {"token": token})
        return status == 200

    def _check(self, answer: _TokenAnswer, granted: tuple[str, ...], asked: tuple[str, ...]) -> None:
        """Refuse tokens that cannot be sent, or that can do more than was asked for."""
        tokens = [answer.access_token, *([answer.refresh_token] if answer.refresh_token else [])]
        for token in tokens:
            self._register(token)
        if not all(_TOKEN.fullmatch(token) for token in tokens) or answer.token_type.lower() != "bearer":
            raise GoogleLoginFailed("The token that Google sent cannot be used. Run `holdfast google login` again.")
        more = [scope for scope in granted if scope not in asked]
        if more:
            raise GoogleLoginFailed(
                f"The token carries more than was asked for ({quoted_words(', '.join(more))}), so it is refused. "
                "Remove the access of this client in your Google account, and log in again."
            )
        if not any(scope in granted for scope in SCOPES.values()):
            raise GoogleLoginFailed("None of the requested access was granted. Nothing was stored.")

    def _refused(self, status: int, answer: _TokenAnswer) -> GoogleLoginFailed:
        if answer.error in ("invalid_client", "unauthorized_client") or "client_secret" in answer.error_description:
            return GoogleLoginFailed(
                f"Google does not accept the client ({quoted_words(answer.error)}). Check google.client_id and "
                "[secrets.google], the client secret that belongs to it."
            )
        if answer.error == "invalid_grant":
            return GoogleLoginFailed(
                "Google does not accept the code of this login. Run `holdfast google login` again."
            )
        told = f", {quoted_words(answer.error)}" if answer.error else ""
        return GoogleLoginFailed(
            f"{self._endpoints.token.entry} issued no token (HTTP {status}{told}). Try again later."
        )

    async def _ask(self, form: dict[str, str], seconds: float = TOKEN_SECONDS) -> tuple[int, _TokenAnswer]:
        secret = await asyncio.to_thread(self._secret)  # it may come from a command
        client = {"client_id": self._client_id, **({"client_secret": secret} if secret else {})}
        status, body = await self._post(self._endpoints.token, {**form, **client}, seconds)
        try:
            return status, msgspec.json.decode(body, type=_TokenAnswer)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            if status == 200:
                raise GoogleLoginFailed(f"{self._endpoints.token.entry} sent an answer that is not a token.") from None
            return status, _TokenAnswer()

    async def _post(self, url: HttpUrl, form: dict[str, str], seconds: float = TOKEN_SECONDS) -> tuple[int, bytes]:
        """Send a form. A redirect is never followed: the form carries secrets."""
        gateway = self._network.gateway_to_listed(
            f"google login {self._account}", (url.entry,), name="the endpoints of [google]"
        )
        request = HttpRequest(
            url=url,
            method="POST",
            headers=(("Content-Type", "application/x-www-form-urlencoded"), ("Accept", "application/json")),
            body=urlencode(form).encode("ascii"),
        )
        limits = Limits(seconds=min(seconds, TOKEN_SECONDS), max_bytes=_TOKEN_BYTES)
        try:
            async with HttpClient(gateway, user_agent=self._user_agent) as client:
                response = await client.request(request, limits, may_follow=_not_followed)
        except RedirectRefused:
            raise GoogleLoginFailed(
                f"{url.entry} redirects a request that carries secrets, so it is refused."
            ) from None
        except (RequestFailed, NetworkRefused) as error:
            told = str(error).rstrip(".")
            raise GoogleLoginFailed(f"The login service cannot be asked: {told}. Try again later.") from None
        return response.status, response.body


def _not_followed(*_: object) -> str:
    return "not followed"


def _expiry(answer: _TokenAnswer) -> float:
    return time.time() + min(max(0.0, answer.expires_in), _MAX_LIFETIME)


def quoted_words(text: str) -> str:
    """Quote what a server said."""
    return f"'{clip(escape(text), _SHOWN)}'"

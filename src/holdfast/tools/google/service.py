"""`Google`: what the Google tools of one runtime share: the login, requests to the APIs, and their errors in words."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Any, Final, Self, TypeVar
from urllib.parse import quote, urlencode

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.contract.context import Context
from holdfast.contract.enums import Risk
from holdfast.contract.errors import HoldfastError
from holdfast.contract.json import Args
from holdfast.contract.result import Result, fail
from holdfast.contract.tool import Place, Reach, Tool
from holdfast.net.client import HttpClient, HttpRequest, HttpResponse, Limits
from holdfast.net.network import Network
from holdfast.net.urls import BadUrl
from holdfast.text.truncate import format_size
from holdfast.tools.extraction.extractor import Extractor
from holdfast.tools.google.endpoints import API_NAMES, FAMILIES, Endpoints, Family, endpoints
from holdfast.tools.google.oauth import (
    GoogleLoginFailed,
    GoogleLoginNeeded,
    Grant,
    GrantFile,
    OAuthClient,
    Visit,
    quoted_words,
)
from holdfast.tools.schemas import builtin_tool, needs_extra

SECRET_SCOPE: Final = "google"  # noqa: S105 - the name of the scope
DEFAULT_SECONDS: Final = 30.0
_MARGIN: Final = 0.1
"""Share of the time limit that is left for the result."""
_ATTEMPTS: Final = 4
_MOST_WAIT: Final = 20.0
"""Seconds that a request waits at most before it is repeated."""
_LEAST_SECONDS: Final = 0.1
_GRACE_SECONDS: Final = 5.0
_MAX_TARGET: Final = 8192
_RATE_REASONS: Final = frozenset({"rateLimitExceeded", "userRateLimitExceeded", "RATE_LIMIT_EXCEEDED"})
_QUOTA_REASONS: Final = frozenset({"dailyLimitExceeded", "quotaExceeded", "RESOURCE_EXHAUSTED"})
_SCOPE_REASONS: Final = frozenset({"insufficientPermissions", "ACCESS_TOKEN_SCOPE_INSUFFICIENT"})
_DISABLED_REASONS: Final = frozenset({"accessNotConfigured", "SERVICE_DISABLED"})

T = TypeVar("T")
Query = Mapping[str, str | int | bool | None]
needs_packages: Final = needs_extra("google", "httpx2", "lxml")


class GoogleFailed(HoldfastError):
    """A request was refused or its answer cannot be used; the message is a sentence."""


class GoogleHasNone(GoogleFailed):
    """There is no such thing, or the login cannot see it."""


class GoogleSettings(Struct, frozen=True, kw_only=True):
    """The section `[google]` of the configuration."""

    client_id: str | None = None
    has_secret: bool = False
    """Whether `[secrets.google]` is configured: the client secret."""
    account: str = "default"
    endpoint: str | None = None
    families: tuple[str, ...] = FAMILIES
    max_bytes: int = 10 * 1024 * 1024
    user_agent: str = "holdfast"
    lock_seconds: float = DEFAULT_SECONDS
    """Seconds to wait for another process that changes the login."""
    backoff: float = 0.5
    """Seconds before a request is repeated for the first time; doubled for each further time."""


class _ErrorItem(Struct, frozen=True):
    reason: str = ""


class _ErrorBody(Struct, frozen=True):
    message: str = ""
    status: str = ""
    errors: tuple[_ErrorItem, ...] = ()
    details: tuple[_ErrorItem, ...] = ()


class _Error(Struct, frozen=True):
    """Google's error model: `errors` of the older APIs, `details` with an `ErrorInfo` of the newer ones."""

    error: _ErrorBody = _ErrorBody()

    @property
    def reasons(self) -> set[str]:
        body = self.error
        return {item.reason for item in (*body.errors, *body.details)} | {body.status}


class Google:
    """Made once per runtime. `register` tells the redactor about tokens."""

    def __init__(
        self,
        network: Network,
        settings: GoogleSettings,
        grants: GrantFile,
        *,
        register: Callable[[str], None],
        extractor: Extractor,
    ) -> None:
        self.settings = settings
        self.network = network
        self.endpoints = endpoints(settings.endpoint)
        self.extractor = extractor
        self._grants = grants
        self._register = register

    def grant(self) -> Grant:
        """The stored login."""
        return self._grants.read()

    def problem(self, grant: Grant) -> str:
        """Why a stored login cannot be used, as far as is known here; empty if it can."""
        if grant.ended or not grant.refresh_token:
            return grant.ended or f"There is no Google login '{self.settings.account}'. Run `holdfast google login`."
        try:
            self._client(lambda: "").check_binding(grant)
        except GoogleLoginNeeded as needed:
            return str(needed)
        return ""

    async def login(self, families: tuple[Family, ...], visit: Visit, secret: Callable[[], str]) -> Grant:
        """Log in in the browser, and store the grant. Raises `GoogleLoginFailed`."""
        client = self._client(secret)
        grant = await client.login(families, visit)
        try:
            async with self._locked(self.settings.lock_seconds):
                self._grants.write(grant)
        except GoogleLoginFailed:
            await client.discard(grant.refresh_token)
            raise
        return grant

    async def logout(self, secret: Callable[[], str]) -> tuple[bool, bool]:
        """Delete the login and revoke it; returns whether there was one, and whether Google confirmed the end."""
        async with self._locked(self.settings.lock_seconds):
            grant = self._grants.read()
            had = self._grants.forget()
        if not grant.refresh_token:
            return had, False
        client = self._client(secret)
        try:
            client.check_binding(grant)
            self._register(grant.refresh_token)
            return had, await client.revoke(grant.refresh_token)
        except HoldfastError:
            return had, False

    async def token(
        self,
        family: Family,
        secret: Callable[[], str],
        stale: str | None = None,
        seconds: float = DEFAULT_SECONDS,
    ) -> str:
        """Return an access token, renewed within `seconds` if it has expired or is `stale`: one that an API refused.

        Raises `GoogleLoginNeeded` or `GoogleLoginFailed`.
        """
        client = self._client(secret)
        known = self._usable(family)
        if known.access_token != stale and known.is_fresh(time.time()):
            return known.access_token
        renewing = asyncio.ensure_future(self._renewed(client, family, stale, time.monotonic() + seconds))
        try:
            return await asyncio.shield(renewing)
        except asyncio.CancelledError:
            # If the server rotates refresh tokens, the new one would be lost, and the login with it.
            await asyncio.wait((renewing,), timeout=_GRACE_SECONDS)
            renewing.cancel()
            await asyncio.gather(renewing, return_exceptions=True)
            raise

    async def _renewed(self, client: OAuthClient, family: Family, stale: str | None, deadline: float) -> str:
        async with self._locked(min(self.settings.lock_seconds, deadline - time.monotonic())):
            known = self._usable(family)
            if known.access_token != stale and known.is_fresh(time.time()):  # another process was first
                return known.access_token
            try:
                grant = await client.refresh(known, max(_LEAST_SECONDS, deadline - time.monotonic()))
            except GoogleLoginNeeded as needed:
                self._grants.write(replace(known, access_token="", refresh_token="", ended=str(needed)))
                raise
            self._grants.write(grant)
            return grant.access_token

    @asynccontextmanager
    async def _locked(self, seconds: float) -> AsyncGenerator[None]:
        account = self.settings.account
        try:
            async with self._grants.locked(seconds):
                yield
        except TimeoutError:
            raise GoogleLoginFailed(f"Another process holds the Google login '{account}'. Try again.") from None
        except OSError as error:
            told = f"The Google login '{account}' cannot be stored: {error.strerror}. Make room or check the rights."
            raise GoogleLoginFailed(told) from None

    def _usable(self, family: Family) -> Grant:
        grant = self._grants.read()
        if problem := self.problem(grant):
            raise GoogleLoginNeeded(problem)
        if family not in grant.families:
            raise GoogleLoginNeeded(_uncovered(self.settings.account, family))
        self._register(grant.refresh_token)
        self._register(grant.access_token)
        return grant

    def _client(self, secret: Callable[[], str]) -> OAuthClient:
        if self.settings.client_id is None:
            raise GoogleLoginNeeded("google.client_id is not configured. `holdfast help google` says how to get one.")
        return OAuthClient(
            self.network,
            self.endpoints,
            client_id=self.settings.client_id,
            account=self.settings.account,
            user_agent=self.settings.user_agent,
            register=self._register,
            secret=secret if self.settings.has_secret else lambda: "",
        )


class ApiSession:
    """The requests of one call to one API: `GET` only, to that API's host only."""

    def __init__(self, google: Google, ctx: Context, family: Family) -> None:
        self.google = google
        self.family: Family = family
        limit = DEFAULT_SECONDS if ctx.timeout is None else ctx.timeout
        self._deadline = time.monotonic() + limit * (1 - _MARGIN)
        self._ctx = ctx
        self._base = google.endpoints.apis[family]
        self._token = ""
        self._exits = AsyncExitStack()
        self._secret = partial(ctx.secret, SECRET_SCOPE)

    async def __aenter__(self) -> Self:
        gateway = self.google.network.gateway_to_listed(
            f"{self._ctx.tool_name} {self._ctx.call_id}", (self._base.entry,), name="the endpoints of [google]"
        )
        self._token = await self.google.token(self.family, self._secret, seconds=self.seconds_left)
        client = HttpClient(gateway, user_agent=self.google.settings.user_agent)
        self._http = await self._exits.enter_async_context(client)
        self._ctx.progress(f"waiting for {self._base.entry}…")
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._exits.aclose()

    @property
    def seconds_left(self) -> float:
        return max(_LEAST_SECONDS, self._deadline - time.monotonic())

    async def read(self, shape: type[T], *path: str, query: Query | None = None, what: str) -> T:
        """Return the answer as a struct. `what` names the thing in the message if there is none. Raises."""
        response = await self.download(*path, query=query, what=what)
        if response.cut:
            raise GoogleFailed(
                f"The answer about {what} is longer than google.max_bytes "
                f"({format_size(self.google.settings.max_bytes)}), so it was not read."
            )
        try:
            # In a thread: 10 MB take long enough to hold up everything else.
            return await asyncio.to_thread(msgspec.json.decode, response.body, type=shape)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            raise GoogleFailed(f"{self._base.entry} sent an answer about {what} that cannot be read.") from None

    async def download(self, *path: str, query: Query | None = None, what: str) -> HttpResponse:
        """Return a successful answer, cut at `google.max_bytes`. Raises `GoogleFailed` and errors of the network."""
        request, used = HttpRequest(url=self._url(path, query or {})), self._token
        response = await self._answer(request, used)
        if response.status == 401:  # the token was revoked or expired early; once, it may just be renewed
            # Another request of the call may have renewed it meanwhile, so `used` is what is stale.
            self._token = await self.google.token(self.family, self._secret, stale=used, seconds=self.seconds_left)
            response = await self._answer(request, self._token)
        if response.status != 200:
            raise self._failure(response, what)
        return response

    def _url(self, path: tuple[str, ...], query: Query) -> Any:
        parts: list[str] = []
        for segment in path:
            if not segment.strip("."):  # `..` would lead to another resource
                raise BadUrl(f"{segment!r} is not an id.")
            parts.append(quote(segment, safe="@"))  # as in `users/@me`
        given = {name: _text(value) for name, value in query.items() if value is not None}
        target = f"{self._base.target.rstrip('/')}/{'/'.join(parts)}"
        if given:
            target += f"?{urlencode(given, quote_via=quote)}"
        if len(target) > _MAX_TARGET:
            raise BadUrl(f"The request has {len(target):,} characters. At most {_MAX_TARGET:,} can be sent.")
        return replace(self._base, target=target)

    async def _answer(self, request: HttpRequest, token: str) -> HttpResponse:
        """Send the request, again after a rate limit or a fault of the server."""
        for attempt in range(1, _ATTEMPTS + 1):
            limits = Limits(seconds=self.seconds_left, max_bytes=self.google.settings.max_bytes)
            headers = (("Authorization", f"Bearer {token}"), ("Accept", "*/*"))
            response = await self._http.request(replace(request, headers=headers), limits, may_follow=_not_followed)
            if attempt == _ATTEMPTS or not _is_temporary(response):
                break
            pause = _retry_after(response)
            if pause is None:
                pause = self.google.settings.backoff * 2 ** (attempt - 1) * random.uniform(0.5, 1.0)  # noqa: S311 - no secret
            if pause > min(_MOST_WAIT, self.seconds_left - 1):
                break
            self._ctx.progress(f"{self._base.entry} answered {response.status}; trying again in {pause:.1f} s…")
            await asyncio.sleep(pause)
        return response  # pyright: ignore[reportPossiblyUnboundVariable] - there is at least one attempt

    def _failure(self, response: HttpResponse, what: str) -> HoldfastError:
        status, account = response.status, self.google.settings.account
        error = _error_of(response)
        reasons, host = error.reasons, self._base.entry
        said = f": {quoted_words(error.error.message)}" if error.error.message else ""
        if status == 401:
            return GoogleLoginNeeded(f"Google rejects the login '{account}'. Run `holdfast google login`.")
        if status == 403 and reasons & _SCOPE_REASONS:
            return GoogleLoginNeeded(_uncovered(account, self.family))
        if status == 403 and reasons & _DISABLED_REASONS:
            return GoogleFailed(
                f"The {API_NAMES[self.family]} is not enabled in the Google Cloud project of google.client_id. Enable "
                "it there under APIs & Services."
            )
        if status == 429 or (status == 403 and reasons & (_RATE_REASONS | _QUOTA_REASONS)):
            pause = _retry_after(response)
            when = "later" if pause is None else f"in {pause:.0f} seconds"
            return GoogleFailed(f"{host} limits how often it is asked{said}. Try again {when}.")
        if status == 403:
            return GoogleFailed(f"Google denies access to {what}{said}.")
        if status in (404, 410):
            return GoogleHasNone(f"There is no {what}, or the login '{account}' cannot see it.")
        if status >= 500:
            return GoogleFailed(f"{host} has a fault (HTTP {status}){said}. Try again later.")
        return GoogleFailed(f"{host} rejects the request for {what} (HTTP {status}){said}.")


Run = Callable[[Args, Context, ApiSession], Awaitable[Result]]


def api_tool(family: Family, run: Run, *, name: str, source: Place, **fields: Any) -> Tool:
    """A tool that reads from one API."""

    async def execute(args: Args, ctx: Context) -> Result:
        try:
            async with ApiSession(ctx.service(Google), ctx, family) as api:
                return await run(args, ctx, api)
        except HoldfastError as error:
            return fail(str(error))

    return builtin_tool(
        name=name,
        execute=execute,
        timeout=DEFAULT_SECONDS,
        risk=Risk.MEDIUM,
        effects=frozenset({"network"}),
        reaches=_reaching(endpoints(None), family),
        sources=(source,),
        groups=(family,),
        profiles=("messaging",),
        unavailable=needs_packages,
        **fields,
    )


def configured_google(tool: Tool, settings: GoogleSettings) -> Tool:
    """Return a Google tool for the configured client and endpoints; other tools as they are."""
    family: Family | None = next((each for each in FAMILIES if tool.groups == (each,)), None)
    if family is None:
        return tool
    try:
        at = endpoints(settings.endpoint)
    except BadUrl as error:
        reason = str(error)
        return tool.with_(reaches=None, unavailable=lambda: reason)

    def unavailable() -> str | None:
        if (missing := needs_packages()) is not None:
            return missing
        if settings.client_id is None:
            return "it needs google.client_id in your configuration; `holdfast help google` says how to get one"
        return None if family in settings.families else f"google.families does not name {family}"

    return tool.with_(
        reaches=_reaching(at, family),
        required_secret_scopes=(SECRET_SCOPE,) if settings.has_secret else (),
        unavailable=unavailable,
    )


def _reaching(at: Endpoints, family: Family) -> Callable[[Args], Reach]:
    reach = Reach(at.reached_by(family))
    return lambda args: reach


def _not_followed(*_: object) -> str:
    return "The API redirects to another address, which is not followed: the request carries your token."


def _uncovered(account: str, family: Family) -> str:
    return f"The Google login '{account}' does not cover {family}. Run `holdfast google login {family}`."


def _text(value: str | int | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _error_of(response: HttpResponse) -> _Error:
    try:
        return msgspec.json.decode(response.body, type=_Error)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _Error()


def _is_temporary(response: HttpResponse) -> bool:
    if response.status == 429 or response.status in (500, 502, 503, 504):
        return True
    return response.status == 403 and bool(_error_of(response).reasons & _RATE_REASONS)


def _retry_after(response: HttpResponse) -> float | None:
    """The seconds of a `Retry-After` header, which are a number or a date."""
    given = response.header("retry-after") or ""
    if given.isascii() and given.isdigit():
        return float(given[:9])
    try:
        at = parsedate_to_datetime(given)
    except (ValueError, TypeError, OverflowError):
        return None
    return max(0.0, (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() - datetime.now(UTC).timestamp())

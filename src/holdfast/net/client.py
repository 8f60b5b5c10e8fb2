"""`HttpClient`: HTTP requests through the gateway, with redirects, decompression and time under its own control.

Every hop of a redirect is a new request that the gateway decides about. Nothing is taken from the environment, no
cookie is kept, and a response can be neither larger nor slower than the limits.
"""

from __future__ import annotations

import asyncio
import ssl
import time
import zlib
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Generator,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager, contextmanager
from functools import cache
from typing import TYPE_CHECKING, Final, cast

from msgspec import Struct
from msgspec.structs import replace

from holdfast.contract.errors import HoldfastError, NetworkRefused
from holdfast.net.gateway import Gateway
from holdfast.net.urls import BadUrl, HttpUrl

if TYPE_CHECKING:
    import httpx2

    from holdfast.net.http import HttpProxy

MAX_REDIRECTS: Final = 10
REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
READING_METHODS: Final = frozenset({"GET", "HEAD"})
"""Every other method can change something at the server."""
_MAX_RATIO: Final = 200
"""A body that inflates more than this is a decompression bomb; text rarely exceeds 20."""
_FREE_INFLATION: Final = 1024 * 1024
"""Bytes that may be inflated whatever the ratio: short bodies can be very regular."""
_BLOCK: Final = 65_536
_MAX_HEADERS: Final = 200
_MAX_HEADER_BYTES: Final = 65_536
_SHOWN_CODING: Final = 20
"""Characters of a content encoding that a sentence repeats: names are shorter."""

_KEPT_ACROSS_ORIGINS: Final = frozenset({"accept", "accept-language", "content-type", "content-language"})
"""The headers of a caller that carry no credentials by their definition. All others stay at the first origin."""
_OWN_HEADERS: Final = frozenset({
    "host", "connection", "content-length", "transfer-encoding", "te", "trailer", "upgrade", "expect", "keep-alive",
    "accept-encoding", "user-agent",
})  # fmt: skip
_TOKEN: Final = frozenset("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")

Headers = tuple[tuple[str, str], ...]
BeforeHop = Callable[[HttpUrl], Awaitable[None]]
"""Called before each request; raises to prevent it."""


class RequestFailed(HoldfastError):
    """There is no response; the message is a sentence that names the host."""

    def __init__(self, message: str, *, sent: bool = False, timed_out: bool = False) -> None:
        super().__init__(message)
        self.sent = sent
        """Whether the server may have received the request."""
        self.timed_out = timed_out
        self.answered = False
        """Whether the head of an answer arrived: the server can be reached, and it is the answer that is of no use."""


class RedirectRefused(RequestFailed):
    """A redirect was not followed."""

    def __init__(self, message: str, location: str, redirects: tuple[Redirect, ...]) -> None:
        super().__init__(message)
        self.location = location
        self.redirects = redirects


class Redirect(Struct, frozen=True):
    url: str
    status: int


class HttpRequest(Struct, frozen=True, kw_only=True):
    url: HttpUrl
    method: str = "GET"
    headers: Headers = ()
    body: bytes = b""
    stream: Callable[[], AsyncIterable[bytes]] | None = None
    """Makes a body that is too large for memory. It needs a header `Content-Length`, and follows no redirect."""


MayFollow = Callable[[HttpUrl, HttpRequest], str | None]
"""Returns why a redirect is not followed, or None, from the address that answered and the request it asks for."""


class HttpResponse(Struct, frozen=True, kw_only=True):
    url: HttpUrl
    """The address that answered, after redirects."""
    status: int
    headers: Headers
    body: bytes
    cut: bool
    """Whether the body is longer than the limit, so that only its beginning was read."""
    redirects: tuple[Redirect, ...]
    fetched_at: float

    def header(self, name: str) -> str | None:
        """Return the first header of that name."""
        return next((value for key, value in self.headers if key == name), None)


class HttpStream(Struct, frozen=True, kw_only=True):
    """An answer whose body is still arriving."""

    status: int
    headers: Headers
    blocks: AsyncIterator[bytes]


class Limits(Struct, frozen=True, kw_only=True):
    seconds: float = 10.0
    """For the whole exchange, with every redirect."""
    idle: float = 30.0
    """Without a byte."""
    max_bytes: int = 10 * 1024 * 1024
    """Of the body, after decompression."""


def header_problem(name: str, value: str) -> str | None:
    """Return why a caller must not set a header, or None."""
    lower = name.lower()
    if not name or not set(name) <= _TOKEN:
        return f"{name[:60]!a} is not a valid header name."
    if any((ord(char) < 32 and char != "\t") or ord(char) == 127 for char in value) or not _is_latin(value):
        return f"The value of the header {name} contains characters that a header cannot carry."
    if lower == "user-agent":
        return "The user agent cannot be set per call; the option web.user_agent sets it."
    if lower in _OWN_HEADERS or lower.startswith(("proxy-", "sec-")):
        return f"The header {name} is set by the client and cannot be given."
    return None


def _is_latin(value: str) -> bool:
    try:
        return bool(value.encode("latin-1")) or not value
    except UnicodeEncodeError:
        return False


@cache
def trusted_certificates() -> ssl.SSLContext:
    """Return the system's certificates, whatever `SSL_CERT_FILE` and `SSL_CERT_DIR` say: a project could set them."""
    import httpx2

    return httpx2.create_ssl_context(trust_env=False)  # 20 ms, so once


class HttpClient:
    """Sends requests through one gateway. Use it as a context manager, or close it: connections are kept until then."""

    def __init__(
        self,
        gateway: Gateway,
        *,
        user_agent: str,
        tls: ssl.SSLContext | None = None,
        server_name: str | None = None,
        proxy: HttpProxy | None = None,
    ) -> None:
        """`server_name` replaces the host in SNI and in the check of the certificate."""
        from holdfast.net.http import GatewayTransport

        self._transport = GatewayTransport(gateway, verify=tls or trusted_certificates(), proxy=proxy)
        self._user_agent = user_agent
        self._extensions = {} if server_name is None else {"sni_hostname": server_name}

    async def __aenter__(self) -> HttpClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._transport.aclose()

    async def request(
        self,
        request: HttpRequest,
        limits: Limits,
        *,
        may_follow: MayFollow = lambda _, __: None,
        before: BeforeHop | None = None,
    ) -> HttpResponse:
        """Send a request and follow its redirects.

        Raises `RequestFailed`, `RedirectRefused`, `NetworkRefused`, or what `before` raises.
        """
        progress = _Progress()
        try:
            async with asyncio.timeout(limits.seconds):
                return await self._follow(request, limits, may_follow, before, progress)
        except TimeoutError:
            raise progress.timed_out(request.url) from None
        except RequestFailed as failed:
            failed.sent = failed.sent or progress.sent  # a later hop may have failed before anything was sent to it
            failed.answered = progress.head
            raise

    @asynccontextmanager
    async def stream(self, request: HttpRequest, limits: Limits) -> AsyncGenerator[HttpStream]:
        """Send a request and yield its answer while it arrives. Redirects are not followed, and `max_bytes` is left to
        the caller. Raises `RequestFailed` or `NetworkRefused`, also while the body is read."""
        progress = _Progress()
        plain = replace(request, headers=(*request.headers, ("Accept-Encoding", "identity")))
        limit = asyncio.timeout(limits.seconds)
        try:
            async with limit:
                progress.start(request.url)
                async with self._exchange(plain, limits, progress) as (status, headers, blocks):
                    coding = dict(headers).get("content-encoding", "identity").strip().lower()
                    if coding != "identity":
                        raise RequestFailed(f"{request.url.entry} compressed an answer that must not be.", sent=True)
                    yield HttpStream(status=status, headers=headers, blocks=progress.counted(blocks))
        except TimeoutError as error:
            if not limit.expired() and not isinstance(error, _Waited):
                raise  # of the caller
            raise progress.timed_out(request.url) from None

    async def _follow(
        self,
        request: HttpRequest,
        limits: Limits,
        may_follow: MayFollow,
        before: BeforeHop | None,
        progress: _Progress,
    ) -> HttpResponse:
        redirects: list[Redirect] = []
        seen: set[tuple[str, str]] = set()
        while True:
            progress.start(request.url)
            if before is not None:
                await before(request.url)
            if (request.method, str(request.url)) in seen:
                raise RequestFailed(f"{redirects[0].url} redirects in a loop.")
            seen.add((request.method, str(request.url)))
            async with self._exchange(request, limits, progress) as (status, headers, stream):
                location = dict(headers).get("location") if status in REDIRECTS else None
                if location is None:
                    body, cut = await _read_body(request, status, headers, stream, limits, progress)
                    return HttpResponse(
                        url=request.url,
                        status=status,
                        headers=headers,
                        body=body,
                        cut=cut,
                        redirects=tuple(redirects),
                        fetched_at=time.time(),
                    )
            redirects.append(Redirect(str(request.url), status))
            if len(redirects) > MAX_REDIRECTS:
                raise RequestFailed(f"{redirects[0].url} redirects more than {MAX_REDIRECTS} times.")
            request = self._next(request, status, location, may_follow, tuple(redirects))

    @staticmethod
    def _next(
        request: HttpRequest, status: int, location: str, may_follow: MayFollow, redirects: tuple[Redirect, ...]
    ) -> HttpRequest:
        """Return the request that a redirect asks for (RFC 9110, 15.4)."""
        try:
            url = request.url.join(location)
        except BadUrl as error:
            raise RequestFailed(f"{request.url} redirects to an address that cannot be fetched: {error}") from None
        if request.url.scheme == "https" and url.scheme == "http":
            told = f"{request.url} redirects to {url}, which is not encrypted, so it was not followed."
            raise RedirectRefused(told, str(url), redirects)
        if request.stream is not None:
            raise RedirectRefused(f"{request.url} redirects an upload to {url}.", str(url), redirects)
        method, body, headers = request.method, request.body, request.headers
        if (status == 303 and method != "HEAD") or (status in (301, 302) and method == "POST"):
            method, body = "GET", b""
            headers = tuple(item for item in headers if not item[0].lower().startswith("content-"))
        if url.origin != request.url.origin:
            headers = tuple(item for item in headers if item[0].lower() in _KEPT_ACROSS_ORIGINS)
        following = replace(request, url=url, method=method, body=body, headers=headers)
        if (refusal := may_follow(request.url, following)) is not None:
            raise RedirectRefused(refusal, str(url), redirects)
        return following

    @asynccontextmanager
    async def _exchange(
        self, request: HttpRequest, limits: Limits, progress: _Progress
    ) -> AsyncGenerator[tuple[int, Headers, AsyncIterator[bytes]]]:
        """Send one request; yield the status, the headers with lower-case names, and the raw body."""
        import httpx2

        # The transport's own timeouts end first: it closes a connection in the middle of a TLS handshake, as
        # a cancellation does not.
        left = min(limits.idle, max(0.02, 0.95 * (limits.seconds - progress.elapsed)))
        waits = dict.fromkeys(("connect", "read", "write", "pool"), left)
        headers = (
            ("Host", request.url.origin.partition("://")[2]),
            ("User-Agent", self._user_agent),
            *(() if _has(request.headers, "accept") else (("Accept", "*/*"),)),
            *(() if _has(request.headers, "accept-encoding") else (("Accept-Encoding", "gzip, identity"),)),
            *request.headers,
        )
        with _explaining(request.url, progress):
            sent = httpx2.Request(
                request.method,
                str(request.url),
                headers=[(name.encode("ascii"), value.encode("latin-1")) for name, value in headers],
                content=request.body or None if request.stream is None else request.stream(),
                extensions={"timeout": waits, "trace": progress.trace, **self._extensions},
            )
            response = await self._transport.handle_async_request(sent)
        response.request = sent
        try:
            # What the caller does with the answer can fail, too; that is no error of the network.
            head = _checked_headers(response, request.url)
            yield response.status_code, head, _blocks(response, request.url, progress)
        finally:
            await response.aclose()


class _Waited(TimeoutError):
    """The transport gave up."""


class _Progress:
    """How far a request got, for the sentence about a failure."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self.url: HttpUrl | None = None
        self.sent = False
        self.head = False
        self.received = 0

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self._started

    def start(self, url: HttpUrl) -> None:
        self.url, self.head, self.received = url, False, 0

    async def trace(self, event: str, info: Mapping[str, object]) -> None:
        """Called by httpcore at each step of a request."""
        if event.endswith("send_request_headers.started"):
            self.sent = True
        elif event.endswith("receive_response_headers.complete"):
            self.head = True

    async def counted(self, blocks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for block in blocks:
            self.received += len(block)
            yield block

    def timed_out(self, first: HttpUrl) -> RequestFailed:
        sentence = f"{self.describe(first)} within {max(0.1, round(self.elapsed, 1)):g} seconds."
        failed = RequestFailed(sentence, sent=self.sent, timed_out=True)
        failed.answered = self.head
        return failed

    def describe(self, first: HttpUrl) -> str:
        host = (self.url or first).entry
        if self.head:
            return f"{host} sent only {self.received:,} bytes of its answer, and not the rest,"
        return f"{host} accepted the connection, but did not answer" if self.sent else f"{host} could not be reached"


@contextmanager
def _explaining(url: HttpUrl, progress: _Progress) -> Generator[None]:
    """Turn errors of the network stack into sentences."""
    import httpx2

    try:
        yield
    except httpx2.TimeoutException as error:
        raise _Waited from error
    except (httpx2.TransportError, httpx2.StreamError, httpx2.InvalidURL, OSError) as error:
        raise _explained(error, url, progress) from error


async def _blocks(response: httpx2.Response, url: HttpUrl, progress: _Progress) -> AsyncIterator[bytes]:
    """Yield the raw body."""
    blocks = response.aiter_raw()
    while True:
        with _explaining(url, progress):
            block = await anext(blocks, None)
        if block is None:
            return
        yield block


def _has(headers: Headers, name: str) -> bool:
    return any(key.lower() == name for key, _ in headers)


def _checked_headers(response: httpx2.Response, url: HttpUrl) -> Headers:
    raw: Sequence[tuple[bytes, bytes]] = response.headers.raw
    if len(raw) > _MAX_HEADERS or sum(len(name) + len(value) for name, value in raw) > _MAX_HEADER_BYTES:
        raise RequestFailed(f"{url.entry} sent too many headers.", sent=True)
    return tuple((name.decode("latin-1").lower(), value.decode("latin-1").strip()) for name, value in raw)


async def _read_body(
    request: HttpRequest,
    status: int,
    headers: Headers,
    stream: AsyncIterator[bytes],
    limits: Limits,
    progress: _Progress,
) -> tuple[bytes, bool]:
    """Return the decoded body, and whether it was cut at the limit."""
    coding = (dict(headers).get("content-encoding") or "identity").strip().lower()
    if request.method == "HEAD" or status in (204, 304):
        return b"", False
    if coding not in ("identity", "gzip", "x-gzip"):
        shown = repr(coding) if set(coding) <= _TOKEN and len(coding) <= _SHOWN_CODING else "of no known name"
        raise RequestFailed(f"{request.url.entry} sent the content encoding {shown}, which was not asked for.")
    inflater = None if coding == "identity" else _Inflater(request.url)
    body = bytearray()
    async for block in stream:
        progress.received += len(block)
        body += block if inflater is None else inflater.inflate(block, limits.max_bytes + 1 - len(body))
        if len(body) > limits.max_bytes:
            return bytes(body[: limits.max_bytes]), True
    if inflater is not None and not inflater.ended:
        raise RequestFailed(f"{request.url.entry} sent a compressed answer that ends too early.", sent=True)
    return bytes(body), False


class _Inflater:
    """Bounded gzip decompression: neither more bytes than asked for, nor a ratio that only a bomb has."""

    def __init__(self, url: HttpUrl) -> None:
        self._host = url.entry
        self._decoder = zlib.decompressobj(16 + zlib.MAX_WBITS)
        self._taken = self._given = 0

    @property
    def ended(self) -> bool:
        return self._decoder.eof or not self._taken

    def inflate(self, block: bytes, most: int) -> bytes:
        """Return at most `most` bytes."""
        self._taken += len(block)
        found = bytearray()
        while block and len(found) < most:
            if self._decoder.eof:
                if not block.startswith(b"\x1f\x8b"):
                    break  # padding after the stream, which gzip ignores too
                self._decoder = zlib.decompressobj(16 + zlib.MAX_WBITS)
            try:
                found += self._decoder.decompress(block, min(most - len(found), _BLOCK))
            except zlib.error:
                raise RequestFailed(f"{self._host} sent a compressed answer that is damaged.", sent=True) from None
            if self._given + len(found) > max(_FREE_INFLATION, self._taken * _MAX_RATIO):
                raise RequestFailed(
                    f"{self._host} sent a decompression bomb: {self._taken:,} bytes that inflate to more than "
                    f"{self._given + len(found):,}.",
                    sent=True,
                )
            block = self._decoder.unused_data if self._decoder.eof else self._decoder.unconsumed_tail
        self._given += len(found)
        return bytes(found)


def _explained(error: Exception, url: HttpUrl, progress: _Progress) -> HoldfastError:
    """Return one sentence for an error of the network stack."""
    import httpx2

    causes = list(_causes(error))
    sent, host = progress.sent, url.entry
    for cause in causes:
        if isinstance(cause, NetworkRefused):  # of a redirect, if something was sent before
            return RequestFailed(str(cause), sent=True) if sent else cause
        if isinstance(cause, RequestFailed):
            return cause
        if isinstance(cause, ssl.SSLCertVerificationError):
            return RequestFailed(f"The certificate of {host} is not valid: {_lower(cause.verify_message)}.")
        if isinstance(cause, ssl.SSLError):
            return RequestFailed(f"There is no TLS connection with {host}: {_reason(cause)}.", sent=sent)
    if isinstance(error, httpx2.ConnectError | OSError):
        return RequestFailed(f"{host} cannot be reached: {_why_unreachable(causes)}.", sent=sent)
    if isinstance(error, httpx2.RemoteProtocolError) and progress.head:
        return RequestFailed(f"{host} ended its answer too early or broke the protocol.", sent=sent)
    if isinstance(error, httpx2.RemoteProtocolError):
        return RequestFailed(f"{host} closed the connection, or its answer is not valid HTTP.", sent=sent)
    return RequestFailed(f"The connection with {host} broke.", sent=sent)


def _causes(error: BaseException | None) -> list[BaseException]:
    """Return an error with everything it was raised from, groups included."""
    found: list[BaseException] = []
    waiting = [error]
    while waiting:
        each = waiting.pop()
        if each is None or each in found:
            continue
        found.append(each)
        waiting += [each.__cause__, each.__context__]
        if isinstance(each, BaseExceptionGroup):
            waiting += cast("BaseExceptionGroup[BaseException]", each).exceptions
    return found


def _why_unreachable(causes: Sequence[BaseException]) -> str:
    from socket import gaierror

    for cause in causes:
        if isinstance(cause, gaierror):
            return "there is no such host"
        if isinstance(cause, ConnectionRefusedError):
            return "it refused the connection"
    told = next((each.strerror for each in causes if isinstance(each, OSError) and each.strerror), None)
    return _lower(told) if told else "the connection failed"


def _reason(error: ssl.SSLError) -> str:
    return (error.reason or "the handshake failed").replace("_", " ").lower()


def _lower(text: str) -> str:
    """Return the text as the end of a sentence. `IP address` stays."""
    return (text if text[1:2].isupper() else text[:1].lower() + text[1:]).rstrip(".")

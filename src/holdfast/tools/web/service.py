"""`Web`: what the web tools of one runtime share: settings, cache, robots.txt, the rate per host, the parsers."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from holdfast.net.client import (
    READING_METHODS,
    HttpClient,
    HttpRequest,
    HttpResponse,
    Limits,
    RedirectRefused,
    RequestFailed,
)
from holdfast.net.hosts import AllowList, normalize_host
from holdfast.net.network import Network
from holdfast.net.urls import HttpUrl
from holdfast.tools.extraction.extractor import Extractor
from holdfast.tools.web.cache import ResponseCache, is_fresh, refreshed, validators
from holdfast.tools.worker_process import WorkerFailed

Engine = Literal["duckduckgo", "searxng", "brave"]
Cached = Literal["no", "fresh", "revalidated", "kept"]
AGENT: Final = "holdfast"
"""The name under which robots.txt files address this client."""
_ROBOTS_BYTES: Final = 512 * 1024
_ROBOTS_SECONDS: Final = 3600.0
_MAX_HOSTS: Final = 1000


class WebSettings(Struct, frozen=True, kw_only=True):
    """The section `[web]` of the configuration."""

    user_agent: str = "holdfast (an AI agent's tool; its user approves each host)"
    robots: bool = True
    rate: float = 1.0
    burst: int = 5
    max_bytes: int = 10 * 1024 * 1024
    cache_bytes: int = 64 * 1024 * 1024
    cache_seconds: float = 86_400.0
    search: Engine = "duckduckgo"
    search_url: str | None = None


class RobotsRefused(RequestFailed):
    """The robots.txt of the host excludes the page."""


class Fetched(Struct, frozen=True, kw_only=True):
    response: HttpResponse
    cached: Cached = "no"
    waited: float = 0.0
    """Seconds that the rate limit delayed the request."""


class RateLimit:
    """At most `rate` requests per second to a host, after `burst` at once (generic cell rate algorithm)."""

    def __init__(self, rate: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._interval = 1.0 / rate
        self._tolerance = self._interval * (burst - 1)
        self._clock = clock
        self._next: dict[str, float] = {}

    def reserve(self, host: str, most: float) -> float | None:
        """Take a turn and return the seconds until it; None, without a turn, if that is more than `most`."""
        now = self._clock()
        if len(self._next) > _MAX_HOSTS:
            self._next = {name: at for name, at in self._next.items() if at > now}
        arrival = max(self._next.get(host, now), now)
        delay = max(0.0, arrival - self._tolerance - now)
        if delay > most:
            return None
        self._next[host] = arrival + self._interval
        return delay


class Web:
    """Made once per runtime. `close` ends its processes."""

    def __init__(
        self,
        network: Network,
        settings: WebSettings | None = None,
        *,
        folder: Path | None = None,
        tls: ssl.SSLContext | None = None,
        extractor: Extractor | None = None,
    ) -> None:
        """`folder` holds the cache; without it, nothing is written to disk. `tls` replaces the usual certificates."""
        self.settings = settings or WebSettings()
        self.network = network
        self.extractor = extractor or Extractor()
        self.cache = ResponseCache(folder, max_bytes=self.settings.cache_bytes, max_age=self.settings.cache_seconds)
        self._rate = RateLimit(self.settings.rate, self.settings.burst)
        self._hosts = AllowList(network.hosts, option="network.hosts")
        self._robots: dict[str, tuple[float, bytes | None]] = {}
        self._tls = tls

    def close(self) -> None:
        self.extractor.close()

    async def fetch(
        self, request: HttpRequest, *, seconds: float, by: str, page: bool = True, kept: bool = False
    ) -> Fetched:
        """Return the response from the cache or the network.

        `page`: a page read, to which robots.txt applies. `kept`: continue in the copy of an earlier call, if there is
        one. Raises `RequestFailed` or `NetworkRefused`.
        """
        now = time.time()
        if kept and (copy := self.cache.copy(request, now)) is not None:
            return Fetched(response=copy, cached="kept")
        stored = self.cache.stored(request, now)
        if stored is not None and is_fresh(stored, now):
            return Fetched(response=stored, cached="fresh")
        asked = request if stored is None else replace(request, headers=validators(stored))
        visit = _Visit(self, request.url, page and request.method == "GET", time.monotonic() + seconds)
        limits = Limits(seconds=seconds, max_bytes=self.settings.max_bytes)
        gateway = self.network.gateway(by, hosts=visit.hosts)
        async with HttpClient(gateway, user_agent=self.settings.user_agent, tls=self._tls) as client:
            visit.client = client
            response = await client.request(asked, limits, may_follow=visit.may_follow, before=visit.before)
            if response.status == 304 and stored is not None and asked.headers:
                if not response.redirects:
                    response = refreshed(stored, response)
                    await self.cache.keep(request, response)
                    return Fetched(response=response, cached="revalidated", waited=visit.waited)
                limits = replace(limits, seconds=max(0.1, visit.seconds_left))
                response = await client.request(request, limits, may_follow=visit.may_follow, before=visit.before)
        await self.cache.keep(request, response)
        return Fetched(response=response, waited=visit.waited)

    def is_listed(self, url: HttpUrl) -> bool:
        """Whether `network.hosts` names the host of an address."""
        return self._hosts.allows(url.host, url.port)

    async def wait_for_turn(self, url: HttpUrl, most: float) -> float:
        """Wait until the rate limit admits a request; return the seconds. Raises `RequestFailed`."""
        delay = self._rate.reserve(url.host, most)
        if delay is None:
            raise RequestFailed(
                f"{url.entry} was asked {self.settings.burst} times in a row, and more than {self.settings.rate:g} "
                "requests per second are not sent to one host (web.rate). Try again later, or with a longer timeout."
            )
        if delay:
            await asyncio.sleep(delay)
        return delay

    async def check_robots(self, client: HttpClient, url: HttpUrl, visit: _Visit) -> None:
        """Raise `RobotsRefused` if the host's robots.txt excludes an address."""
        if not self.settings.robots:
            return
        rules = await self._robots_of(client, url, visit)
        if rules is not None and not rules.strip():
            return
        allowed = False
        if rules is not None:
            request = {"do": "robots", "url": str(url), "agent": AGENT}
            try:
                allowed = bool((await self.extractor.ask(request, rules, max(0.1, visit.seconds_left)))["allowed"])
            except WorkerFailed as error:
                raise RequestFailed(f"The robots.txt of {url.entry} cannot be read: {error}.") from None
        if not allowed:
            why = "excludes this page" if rules is not None else "cannot be read because of an error of the server"
            raise RobotsRefused(
                f"{url} was not fetched: {url.origin}/robots.txt {why}. Look for another source; "
                "the user can set web.robots = false to ignore it."
            )

    async def _robots_of(self, client: HttpClient, url: HttpUrl, visit: _Visit) -> bytes | None:
        """Return a host's robots.txt, empty if it has none; None if the server failed (RFC 9309, 2.3.1)."""
        now = time.monotonic()
        known = self._robots.get(url.origin)
        if known is not None and now < known[0]:
            return known[1]
        limits = Limits(seconds=max(0.1, visit.seconds_left), max_bytes=_ROBOTS_BYTES)
        request = HttpRequest(url=replace(url, target="/robots.txt"))
        try:
            answer = await client.request(request, limits, may_follow=visit.may_follow)
        except RedirectRefused:  # to a host that the call was not approved for
            rules: bytes | None = b""
        except RequestFailed as error:
            if error.timed_out or not error.sent:
                raise
            rules = b""  # an answer that is not HTTP or not text
        else:
            rules = answer.body if answer.status == 200 else None if answer.status >= 500 else b""
        if len(self._robots) > _MAX_HOSTS:
            self._robots.clear()
        self._robots[url.origin] = (now + _ROBOTS_SECONDS, rules)
        return rules


class _Visit:
    """One call's way through the network: which hosts it may reach, and what it waits for before each request."""

    def __init__(self, web: Web, url: HttpUrl, page: bool, deadline: float) -> None:
        self._web = web
        self._origin = url.origin
        names = {url.host, f"www.{url.host}", url.host.removeprefix("www.")}
        self._names = {name for name in names if normalize_host(name) is not None}  # an IP address has no `www.`
        entries = {replace(url, host=name, port=port).entry for name in self._names for port in (url.port, 443)}
        self.hosts = tuple(entries)
        """What the gateway lets through beyond `network.hosts`."""
        self._page = page
        self._deadline = deadline
        self.client: HttpClient | None = None
        self.waited = 0.0

    @property
    def seconds_left(self) -> float:
        return self._deadline - time.monotonic()

    def may_follow(self, source: HttpUrl, following: HttpRequest) -> str | None:
        """A redirect may lead to the host of the call, with or without `www.`, and to listed hosts. Every other host
        needs an approval of its own, and so does a change anywhere but at the origin that was approved for it."""
        target = following.url
        if following.method not in READING_METHODS and target.origin != self._origin:
            return (
                f"{source} asks to repeat the {following.method} request at another origin: {target}. It was not "
                "followed; send it there in its own call."
            )
        same = target.host in self._names and target.port in (source.port, 80, 443)
        if same or self._web.is_listed(target):
            return None
        return f"{source} redirects to another host: {target}. It was not followed; fetch that address in its own call."

    async def before(self, url: HttpUrl) -> None:
        assert self.client is not None
        if self._page:
            await self._web.check_robots(self.client, url, self)
        self.waited += await self._web.wait_for_turn(url, self.seconds_left)

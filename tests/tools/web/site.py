"""A loopback web site with scripted pages, and a runtime that may fetch them."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from holdfast import Result, Runtime
from holdfast.net.gateway import Resolver, resolve_by_system
from holdfast.net.network import Network
from holdfast.net.network_log import NetworkLog
from holdfast.tools import builtin_tools
from holdfast.tools.extraction.extractor import Extractor
from holdfast.tools.web.service import Web, WebSettings
from tests.runtime.support import runtime_in, yes

Writer = asyncio.StreamWriter


@dataclass
class Seen:
    """A request that arrived."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]


@dataclass
class Reply:
    """`raw` replaces the whole answer; `then` writes what follows, and decides when the connection closes."""

    body: bytes | str = b""
    type: str | None = "text/html; charset=utf-8"
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    raw: bytes | None = None
    then: Callable[[Writer], Awaitable[None]] | None = None

    def encoded(self, method: str) -> bytes:
        if self.raw is not None:
            return self.raw
        body = self.body.encode() if isinstance(self.body, str) else self.body
        fields = {"Content-Length": str(len(body)), **({"Content-Type": self.type} if self.type else {})}
        fields |= {name.title(): value for name, value in self.headers.items()}
        head = "\r\n".join([f"HTTP/1.1 {self.status} X", *(f"{name}: {value}" for name, value in fields.items())])
        return head.encode("latin-1") + b"\r\n\r\n" + (b"" if method == "HEAD" else body)


Page = Reply | Callable[[Seen], Reply]


@dataclass
class Site:
    """Serves `pages` by path; unknown paths are 404. There is no robots.txt unless a test adds one."""

    pages: dict[str, Page]
    port: int = 0
    scheme: str = "http"
    seen: list[Seen] = field(default_factory=list[Seen])
    connections: int = 0

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"

    @property
    def entry(self) -> str:
        return f"127.0.0.1:{self.port}"

    def asked(self, path: str) -> list[Seen]:
        return [each for each in self.seen if each.path == path]

    async def serve(self, reader: asyncio.StreamReader, writer: Writer) -> None:
        self.connections += 1
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").strip().split("\r\n")
                method, target, _ = head[0].split(" ")
                pairs = (line.partition(":") for line in head[1:])
                headers = {name.lower(): value.strip() for name, _, value in pairs}
                body = await reader.readexactly(int(headers.get("content-length", "0")))
                seen = Seen(method, target, headers, body)
                self.seen.append(seen)
                page = self.pages.get(seen.path, Reply("not here", "text/plain", 404))
                reply = page(seen) if callable(page) else page
                writer.write(reply.encoded(method))
                await writer.drain()
                if reply.then is not None:
                    await reply.then(writer)
                if reply.raw is not None or reply.then is not None:
                    return
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            return
        except asyncio.CancelledError:  # the test has ended
            return
        finally:
            writer.close()


@asynccontextmanager
async def serving(pages: dict[str, Page] | None = None, *, tls: ssl.SSLContext | None = None) -> AsyncGenerator[Site]:
    site = Site(pages or {}, scheme="http" if tls is None else "https")
    server = await asyncio.start_server(site.serve, "127.0.0.1", 0, ssl=tls, limit=1 << 20)
    site.port = server.sockets[0].getsockname()[1]
    try:
        yield site
    finally:
        server.close()


FAST = WebSettings(rate=1000.0, burst=1000)
"""Settings for tests that are not about the rate."""


@cache
def shared_extractor() -> Extractor:
    """One pool of extraction processes for all tests of a process; it ends with that process."""
    return Extractor()


def web_runtime(
    folder: Path,
    *sites: Site,
    settings: WebSettings = FAST,
    hosts: tuple[str, ...] = (),
    private: tuple[str, ...] = (),
    resolver: Resolver = resolve_by_system,
    tls: ssl.SSLContext | None = None,
    folder_of_cache: Path | None = None,
    answers: bool = True,
    log: NetworkLog | None = None,
) -> Runtime:
    """A runtime whose network may reach the sites, and whose user approves every call, or with `answers` off none."""
    runtime = runtime_in(folder, *builtin_tools(), nobody="pending")
    if answers:
        runtime.attach(yes())
    network = Network(hosts=hosts, private=(*(site.entry for site in sites), *private), resolver=resolver, log=log)
    web = Web(network, settings, folder=folder_of_cache, tls=tls, extractor=shared_extractor())
    runtime.services.offer(Network, network)
    runtime.services.offer(Web, web)
    return runtime


async def fetch(runtime: Runtime, url: str, **args: Any) -> Result:
    return await runtime.call("web.fetch", {"url": url, **args})


def facts(result: Result) -> dict[str, Any]:
    """The structured output."""
    assert isinstance(result.structured, dict), result
    return dict(result.structured)

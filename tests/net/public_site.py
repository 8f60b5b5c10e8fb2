"""A "public" site on loopback, its DNS server, and canaries that nothing may reach.

The site listens on 127.0.0.2, and the network allows this address with `network.private = ["127.0.0.2:PORT"]`. So any
name that the DNS server resolves to `SITE` behaves like a public host, and every other address is refused. The canaries
listen on the same port of 127.0.0.1 and ::1, where the addresses of the SSRF cases lead, and count their connections.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Final

from holdfast.net.network import Network
from holdfast.net.network_log import NetworkLog
from tests.net.dns_server import SECONDS, DnsServer

SITE: Final = "127.0.0.2"
"""The address of the site, which stands for a public address."""
SECURE_SITE: Final = "site.localhost"
"""A name that browsers treat as secure without https, which service workers need. The network allows it by name."""
_ANSWERS: Final = {"site.test": [[SITE]], "other.test": [[SITE]], SECURE_SITE: [[SITE]]}


@dataclass(frozen=True)
class Page:
    body: str | bytes = ""
    status: int = 200
    headers: tuple[tuple[str, str], ...] = (("Content-Type", "text/html; charset=utf-8"),)


@dataclass(frozen=True)
class SeenRequest:
    method: str
    path: str
    """With the query."""
    host: str
    """The `Host` field."""
    head: str


@dataclass
class PublicSite:
    network: Network
    dns: DnsServer
    port: int
    pages: dict[str, Page] = field(default_factory=dict[str, Page])
    """What the site serves, by path without query; anything else is 404."""
    requests: list[SeenRequest] = field(default_factory=list[SeenRequest])
    """What reached the site."""
    hits: list[str] = field(default_factory=list[str])
    """The canaries that were connected to."""

    def url(self, path: str = "/", host: str = "site.test") -> str:
        return f"http://{host}:{self.port}{path}"

    def reset(self) -> None:
        """Forget the pages, requests and DNS answers of the last case; the hits stay."""
        self.pages.clear()
        self.requests.clear()
        self.dns.reset(_ANSWERS)

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError, TimeoutError):
            head = (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), SECONDS)).decode("latin-1")
            method, target, _ = head.split("\r\n", 1)[0].split(" ")
            hosts = [line[5:].strip() for line in head.split("\r\n") if line.lower().startswith("host:")]
            self.requests.append(SeenRequest(method, target, ",".join(hosts), head))
            page = self.pages.get(target.partition("?")[0], Page("not found", 404))
            body = page.body.encode() if isinstance(page.body, str) else page.body
            fields = "".join(f"{name}: {value}\r\n" for name, value in page.headers)
            # Closed, so that each request needs a new connection, and thus a new decision.
            lines = f"HTTP/1.1 {page.status} X\r\n{fields}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
            writer.write(lines.encode() + (b"" if method == "HEAD" else body))
            await writer.drain()
        writer.close()

    async def count(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.hits.append(str(writer.get_extra_info("sockname")))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\nCANARY")
        writer.close()


@asynccontextmanager
async def public_site(*, log: NetworkLog | None = None) -> AsyncGenerator[PublicSite]:
    """Serve the site as `site.test`, `other.test` and `SECURE_SITE`."""
    async with AsyncExitStack() as stack:
        dns = await stack.enter_async_context(DnsServer(_ANSWERS))
        site = PublicSite(Network(), dns, 0)
        site.port = await _listen(site, stack)
        private = [f"{SITE}:{site.port}", f"{SECURE_SITE}:{site.port}"]
        site.network = Network(private=private, resolver=dns.resolve, log=log)
        yield site


async def _listen(site: PublicSite, stack: AsyncExitStack) -> int:
    """Start the site and the canaries on one port."""
    while True:
        canary = await asyncio.start_server(site.count, "127.0.0.1", 0)
        port: int = canary.sockets[0].getsockname()[1]
        stack.callback(canary.close)
        try:
            stack.callback((await asyncio.start_server(site.answer, SITE, port)).close)
        except OSError:  # another program has this port there
            continue
        with suppress(OSError):  # no IPv6 here
            stack.callback((await asyncio.start_server(site.count, "::1", port)).close)
        return port

"""A real browser on pages that the test serves on loopback: `browsing` shares one between all tests."""

from __future__ import annotations

import asyncio
import http.server
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from holdfast import Answer, Caller, Config, PendingCall, Result, Runtime
from holdfast.net.addresses import Address, AddressKind, address_kind
from holdfast.net.network import Network
from holdfast.runtime.workspace import Workspace
from holdfast.store.ledger import Ledger
from holdfast.tools.browser import actions, navigation, page_text
from holdfast.tools.browser.browsers import ChromiumBrowsers, ChromiumSession, processes_of
from holdfast.tools.browser.chromium import find_chromium, missing
from holdfast.tools.browser.service import Browsers, BrowserSettings

HOSTS = ("shop.test", "other.test", "cdn.test")
"""Hosts of `network.private`."""
PUBLIC_HOST = "public.test"
PUBLIC_ADDRESS = "127.0.0.2"
"""Counts as a public address in these tests."""
TOOLS = [
    value for module in (actions, navigation, page_text) for name, value in vars(module).items() if name.isupper()
    and name.startswith("BROWSER_")
]  # fmt: skip
needs_chromium = pytest.mark.skipif(missing() is not None, reason=f"the browser cannot be used: {missing()}")

Body = str | bytes | Callable[["Handler"], None]


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves `Site.pages`. A page can be a function that answers by itself."""

    protocol_version = "HTTP/1.1"

    @property
    def site(self) -> Site:
        assert isinstance(self.server, SiteServer)
        return self.server.site

    def do_GET(self) -> None:
        site = self.site
        host = self.headers.get("Host", "").partition(":")[0]
        site.requests.append(f"{self.command} {host}{self.path}")
        body = site.pages.get(self.path.partition("?")[0])
        if callable(body):
            body(self)
            return
        if body is None:
            self.reply(b"not found", status=404)
        else:
            text = body.replace("PORT", str(site.port)).encode() if isinstance(body, str) else body
            self.reply(text)

    do_POST = do_GET

    def reply(self, body: bytes, *headers: tuple[str, str], status: int = 200) -> None:
        self.send_response(status)
        for name, value in headers or (("Content-Type", "text/html; charset=utf-8"),):
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def redirect(self, url: str, status: int = 302) -> None:
        self.reply(b"", ("Location", url.replace("PORT", str(self.site.port))), status=status)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass


class SiteServer(http.server.ThreadingHTTPServer):
    daemon_threads = True
    site: Site


@dataclass
class Site:
    """Pages by path, the same for all hosts."""

    port: int
    pages: dict[str, Body] = field(default_factory=dict[str, Body])
    requests: list[str] = field(default_factory=list[str])
    """What was asked for: `GET host/path`."""

    def url(self, path: str = "/", host: str = "shop.test") -> str:
        return f"http://{host}:{self.port}{path}"


@contextmanager
def serving() -> Generator[Site]:
    servers = _listening()
    site = Site(servers[0].server_port)
    for server in servers:
        server.site = site
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield site
    finally:
        for server in servers:
            server.shutdown()
            server.server_close()


def _listening() -> tuple[SiteServer, SiteServer]:
    """Listen on one port of both addresses."""
    while True:
        private = SiteServer(("127.0.0.1", 0), Handler)
        try:
            return private, SiteServer((PUBLIC_ADDRESS, private.server_port), Handler)
        except OSError:  # another program has this port there
            private.server_close()


def _address_kind(address: Address) -> AddressKind:
    return AddressKind.PUBLIC if str(address) == PUBLIC_ADDRESS else address_kind(address)


async def _to_loopback(host: str, port: int) -> Sequence[str]:
    return [PUBLIC_ADDRESS if host == PUBLIC_HOST else "127.0.0.1"]


@dataclass(repr=False)
class Browsing:
    """A site, a browser, and calls of the browser tools that a person approves."""

    site: Site
    browsers: ChromiumBrowsers
    folder: Path
    asked: list[PendingCall] = field(default_factory=list[PendingCall])
    """The calls that needed approval."""
    before_answer: Callable[[], None] | None = None
    """Called while a call waits for approval."""
    session_name: str = "browsing"
    config: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def session(self) -> ChromiumSession:
        return self.browsers.session(self.session_name)

    def runtime(self, ledger: Ledger | None = None) -> Runtime:
        root = self.folder / "project"
        root.mkdir(exist_ok=True)
        config = Config.from_dict(self.config)
        runtime = Runtime(
            tools=TOOLS,
            config=config,
            workspace=Workspace(root=root),
            asker=self._answer,
            ledger=ledger,
            caller=Caller(session=self.session_name, scopes=frozenset(config.secrets)),
        )
        runtime.services.offer(Browsers, self.browsers)
        return runtime

    async def _answer(self, pending: PendingCall) -> Answer:
        self.asked.append(pending)
        if self.before_answer is not None:
            await asyncio.to_thread(self.before_answer)
        return Answer(kind="approve", by="ann")

    async def acall(self, tool: str, /, **args: Any) -> Result:
        async with self.runtime() as runtime:
            return await asyncio.wait_for(runtime.call(tool, args), 100)

    def call(self, tool: str, /, **args: Any) -> Result:
        return asyncio.run(self.acall(tool, **args))

    def open(self, body: Body, path: str = "/", host: str = "shop.test") -> Result:
        """Serve a page and open it."""
        self.site.pages[path] = body
        result = self.call("browser.navigate", url=self.site.url(path, host))
        assert result.success, result.error
        return result

    def page(self) -> str:
        result = self.call("browser.text")
        assert result.success, result.error
        return result.output

    def processes(self) -> set[int]:
        """The processes of this session's browser."""
        return set() if self.session.folder is None else processes_of(self.session.folder)


@contextmanager
def opened_browsing(folder: Path, **settings: Any) -> Generator[Browsing]:
    with serving() as site, pytest.MonkeyPatch.context() as patch:
        patch.setattr("holdfast.net.gateway.address_kind", _address_kind)
        settings.setdefault("action_timeout", 30.0)
        settings.setdefault("navigation_timeout", 60.0)
        private = [f"{host}:{site.port}" for host in HOSTS]
        network = Network(private=private, resolver=_to_loopback)
        browsers = ChromiumBrowsers(
            network, BrowserSettings(executable=find_chromium(), **settings), folder / "quarantine"
        )
        try:
            yield Browsing(site, browsers, folder)
        finally:
            browsers.close()


@pytest.fixture(scope="package")
def shared_browsing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browsing]:
    with opened_browsing(tmp_path_factory.mktemp("browsing")) as browsing:
        yield browsing


@pytest.fixture
def browsing(shared_browsing: Browsing) -> Browsing:
    shared_browsing.site.pages.clear()
    shared_browsing.site.requests.clear()
    shared_browsing.asked.clear()
    shared_browsing.before_answer = None
    shared_browsing.config = {}
    shared_browsing.session.shown = None
    shared_browsing.session.forget_hosts()
    return shared_browsing

"""What the browser tools use: `ctx.service(Browsers)` gives the browser of each session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal, Protocol
from urllib.parse import quote

from msgspec import Struct

from holdfast.contract.context import Context
from holdfast.contract.errors import HoldfastError
from holdfast.contract.json import Args
from holdfast.contract.tool import Reach
from holdfast.net.hosts import normalize_host, parse_origin
from holdfast.net.urls import BadUrl, HttpUrl, parse_url
from holdfast.tools.browser.protocol import Operation, PageEvent, PageView, Reply

_FRAGMENT: Final = "!$%&'()*+,-./:;=?@_~"
"""Characters of a fragment that stay; `%` too, because it may be encoded already."""


class BrowserError(HoldfastError):
    """The browser could not do what was asked for; the message says why."""


class StaleElement(BrowserError):
    """The page has changed since the element was located, so nothing was done."""


class BrowserSettings(Struct, frozen=True, kw_only=True):
    """The section `[browser]` of the configuration, and where secrets may be typed."""

    executable: str | None = None
    headless: bool = True
    subresources: Literal["approved", "public"] = "public"
    user_agent: str | None = None
    navigation_timeout: float = 30.0
    action_timeout: float = 10.0
    max_browsers: int = 4
    max_downloads: int = 20
    max_download_bytes: int = 100 * 1024 * 1024
    secret_hosts: Mapping[str, Sequence[str]] = {}
    """The hosts of pages into which each secret may be typed, by scope."""


class Answer(Struct, frozen=True, kw_only=True):
    """What an operation returned, with what happened meanwhile."""

    reply: Reply
    events: tuple[PageEvent, ...] = ()

    @property
    def page(self) -> PageView:
        return self.reply.page or PageView()


class BrowserSession(Protocol):
    """One browser with one page. Operations run one after another."""

    shown: PageView | None
    """The page as the model has seen it last."""

    @property
    def running(self) -> bool: ...

    async def navigate(self, url: str, host: str) -> Answer:
        """Open a page, whose host is allowed in this session from now on."""
        ...

    async def perform(self, operation: Operation, *, start: bool = False) -> Answer:
        """Run an operation. Raises `BrowserError`; `StaleElement` if the page has changed."""
        ...

    async def close(self) -> bool:
        """Close the browser; False if none was open."""
        ...


class Browsers(Protocol):
    settings: BrowserSettings

    def session(self, name: str) -> BrowserSession: ...
    def refusal(self, host: str, port: int) -> str | None:
        """Return why a host cannot be reached, if that is known without resolving it."""
        ...


class PageAddress(Struct, frozen=True):
    """An http or https URL."""

    url: str
    host: str
    """Normalized; an IDN in punycode."""
    port: int
    entry: str
    """The host as `network.hosts` names it."""


def page_address(url: str) -> PageAddress:
    """Parse a URL for the browser. Raises `BrowserError` for one that is not http or https, or not unambiguous."""
    try:
        parsed = parse_url(url)
    except BadUrl as error:
        raise BrowserError(str(error)) from None
    fragment = url.strip().partition("#")[2]
    shown = str(parsed) + (f"#{quote(fragment, safe=_FRAGMENT)}" if fragment else "")
    return PageAddress(shown, parsed.host, parsed.port, parsed.entry)


class PageOrigin(Struct, frozen=True):
    """Where a document comes from."""

    scheme: Literal["http", "https"]
    host: str
    """Normalized; an IDN in punycode."""
    port: int

    @property
    def entry(self) -> str:
        """The host as `network.hosts` names it."""
        return HttpUrl(self.scheme, self.host, self.port, "/").entry

    @property
    def entry_with_port(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


INHERITING: Final = ("", "about:blank", "about:srcdoc")
"""The URLs of frames whose document belongs to the page around them."""


def origin_of(url: str) -> PageOrigin | None:
    """Return the origin of a document that the browser shows; None if its URL is not http or https, or not clear.

    Unlike `page_address`, it accepts whatever path and query the browser does.
    """
    try:
        scheme, name, port = parse_origin(url)
    except ValueError:
        return None
    host = normalize_host(name)
    if host is None or port is None:
        return None
    return PageOrigin(scheme, host, port) if scheme == "http" or scheme == "https" else None


def session_of(ctx: Context) -> BrowserSession:
    return ctx.service(Browsers).session(ctx.session)


def no_new_host(args: Args) -> Reach:
    """`Tool.reaches` of a tool that only reads the open page: it names no host and sends nothing."""
    return Reach(())

"""The search engines behind `web.search`: SearXNG, Brave and DuckDuckGo, each with its request and its answer."""

from __future__ import annotations

import json
from typing import Any, Final, Protocol, cast
from urllib.parse import parse_qs, quote, urlencode, urljoin, urlsplit

from msgspec import Struct
from msgspec.structs import replace

from holdfast.contract.errors import HoldfastError
from holdfast.net.client import HttpRequest, HttpResponse
from holdfast.net.urls import HttpUrl, parse_url
from holdfast.tools.extraction.extractor import Extractor
from holdfast.tools.web.service import Engine, WebSettings
from holdfast.tools.worker_process import WorkerFailed

BRAVE_SCOPE: Final = "brave"
_MAX_TITLE: Final = 300
_MAX_SNIPPET: Final = 600
_MAX_LINK: Final = 2000
_MAX_DETAIL: Final = 200
_MAX_ENGINE: Final = 60


class SearchFailed(HoldfastError):
    """The engine gave no results; the message is a sentence that names it."""


class SearchHit(Struct, frozen=True, kw_only=True):
    title: str
    url: str
    snippet: str
    engine: str
    """The engine that found it; a SearXNG instance asks several."""


class SearchEngine(Protocol):
    """One search engine at one address."""

    @property
    def name(self) -> str: ...
    @property
    def url(self) -> HttpUrl: ...
    @property
    def scopes(self) -> tuple[str, ...]:
        """The secrets it needs."""
        ...

    def request(self, query: str, limit: int, key: str | None) -> HttpRequest: ...
    async def read(self, response: HttpResponse, extractor: Extractor, seconds: float) -> list[SearchHit]:
        """Return the results in order. Raises `SearchFailed`."""
        ...


def engine_of(settings: WebSettings) -> SearchEngine | None:
    """Return the configured engine; None if its address is missing. Raises `BadUrl`."""
    kind, default = _ENGINES[settings.search]
    address = settings.search_url or default
    return None if address is None else kind(url=parse_url(address))


class DuckDuckGo(Struct, frozen=True, kw_only=True):
    """The HTML page for browsers without JavaScript; there is no API."""

    url: HttpUrl
    name: str = "DuckDuckGo"
    scopes: tuple[str, ...] = ()

    def request(self, query: str, limit: int, key: str | None) -> HttpRequest:
        return HttpRequest(url=_with_query(self.url, "/html/", {"q": query}))

    async def read(self, response: HttpResponse, extractor: Extractor, seconds: float) -> list[SearchHit]:
        if response.status not in (200, 202):
            raise SearchFailed(_refusal(self.name, response.status))
        asked = {"do": "search page", "content_type": response.header("content-type")}
        try:
            page = await extractor.ask(asked, response.body, seconds)
        except WorkerFailed as error:
            raise SearchFailed(f"The results of {self.name} cannot be read: {error}.") from None
        if page["blocked"] or (response.status == 202 and not page["results"]):
            raise SearchFailed(
                f"{self.name} takes these requests for a robot and asks for a human. Wait a while, or choose another "
                "engine with web.search."
            )
        if not page["known"]:
            raise SearchFailed(f"{self.name} answered with a page that has no list of results.")
        pairs = ((_target(str(self.url), hit["url"]), hit) for hit in page["results"])
        return [
            SearchHit(title=hit["title"], url=url, snippet=hit["snippet"], engine=self.name)
            for url, hit in pairs
            if url is not None
        ]


def _target(base: str, link: str) -> str | None:
    """Return the page behind a link of a result: DuckDuckGo's links lead through its own redirect."""
    try:
        url = urljoin(base, link)
        parts = urlsplit(url)
    except ValueError:
        return None
    if parts.path == "/l/":
        found = parse_qs(parts.query).get("uddg")
        return found[0] if found else None
    return None if parts.path == "/y.js" else url  # advertisements


class SearXng(Struct, frozen=True, kw_only=True):
    url: HttpUrl
    name: str = "SearXNG"
    scopes: tuple[str, ...] = ()

    def request(self, query: str, limit: int, key: str | None) -> HttpRequest:
        return HttpRequest(url=_with_query(self.url, "/search", {"q": query, "format": "json"}))

    async def read(self, response: HttpResponse, extractor: Extractor, seconds: float) -> list[SearchHit]:
        if response.status == 403:
            raise SearchFailed(
                f"{self.url.entry} refuses the format json. Add it to search.formats in the settings.yml of that "
                "SearXNG, or choose another one with web.search_url."
            )
        if response.status != 200:
            raise SearchFailed(_refusal(f"SearXNG at {self.url.entry}", response.status))
        data = _json(response, self.name)
        hits = [
            SearchHit(title=_text(item, "title"), url=_text(item, "url"), snippet=_text(item, "content"), engine=engine)
            for item in _list(data, "results")
            if (engine := _text(item, "engine") or self.name)
        ]
        failed = data.get("unresponsive_engines")
        if not hits and isinstance(failed, list) and failed:
            told = ", ".join(map(_unresponsive, cast("list[Any]", failed)[:5]))
            raise SearchFailed(f"No engine behind SearXNG at {self.url.entry} answered: {_line(told, _MAX_DETAIL)}.")
        return hits


def _unresponsive(item: Any) -> str:
    """Return an entry of `unresponsive_engines`, normally a pair of name and reason, as `name (reason)`."""
    parts = cast("list[Any]", item) if isinstance(item, list) else [item]
    return " ".join([*map(str, parts[:1]), *(f"({part})" for part in parts[1:2])])


class Brave(Struct, frozen=True, kw_only=True):
    url: HttpUrl
    name: str = "Brave"
    scopes: tuple[str, ...] = (BRAVE_SCOPE,)

    def request(self, query: str, limit: int, key: str | None) -> HttpRequest:
        url = _with_query(self.url, "/res/v1/web/search", {"q": query, "count": str(min(limit, 20))})
        return HttpRequest(url=url, headers=(("Accept", "application/json"), ("X-Subscription-Token", key or "")))

    async def read(self, response: HttpResponse, extractor: Extractor, seconds: float) -> list[SearchHit]:
        if response.status in (401, 403) or (response.status == 422 and b"SUBSCRIPTION_TOKEN" in response.body):
            raise SearchFailed(f"{self.name} refuses the key. Check the secret '{BRAVE_SCOPE}'.")
        if response.status != 200:
            raise SearchFailed(_refusal(self.name, response.status, _detail(response)))
        web = _json(response, self.name).get("web")
        items = _list(cast(dict[str, Any], web), "results") if isinstance(web, dict) else []
        return [
            SearchHit(
                title=_text(item, "title"), url=_text(item, "url"), snippet=_text(item, "description"), engine=self.name
            )
            for item in items
        ]


_ENGINES: Final[dict[Engine, tuple[Any, str | None]]] = {
    "duckduckgo": (DuckDuckGo, "https://html.duckduckgo.com"),
    "searxng": (SearXng, None),
    "brave": (Brave, "https://api.search.brave.com"),
}


def cleaned(hits: list[SearchHit], limit: int) -> list[SearchHit]:
    """Return the first results that are web pages, each page once, with bounded texts."""
    found: dict[str, SearchHit] = {}
    for hit in hits:
        if len(found) == limit:
            break
        url = _one_word(hit.url)
        if url.startswith(("http://", "https://")) and len(url) <= _MAX_LINK and url not in found:
            found[url] = SearchHit(
                title=_line(_plain(hit.title), _MAX_TITLE) or url,
                url=url,
                snippet=_line(_plain(hit.snippet), _MAX_SNIPPET),
                engine=_line(hit.engine, _MAX_ENGINE),
            )
    return list(found.values())


def _one_word(url: str) -> str:
    """Return an address with its spaces, backslashes and invisible characters percent-encoded."""
    return "".join(
        char if char.isprintable() and char not in " \\" else quote(char, errors="replace") for char in url.strip()
    )


def _line(text: str, most: int) -> str:
    """Return text of an engine as a part of one line."""
    return " ".join(text.split())[:most]


def _plain(text: str) -> str:
    """Return text without the marks for matching words; Brave and some engines of SearXNG send HTML."""
    from html import unescape
    from re import sub

    return unescape(sub(r"</?(?:b|strong|em|mark|i|span)(?:\s[^<>]{0,100})?>", "", text))


def _with_query(base: HttpUrl, path: str, query: dict[str, str]) -> HttpUrl:
    """Return the address of an endpoint below the path of the configured address."""
    prefix = base.target.partition("?")[0].rstrip("/")
    prefix = prefix.removesuffix(path.rstrip("/"))
    return replace(base, target=f"{prefix}{path}?{urlencode(query)}")


def _refusal(name: str, status: int, detail: str = "") -> str:
    if status == 429:
        return f"{name} answered 429: too many searches. Wait a while before the next one."
    return f"{name} answered with status {status}{f': {detail}' if detail else ''}."


def _detail(response: HttpResponse) -> str:
    try:
        error = json.loads(response.body)["error"]
        return _line(str(error.get("detail") or error.get("code") or ""), _MAX_DETAIL)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return ""


def _json(response: HttpResponse, name: str) -> dict[str, Any]:
    try:
        found = json.loads(response.body)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise SearchFailed(f"{name} answered with something that is not a JSON object.")
    return cast(dict[str, Any], found)


def _list(data: dict[str, Any], name: str) -> list[dict[str, Any]]:
    found = data.get(name)
    items = cast("list[Any]", found) if isinstance(found, list) else []
    return [cast(dict[str, Any], item) for item in items if isinstance(item, dict)]


def _text(item: dict[str, Any], name: str) -> str:
    value = item.get(name)
    return value if isinstance(value, str) else ""

"""`ResponseCache`: a private HTTP cache on disk, and the copies that paging continues.

A response is reused without a request while it is fresh (RFC 9111), and revalidated with its validators afterwards. The
last responses are also kept in memory, storable or not, so that `offset` continues in the copy that was shown.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections import OrderedDict
from collections.abc import Iterable
from email.utils import parsedate_to_datetime
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.fs.replace import read_private, write_private
from holdfast.net.client import Headers, HttpRequest, HttpResponse, Redirect
from holdfast.net.urls import BadUrl, parse_url

_MEMORY_BYTES: Final = 32 * 1024 * 1024
_MEMORY_COPIES: Final = 32
_SUFFIX: Final = ".response"
_PERMANENT: Final = frozenset({301, 308})
_REPLACED_BY_304: Final = frozenset({"cache-control", "date", "expires", "etag", "last-modified", "age"})
_DIRECTIVE: Final = re.compile(r"([a-z-]+)(?:\s*=\s*(?:\"([^\"]*)\"|([^\s,]*)))?")


class _Entry(Struct, frozen=True):
    """The head of a cache file; the body follows after a newline."""

    url: str
    status: int
    headers: Headers
    cut: bool
    redirects: tuple[Redirect, ...]
    fetched_at: float


class ResponseCache:
    """Responses by request. Without a folder, or with `max_bytes` 0, only the copies in memory are kept."""

    def __init__(self, folder: Path | None, *, max_bytes: int, max_age: float) -> None:
        self._folder = folder if max_bytes > 0 else None
        self._max_bytes = max_bytes
        self._max_age = max_age
        self._copies: OrderedDict[str, HttpResponse] = OrderedDict()
        self._lock = Lock()

    def stored(self, request: HttpRequest, now: float) -> HttpResponse | None:
        """Return the stored response of a request, fresh or stale; None if there is none on disk."""
        path = self._path(request)
        if path is None:
            return None
        found = _read(path, self._max_bytes)
        return None if found is None or now - found.fetched_at > self._max_age else found

    def copy(self, request: HttpRequest, now: float) -> HttpResponse | None:
        """Return the last response of a request, whatever its freshness."""
        with self._lock:
            found = self._copies.get(_key(request))
        if found is not None and now - found.fetched_at <= self._max_age:
            return found
        return self.stored(request, now)

    async def keep(self, request: HttpRequest, response: HttpResponse) -> None:
        """Keep a response: in memory, and on disk if HTTP permits it."""
        key = _key(request)
        with self._lock:
            self._copies.pop(key, None)
            self._copies[key] = response
            while len(self._copies) > _MEMORY_COPIES or _size(self._copies.values()) > _MEMORY_BYTES:
                self._copies.popitem(last=False)
        path = self._path(request)
        if path is not None:
            await asyncio.to_thread(self._write, path, response)

    def _write(self, path: Path, response: HttpResponse) -> None:
        with contextlib.suppress(OSError):  # a full disk costs the cache, not the result
            if is_storable(response) and len(response.body) <= self._max_bytes // 4:
                head = _Entry(
                    str(response.url),
                    response.status,
                    response.headers,
                    response.cut,
                    response.redirects,
                    response.fetched_at,
                )
                write_private(path, msgspec.json.encode(head) + b"\n" + response.body)
            else:
                path.unlink(missing_ok=True)
            self._prune(response.fetched_at)

    def _path(self, request: HttpRequest) -> Path | None:
        """Return the file of a request; None for requests that are not cached: only a plain GET is."""
        if self._folder is None or request.method != "GET" or request.headers or request.body:
            return None
        return self._folder / f"{_key(request)}{_SUFFIX}"

    def _prune(self, now: float) -> None:
        """Remove old entries, and the oldest ones beyond the size limit."""
        assert self._folder is not None
        files = [(path.stat(), path) for path in self._folder.glob(f"*{_SUFFIX}")]
        total = sum(stat.st_size for stat, _ in files)
        for stat, path in sorted(files, key=lambda item: item[0].st_mtime):
            if total <= self._max_bytes and now - stat.st_mtime <= self._max_age:
                break
            path.unlink(missing_ok=True)
            total -= stat.st_size


def _size(responses: Iterable[HttpResponse]) -> int:
    return sum(len(response.body) for response in responses)


def _key(request: HttpRequest) -> str:
    parts = [request.method, str(request.url), *(f"{name}:{value}" for name, value in request.headers)]
    return sha256(msgspec.json.encode(parts) + request.body).hexdigest()


def _read(path: Path, most: int) -> HttpResponse | None:
    try:
        head, _, body = read_private(path, most).partition(b"\n")
        entry = msgspec.json.decode(head, type=_Entry)
        url = parse_url(entry.url)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError, BadUrl):  # damaged, or written by another version
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
        return None
    return HttpResponse(
        url=url,
        status=entry.status,
        headers=entry.headers,
        body=body,
        cut=entry.cut,
        redirects=entry.redirects,
        fetched_at=entry.fetched_at,
    )


def directives(response: HttpResponse) -> dict[str, str]:
    """Return the `Cache-Control` directives of a response."""
    text = ",".join(value for name, value in response.headers if name == "cache-control").lower()
    return {found[1]: found[2] or found[3] or "" for found in _DIRECTIVE.finditer(text)}


def is_storable(response: HttpResponse) -> bool:
    """Whether a private cache may store the response. Its key has every header that a plain GET sends, so that of
    `Vary` only `*` matters."""
    return response.status == 200 and "no-store" not in directives(response) and response.header("vary") != "*"


def is_fresh(response: HttpResponse, now: float) -> bool:
    """Whether the response can be used without a request. A temporary redirect must be followed again each time."""
    given = directives(response)
    if "no-cache" in given or any(hop.status not in _PERMANENT for hop in response.redirects):
        return False
    age = now - response.fetched_at + (_seconds(response.header("age")) or 0)
    if "max-age" in given:
        lifetime = _seconds(given["max-age"]) or 0
    else:
        expires, date = _time(response.header("expires")), _time(response.header("date"))
        lifetime = 0 if expires is None else expires - (response.fetched_at if date is None else date)
    return 0 <= age < lifetime


def validators(response: HttpResponse) -> Headers:
    """Return the headers that ask whether the response is still current; none after a redirect, whose target may have
    changed."""
    if response.redirects or response.cut:
        return ()
    pairs = (("If-None-Match", response.header("etag")), ("If-Modified-Since", response.header("last-modified")))
    return tuple((name, value) for name, value in pairs if value)


def refreshed(stored: HttpResponse, answer: HttpResponse) -> HttpResponse:
    """Return a stored response after a 304 confirmed it."""
    new = {name: value for name, value in answer.headers if name in _REPLACED_BY_304}
    kept = tuple(item for item in stored.headers if item[0] not in new)
    return replace(stored, headers=(*kept, *new.items()), fetched_at=answer.fetched_at)


def _seconds(text: str | None) -> float | None:
    return float(text) if text is not None and re.fullmatch(r"[0-9]{1,10}", text.strip(), re.ASCII) else None


def _time(text: str | None) -> float | None:
    try:
        return None if text is None else parsedate_to_datetime(text).timestamp()
    except (ValueError, OverflowError):
        return None

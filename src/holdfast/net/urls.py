"""`HttpUrl`: an http or https address, parsed once, so that every part of a request uses the same host."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final
from urllib.parse import quote, urljoin, urlsplit

from msgspec import Struct

from holdfast.contract.errors import HoldfastError
from holdfast.net.hosts import normalize_host
from holdfast.text.escape import clip_middle, escape

MAX_URL_CHARS: Final = 8192
DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_AUTHORITY: Final = re.compile(r"[A-Za-z]+://([^/?#]*)")
_SAFE: Final = "!$%&'()*+,-./:;=?@_~"
"""What stays as it is in a path or query. `[`, `]`, `|` and the like are encoded, as browsers do."""
_ONE_DOT: Final = re.compile(r"\.|%2e", re.I)
_TWO_DOTS: Final = re.compile(r"(?:\.|%2e){2}", re.I)
_SHOWN: Final = 80


class BadUrl(HoldfastError):
    """The address cannot be requested; the message is a sentence."""


class HttpUrl(Struct, frozen=True):
    """A parsed address. The host is normalized: lower case, punycode, canonical IP addresses."""

    scheme: str
    host: str
    port: int
    target: str
    """Path and query, percent-encoded, without the fragment."""

    def __str__(self) -> str:
        return f"{self.origin}{self.target}"

    @property
    def origin(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}" + ("" if DEFAULT_PORTS[self.scheme] == self.port else f":{self.port}")

    @property
    def entry(self) -> str:
        """The host as `Reach.hosts` and `network.hosts` name it; ports 80 and 443 are left out."""
        if self.port in DEFAULT_PORTS.values():
            return self.host
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def join(self, reference: str) -> HttpUrl:
        """Return the address that a `Location` header or a link means. Raises `BadUrl`."""
        try:
            return parse_url(urljoin(str(self), reference.strip()))
        except ValueError:
            raise BadUrl(f"{_quoted(reference)} is not a valid address.") from None


@lru_cache(256)
def parse_url(text: str) -> HttpUrl:
    """Parse an address. Raises `BadUrl` for everything that two programs could read differently."""
    given = text.strip(" \t\r\n")
    if len(given) > MAX_URL_CHARS:
        raise BadUrl(f"The address has {len(given):,} characters. At most {MAX_URL_CHARS:,} are allowed.")
    if not given:
        raise BadUrl("The address is empty. Give a whole one, such as https://example.com/.")
    if not given.isprintable() or "\\" in given or " " in given:
        raise BadUrl(f"{_quoted(given)} contains a space, a backslash or a control character. Percent-encode it.")
    scheme = _SCHEME.match(given)
    if scheme is None or (scheme[1].lower() not in DEFAULT_PORTS and "." in scheme[1]):
        raise BadUrl(f"{_quoted(given)} has no scheme. Give the whole address, such as https://example.com/.")
    if scheme[1].lower() not in DEFAULT_PORTS:
        raise BadUrl(f"The scheme {scheme[1].lower()}: is not supported. Only http and https addresses can be fetched.")
    authority = _AUTHORITY.match(given)
    if authority is None or not authority[1]:
        raise BadUrl(f"{_quoted(given)} names no host.")
    if "@" in authority[1]:
        raise BadUrl(
            f"{_quoted(given)} contains a user name or password, which can be mistaken for a host. Remove it; "
            "send credentials in a header."
        )
    try:
        parts = urlsplit(given)
        host, port = normalize_host(_bracketed(authority[1], parts.hostname or "")), parts.port
    except ValueError:
        raise BadUrl(f"{_quoted(given)} has an invalid host or port.") from None
    if host is None or port == 0 or authority[1].endswith(":"):
        raise BadUrl(f"{_quoted(authority[1])} is not an unambiguous host name.")
    if "%" in host:
        raise BadUrl(f"{_quoted(authority[1])} names a network interface, which an address must not do.")
    name = parts.scheme.lower()
    query = f"?{parts.query}" if parts.query else ""
    return HttpUrl(name, host, port or DEFAULT_PORTS[name], quote(_resolved(parts.path) + query, safe=_SAFE))


def _resolved(path: str) -> str:
    """Return a path without `.` and `..` segments, also percent-encoded ones, as browsers and servers resolve them."""
    segments = path.split("/")[1:]
    found: list[str] = []
    for index, segment in enumerate(segments):
        goes_up = _TWO_DOTS.fullmatch(segment) is not None
        if goes_up and found:
            found.pop()
        if not goes_up and _ONE_DOT.fullmatch(segment) is None:
            found.append(segment)
        elif index == len(segments) - 1:
            found.append("")
    return "/" + "/".join(found)


def _bracketed(authority: str, host: str) -> str:
    """Return the host with the brackets of an IPv6 address. `urlsplit` removes them and lower-cases the name."""
    return f"[{host}]" if authority.startswith("[") else host


def _quoted(text: str) -> str:
    return f"'{escape(clip_middle(text, _SHOWN))}'"

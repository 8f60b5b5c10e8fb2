"""Which addresses a login may use: https, and this machine only for servers that are on it themselves."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from holdfast.text.addresses import is_near, on_this_machine

_LONGEST: Final = 8192

Origin = tuple[str, str, int | None]


def origin_of(url: str) -> Origin:
    """Scheme, host and port; raises ValueError where the address has none."""
    parts = urlsplit(url)
    port = parts.port or {"https": 443, "http": 80}.get(parts.scheme)
    return parts.scheme, (parts.hostname or "").lower(), port


def fault_of(url: str, *, loopback: bool) -> str | None:
    """Why an address a server named must not be opened; None if it may. `loopback`: the server is on this machine."""
    if len(url) > _LONGEST:
        return f"it is longer than {_LONGEST} characters"
    if not url.isascii() or not url.isprintable() or any(letter in url for letter in ' "<>\\^`{|}'):
        return "it holds characters that an address cannot have"
    try:
        parts = urlsplit(url)
        scheme, host, _ = origin_of(url)
    except ValueError:
        return "it is not an address"
    if parts.username is not None or parts.password is not None:
        return "it holds a user name or password, which can pass for a host"
    if not host or scheme not in ("https", "http"):
        return "its scheme is not https"
    if scheme == "http" and not (loopback and on_this_machine(host)):
        return "it is not https"
    if not loopback and is_near(host):
        return "it is on this machine or its own network link, where a server from elsewhere has no business"
    return None

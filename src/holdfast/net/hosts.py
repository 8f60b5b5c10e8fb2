"""Names of hosts: the one spelling that is compared, lists of hosts, and the addresses (URLs) that name them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final
from urllib.parse import urlsplit

from holdfast.contract.errors import ConfigError
from holdfast.net.addresses import is_local, is_loopback, parse_address

_HOST: Final = re.compile(r"[a-z0-9](?:[a-z0-9_-]{0,61}[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9_-]{0,61}[a-z0-9])?)*")
_NUMBER: Final = re.compile(r"0x[0-9a-f]*|\d+")
_PORTS: Final = {"https": 443, "http": 80}
_MAX_URL_CHARS: Final = 8192

Origin = tuple[str, str, int | None]


def normalize_host(name: str) -> str | None:
    """A host as it is compared: lower case, in the letters of DNS, without the last dot; an address in one spelling.

    None for anything that two programs could read differently.
    """
    literal = name[1:-1] if name.startswith("[") and name.endswith("]") else name
    if (address := parse_address(literal)) is not None:
        return str(address)
    try:
        host = name.removesuffix(".").encode("idna").decode("ascii").lower()
    except UnicodeError:
        return None
    if len(host) > 253 or not _HOST.fullmatch(host) or _NUMBER.fullmatch(host.rpartition(".")[2]):
        return None
    return host


def split_port(text: str, default: int | None) -> tuple[str, int | None]:
    """Host and port; port 0 if there is one that is none."""
    host, colon, port = text.rpartition(":")
    if not colon or (text.startswith("[") and text.endswith("]")):
        return text, default
    if ":" in host and not host.startswith("["):
        return text, default
    return host, int(port) if port.isascii() and port.isdigit() and 0 < int(port) < 65536 else 0


class AllowList:
    """Hosts a person listed: `host`, `*.host` for what is below it, each with `:port` or for the web's two."""

    def __init__(self, entries: Iterable[str] = ()) -> None:
        self._exact: set[tuple[str, int]] = set()
        self._below: set[tuple[str, int]] = set()
        for entry in entries:
            name, port = split_port(entry, None)
            below = name.startswith("*.")
            host = normalize_host(name[2:] if below else name)
            if host is None or port == 0:
                raise ConfigError(f"sandbox.network names {entry!r}; write host, *.host or host:port.")
            target = self._below if below else self._exact
            target.update((host, one) for one in (_PORTS.values() if port is None else (port,)))

    def allows(self, host: str, port: int) -> bool:
        """`host` as `to_host` spells it."""
        if (host, port) in self._exact:
            return True
        labels = host.split(".")
        return any((".".join(labels[at:]), port) in self._below for at in range(1, len(labels)))


def is_allow_list_entry(text: str) -> bool:
    """Whether an `AllowList` can have this entry."""
    try:
        AllowList((text,))
    except ConfigError:
        return False
    return True


def parse_origin(url: str) -> Origin:
    """Scheme, host and port; raises ValueError where the address has none."""
    parts = urlsplit(url)
    return parts.scheme, (parts.hostname or "").lower(), parts.port or _PORTS.get(parts.scheme)


def url_problem(url: str, *, loopback: bool) -> str | None:
    """Why an address a server named must not be opened; None if it may. `loopback`: the server is on this machine."""
    if len(url) > _MAX_URL_CHARS:
        return f"it is longer than {_MAX_URL_CHARS} characters"
    if not url.isascii() or not url.isprintable() or any(letter in url for letter in ' "<>\\^`{|}'):
        return "it holds characters that an address cannot have"
    try:
        parts = urlsplit(url)
        scheme, host, _ = parse_origin(url)
    except ValueError:
        return "it is not an address"
    if parts.username is not None or parts.password is not None:
        return "it holds a user name or password, which can pass for a host"
    if not host or scheme not in _PORTS:
        return "its scheme is not https"
    if scheme == "http" and not (loopback and is_loopback(host)):
        return "it is not https"
    if not loopback and is_local(host):
        return "it is on this machine or its own network link, where a server from elsewhere has no business"
    return None

"""Host names: normalization, allow-lists, exceptions to the address rules, and checks of URLs from servers."""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_network
from typing import Final
from urllib.parse import urlsplit

from holdfast.contract.errors import ConfigError
from holdfast.net.addresses import Address, AddressKind, address_kind, is_local, is_loopback, parse_address
from holdfast.text.escape import clip, escape_name

_HOST: Final = re.compile(r"[a-z0-9](?:[a-z0-9_-]{0,61}[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9_-]{0,61}[a-z0-9])?)*")
_NUMBER: Final = re.compile(r"0x[0-9a-f]*|\d+")
_ZONE: Final = re.compile(r"[A-Za-z0-9._-]{1,32}")
_DEVIATIONS: Final = frozenset("ßẞς\u200c\u200d")
"""Letters that IDNA 2003 and IDNA 2008 encode differently, so that two programs would reach two hosts."""
_PORTS: Final = {"https": 443, "http": 80}
_AFTER_HOST: Final = re.compile(r"[/\\?#]")
_MAX_URL_CHARS: Final = 8192

Origin = tuple[str, str, int | None]


def normalize_host(name: str) -> str | None:
    """Normalize a host: lower case, IDNA-encoded, without the trailing dot; IP addresses in canonical form.

    Returns None for anything that two programs could parse differently.
    """
    literal = name[1:-1] if name.startswith("[") and name.endswith("]") else name
    if (address := parse_address(literal)) is not None:
        return str(address) if _has_plain_zone(address) else None
    if _DEVIATIONS.intersection(name):
        return None
    try:
        host = name.removesuffix(".").encode("idna").decode("ascii").lower()
    except UnicodeError:
        return None
    if len(host) > 253 or not _HOST.fullmatch(host) or _NUMBER.fullmatch(host.rpartition(".")[2]):
        return None
    return host


def _has_plain_zone(address: Address) -> bool:
    """Whether an address has no zone, or is link-local with the name of a network interface as its zone."""
    zone = address.scope_id if isinstance(address, IPv6Address) else None
    return zone is None or (address.is_link_local and _ZONE.fullmatch(zone) is not None)


def shown_host(name: str) -> str:
    """Return a host that cannot be normalized for a message or the log: without user name, path and query, bounded."""
    return clip(escape_name(_AFTER_HOST.split(name.rpartition("@")[2], maxsplit=1)[0]), 120)


def split_port(text: str, default: int | None) -> tuple[str, int | None]:
    """Split host and port; the port is 0 if it is invalid."""
    host, colon, port = text.rpartition(":")
    if not colon or (text.startswith("[") and text.endswith("]")):
        return text, default
    if ":" in host and not host.startswith("["):
        return text, default
    return host, int(port) if port.isascii() and port.isdigit() and 0 < int(port) < 65536 else 0


class AllowList:
    """An allow-list of `host` and `*.host` (subdomains) entries, each with `:port` or for ports 80 and 443."""

    def __init__(self, entries: Iterable[str] = (), *, option: str = "sandbox.network") -> None:
        """`option` names the list in errors."""
        self._exact: set[tuple[str, int]] = set()
        self._below: set[tuple[str, int]] = set()
        for entry in entries:
            name, port = split_port(entry, None)
            below = name.startswith("*.")
            host = normalize_host(name[2:] if below else name)
            if host is None or port == 0:
                raise ConfigError(f"{option} names {entry!r}; use host, *.host or host:port.")
            target = self._below if below else self._exact
            target.update((host, one) for one in (_PORTS.values() if port is None else (port,)))

    def allows(self, host: str, port: int) -> bool:
        """Whether a host, normalized by `normalize_host`, is allowed."""
        if (host, port) in self._exact:
            return True
        labels = host.split(".")
        return any((".".join(labels[at:]), port) in self._below for at in range(1, len(labels)))

    def allows_entry(self, entry: str) -> bool:
        """Whether `host:port` is allowed, or `host` at both of its default ports."""
        name, port = split_port(entry, None)
        host = normalize_host(name)
        ports = tuple(_PORTS.values()) if port is None else (port,)
        return host is not None and all(self.allows(host, one) for one in ports)


class PrivateList:
    """What may be reached although it is not public: hosts, addresses and networks, each with `:port` or for ports 80
    and 443.

    A host is allowed with any address. An address or network is allowed under any name. A metadata service has to be
    listed by its own address or name: a network that contains it is not enough.
    """

    def __init__(self, entries: Iterable[str] = (), *, option: str = "network.private") -> None:
        """`option` names the list in errors."""
        self.option = option
        self._networks: list[tuple[IPv4Network | IPv6Network, tuple[int, ...]]] = []
        hosts: list[str] = []
        for entry in entries:
            if "/" in entry:
                self._networks.append(_parse_network(entry, option))
            else:
                hosts.append(entry)
        self._hosts = AllowList(hosts, option=option)

    def allows_host(self, host: str, port: int) -> bool:
        """Whether a host, normalized by `normalize_host`, is allowed with any address."""
        return self._hosts.allows(host, port)

    def allows_address(self, address: Address, port: int) -> bool:
        if self._hosts.allows(str(address), port):
            return True
        named = address_kind(address) is AddressKind.METADATA
        return any(
            address in network and port in ports and (not named or network.num_addresses == 1)
            for network, ports in self._networks
        )


def _parse_network(entry: str, option: str) -> tuple[IPv4Network | IPv6Network, tuple[int, ...]]:
    name, port = split_port(entry, None)
    name = name[1:-1] if name.startswith("[") and name.endswith("]") else name
    try:
        network = ip_network(name, strict=False)
    except ValueError:
        raise ConfigError(
            f"{option} names {entry!r}; use host, *.host, host:port, an address, or a network like 10.1.0.0/16."
        ) from None
    if str(network.network_address) != name.partition("/")[0].lower():
        raise ConfigError(f"{option} names {entry!r}, which is not the start of a network; use {network}.")
    if port == 0:
        raise ConfigError(f"{option} names {entry!r}; the port must be a number from 1 to 65535.")
    return network, tuple(_PORTS.values()) if port is None else (port,)


def is_allow_list_entry(text: str) -> bool:
    """Whether a text is a valid `AllowList` entry."""
    try:
        AllowList((text,))
    except ConfigError:
        return False
    return True


def parse_origin(url: str) -> Origin:
    """Return scheme, host and port of a URL. Raises `ValueError` for an invalid port."""
    parts = urlsplit(url)
    return parts.scheme, (parts.hostname or "").lower(), parts.port or _PORTS.get(parts.scheme)


def url_problem(url: str, *, loopback: bool) -> str | None:
    """Return why a URL from a server must not be opened, or None. `loopback`: the server runs on this machine."""
    if len(url) > _MAX_URL_CHARS:
        return f"it is longer than {_MAX_URL_CHARS} characters"
    if not url.isascii() or not url.isprintable() or any(letter in url for letter in ' "<>\\^`{|}'):
        return "it contains characters that are not valid in a URL"
    try:
        parts = urlsplit(url)
        scheme, host, _ = parse_origin(url)
    except ValueError:
        return "it is not a valid URL"
    if parts.username is not None or parts.password is not None:
        return "it contains a user name or password, which can be mistaken for a host"
    if not host or scheme not in _PORTS:
        return "its scheme is not https"
    if scheme == "http" and not (loopback and is_loopback(host)):
        return "it is not https"
    if not loopback and is_local(host):
        return "it points to this machine or its network link, which a remote server must not do"
    return None

"""Classifies IP addresses: public, loopback, link-local, cloud metadata, private and so on (prevents SSRF)."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from enum import StrEnum
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

Address = IPv4Address | IPv6Address


class AddressKind(StrEnum):
    """The value completes the sentence "ADDRESS is …"."""

    PUBLIC = "a public address"
    LOOPBACK = "this machine"
    UNSPECIFIED = "the unspecified address, which leads to this machine"
    LINK_LOCAL = "on this machine's own network link"
    METADATA = "a cloud's metadata service"
    PRIVATE = "a private address"
    SHARED = "an address of a carrier's own network"
    MULTICAST = "a multicast address"
    RESERVED = "a reserved address"


_K = AddressKind
LOCAL_KINDS: Final = frozenset({_K.LOOPBACK, _K.UNSPECIFIED, _K.LINK_LOCAL, _K.METADATA})
"""This machine, and services that answer only requests from this machine."""
NOT_PUBLIC: Final = frozenset(AddressKind) - {_K.PUBLIC}

_KINDS: Final[tuple[tuple[AddressKind, tuple[IPv4Network | IPv6Network, ...]], ...]] = tuple(
    (kind, tuple(ip_network(network) for network in networks.split()))
    for kind, networks in (
        # Azure's wire server has a public address; Amazon's, Google's, Alibaba's and Oracle's do not.
        (_K.METADATA, "169.254.169.254 168.63.129.16 100.100.100.200 192.0.0.192 fd00:ec2::254 fd20:ce::254"),
        (_K.UNSPECIFIED, "0.0.0.0/8 ::"),
        (_K.LOOPBACK, "127.0.0.0/8 ::1"),
        (_K.LINK_LOCAL, "169.254.0.0/16 fe80::/10"),
        (_K.PRIVATE, "10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 fc00::/7 fec0::/10 64:ff9b:1::/48"),
        (_K.SHARED, "100.64.0.0/10"),
        (_K.MULTICAST, "224.0.0.0/4 ff00::/8"),
        (_K.RESERVED, "192.0.0.0/24 192.0.2.0/24 192.88.99.0/24 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24"),
        (_K.RESERVED, "240.0.0.0/4 2001::/23 2001:db8::/32 3fff::/20"),
        (_K.PUBLIC, "0.0.0.0/0 2000::/3 64:ff9b::/96 ::ffff:0:0/96"),
        (_K.RESERVED, "::/0"),
    )
)
"""The IANA special-purpose registries; the first network that contains an address determines its kind."""
LOCALHOST: Final = IPv4Address("127.0.0.1")
_COMPATIBLE: Final = IPv6Network("::/96")
_TRANSLATED: Final = IPv6Network("::ffff:0:0:0/96")
_NAT64: Final = IPv6Network("64:ff9b::/96")
_ISATAP: Final = (0x00005EFE, 0x02005EFE)


def address_kind(address: Address) -> AddressKind:
    """Return the kind of an address. Embedded IPv4 addresses that are not public take precedence."""
    own = next(kind for kind, networks in _KINDS if any(address in network for network in networks))
    if own in LOCAL_KINDS or isinstance(address, IPv4Address):
        return own
    return next((kind for held in _embedded(address) if (kind := address_kind(held)) is not AddressKind.PUBLIC), own)


def _embedded(address: IPv6Address) -> Iterator[IPv4Address]:
    """Yield the embedded IPv4 addresses: mapped, NAT64, 6to4, Teredo, ISATAP."""
    low = int(address) & 0xFFFFFFFF
    if address.ipv4_mapped is not None or any(address in net for net in (_COMPATIBLE, _TRANSLATED, _NAT64)):
        yield IPv4Address(low)
    if address.sixtofour is not None:
        yield address.sixtofour
    if address.teredo is not None:
        yield from address.teredo
    if (int(address) >> 32) & 0xFFFFFFFF in _ISATAP:
        yield IPv4Address(low)


def parse_address(host: str) -> Address | None:
    """Parse an IP address in standard notation; None if it is not one."""
    try:
        return ip_address(host)
    except ValueError:
        return None


def is_loopback(host: str) -> bool:
    """Whether a host is `localhost` or a loopback address. Other names may resolve to anything."""
    address = parse_address(host)
    if address is None:
        return host.lower() == "localhost"
    return address in IPv4Network("127.0.0.0/8") or address == IPv6Address("::1")


def is_localhost(host: str) -> bool:
    """Whether a normalized name is `localhost` or below it, which programs resolve to this machine without asking."""
    return host == "localhost" or host.endswith(".localhost")


def is_local(host: str) -> bool:
    """Whether a host is this machine or link-local, in any notation that programs accept."""
    host = host.lower().rstrip(".")
    if is_localhost(host):
        return True
    address = parse_address(host) or _legacy_address(host)
    return address is not None and address_kind(address) in LOCAL_KINDS


def _legacy_address(host: str) -> IPv4Address | None:
    """Parse legacy notations: most resolvers accept `127.1`, `0x7f000001` and `2130706433` as 127.0.0.1."""
    try:
        return IPv4Address(socket.inet_aton(host))
    except (OSError, ValueError):
        return None

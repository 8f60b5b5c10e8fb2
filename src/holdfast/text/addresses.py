"""What a host is, as far as its name tells: this machine, or an address that only means something right next to it."""

from __future__ import annotations

import socket
from ipaddress import IPv4Address, IPv6Address, ip_address


def on_this_machine(host: str) -> bool:
    """Whether what is sent there stays here. A name other than `localhost` may lead anywhere."""
    if host.lower() == "localhost":
        return True
    address = _address(host)
    return address is not None and address.is_loopback


def is_near(host: str) -> bool:
    """Whether it is this machine or link-local, in any of the spellings that programs take for such an address."""
    host = host.lower().rstrip(".")
    if host == "localhost" or host.endswith(".localhost"):
        return True
    address = _address(host) or _legacy_address(host)
    if isinstance(address, IPv6Address):
        address = address.ipv4_mapped or address
    return address is not None and (address.is_loopback or address.is_link_local or address.is_unspecified)


def _address(host: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(host)
    except ValueError:
        return None


def _legacy_address(host: str) -> IPv4Address | None:
    """`127.1`, `0x7f000001` and `2130706433` are 127.0.0.1 for most resolvers."""
    try:
        return IPv4Address(socket.inet_aton(host))
    except (OSError, ValueError):
        return None

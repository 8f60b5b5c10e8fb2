"""Kinds of addresses, in every notation and encoding."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from holdfast.net.addresses import NOT_PUBLIC, AddressKind, address_kind, is_local, is_loopback

pytestmark = pytest.mark.spec("K1")

HERE = ["localhost", "LOCALHOST", "127.0.0.1", "127.9.9.9", "::1"]
ALSO_NEAR = [
    "localhost.",
    "a.localhost",
    "127.1",
    "127.0.0.1.",
    "0x7f000001",
    "2130706433",
    "0177.0.0.1",
    "::ffff:127.0.0.1",
    "0.0.0.0",
    "0",
    "::",
    "169.254.169.254",
    "::ffff:169.254.169.254",
    "0xa9fea9fe",
    "168.63.129.16",
    "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe",
    "2002:7f00:1::",
    "::127.0.0.1",
    "fe80::1",
    "fe80::1%eth0",
    "febf::1",
]
ELSEWHERE = [
    "",
    "example.com",
    "localhost.example",
    "notlocalhost",
    "127.0.0.1.example",
    "10.0.0.1",
    "192.168.1.1",
    "8.8.8.8",
    "2001:db8::1",
    "fec0::1",
]


@pytest.mark.parametrize("host", HERE)
def test_loopback_hosts_are_loopback_and_local(host: str) -> None:
    assert is_loopback(host) and is_local(host)


@pytest.mark.parametrize("host", ALSO_NEAR)
def test_other_notations_of_local_addresses_are_local_but_not_loopback(host: str) -> None:
    assert is_local(host) and not is_loopback(host)


@pytest.mark.parametrize("host", ELSEWHERE)
def test_other_hosts_are_neither_local_nor_loopback(host: str) -> None:
    assert not is_local(host) and not is_loopback(host)


KINDS = {
    AddressKind.PUBLIC: ["8.8.8.8", "1.1.1.1", "100.63.255.255", "100.128.0.0", "172.32.0.0", "2606:4700::1111"],
    AddressKind.LOOPBACK: ["127.0.0.1", "127.255.255.255", "::1"],
    AddressKind.UNSPECIFIED: ["0.0.0.0", "0.1.2.3", "::"],
    AddressKind.LINK_LOCAL: ["169.254.0.1", "169.254.170.2", "fe80::1", "fe80::1%2", "febf::1"],
    AddressKind.METADATA: ["169.254.169.254", "168.63.129.16", "100.100.100.200", "fd00:ec2::254"],
    AddressKind.PRIVATE: ["10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.0.1", "fd00::1", "fec0::1"],
    AddressKind.SHARED: ["100.64.0.0", "100.127.255.255"],
    AddressKind.MULTICAST: ["224.0.0.1", "239.255.255.255", "ff02::1"],
    AddressKind.RESERVED: [
        "192.0.2.1", "198.18.0.1", "240.0.0.1", "255.255.255.255", "2001:db8::1", "3fff::1", "4000::1", "::8.8.8.8",
    ],
}  # fmt: skip


@pytest.mark.parametrize(("kind", "address"), [(kind, each) for kind, all_ in KINDS.items() for each in all_])
@pytest.mark.spec("N2", "B6")
def test_the_kind_of_an_address(kind: AddressKind, address: str) -> None:
    assert address_kind(ip_address(address)) is kind


def _encodings(inner: IPv4Address, other: IPv4Address) -> list[IPv6Address]:
    """Yield every IPv6 encoding of `inner`; `other` fills the free bits."""
    low, far = int(inner), int(other)
    return [
        IPv6Address(0xFFFF << 32 | low),  # mapped
        IPv6Address(0xFFFF << 48 | low),  # translated
        IPv6Address(low),  # compatible
        IPv6Address(0x64FF9B << 96 | low),  # NAT64
        IPv6Address(0x2002 << 112 | low << 80 | far),  # 6to4
        IPv6Address(0x20010000 << 96 | far << 64 | (low ^ 0xFFFFFFFF)),  # Teredo, as the client
        IPv6Address(0x20010000 << 96 | low << 64 | (far ^ 0xFFFFFFFF)),  # Teredo, as the server
        IPv6Address(0x26064700 << 96 | 0x5EFE << 32 | low),  # ISATAP
        IPv6Address(0x26064700 << 96 | 0x02005EFE << 32 | low),
    ]


_INSIDE = st.sampled_from([
    IPv4Address(each)
    for kind, all_ in KINDS.items()
    for each in all_
    if kind is not AddressKind.PUBLIC and ":" not in each
])  # fmt: skip


@given(_INSIDE, st.ip_addresses(v=4))
@pytest.mark.spec("N2", "B6")
def test_no_ipv6_encoding_makes_a_private_address_public(inner: IPv4Address, other: IPv4Address) -> None:
    for outer in _encodings(inner, other):
        assert address_kind(outer) in NOT_PUBLIC, outer


@given(_INSIDE)
@pytest.mark.spec("N2", "B6")
def test_an_encoded_address_has_the_kind_of_its_ipv4_address(inner: IPv4Address) -> None:
    mapped, _, _, nat64, sixtofour, *_ = _encodings(inner, IPv4Address("8.8.8.8"))
    assert {address_kind(mapped), address_kind(nat64), address_kind(sixtofour)} == {address_kind(inner)}


@given(st.ip_addresses(v=4).filter(lambda address: address.is_global and not address.is_multicast))
@pytest.mark.spec("N2", "B6")
def test_an_encoded_public_address_is_public(address: IPv4Address) -> None:
    if address_kind(address) is AddressKind.PUBLIC:
        mapped, _, _, nat64, *_ = _encodings(address, address)
        assert address_kind(mapped) is address_kind(nat64) is AddressKind.PUBLIC


@given(st.ip_addresses())
@pytest.mark.spec("N2", "B6")
def test_an_address_that_python_calls_private_is_never_public(address: IPv4Address | IPv6Address) -> None:
    if isinstance(address, IPv6Address):  # encodings have the kind of their IPv4 address
        assume(not any(address in IPv6Network(each) for each in ("::ffff:0:0/96", "64:ff9b::/96")))
    special = address.is_private or address.is_loopback or address.is_link_local or address.is_multicast
    assert not (special or address.is_reserved or address.is_unspecified) or address_kind(address) in NOT_PUBLIC

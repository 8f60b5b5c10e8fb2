"""Spellings of addresses: whatever a resolver or a browser would read as an address that is not public is refused."""

from __future__ import annotations

import re
import socket
import unicodedata
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.net.addresses import NOT_PUBLIC, address_kind
from holdfast.net.gateway import RefusedHost
from holdfast.net.hosts import normalize_host
from holdfast.net.network import Network
from tests.soak import rounds

pytestmark = pytest.mark.spec("N2b", "B6")

GATEWAY = Network().gateway("test")
PRIVATE = st.one_of(
    st.sampled_from(
        [
            IPv4Address(each)
            for each in ("127.0.0.1", "169.254.169.254", "168.63.129.16", "10.0.0.1", "0.0.0.0", "100.64.0.1")
        ]
    ),
    st.ip_addresses(v=4).filter(lambda address: address_kind(address) in NOT_PUBLIC),
)


def refused(host: str) -> bool:
    return isinstance(GATEWAY.decide(host, 80), RefusedHost)


@st.composite
def legacy_spellings(draw: st.DrawFn) -> str:
    """An address in one to four parts, each decimal, octal or hexadecimal, with Unicode digits and dots."""
    number = int(draw(PRIVATE))
    parts = draw(st.integers(1, 4))
    octets = [number >> shift & 0xFF for shift in (24, 16, 8)][: parts - 1]
    rest = number & ((1 << (8 * (5 - parts))) - 1)
    forms = st.sampled_from(["{}", "0{:o}", "0x{:x}", "0X{:X}", "000{:o}"])
    words = [draw(forms).format(each) for each in (*octets, rest)]
    text = draw(st.sampled_from([".", "。", "．", "｡"])).join(words)
    if draw(st.booleans()):
        text = text.translate({ord("0") + digit: chr(0xFF10 + digit) for digit in range(10)})
    if draw(st.booleans()):
        text = "".join(f"%{ord(letter):02x}" if letter.isascii() and draw(st.booleans()) else letter for letter in text)
    return text + draw(st.sampled_from(["", "."]))


@given(legacy_spellings())
def test_every_legacy_spelling_of_a_private_address_is_refused(text: str) -> None:
    assert refused(text)
    assert refused(f"[{text}]")


def read_by_a_browser(text: str) -> IPv4Address | None:
    """Parse a host as the WHATWG URL standard does, if it ends in a number; None if it is a name or invalid."""
    text = unicodedata.normalize(
        "NFKC", re.sub("%([0-9a-fA-F]{2})", lambda found: chr(int(found[1], 16)), text)
    ).lower()
    labels = text.replace("。", ".").split(".")
    if len(labels) > 1 and labels[-1] == "":
        labels.pop()
    numbers: list[int] = []
    for label in labels:
        base, digits = (
            (16, label[2:]) if label.startswith("0x") else (8, label) if label.startswith("0") else (10, label)
        )
        if not label or not re.fullmatch({16: "[0-9a-f]*", 8: "[0-7]*", 10: "[0-9]+"}[base], digits):
            return None
        numbers.append(int(digits or "0", base))
    if not 1 <= len(numbers) <= 4 or any(each > 255 for each in numbers[:-1]):
        return None
    if numbers[-1] >= 256 ** (5 - len(numbers)):
        return None
    high = sum(each << 8 * (3 - place) for place, each in enumerate(numbers[:-1]))
    return IPv4Address(high + numbers[-1])


def test_the_model_of_a_browser_reads_what_chromium_reads() -> None:
    for text in ("127.1", "0x7f.1", "2130706433", "017700000001", "127.0.0.1.", "１２７。0｡0.1", "%31%32%37.0.0.1"):
        assert read_by_a_browser(text) == IPv4Address("127.0.0.1")
    for text in ("example.org", "1.2.3.4.5", "256.0.0.1", "0x", ""):
        assert read_by_a_browser(text) in (None, IPv4Address(0))


HOST_TEXT = st.text(st.sampled_from("0123456789abcdefxX.:%[]。．｡０１２７①⑦-_@ \t\nlocalhost"), max_size=24)


@given(st.one_of(HOST_TEXT, st.text(max_size=12)))
@settings(max_examples=rounds(200, 10_000))
def test_no_accepted_host_is_another_address_to_another_program(text: str) -> None:
    accepted = normalize_host(text)
    if accepted is None:
        return
    readings: set[IPv4Address | IPv6Address] = set()
    for spelling in (text, accepted):
        if (seen := read_by_a_browser(spelling)) is not None:
            readings.add(seen)
        with suppress(OSError, ValueError):
            readings.add(IPv4Address(socket.inet_aton(spelling)))
        with suppress(OSError, ValueError):
            for *_, place in socket.getaddrinfo(spelling, 80, flags=socket.AI_NUMERICHOST):
                readings.add(ip_address(str(place[0]).partition("%")[0]))
    for reading in readings:
        assert str(reading) == accepted.partition("%")[0]
        assert refused(text) or address_kind(reading) not in NOT_PUBLIC


@given(st.text(max_size=40))
def test_an_accepted_host_is_accepted_unchanged(text: str) -> None:
    accepted = normalize_host(text)
    if accepted is not None:
        assert normalize_host(accepted) == accepted
        assert accepted.isascii() and accepted.isprintable() and " " not in accepted


@given(st.ip_addresses(v=6), st.text(max_size=8))
def test_a_zone_never_makes_an_address_acceptable(address: IPv6Address, zone: str) -> None:
    scoped = f"{address}%{zone}"
    accepted = normalize_host(scoped)
    assert accepted is None or (address.is_link_local and re.fullmatch("[A-Za-z0-9._-]+", zone) is not None)
    assert refused(scoped)


@pytest.mark.parametrize("name", ["faß.example", "βόλος.example", "a\u200db.example", "a\u200cb.example"])
def test_a_name_that_two_standards_encode_differently_is_refused(name: str) -> None:
    assert normalize_host(name) is None

"""Which hosts are this machine."""

from __future__ import annotations

import pytest

from holdfast.text.addresses import is_near, on_this_machine

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
def test_what_stays_on_this_machine(host: str) -> None:
    assert on_this_machine(host) and is_near(host)


@pytest.mark.parametrize("host", ALSO_NEAR)
def test_what_leads_to_this_machine_or_its_link_is_near_but_not_taken_for_it(host: str) -> None:
    assert is_near(host) and not on_this_machine(host)


@pytest.mark.parametrize("host", ELSEWHERE)
def test_what_is_elsewhere(host: str) -> None:
    assert not is_near(host) and not on_this_machine(host)

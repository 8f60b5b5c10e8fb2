"""The gateway: decisions, resolution and connections use the same host and address."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Sequence

import pytest

from holdfast.contract.errors import NetworkRefused
from holdfast.net.addresses import LOCAL_KINDS, NOT_PUBLIC, AddressKind
from holdfast.net.gateway import AllowedHost, Gateway, RefusedHost, Resolver, why_unreachable
from holdfast.net.hosts import AllowList
from tests.runtime.support import run


def answering(*addresses: str, asked: list[str] | None = None) -> Resolver:
    async def resolve(host: str, port: int) -> Sequence[str]:
        if asked is not None:
            asked.append(host)
        return addresses

    return resolve


@pytest.mark.spec("N2")
def test_only_listed_hosts_are_allowed_if_others_are_refused() -> None:
    gateway = Gateway(AllowList(["example.org", "10.0.0.1"]), name="sandbox.network")
    assert gateway.decide("Example.ORG.", 443) == AllowedHost("example.org", 443)
    assert gateway.decide("10.0.0.1", 80) == AllowedHost("10.0.0.1", 80)
    refusal = "example.org:22 is not in sandbox.network, so the connection is refused."
    assert gateway.decide("example.org", 22) == RefusedHost(refusal)
    assert isinstance(gateway.decide("127.0.0.1", 80), RefusedHost)


@pytest.mark.spec("N2", "B6")
@pytest.mark.parametrize("host", ["127.1", "0x7f000001", "2130706433", "a@b", "", "a b"])
def test_every_gateway_refuses_ambiguous_hosts(host: str) -> None:
    for others in ("refused", frozenset[AddressKind]()):
        assert isinstance(Gateway(AllowList(), others=others).decide(host, 80), RefusedHost)


@pytest.mark.spec("B6")
@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "10.0.0.1", "169.254.169.254", "::ffff:10.0.0.1"])
def test_a_blocked_address_is_refused_without_resolution(host: str) -> None:
    assert isinstance(Gateway(AllowList(), others=NOT_PUBLIC).decide(host, 80), RefusedHost)
    assert isinstance(Gateway(AllowList(), others=frozenset()).decide(host, 80), AllowedHost)


@pytest.mark.spec("B6", "K1")
@pytest.mark.parametrize("inside", ["127.0.0.1", "169.254.169.254", "::1", "::ffff:127.0.0.1"])
def test_one_blocked_address_refuses_a_name_that_also_has_a_public_one(inside: str) -> None:
    async def main() -> None:
        gateway = Gateway(AllowList(), others=LOCAL_KINDS, resolver=answering("8.8.8.8", inside))
        with pytest.raises(NetworkRefused, match=r"rebind\.example resolves to"):
            await gateway.connect("rebind.example", 443)

    run(main())


@pytest.mark.spec("N2")
def test_the_next_address_is_tried_if_one_fails_or_does_not_answer() -> None:
    closed: list[str] = []

    async def dial(address: str) -> str:
        if address == "10.0.0.1":
            raise ConnectionRefusedError(address)
        if address == "10.0.0.2":
            await asyncio.Event().wait()
        return address

    async def close(connection: str) -> None:
        closed.append(connection)

    async def main() -> str:
        gateway = Gateway(AllowList(["many.example"]), resolver=answering("10.0.0.1", "10.0.0.2", "10.0.0.3"))
        return await asyncio.wait_for(gateway.connect_with("many.example", 80, dial, close), 30)

    assert run(main(), 60) == "10.0.0.3"
    assert closed == []


@pytest.mark.spec("N2")
def test_a_caller_cancelled_during_cleanup_leaves_no_connection_open() -> None:
    closed: list[str] = []

    async def main() -> None:
        stopping, stopped = asyncio.Event(), asyncio.Event()

        async def dial(address: str) -> str:
            if address == "10.0.0.2":
                return address
            try:
                await asyncio.Event().wait()
            finally:
                stopping.set()
                await stopped.wait()
            return address

        async def close(connection: str) -> None:
            closed.append(connection)

        gateway = Gateway(AllowList(["many.example"]), resolver=answering("10.0.0.1", "10.0.0.2"))
        caller = asyncio.create_task(gateway.connect_with("many.example", 80, dial, close))
        async with asyncio.timeout(30):
            await stopping.wait()
            caller.cancel()
            await asyncio.sleep(0)
            stopped.set()
            with pytest.raises(asyncio.CancelledError):
                await caller

    run(main(), 60)
    assert closed == ["10.0.0.2"]


@pytest.mark.spec("N2")
def test_the_first_error_is_raised_if_no_address_answers() -> None:
    async def dial(address: str) -> str:
        raise ConnectionRefusedError(address)

    async def close(connection: str) -> None: ...

    async def main() -> None:
        gateway = Gateway(AllowList(["many.example"]), resolver=answering("10.0.0.1", "10.0.0.2"))
        with pytest.raises(ConnectionRefusedError, match=r"10\.0\.0\.1"):
            await gateway.connect_with("many.example", 80, dial, close)

    run(main())


@pytest.mark.spec("K1")
@pytest.mark.parametrize(
    ("url", "host", "port"),
    [
        ("http://127.0.0.1:8000/mcp", "127.0.0.1", 8000),
        ("https://mcp.example/a", "mcp.example", 443),
        ("http://[::1]/mcp", "::1", 80),
    ],
)
def test_only_the_configured_origin_is_allowed_with_any_address(url: str, host: str, port: int) -> None:
    gateway = Gateway.for_origin(url)
    assert gateway.decide(host, port) == AllowedHost(host, port)
    assert isinstance(gateway.decide(host, port + 1), RefusedHost)
    assert isinstance(gateway.decide("elsewhere.example", port), RefusedHost)


@pytest.mark.spec("N2c")
@pytest.mark.parametrize(
    ("error", "said"),
    [
        (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), "there is no such host"),
        (socket.gaierror(socket.EAI_AGAIN, "Temporary failure"), "the name service did not answer"),
        (ConnectionRefusedError(111, "Connect call failed ('127.0.0.1', 8139)"), "it refused the connection"),
        (TimeoutError(), "it did not answer"),
        (OSError(errno.EHOSTUNREACH, "Connect call failed ('10.0.0.1', 80)"), "no route to host"),
        (OSError("a.example has no address"), "a.example has no address"),
        (OSError(), "the connection failed"),
    ],
)
def test_an_unreachable_host_is_explained_without_numbers_of_the_system(error: OSError, said: str) -> None:
    assert why_unreachable(error) == said

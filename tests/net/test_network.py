"""`Network`: which hosts and addresses each kind of gateway reaches, and what is logged about it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.contract.errors import ConfigError, NetworkRefused
from holdfast.net.addresses import NOT_PUBLIC, address_kind
from holdfast.net.gateway import AllowedHost, Gateway, RefusedHost
from holdfast.net.network import Network
from holdfast.net.network_log import NetworkEntry, NetworkLog, read_log
from tests.net.test_gateway import answering
from tests.runtime.support import run


def allows(gateway: Gateway, host: str, port: int = 443) -> bool:
    return isinstance(gateway.decide(host, port), AllowedHost)


@asynccontextmanager
async def listening() -> AsyncGenerator[int]:
    async def close(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    server = await asyncio.start_server(close, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def connect(gateway: Gateway, host: str, port: int) -> None:
    _, writer = await gateway.connect(host, port)
    writer.close()


@pytest.mark.spec("N2b")
def test_any_public_host_is_reached_unless_hosts_are_given() -> None:
    network = Network(hosts=["docs.example"])
    assert allows(network.gateway("test"), "other.example", 8443)
    limited = network.gateway("test", hosts=["one.example", "two.example:8443"])
    assert allows(limited, "one.example", 80)
    assert allows(limited, "two.example", 8443)
    assert allows(limited, "docs.example")
    for host, port in [("two.example", 443), ("other.example", 443), ("sub.one.example", 443), ("8.8.8.8", 443)]:
        refused = limited.decide(host, port)
        assert isinstance(refused, RefusedHost)
        assert f"{host}:{port} is not a host that this call may reach" in refused.reason


@pytest.mark.spec("N2b")
@pytest.mark.parametrize(
    "host", ["127.0.0.1", "10.0.0.1", "169.254.169.254", "100.64.0.1", "224.0.0.1", "::1", "localhost"]
)
def test_a_host_of_the_call_must_be_public_too(host: str) -> None:
    entry = f"[{host}]" if ":" in host else host
    assert not allows(Network(hosts=[entry]).gateway("test", hosts=[entry]), host)


@pytest.mark.spec("N2b")
@pytest.mark.parametrize(
    ("rule", "reached", "refused"),
    [
        ("127.0.0.1:8000", [("127.0.0.1", 8000)], [("127.0.0.1", 80), ("127.0.0.2", 8000), ("::1", 8000)]),
        ("10.1.0.0/16", [("10.1.2.3", 443), ("10.1.255.255", 80)], [("10.2.0.1", 443), ("10.1.2.3", 22)]),
        ("10.1.0.0/16:8080", [("10.1.2.3", 8080)], [("10.1.2.3", 80)]),
        ("fd00::/8", [("fd12::1", 443)], [("fe80::1", 443), ("::1", 443)]),
        ("[fd00::/8]:8080", [("fd12::1", 8080)], [("fd12::1", 443)]),
        ("localhost:8000", [("localhost", 8000)], [("127.0.0.1", 8000), ("localhost", 80), ("a.localhost", 8000)]),
        ("*.corp.example", [("a.corp.example", 443)], [("127.0.0.1", 443)]),
        ("[::1]:8000", [("::1", 8000)], [("127.0.0.1", 8000)]),
        ("100.64.0.0/10", [("100.64.0.1", 443)], [("100.100.100.200", 443)]),
        ("100.100.100.200", [("100.100.100.200", 80)], [("169.254.169.254", 80)]),
        ("169.254.169.254/32", [("169.254.169.254", 80)], [("169.254.169.253", 80)]),
        ("10.0.0.0/8", [("10.0.0.1", 80)], [("::ffff:10.0.0.1", 80), ("64:ff9b::a00:1", 80)]),
    ],
)
def test_private_names_exactly_what_may_be_reached(
    rule: str, reached: list[tuple[str, int]], refused: list[tuple[str, int]]
) -> None:
    gateway = Network(private=[rule]).gateway("test")
    assert all(allows(gateway, host, port) for host, port in reached)
    assert not any(allows(gateway, host, port) for host, port in refused)


@pytest.mark.spec("N2b")
@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("10.1.2.3/16", "use 10.1.0.0/16"),
        ("10.0.0.0/33", "a network like"),
        ("10.0.0.0/8:0", "the port must be"),
        ("http://intra.example/", "a network like"),
        ("in tra", "use host"),
    ],
)
def test_an_invalid_private_rule_is_an_error_that_says_what_to_write(rule: str, said: str) -> None:
    with pytest.raises(ConfigError, match=f"network.private names .*{said}"):
        Network(private=[rule])


@given(st.ip_addresses(v=4), st.integers(min_value=1, max_value=65535))
@pytest.mark.spec("N2b")
def test_an_address_is_reached_if_and_only_if_it_is_public(address: object, port: int) -> None:
    from ipaddress import ip_address

    assert allows(Network().gateway("test"), str(address), port) is (
        address_kind(ip_address(str(address))) not in NOT_PUBLIC
    )


@pytest.mark.spec("N2b")
def test_a_name_with_a_listed_address_is_reached_and_one_with_another_address_too_is_not() -> None:
    async def main() -> None:
        async with listening() as port:
            network = Network(private=[f"127.0.0.1:{port}"], resolver=answering("127.0.0.1"))
            await connect(network.gateway("test"), "intra.example", port)
            mixed = Network(private=[f"127.0.0.1:{port}"], resolver=answering("127.0.0.1", "10.0.0.1"))
            with pytest.raises(NetworkRefused, match=r'10\.0\.0\.1, which is a private .* add "intra\.example:'):
                await connect(mixed.gateway("test"), "intra.example", port)

    run(main())


@pytest.mark.spec("N2c")
def test_every_kind_of_gateway_logs_every_decision(tmp_path: Path) -> None:
    async def nothing(host: str, port: int) -> list[str]:
        raise OSError(f"{host} is unknown")

    async def main(log: NetworkLog) -> int:
        async with listening() as port:
            network = Network(private=[f"site.test:{port}"], resolver=answering("127.0.0.1"), log=log)
            url = f"http://site.test:{port}/path?query"
            gateways = [
                network.gateway("web.fetch a1"),
                network.gateway_to_listed("shell.exec a2", [f"site.test:{port}"], name="sandbox.network"),
                network.gateway_to_origin("mcp:docs", url),
            ]
            for gateway in gateways:
                await connect(gateway, "site.test", port)
                with pytest.raises(NetworkRefused):
                    await connect(gateway, "10.0.0.1", port)
            with pytest.raises(NetworkRefused):
                await connect(gateways[0], "rebound.test", port)
            with pytest.raises(OSError, match="unknown"):
                await connect(Network(resolver=nothing, log=log).gateway("web.fetch a3"), "gone.test", port)
            return port

    log = NetworkLog(tmp_path / "network.jsonl")
    port = run(main(log))
    entries = [entry for entry in read_log(log.path) if entry is not None]
    seen = [(entry.by, entry.host, entry.outcome, entry.addresses) for entry in entries]
    here = ("127.0.0.1",)
    assert seen == [
        ("web.fetch a1", "site.test", "allowed", here),
        ("web.fetch a1", "10.0.0.1", "refused", ()),
        ("shell.exec a2", "site.test", "allowed", here),
        ("shell.exec a2", "10.0.0.1", "refused", ()),
        ("mcp:docs", "site.test", "allowed", here),
        ("mcp:docs", "10.0.0.1", "refused", ()),
        ("web.fetch a1", "rebound.test", "refused", here),
        ("web.fetch a3", "gone.test", "unresolved", ()),
    ]
    assert {entry.port for entry in entries} == {port}
    assert all(entry.reason for entry in entries if entry.outcome != "allowed")


@pytest.mark.spec("N2c")
def test_a_host_that_cannot_be_parsed_is_logged_without_user_name_and_query(tmp_path: Path) -> None:
    async def main(log: NetworkLog) -> None:
        gateway = Network(log=log).gateway("test")
        for host in ("user:pass@exa mple", "exa mple/path", "exa mple?key=pass", "exa mple#pass", "exa mple\\pass"):
            with pytest.raises(NetworkRefused):
                await gateway.connect(host, 80)

    log = NetworkLog(tmp_path / "network.jsonl")
    run(main(log))
    log.close()
    assert {entry.host for entry in read_log(log.path) if entry is not None} == {"'exa mple'"}
    assert b"pass" not in log.path.read_bytes()
    assert b"path" not in log.path.read_bytes()


class _FullLog(NetworkLog):
    def record(self, entry: NetworkEntry) -> None:
        raise OSError(28, "No space left on device")


@pytest.mark.spec("N2c")
def test_a_connection_that_cannot_be_logged_is_refused(tmp_path: Path) -> None:
    connected: list[str] = []

    async def dial(address: str) -> None:
        connected.append(address)

    async def close(_: None) -> None: ...

    async def main() -> None:
        network = Network(resolver=answering("8.8.8.8"), log=_FullLog(tmp_path / "network.jsonl"))
        for gateway in (network.gateway("test"), network.gateway_to_origin("test", "https://a.example/")):
            with pytest.raises(NetworkRefused, match=r"network\.jsonl cannot be written \(No space left on device\)"):
                await gateway.connect_with("a.example", 443, dial, close)

    run(main())
    assert connected == []


@pytest.mark.spec("N2b")
def test_a_check_records_a_refusal_and_nothing_else(tmp_path: Path) -> None:
    log = NetworkLog(tmp_path / "network.jsonl")
    gateway = Network(log=log).gateway("test")
    assert isinstance(gateway.check("example.org", 443), AllowedHost)
    assert isinstance(gateway.check("LOCALHOST", 8000), RefusedHost)
    (entry,) = read_log(log.path)
    assert entry is not None and (entry.host, entry.port, entry.outcome) == ("localhost", 8000, "refused")
    assert 'add "localhost:8000" to network.private in their user configuration.' in entry.reason


@pytest.mark.spec("N2b")
def test_a_refusal_stands_although_it_cannot_be_recorded(tmp_path: Path) -> None:
    log = NetworkLog(tmp_path / "missing" / "network.jsonl")
    refused = Network(log=log).gateway("test").check("localhost", 8000)
    assert isinstance(refused, RefusedHost) and "cannot be written" in refused.reason

"""`holdfast ledger network`: the connections that were opened or refused."""

from __future__ import annotations

import time

import pytest

from holdfast.net.network_log import NETWORK_LOG, NetworkEntry, NetworkLog
from tests.cli.command_line import Cli

pytestmark = pytest.mark.spec("N2c")


@pytest.fixture
def connected(cli: Cli) -> Cli:
    """Three connections: yesterday, an hour ago (refused) and now."""
    now = time.time()
    cli.ledger_file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    log = NetworkLog(cli.ledger_file.parent / NETWORK_LOG)
    for host, at, reason in (
        ("docs.example.org", now - 90_000, ""),
        ("10.0.0.1", now - 3600, "10.0.0.1 is a private address, so the connection is refused."),
        ("example.org", now, ""),
    ):
        log.record(
            NetworkEntry(
                at=at,
                by="web.fetch a1",
                host=host,
                port=443,
                outcome="refused" if reason else "allowed",
                addresses=() if reason else ("93.184.215.14",),
                reason=reason,
            )
        )
    return cli


def hosts(cli: Cli, *words: str) -> list[str]:
    return [line["host"] for line in cli.run("ledger", "network", *words, "--json").lines]


def test_connections_are_listed_newest_first_and_filtered(connected: Cli) -> None:
    for words, found in {
        (): ["example.org", "10.0.0.1", "docs.example.org"],
        ("--since", "2h"): ["example.org", "10.0.0.1"],
        ("--refused",): ["10.0.0.1"],
        ("--host", "EXAMPLE.org"): ["example.org"],
        ("--host", "*.example.org"): ["docs.example.org"],
        ("--host", "other.example"): [],
        ("-n", "1"): ["example.org"],
    }.items():
        assert hosts(connected, *words) == found, words


def test_a_line_says_who_asked_and_how_it_ended(connected: Cli) -> None:
    shown = connected.run("ledger", "network").out
    assert "web.fetch a1" in shown
    assert "example.org:443" in shown
    assert "93.184.215.14" in shown
    assert "10.0.0.1 is a private address, so the connection is refused." in shown


def test_more_connections_than_the_limit_are_mentioned(connected: Cli) -> None:
    assert "More connections match. Use `-n 20`" in connected.run("ledger", "network", "-n", "2").err


def test_without_a_log_nothing_is_listed(cli: Cli) -> None:
    done = cli.run("ledger", "network")
    assert (done.code, done.out) == (0, "No connections are recorded here.\n")


def test_text_from_a_server_or_a_damaged_log_cannot_change_the_output(cli: Cli) -> None:
    cli.ledger_file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    log = NetworkLog(cli.ledger_file.parent / NETWORK_LOG)
    hostile = "a\x1b[2J\n\u202eb"
    log.record(
        NetworkEntry(at=1.0, by=hostile, host=hostile, port=1, outcome="refused", addresses=(hostile,), reason=hostile)
    )
    with log.path.open("ab") as file:
        file.write(b"damaged \x1b[2J\n")
    done = cli.run("ledger", "network")
    assert done.code == 0
    assert "\x1b" not in done.out and "\u202e" not in done.out
    assert len(done.out.splitlines()) == 2
    assert "Skipped 1 line of the network log that cannot be read." in done.err

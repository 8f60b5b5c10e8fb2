"""`holdfast call web.fetch` on a terminal: hosts are asked about, "always" covers one host, changes are asked about."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator
from contextlib import contextmanager

import pytest

from tests.cli.command_line import Cli
from tests.cli.terminal import Terminal
from tests.tools.web.site import Page, Reply, Site, serving

PROMPT = "leave it pending\n> "


@contextmanager
def sites(count: int, pages: dict[str, Page]) -> Generator[list[Site]]:
    """Serve the same pages on several ports, from a thread of their own."""
    found: list[Site] = []
    ready, done = threading.Event(), threading.Event()

    async def serve() -> None:
        async with serving(dict(pages)) as one, serving(dict(pages)) as two:
            found.extend((one, two)[:count])
            ready.set()
            await asyncio.to_thread(done.wait, 600)

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    try:
        assert ready.wait(60)
        yield found
    finally:
        done.set()
        thread.join(60)


@pytest.mark.spec("B6f", "A12")
def test_always_offers_the_host_and_a_change_is_asked_about_each_time(cli: Cli) -> None:
    with sites(2, {"/": Reply("<p>hello there"), "/b": Reply("second page", "text/plain")}) as (one, two):
        cli.configure(f'[network]\nprivate = ["{one.entry}", "{two.entry}"]\n')
        with Terminal(cli, "call", "web.fetch", f"url={one.url}/", columns=120) as person:
            person.expect("May web.fetch run?")
            person.expect(f"GET {one.url}/")
            person.expect(PROMPT)
            person.press(b"a")
            person.expect(f"│ 1. web.fetch that only reads from {one.entry}")
            person.expect("[n] back\n> ")
            assert "null" not in person.text
            person.press(b"1")
            person.expect("hello there")
            assert person.finish() == 0
        again = cli.run("call", "web.fetch", f"url={one.url}/b")
        assert again.code == 0 and "second page" in again.out
        other = cli.run("call", "web.fetch", f"url={two.url}/b")
        assert other.code == 4 and "waits for approval" in other.err and not two.seen
        change = cli.run("call", "web.fetch", f"url={one.url}/b", "method=POST", "body=x")
        assert change.code == 4 and "It can change something" in change.err
        assert {seen.method for seen in one.seen} == {"GET"}


@pytest.mark.spec("B6f")
def test_a_listed_host_is_read_without_asking_and_the_second_page_comes_from_the_cache(cli: Cli) -> None:
    fresh = Reply("cached text", "text/plain", headers={"Cache-Control": "max-age=600"})
    with sites(1, {"/": fresh}) as (site,):
        cli.configure(f'[network]\nprivate = ["{site.entry}"]\nhosts = ["{site.entry}"]\n')
        first = cli.run("call", "web.fetch", f"url={site.url}/", "--json")
        second = cli.run("call", "web.fetch", f"url={site.url}/", "--json")
    assert [done.json["structured"]["cached"] for done in (first, second)] == ["no", "fresh"]
    assert len(site.asked("/")) == 1


@pytest.mark.spec("B6f")
def test_an_invalid_address_of_the_search_engine_is_a_configuration_error(cli: Cli) -> None:
    cli.configure('[web]\nsearch = "searxng"\nsearch_url = "ftp://x"\n')
    assert "web.search_url" in cli.run("call", "system.info").sentence


@pytest.mark.spec("B6f")
def test_a_terminal_shows_which_host_is_waited_for(cli: Cli) -> None:
    with sites(1, {"/": Reply("done", "text/plain")}) as (site,):
        cli.configure(f'[network]\nprivate = ["{site.entry}"]\n[approval]\nauto_approve = ["web.fetch"]\n')
        with Terminal(cli, "call", "web.fetch", f"url={site.url}/", columns=120) as person:
            assert person.finish() == 0
    shown, _, rest = person.raw.partition("\r\x1b[K")
    assert f"waiting for {site.entry}…" in person.raw and "done" in rest and "done" not in shown

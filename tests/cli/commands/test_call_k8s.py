"""`holdfast call k8s.*` on a terminal: each API server is asked about, and no log can draw on the screen."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator
from contextlib import contextmanager

import pytest

from tests.cli.command_line import Cli
from tests.cli.terminal import Terminal
from tests.tools.k8s.api_server import ApiServer, kubeconfig, pod, serving

PROMPT = "leave it pending\n> "


@contextmanager
def served(server: ApiServer) -> Generator[ApiServer]:
    """Serve from a thread of its own."""
    ready, done = threading.Event(), threading.Event()

    async def serve() -> None:
        async with serving(server):
            ready.set()
            await asyncio.to_thread(done.wait, 600)

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    try:
        assert ready.wait(60)
        yield server
    finally:
        done.set()
        thread.join(60)


@pytest.mark.spec("B10g")
def test_an_api_server_is_asked_about_and_always_covers_it(cli: Cli) -> None:
    hostile = (b"\x1b[2J\x1b]0;owned\x07 hello\n",)
    with served(ApiServer(pods=[pod("web-1")], logs={("web-1", "app", False): hostile})) as server:
        path = kubeconfig(cli.project.parent, server, name="kubeconfig")
        cli.configure(f'[tools]\nallow = ["group:k8s"]\n[k8s]\nkubeconfig = "{path}"\n')
        with Terminal(cli, "call", "k8s.logs", "pod=web-1", columns=120) as person:
            person.expect("May k8s.logs run?")
            person.expect(f"read the log of pod web-1 in namespace default (context dev, {server.entry})")
            person.expect(PROMPT)
            assert not server.seen
            person.press(b"a")
            person.expect(f"│ 1. k8s.logs that only reads from {server.entry}")
            person.expect("[n] back\n> ")
            person.press(b"1")
            person.expect("hello")
            assert person.finish() == 0
            assert "\x1b[2J" not in person.text and "\x07" not in person.text
        again = cli.run("call", "k8s.logs", "pod=web-1")
        assert again.code == 0 and "hello" in again.out and "\x1b" not in again.out
        other = cli.run("call", "k8s.pods")
        assert other.code == 4 and "waits for approval" in other.err


@pytest.mark.spec("B10e")
def test_a_missing_kubeconfig_is_explained_without_a_question(cli: Cli) -> None:
    cli.configure('[tools]\nallow = ["group:k8s"]\n')
    done = cli.run("call", "k8s.pods")
    assert done.code == 1 and "There is no kubeconfig at" in done.err + done.out

"""Browsers of sessions: one for each, that survives crashes, hangs and cancellation, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.contract.enums import State
from holdfast.tools.browser.browsers import processes_of
from tests.tools.browser.browsing import Browsing, Handler, needs_chromium, opened_browsing

pytestmark = needs_chromium
NEW_BROWSER = "! The browser had ended unexpectedly, so a new one was started. All pages and logins are gone."


@pytest.fixture(scope="module")
def shared_quick(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browsing]:
    """A browser with short limits, for pages that use them up."""
    folder = tmp_path_factory.mktemp("quick")
    with opened_browsing(folder, action_timeout=3.0, navigation_timeout=3.0) as browsing:
        browsing.open("<h1>Started</h1>")
        yield browsing


@pytest.fixture
def quick(shared_quick: Browsing) -> Browsing:
    shared_quick.asked.clear()
    shared_quick.before_answer = None
    return shared_quick


def eventually(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds, for at most a minute."""
    ends = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < ends, "it did not happen within a minute"
        time.sleep(0.02)


def browser_process(browsing: Browsing) -> int:
    """The main process of Chromium."""
    for pid in browsing.processes():
        # Chromium overwrites its arguments with one text.
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")
        if b"--user-data-dir=" in command and b"--type=" not in command:
            return pid
    raise AssertionError("Chromium is not running")


@pytest.mark.spec("B7f")
def test_a_browser_killed_in_mid_action_ends_the_call_and_the_next_one_starts_anew(browsing: Browsing) -> None:
    def kill(handler: Handler) -> None:
        os.kill(browser_process(browsing), signal.SIGKILL)
        handler.reply(b"late")

    browsing.site.pages["/kill"] = kill
    browsing.open("<h1>Before</h1>")
    killed = browsing.call("browser.navigate", url=browsing.site.url("/kill"))
    assert killed.error is not None
    assert "browser" in killed.error.lower()
    lost = browsing.call("browser.text")
    assert lost.error is not None
    assert lost.error.startswith("The browser ended")
    after = browsing.open("<h1>After</h1>")
    assert NEW_BROWSER in after.output
    assert 'h1 "After"' in after.output


@pytest.mark.spec("B7f")
def test_a_worker_killed_between_calls_leaves_no_chromium_and_the_next_call_says_so(browsing: Browsing) -> None:
    browsing.open("<h1>Before</h1>")
    folder = browsing.session.folder
    assert folder is not None
    assert browsing.session.pid is not None
    os.kill(browsing.session.pid, signal.SIGKILL)
    eventually(lambda: not processes_of(folder))
    eventually(lambda: browsing.session.hosts == ())
    assert NEW_BROWSER in browsing.open("<h1>After</h1>").output


@pytest.mark.spec("B7f")
def test_a_page_that_hangs_is_closed_and_the_browser_goes_on(quick: Browsing) -> None:
    quick.open("<button onclick='while (true) {}'>go</button>")
    result = quick.call("browser.click", name="go")
    assert result.error == f"The page {quick.site.url()} did not answer within 3 s, so it was closed."
    assert quick.open("<h1>Works</h1>", "/works").success


@pytest.mark.spec("B7f")
def test_a_page_that_never_loads_is_given_up(quick: Browsing) -> None:
    def hang(handler: Handler) -> None:
        time.sleep(8)

    quick.site.pages["/never"] = hang
    result = quick.call("browser.navigate", url=quick.site.url("/never"))
    assert result.error == f"{quick.site.url('/never')} did not load within 3 s."
    assert quick.open("<h1>Works</h1>", "/works").success


@pytest.mark.spec("B7f")
def test_a_page_of_endless_content_is_given_up(quick: Browsing) -> None:
    def endless(handler: Handler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "text/html")
        handler.send_header("Content-Length", str(1 << 30))
        handler.end_headers()
        block = b"<div><p>x</p></div>" * 10_000
        try:
            while True:
                handler.wfile.write(block)
        except OSError:
            handler.close_connection = True

    quick.site.pages["/endless"] = endless
    result = quick.call("browser.navigate", url=quick.site.url("/endless"))
    assert not result.success
    assert quick.open("<h1>Works</h1>", "/works").success


@pytest.mark.spec("B7f")
def test_a_page_of_very_many_elements_gives_a_bounded_result(browsing: Browsing) -> None:
    result = browsing.open("<script>for (let i = 0; i < 25000; i++) document.write('<p>p' + i + '</p>')</script>")
    assert len(result.output) < 10_000
    assert "[Lines 1-60 of " in result.output


@pytest.mark.spec("B7f")
def test_a_cancelled_call_stops_its_work_and_nothing_else(browsing: Browsing) -> None:
    browsing.open("<h1>Steady</h1>")
    running = browsing.processes()

    async def cancel_soon() -> State:
        async with browsing.runtime() as runtime:
            task = asyncio.create_task(runtime.call("browser.wait", {"text": "never", "seconds": 30}))
            await asyncio.to_thread(eventually, lambda: browsing.session.busy)
            (call_id,) = runtime.pipeline.executor.running
            assert runtime.cancel(call_id)
            return (await asyncio.wait_for(task, 60)).state

    assert asyncio.run(cancel_soon()) in (State.CANCELLED, State.UNKNOWN)
    assert 'h1 "Steady"' in browsing.page()
    assert running & browsing.processes()


@pytest.mark.spec("B7a")
def test_each_session_has_its_own_browser_and_cookies(browsing: Browsing) -> None:
    browsing.open("<script>document.cookie = 'who=ann'</script>")
    show = "<p id=out></p><script>out.textContent = 'cookie:' + document.cookie</script>"
    assert '"cookie:who=ann"' in browsing.open(show).output
    browsing.session_name = "another"
    try:
        assert '"cookie:"' in browsing.open(show).output
        browsing.call("browser.close")
    finally:
        browsing.session_name = "browsing"
    assert '"cookie:who=ann"' in browsing.page()


@pytest.mark.spec("B7f")
def test_closing_ends_a_call_that_runs_and_withdraws_the_approved_hosts(browsing: Browsing) -> None:
    browsing.open("<h1>Other</h1>", host="other.test")
    browsing.open("<h1>Steady</h1>")
    assert f"other.test:{browsing.site.port}" in browsing.session.hosts

    async def close_meanwhile() -> str | None:
        async with browsing.runtime() as runtime:
            waiting = asyncio.create_task(runtime.call("browser.wait", {"text": "never", "seconds": 30}))
            await asyncio.to_thread(eventually, lambda: browsing.session.busy)
            assert await browsing.session.close()
            return (await asyncio.wait_for(waiting, 60)).error

    assert asyncio.run(close_meanwhile()) == "The browser was closed during the call."
    assert browsing.session.hosts == ()
    assert 'h1 "Steady"' in browsing.open("<h1>Steady</h1>").output
    assert browsing.session.hosts == (f"shop.test:{browsing.site.port}",)


@pytest.mark.spec("B7f")
def test_what_a_page_is_refused_while_nobody_calls_is_kept_only_in_part(browsing: Browsing) -> None:
    session = browsing.session
    for number in range(5000):
        session._on_refused("a.test", 80, f"reason {number}")  # pyright: ignore[reportPrivateUsage]
    assert len(session._refused) == 100  # pyright: ignore[reportPrivateUsage]


@pytest.mark.spec("B7f")
def test_the_number_of_browsers_is_limited(tmp_path: Path) -> None:
    with opened_browsing(tmp_path, max_browsers=1) as browsing:
        first, second = browsing.session, browsing.browsers.session("two")
        assert not first.running
        assert not second.running
        browsing.open("<h1>One</h1>")
        browsing.session_name = "two"
        result = browsing.call("browser.navigate", url=browsing.site.url())
        assert result.error is not None
        assert "which is the limit (browser.max_browsers)" in result.error


@pytest.mark.spec("B7f")
def test_closing_ends_all_processes_and_removes_the_profile(tmp_path: Path) -> None:
    with opened_browsing(tmp_path) as browsing:
        browsing.open("<h1>x</h1>")
        folder = browsing.session.folder
        assert folder is not None
        assert processes_of(folder)
    assert not processes_of(folder)
    assert not folder.exists()


@pytest.mark.spec("B7f", "N8")
def test_the_browser_dies_with_holdfast_even_if_it_is_killed(tmp_path: Path) -> None:
    code = f"""
import sys
from pathlib import Path
from holdfast.tools.browser.browsers import processes_of
from tests.tools.browser.browsing import opened_browsing
with opened_browsing(Path({str(tmp_path)!r})) as browsing:
    browsing.open("<h1>x</h1>")
    print(browsing.session.folder, flush=True)
    sys.stdin.read()
"""
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path.cwd()
    ) as program:
        assert program.stdout is not None
        folder = Path(program.stdout.readline().strip())
        assert processes_of(folder)
        program.kill()
    eventually(lambda: not processes_of(folder))


@pytest.mark.spec("B7d")
def test_the_browser_sees_nothing_of_our_environment(browsing: Browsing, monkeypatch: pytest.MonkeyPatch) -> None:
    browsing.call("browser.close")
    monkeypatch.setenv("API_TOKEN_FOR_TEST", "hush-hush")
    monkeypatch.setenv("NODE_OPTIONS", "--require /nonexistent.js")
    browsing.open("<h1>x</h1>")
    for pid in browsing.processes():
        try:
            environment = Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            continue
        assert b"hush-hush" not in environment
        assert b"NODE_OPTIONS" not in environment

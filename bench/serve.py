"""The approvals page: how fast it lists and shows, and what it bears.

    .venv/bin/python bench/serve.py [--quick] [--only list,paint,visible,load]

A real `holdfast serve` process, real programs that wait for answers, and pages in the system's Chromium.

- list: the time of a request for the inbox with 1,000 pending calls.
- paint: the first contentful paint of an inbox with 200 calls, on loopback, and of an empty one, which is what the
  browser itself takes on this machine.
- visible: the time from the entry of a pending call in the ledger, written by another process, to its row in the page.
- load: 100 programs, each with a pending call at a time, 20 open pages in Chromium, and a person who answers at once,
  for a minute. Counted: answers, results that the programs got, answers that were lost, pages that do not show the end
  of it, memory of the daemon before and after.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from holdfast.tools.browser.chromium import find_chromium  # noqa: E402

HOLDFAST = Path(sys.executable).with_name("holdfast")
FLAGS = ["--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync"]
PROGRAM = """
import asyncio, sys, time
from holdfast import open_runtime
async def main(name, seconds):
    done = 0
    async with open_runtime(nobody="wait") as runtime:
        print("ready", flush=True)
        sys.stdin.readline()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            result = await runtime.call("file.write", {"path": f"{name}-{done}.txt", "content": "x"})
            if not result.success:
                print("failed", result.state, result.error, flush=True)
                break
            done += 1
    print("done", done, flush=True)
asyncio.run(main(sys.argv[1], float(sys.argv[2])))
"""


class Place:
    """An empty project with a home of its own, and the daemon that serves it."""

    def __init__(self, folder: Path) -> None:
        self.project = folder / "project"
        (self.project / ".git").mkdir(parents=True)
        self.environment = {
            **os.environ,
            "HOME": str(folder),
            "XDG_STATE_HOME": str(folder / "state"),
            "XDG_CONFIG_HOME": str(folder / "config"),
        }
        config = folder / "config/holdfast/config.toml"
        config.parent.mkdir(parents=True)
        config.write_text("[approval]\nauto_approve = []\n")

    @contextmanager
    def served(self) -> Iterator[Daemon]:
        command = [HOLDFAST, "serve", "--port", "0", "--json"]
        with subprocess.Popen(command, cwd=self.project, env=self.environment, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            told = json.loads(process.stdout.readline())
            try:
                yield Daemon(told["url"], told["link"].partition("#")[2], process.pid)
            finally:
                process.terminate()

    def add_pending(self, count: int) -> None:
        """Add pending calls, with the shapes that a real inbox has: commands, new files, edits."""
        program = f"""
import asyncio
from holdfast import open_runtime
async def main():
    async with open_runtime(nobody="pending") as runtime:
        text = "".join(f"line {{n}} of a file\\n" for n in range(20))
        for n in range({count}):
            if n % 3 == 0:
                made = await runtime.call("shell.exec", {{"command": f"make target-{{n}} && cp build/{{n}} out/"}})
            else:
                made = await runtime.call("file.write", {{"path": f"module_{{n}}.py", "content": f"# {{n}}\\n" + text}})
            assert made.state == "pending", made
asyncio.run(main())
"""
        subprocess.run([sys.executable, "-c", program], cwd=self.project, env=self.environment, check=True)


class Daemon:
    def __init__(self, url: str, code: str, pid: int) -> None:
        self.url = url
        self.port = int(url.rpartition(":")[2])
        self.pid = pid
        reply, _ = self._request("POST", "/login", {"secret": code})
        self.cookie = reply.getheader("set-cookie", "").partition(";")[0]

    def _request(self, method: str, path: str, form: dict[str, str] | None = None, cookie: str = "") -> Any:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=60)
        headers = {"Origin": self.url, "Cookie": cookie, "Accept": "application/json"}
        if form is not None:
            headers["Content-Type"] = "application/x-www-form-urlencoded"
        connection.request(method, path, None if form is None else urlencode(form), headers)
        reply = connection.getresponse()
        body = reply.read()
        connection.close()
        return reply, body

    def get(self, path: str) -> bytes:
        reply, body = self._request("GET", path, cookie=self.cookie)
        assert reply.status == 200, (path, reply.status, body[:200])
        return body

    def approve(self, project: str, call: str, digest: str) -> bool:
        headers = {"Origin": self.url, "Cookie": self.cookie, "Content-Type": "application/json"}
        connection = HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request("POST", f"/api/calls/{project}/{call}/approve", json.dumps({"digest": digest}), headers)
        status = connection.getresponse().status
        connection.close()
        return status == 200

    def memory(self) -> float:
        """Resident memory in MB."""
        text = Path(f"/proc/{self.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", text)[1]) / 1024  # type: ignore[index]


def measure_list(rounds: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as name:
        place = Place(Path(name))
        place.add_pending(1000)
        with place.served() as daemon:
            daemon.get("/")
            times = []
            for _ in range(rounds):
                begun = time.perf_counter()
                daemon.get("/")
                times.append(1000 * (time.perf_counter() - begun))
        return {"median": statistics.median(times), "worst": max(times), "rounds": rounds}


async def measure_paint(rounds: int) -> dict[str, float]:
    empty, full = await _paints(0, rounds), await _paints(200, rounds)
    return {
        "median": statistics.median(full),
        "worst": max(full),
        "median of an empty inbox": statistics.median(empty),
        "rounds": rounds,
    }


async def _paints(calls: int, rounds: int) -> list[float]:
    from playwright.async_api import async_playwright

    with tempfile.TemporaryDirectory() as name:
        place = Place(Path(name))
        place.add_pending(calls)
        with place.served() as daemon:
            async with async_playwright() as playwright:
                browser = await playwright.chromium.launch(
                    executable_path=str(find_chromium()), args=FLAGS, chromium_sandbox=False
                )
                context = await _logged_in(browser, daemon)
                paints: list[float] = []
                for _ in range(rounds):
                    page = await context.new_page()
                    await page.goto(daemon.url)
                    await page.wait_for_selector(".card, .empty")
                    found = await page.evaluate(
                        "performance.getEntriesByName('first-contentful-paint').map(entry => entry.startTime)[0]"
                    )
                    paints.append(found)
                    await page.close()
                await browser.close()
        return paints


async def _logged_in(browser: Any, daemon: Daemon) -> Any:
    context = await browser.new_context()
    cookie, _, value = daemon.cookie.partition("=")
    await context.add_cookies([{"name": cookie, "value": value, "url": daemon.url, "httpOnly": True}])
    return context


async def measure_visible(calls: int) -> dict[str, float]:
    from playwright.async_api import async_playwright

    seen_script = """() => {
        window.seen = {};
        new MutationObserver(() => {
            for (const card of document.querySelectorAll('article.card[data-call]'))
                window.seen[card.dataset.call] ??= Date.now();
        }).observe(document.querySelector('#list'), {childList: true, subtree: true});
    }"""
    program = f"""
import asyncio, json, time
from holdfast import open_runtime
async def main():
    async with open_runtime(nobody="pending") as runtime:
        for n in range({calls}):
            result = await runtime.call("shell.exec", {{"command": f"make target-{{n}}"}})
            print(json.dumps([result.call_id, 1000 * time.time()]), flush=True)
            await asyncio.sleep(0.1)
asyncio.run(main())
"""
    with tempfile.TemporaryDirectory() as name:
        place = Place(Path(name))
        place.add_pending(20)
        with place.served() as daemon:
            async with async_playwright() as playwright:
                browser = await playwright.chromium.launch(
                    executable_path=str(find_chromium()), args=FLAGS, chromium_sandbox=False
                )
                page = await (await _logged_in(browser, daemon)).new_page()
                await page.goto(daemon.url)
                await page.evaluate(seen_script)
                process = await asyncio.create_subprocess_exec(
                    sys.executable, "-c", program, cwd=place.project, env=place.environment,
                    stdout=asyncio.subprocess.PIPE,
                )  # fmt: skip
                written, _ = await process.communicate()
                made = dict(json.loads(line) for line in written.splitlines())
                await page.wait_for_function(
                    "ids => ids.every(id => id in window.seen)", arg=list(made), timeout=30_000
                )
                seen = await page.evaluate("window.seen")
                await browser.close()
    delays = sorted(max(0.0, seen[call] - at) for call, at in made.items())
    return {"median": statistics.median(delays), "p95": delays[int(0.95 * len(delays))], "calls": calls}


async def measure_load(programs: int, pages: int, seconds: float) -> dict[str, float]:
    from playwright.async_api import async_playwright

    with tempfile.TemporaryDirectory() as name:
        place = Place(Path(name))
        with place.served() as daemon:
            async with async_playwright() as playwright:
                browser = await playwright.chromium.launch(
                    executable_path=str(find_chromium()), args=FLAGS, chromium_sandbox=False
                )
                opened: list[Any] = []
                for _ in range(pages):  # each in a context of its own, since a browser has six connections to a server
                    opened.append(await (await _logged_in(browser, daemon)).new_page())
                    await opened[-1].goto(daemon.url)
                found = await asyncio.to_thread(_answer_programs, place, daemon, programs, seconds)
                behind = pages
                deadline = time.monotonic() + 60
                while behind and time.monotonic() < deadline:
                    counts = [await page.locator("[data-count]").text_content() for page in opened]
                    behind = sum(count != "0" for count in counts)
                    await asyncio.sleep(0.2)
                await browser.close()
        return {"programs": programs, "pages": pages, "seconds": seconds, **found, "pages behind": behind}


def _answer_programs(place: Place, daemon: Daemon, programs: int, seconds: float) -> dict[str, float]:
    """Approve what the programs ask for, until they end; each call with the digest that was listed."""
    begun = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, f"p{n}", str(seconds)], cwd=place.project, env=place.environment,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for n in range(programs)
    ]  # fmt: skip
    for process in begun:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    before = peak = daemon.memory()
    for process in begun:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    answered: set[str] = set()
    times: list[float] = []
    while any(process.poll() is None for process in begun):
        for item in json.loads(daemon.get("/api/pending"))["pending"]:
            call, project = item["call"], item["project"]
            started = time.perf_counter()
            if call["call_id"] not in answered and daemon.approve(project, call["call_id"], call["digest"]):
                answered.add(call["call_id"])
                times.append(1000 * (time.perf_counter() - started))
        peak = max(peak, daemon.memory())
    outputs = [process.stdout.read() for process in begun if process.stdout is not None]
    done = sum(int(found[1]) for text in outputs if (found := re.search(r"done (\d+)", text)))
    assert times, outputs
    return {
        "answers": len(answered),
        "results": done,
        "lost": len(answered) - done,
        "failed programs": sum("failed" in text for text in outputs),
        "answer median ms": statistics.median(times),
        "answer p95 ms": sorted(times)[int(0.95 * len(times))],
        "memory before MB": before,
        "memory peak MB": peak,
        "memory after MB": daemon.memory(),
    }


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--quick", action="store_true", help="fewer rounds")
    options.add_argument("--only", default="list,paint,visible,load")
    chosen = options.parse_args()
    parts = chosen.only.split(",")
    quick: bool = chosen.quick
    if "list" in parts:
        report("list (1,000 pending calls), ms", measure_list(5 if quick else 30))
    if "paint" in parts:
        report("paint (200 cards), ms", asyncio.run(measure_paint(3 if quick else 20)))
    if "visible" in parts:
        report("visible after it is pending, ms", asyncio.run(measure_visible(20 if quick else 100)))
    if "load" in parts:
        report("load", asyncio.run(measure_load(10 if quick else 100, 20, 10.0 if quick else 60.0)))


def report(name: str, figures: dict[str, float]) -> None:
    print(f"{name}: " + ", ".join(f"{key} {value:,.1f}" for key, value in figures.items()), flush=True)


if __name__ == "__main__":
    main()

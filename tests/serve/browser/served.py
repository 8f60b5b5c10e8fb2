"""A daemon with a project of its own, a real browser on its pages, and calls that become pending in it."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable, Coroutine, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest
from playwright.sync_api import Browser, BrowserContext, Error, Locator, Page, expect, sync_playwright

from holdfast import Answer, Runtime
from holdfast.contract.call import PendingCall
from holdfast.contract.enums import State
from holdfast.contract.json import Args
from holdfast.factory.runtime import build_runtime, load_project
from holdfast.serve.projects import project_key
from holdfast.store.ledger import Ledger
from holdfast.tools.browser.chromium import find_chromium, missing

T = TypeVar("T")
Asked = tuple[str, Args]
SECONDS = 60
"""The longest wait of a test, generous for a machine under load."""
needs_chromium = pytest.mark.skipif(missing() is not None, reason=f"the browser cannot be used: {missing()}")
_ARGUMENTS = (
    "--disable-background-networking", "--disable-component-update", "--disable-default-apps", "--disable-sync",
    "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--no-sandbox",
)  # fmt: skip
_WATCH = """
document.addEventListener('securitypolicyviolation', (event) => {
  (window.violations ??= []).push(`${event.violatedDirective} ${event.blockedURI} ${event.sample}`);
});
"""


def write(path: str, content: str = "x") -> Asked:
    return "file.write", {"path": path, "content": content}


def shell(command: str) -> Asked:
    return "shell.exec", {"command": command}


@dataclass
class Served:
    """A running daemon, its project, and a browser."""

    folder: Path
    url: str
    browser: Browser
    environment: dict[str, str]
    contexts: list[BrowserContext] = field(default_factory=list[BrowserContext])
    requests: list[str] = field(default_factory=list[str])
    problems: list[str] = field(default_factory=list[str])
    """What the pages reported: errors, and messages of the browser."""

    # The project. Playwright's loop runs in this thread, so everything else does in another one.

    def run(self, work: Callable[[Runtime], Coroutine[Any, Any, T]]) -> T:
        """Run work with a runtime of the project, in which nobody answers."""

        async def inside() -> T:
            project = load_project(self.folder)
            async with build_runtime(project, nobody="pending", interface="test") as runtime:
                return await work(runtime)

        with ThreadPoolExecutor(1) as pool:
            return pool.submit(asyncio.run, inside()).result(SECONDS)

    def ask(self, *asked: Asked) -> list[str]:
        """Make calls pending; returns their ids in order."""

        async def ask(runtime: Runtime) -> list[str]:
            results = [await runtime.call(tool, args) for tool, args in asked]
            assert {result.state for result in results} <= {State.PENDING}, results
            return [result.call_id for result in results]

        return self.run(ask)

    def answer(self, call_id: str, answer: Answer) -> None:
        """Answer from another interface, without running the call."""

        async def give(runtime: Runtime) -> None:
            await runtime.lifecycle.answer(call_id, answer)

        self.run(give)

    def edit(self, call_id: str, args: Args) -> PendingCall:
        async def change(runtime: Runtime) -> PendingCall:
            found = runtime.pending.ledger.find_pending(call_id)
            assert found is not None
            return await runtime.lifecycle.edit(found, args, by="test:ann")

        return self.run(change)

    @contextmanager
    def ledger(self) -> Generator[Ledger]:
        with Ledger.open(load_project(self.folder).ledger_path, read_only=True) as ledger:
            yield ledger

    def pending(self) -> list[str]:
        with self.ledger() as ledger:
            return [item.call.id for item in ledger.pending() if item.state is State.PENDING]

    def answers(self, call_id: str) -> list[Answer]:
        with self.ledger() as ledger:
            return [given.answer for given in ledger.call(call_id).answers]

    @property
    def key(self) -> str:
        return project_key(load_project(self.folder).state)

    # The pages

    def open(self, path: str = "/", *, init: str = "", clock: bool = False, **options: Any) -> Page:
        """Log in with a new browser profile and open a page."""
        scripted: bool = options.get("java_script_enabled", True)
        context = self.browser.new_context(**options)
        context.set_default_timeout(SECONDS * 1000)
        self.contexts.append(context)
        context.on("request", lambda request: self.requests.append(request.url))
        context.on("console", lambda message: self.problems.append(f"console: {message.text}"))
        context.on("weberror", lambda error: self.problems.append(f"error: {error.error}"))
        if scripted:
            context.add_init_script(_WATCH + init)
        page = context.new_page()
        if clock:
            page.clock.install()
        address, _, code = self.link().partition("#")
        if scripted:
            page.goto(f"{address}?next={path}#{code}")
        else:
            page.goto(f"{address}?next={path}")
            page.fill("#secret", code)
            page.click("form.login button")
        page.wait_for_url(lambda url: "/login" not in url)
        return page

    def link(self) -> str:
        port = self.url.rpartition(":")[2]
        done = subprocess.run(
            [sys.executable, "-m", "holdfast", "serve", "link", "--json", "--port", port],
            cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=SECONDS, check=True,
        )  # fmt: skip
        return json.loads(done.stdout)["link"]

    def card(self, page: Page, call_id: str) -> Locator:
        """The card of a call, or its row in a group."""
        return page.locator(f"[id='c-{self.key}-{call_id}']")

    def reset(self) -> None:
        """Close the pages, end every pending call, and remove what calls have written."""
        for context in self.contexts:
            context.close()
        self.contexts.clear()
        self.requests.clear()
        self.problems.clear()

        async def end(runtime: Runtime) -> None:
            for item in runtime.pending.list():
                runtime.cancel(item.call.id)

        self.run(end)
        for path in self.folder.iterdir():
            if path.is_file():
                path.unlink()


@contextmanager
def serving(folder: Path) -> Generator[Served]:
    """Start the daemon in a new project where every call needs approval, and a browser."""
    project = folder / "project"
    (project / ".git").mkdir(parents=True)
    (folder / "config/holdfast").mkdir(parents=True)
    (folder / "config/holdfast/config.toml").write_text("[approval]\nauto_approve = []\n")
    names = {"HOME": "home", "XDG_STATE_HOME": "state", "XDG_CONFIG_HOME": "config"}
    own = {name: str(folder / value) for name, value in names.items()}
    (folder / "home").mkdir()
    environment = {**os.environ, **own}
    with pytest.MonkeyPatch.context() as patch, sync_playwright() as playwright:
        for name, value in own.items():
            patch.setenv(name, value)
        process = subprocess.Popen(
            [sys.executable, "-m", "holdfast", "serve", "--port", "0", "--json"],
            cwd=project, env=environment, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=list(_ARGUMENTS))
        try:
            assert process.stdout is not None
            url = json.loads(process.stdout.readline())["url"]
            yield Served(project, url, browser, environment)
        finally:
            with suppress(Error):
                browser.close()
            process.terminate()
            process.communicate(timeout=SECONDS)


@pytest.fixture(scope="module")
def shared_daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    expect.set_options(timeout=SECONDS * 1000)
    with serving(tmp_path_factory.mktemp("served")) as served:
        yield served


@pytest.fixture
def served(shared_daemon: Served) -> Iterator[Served]:
    yield shared_daemon
    shared_daemon.reset()

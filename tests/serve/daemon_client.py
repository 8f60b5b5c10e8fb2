"""A daemon on loopback in the test's own event loop, and its clients: logged in, only looking, and unknown.

`run(body, tmp_path, monkeypatch)` starts one for an empty project with its own home and state.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, Self

import httpx2
import pytest
from msgspec.structs import replace

from holdfast.contract.call import Call, Caller, Decision
from holdfast.contract.enums import Verdict
from holdfast.contract.json import Args
from holdfast.contract.result import Result
from holdfast.factory.runtime import Project, build_runtime, load_project, open_ledger
from holdfast.serve.daemon import Address, Started, people_file, serve
from holdfast.serve.projects import project_key
from holdfast.store.ledger import Ledger
from holdfast.store.people import People, Right

SECONDS: Final = 60.0
"""How long any test may take, on a busy machine too."""
HTML: Final = "text/html,application/xhtml+xml"


class DaemonClient:
    """A browser session with the daemon. Redirects are not followed."""

    def __init__(self, url: str, project: Project) -> None:
        self.url = url
        self.project = project
        self.key = project_key(project.state)
        self.http = httpx2.AsyncClient(base_url=url, headers={"Accept": HTML, "Origin": url}, timeout=SECONDS)

    async def __aenter__(self) -> Self:
        await self.http.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self.http.__aexit__(*error)

    async def log_in(self, secret: str) -> None:
        reply = await self.http.post("/login", data={"secret": secret})
        assert reply.status_code == 303, reply.text

    async def get(self, path: str, status: int = 200, **headers: str) -> httpx2.Response:
        reply = await self.http.get(path, headers=headers)
        assert reply.status_code == status, (reply.status_code, reply.text)
        return reply

    async def post(self, path: str, status: int = 303, /, **form: str) -> httpx2.Response:
        # An empty form has no content type, which the daemon asks for.
        reply = await self.http.post(path, data=form or {"_": ""})
        assert reply.status_code == status, (reply.status_code, reply.text)
        return reply

    async def page(self, path: str, status: int = 200) -> str:
        return (await self.get(path, status)).text

    @asynccontextmanager
    async def other(self, right: Right | None = None) -> AsyncGenerator[DaemonClient]:
        """Another client: a new person with this right, or one who is not logged in."""
        async with DaemonClient(self.url, self.project) as client:
            if right is not None:
                await client.log_in(People(people_file()).add(f"person-{right}", right))
            yield client

    async def approve(self, call_id: str) -> None:
        """Approve a pending call as its card shows it."""
        address = f"/calls/{self.key}/{call_id}"
        await self.post(f"{address}/approve", digest=digest_in(await self.page(address)))

    # What other processes do in the project

    def ledger(self) -> Ledger:
        return open_ledger(self.project)

    def record(self, tool: str, args: Args, result: Result, call_id: str = "made-1", **caller: Any) -> str:
        """Record a call that has ended, without running anything."""
        call = made_call(self.project, tool, args, call_id, **caller)
        decision = Decision(Verdict.APPROVE, "urn:holdfast:approval:config", "the tests approve it")
        with self.ledger() as ledger:
            ledger.record_call_now(call, decision, result)
        return call_id

    async def call(self, tool: str, args: Args, **caller: Any) -> Result:
        """Make a call in the project like another program does; it stays pending if it needs approval."""
        runtime = build_runtime(load_project(self.project.root), nobody="pending", interface="test")
        async with runtime:
            return await runtime.call(tool, args, caller=replace(runtime.caller, **caller))


def digest_in(page: str) -> str:
    """The first digest that a form of the page carries."""
    found = re.search(r'name="digest" value="([0-9a-f]+)"', page)
    assert found is not None, page
    return found[1]


def made_call(project: Project, tool: str, args: Args, call_id: str, **caller: Any) -> Call:
    about = replace(Caller(interface="test"), **caller)
    return Call(id=call_id, tool=tool, name_used=tool, args=args, caller=about, cwd=str(project.root), group=call_id)


def make_project(folder: Path, monkeypatch: pytest.MonkeyPatch, config: str = "") -> Project:
    """An empty project with its own home, configuration and state."""
    for name, place in (("HOME", "home"), ("XDG_STATE_HOME", "state"), ("XDG_CONFIG_HOME", "config")):
        (folder / place).mkdir(exist_ok=True)
        monkeypatch.setenv(name, str(folder / place))
    user = folder / "config" / "holdfast" / "config.toml"
    user.parent.mkdir(exist_ok=True)
    user.write_text(config)
    root = folder / "project"
    (root / ".git").mkdir(parents=True, exist_ok=True)
    monkeypatch.chdir(root)
    return load_project(root)


@asynccontextmanager
async def daemon(project: Project, *, every: bool = False) -> AsyncGenerator[DaemonClient]:
    """A started daemon with a client of the user who started it."""
    started: asyncio.Future[Started] = asyncio.get_running_loop().create_future()
    address = Address(port=0)
    serving = asyncio.create_task(serve(project, address, every=every, flags={}, started=started.set_result))
    try:
        await asyncio.wait((serving, started), return_when=asyncio.FIRST_COMPLETED)
        if serving.done():
            serving.result()
        async with DaemonClient(started.result().url, project) as client:
            await client.log_in(People(people_file()).create_code())
            yield client
    finally:
        serving.cancel()
        await asyncio.wait((serving,), timeout=SECONDS)
        assert serving.done()


Body = Callable[[DaemonClient], Awaitable[None]]


def run(body: Body, folder: Path, monkeypatch: pytest.MonkeyPatch, config: str = "", *, every: bool = False) -> None:
    """Run a test with a daemon for a new project."""
    project = make_project(folder, monkeypatch, config)

    async def bounded() -> None:
        async with asyncio.timeout(SECONDS), daemon(project, every=every) as client:
            await body(client)

    asyncio.run(bounded())


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait until the condition holds."""
    for _ in range(int(SECONDS / 0.02)):
        if await condition():
            return
        await asyncio.sleep(0.02)
    raise AssertionError("The condition did not hold in time.")

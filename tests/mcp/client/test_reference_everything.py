"""The reference server `server-everything`, over stdio in the sandbox, streamable HTTP and SSE."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import subprocess
import time
from collections.abc import AsyncGenerator, Generator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from holdfast import Config, Result, Runtime
from holdfast.config.config import ApprovalConfig, McpConfig, McpServer, SandboxConfig, ToolsConfig
from holdfast.contract.elicitation import Elicitation, ElicitationReply, FormRequest, SamplingRequest
from holdfast.contract.enums import State
from holdfast.contract.event import ElicitationStarted, Finished, Progress
from holdfast.mcp.client.bridge import Bridge
from holdfast.runtime.workspace import Workspace
from holdfast.store.ledger import Ledger
from holdfast.store.pins import ToolPins
from tests.attached import attached
from tests.peers import environment, everything
from tests.runtime.support import run

TRANSPORTS = ("stdio", "streamableHttp", "sse")
PATHS = {"streamableHttp": "mcp", "sse": "sse"}
PLAIN = {
    "echo",
    "get-annotated-message",
    "get-env",
    "get-resource-links",
    "get-resource-reference",
    "get-structured-content",
    "get-sum",
    "get-tiny-image",
    "gzip-file-as-resource",
    "toggle-simulated-logging",
    "toggle-subscriber-updates",
    "trigger-long-running-operation",
}
"""What it offers to every client; more comes as soon as it knows what the client can be asked."""


@pytest.fixture(autouse=True)
def own_state(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
    monkeypatch.setattr("holdfast.mcp.client.server_process.GRACE", 0.2)


@contextmanager
def listening(transport: str, folder: Path) -> Generator[McpServer]:
    """The server on a port of its own; it cannot choose one itself."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    env = environment(folder, PORT=str(port))
    with (
        (folder / "stderr.txt").open("wb") as told,
        subprocess.Popen([*everything(), transport], cwd=folder, env=env, stdout=told, stderr=told) as process,
    ):
        try:
            _await_port(port, process, folder / "stderr.txt")
            yield McpServer(
                url=f"http://127.0.0.1:{port}/{PATHS[transport]}", transport="sse" if transport == "sse" else "http"
            )
        finally:
            process.kill()


def _await_port(port: int, process: subprocess.Popen[bytes], told: Path) -> None:
    end = time.monotonic() + 60
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            assert process.poll() is None and time.monotonic() < end, told.read_text()
            with suppress(subprocess.TimeoutExpired):
                process.wait(0.05)
        else:
            return


@pytest.fixture(scope="module", params=TRANSPORTS)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[McpServer]:
    if request.param == "stdio":
        node, *script = everything()
        yield McpServer(command=node, args=tuple(script))
    else:
        with listening(request.param, tmp_path_factory.mktemp("everything")) as server:
            yield server


class Person:
    """Answers what is asked, and remembers it."""

    def __init__(self) -> None:
        self.asked: list[Elicitation] = []
        self.form = ElicitationReply(action="accept", content={"name": "Ada Lovelace", "check": True, "integer": 7})
        self.model = ElicitationReply(
            action="accept",
            content={"role": "assistant", "content": {"type": "text", "text": "I read it first."}, "model": "a person"},
        )

    async def __call__(self, elicitation: Elicitation) -> tuple[ElicitationReply, ...]:
        self.asked.append(elicitation)
        return tuple(
            self.model if isinstance(question, SamplingRequest) else self.form for question in elicitation.questions
        )


@asynccontextmanager
async def using(server: McpServer, folder: Path, person: Person | None = None) -> AsyncGenerator[Runtime]:
    project = folder / "project"
    project.mkdir()
    config = Config(
        mcp=McpConfig(servers={"every": server}),
        tools=ToolsConfig(profile="full"),
        approval=ApprovalConfig(auto_approve=("mcp:every:*",)),
        sandbox=SandboxConfig(mode="required"),
    )
    with Ledger.open(folder / "ledger.db") as ledger:
        runtime = attached(
            Runtime(config=config, ledger=ledger, workspace=Workspace(root=project, state=folder / "state")),
            elicitor=person,
        )
        pins = ToolPins(folder / "user.db")
        bridge = Bridge(runtime, config.mcp.servers, pins=pins, state=folder / "state")
        bridge.attach()
        try:
            async with runtime:
                await runtime.pipeline.wait_for_sources()
                (status,) = bridge.status()
                assert status.state == "ready", status.reason
                yield runtime
        finally:
            pins.close()


def offered(runtime: Runtime) -> set[str]:
    return {tool.name.removeprefix("mcp:every:") for tool in runtime.visible() if tool.name.startswith("mcp:every:")}


async def appears(runtime: Runtime, *names: str) -> None:
    """Until the server has offered these too, which it does when it knows what the client can do."""
    loop, changed = asyncio.get_running_loop(), asyncio.Event()

    def note() -> None:
        loop.call_soon_threadsafe(changed.set)

    watching = runtime.registry.on_change(note)
    try:
        async with asyncio.timeout(50):
            while not offered(runtime) >= set(names):
                await changed.wait()
                changed.clear()
    finally:
        watching.remove()


@pytest.mark.spec("K1", "T9", "T10b")
def test_content_of_every_kind_arrives(server: McpServer, tmp_path: Path) -> None:
    async def go() -> None:
        async with using(server, tmp_path) as runtime:

            async def call(tool: str, **args: Any) -> Result:
                result = await runtime.call(f"mcp:every:{tool}", args)
                assert result.state is State.DONE, result
                return result

            assert offered(runtime) >= PLAIN
            assert (await call("echo", message="hello")).output == "Echo: hello"
            assert (await call("get-sum", a=2, b=3)).output == "The sum of 2 and 3 is 5."
            weather = await call("get-structured-content", location="Chicago")
            assert weather.structured == json.loads(weather.output)
            assert weather.structured == {"temperature": 36, "conditions": "Light rain / drizzle", "humidity": 82}
            picture = await call("get-tiny-image")
            assert picture.output == "Here's the image you requested:\nThe image above is the MCP logo."
            (image,) = picture.attachments
            assert (image.kind, image.mime_type, image.data[:4]) == ("image", "image/png", b"\x89PNG")
            annotated = await call("get-annotated-message", messageType="error", includeImage=True)
            assert annotated.output == "Error: Operation failed"
            assert [item.kind for item in annotated.attachments] == ["image"]
            links = await call("get-resource-links", count=2)
            assert [(item.kind, item.data, bool(item.uri)) for item in links.attachments] == [("file", b"", True)] * 2
            (embedded,) = (await call("get-resource-reference", resourceType="Text", resourceId=1)).attachments
            assert embedded.uri == "demo://resource/dynamic/text/1"
            assert embedded.data.startswith(b"Resource 1:")
            (zipped,) = (
                await call("gzip-file-as-resource", name="a.gz", data="data:text/plain,hello", outputType="resource")
            ).attachments
            assert gzip.decompress(zipped.data) == b"hello"

    run(go(), 60)


@pytest.mark.spec("K1")
def test_what_it_refuses_is_a_failed_result_and_the_server_goes_on(server: McpServer, tmp_path: Path) -> None:
    async def go() -> None:
        async with using(server, tmp_path) as runtime:
            text = await runtime.call("mcp:every:get-resource-reference", {"resourceType": "Text", "resourceId": -1})
            assert text.state is State.FAILED
            assert "resourceId" in (text.error or "")
            wrong = await runtime.call("mcp:every:get-structured-content", {"location": "Atlantis"})
            assert wrong.state is State.INVALID
            assert (await runtime.call("mcp:every:echo", {"message": "still here"})).output == "Echo: still here"

    run(go(), 60)


@pytest.mark.spec("K1")
def test_progress_of_a_long_call_is_told(server: McpServer, tmp_path: Path) -> None:
    async def go() -> None:
        async with using(server, tmp_path) as runtime:
            told: list[tuple[float | None, float | None]] = []
            with runtime.subscribe() as events:
                args = {"duration": 0.2, "steps": 4}
                done = await runtime.call("mcp:every:trigger-long-running-operation", args)
                assert "Steps: 4" in done.output
                async for event in events:
                    if isinstance(event, Progress):
                        told.append((event.done, event.total))
                    elif isinstance(event, Finished):
                        break
            assert told == [(1, 4), (2, 4), (3, 4), (4, 4)]

    run(go(), 60)


@pytest.mark.spec("K1")
def test_a_cancelled_call_ends_at_once_and_the_server_goes_on(server: McpServer, tmp_path: Path) -> None:
    async def go() -> None:
        async with using(server, tmp_path) as runtime:
            with runtime.subscribe() as events:
                args = {"duration": 100, "steps": 1000}
                working = asyncio.ensure_future(runtime.call("mcp:every:trigger-long-running-operation", args))
                async for event in events:
                    if isinstance(event, Progress):
                        assert runtime.cancel(event.call_id)
                        break
            async with asyncio.timeout(50):
                stopped = await working
            assert stopped.state in (State.CANCELLED, State.UNKNOWN)
            assert (await runtime.call("mcp:every:echo", {"message": "still here"})).output == "Echo: still here"

    run(go(), 60)


@pytest.mark.spec("K1")
def test_what_the_server_asks_goes_to_the_person(server: McpServer, tmp_path: Path) -> None:
    async def go() -> None:
        person = Person()
        async with using(server, tmp_path, person) as runtime:
            await appears(runtime, "trigger-elicitation-request", "trigger-sampling-request", "get-roots-list")
            with runtime.subscribe() as events:
                filled_in = await runtime.call("mcp:every:trigger-elicitation-request")
                sampled = await runtime.call("mcp:every:trigger-sampling-request", {"prompt": "Are you a model?"})
                asked = [event async for event in _until_finished(events, 2) if isinstance(event, ElicitationStarted)]
            assert "- Name: Ada Lovelace" in filled_in.output
            assert "- Favorite Integer: 7" in filled_in.output
            assert "I read it first." in sampled.output
            form, wanted = (elicitation.questions[0] for elicitation in person.asked)
            assert isinstance(form, FormRequest)
            assert form.schema["required"] == ["name"]
            assert isinstance(wanted, SamplingRequest)
            assert "Are you a model?" in json.dumps(wanted.messages[0].content)
            assert wanted.system == "You are a helpful test server."
            assert [event.elicitation.asked_by for event in asked] == ["mcp:every", "mcp:every"]
            person.form = ElicitationReply(action="decline")
            person.model = ElicitationReply(action="decline")
            assert "declined" in (await runtime.call("mcp:every:trigger-elicitation-request")).output
            refused = await runtime.call("mcp:every:trigger-sampling-request", {"prompt": "And now?"})
            assert refused.state is State.FAILED
            roots = await runtime.call("mcp:every:get-roots-list")
            assert (tmp_path / "project").as_uri() in roots.output

    run(go(), 60)


async def _until_finished(events: Any, count: int) -> AsyncGenerator[Any]:
    async for event in events:
        yield event
        if isinstance(event, Finished):
            count -= 1
            if count == 0:
                return


@pytest.mark.spec("K1")
def test_where_nobody_can_be_asked_the_server_is_told_so(server: McpServer, tmp_path: Path) -> None:
    async def go() -> None:
        async with using(server, tmp_path) as runtime:
            await appears(runtime, "get-roots-list")
            assert not offered(runtime) & {"trigger-elicitation-request", "trigger-sampling-request"}

    run(go(), 60)


@pytest.mark.spec("K1")
def test_a_stdio_server_sees_no_more_of_the_surroundings_than_commands_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_SECRET_OF_THE_PERSON", "do not tell")
    node, *script = everything()

    async def go() -> None:
        server = McpServer(command=node, args=tuple(script), env={"GIVEN": "on purpose"})
        async with using(server, tmp_path) as runtime:
            seen = json.loads((await runtime.call("mcp:every:get-env")).output)
            assert seen["GIVEN"] == "on purpose"
            assert "A_SECRET_OF_THE_PERSON" not in seen
            assert "do not tell" not in seen.values()

    run(go(), 60)

"""The process of a server: what it is given, what it may touch, and that it ends."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from holdfast import Config, Runtime
from holdfast.config.config import McpServer, SandboxConfig, SecretSource
from holdfast.contract.errors import SandboxRefused, SecretUnavailable
from holdfast.mcp.client.server_process import ServerProcess, folder_for, start_server
from holdfast.mcp.client.stdio_transport import StdioTransport
from holdfast.runtime.workspace import Workspace
from holdfast.sandbox.sandbox import Sandbox
from holdfast.store.folder_writers import may_have_written
from tests.mcp.client.stdio_fixtures import runtime_in, server, talking, text_of
from tests.runtime.command_helpers import mark, survivors, until
from tests.runtime.support import run

SECRET = "sk-a-very-secret-value-4711"


@pytest.fixture(autouse=True)
def own_state(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))


async def _call(runtime: Runtime, way: str, arguments: dict[str, Any] | None = None, **options: Any) -> str:
    async with talking(runtime, way, **options) as (client, _):
        return text_of(await client.call_tool("do", arguments or {}))


@pytest.mark.spec("K1")
@pytest.mark.parametrize("mode", ["auto", "off"])
def test_the_environment_is_the_allow_list_and_what_the_configuration_adds(
    mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEAK", "of something")
    monkeypatch.setenv("LANG", "C.UTF-8")
    monkeypatch.setenv("HOLDFAST_TEST_TOKEN", SECRET)
    secrets = {"api": SecretSource(env="HOLDFAST_TEST_TOKEN")}

    async def go() -> None:
        async with runtime_in(tmp_path / "project", mode, secrets=secrets) as runtime:
            env = {"TOKEN": "Bearer ${secret:api}", "PLAIN": "$HOME ${x}"}
            found = json.loads(await _call(runtime, "environment", env=env))["env"]
            assert found["TOKEN"] == f"Bearer {SECRET}"
            assert found["PLAIN"] == "$HOME ${x}"
            assert found["LANG"] == "C.UTF-8"
            assert found.keys().isdisjoint({"LEAK", "HOLDFAST_TEST_TOKEN"})

    run(go())


@pytest.mark.spec("K1")
def test_what_a_server_complains_about_is_kept_without_secrets_and_without_what_a_terminal_obeys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOLDFAST_TEST_TOKEN", SECRET)
    secrets = {"api": SecretSource(env="HOLDFAST_TEST_TOKEN")}

    async def go() -> None:
        async with runtime_in(tmp_path / "project", secrets=secrets) as runtime:
            async with talking(runtime, "crash", env={"TOKEN": "${secret:api}"}) as (client, transport):
                with pytest.raises(Exception, match="Connection closed"):
                    await client.call_tool("do", {})
            assert transport.reason == "The MCP server 'odd' exited with 3. It wrote:\nthe disk is on fire [secret api]"

    run(go())
    assert capfd.readouterr() == ("", "")


@pytest.mark.spec("K1")
def test_a_server_runs_in_the_folder_it_is_given_from_the_project(tmp_path: Path) -> None:
    async def go() -> None:
        # Bare: in the sandbox the server's own file is seen only where it runs, if these tests are in /tmp.
        async with runtime_in(tmp_path / "project", "off") as runtime:
            inner = tmp_path / "project" / "inner"
            inner.mkdir()
            for cwd in ("inner", "$root/inner", "${root}//inner", str(inner)):
                assert json.loads(await _call(runtime, "environment", cwd=cwd))["cwd"] == str(inner)
            assert json.loads(await _call(runtime, "environment", cwd="$root"))["cwd"] == str(inner.parent)
            with pytest.raises(SandboxRefused, match=r"mcp\.servers\.odd\.cwd is '.*/absent', which does not exist"):
                await _call(runtime, "environment", cwd="absent")

    run(go())


@pytest.mark.spec("K1")
@pytest.mark.parametrize("mode", ["auto", "off"])
def test_a_server_that_is_given_no_folder_starts_nothing_of_the_project(
    mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "mailserver.py").write_text("print('of the project')")
    monkeypatch.chdir(project)

    async def go() -> None:
        module = McpServer(command=sys.executable, args=("-m", "mailserver"))
        async with runtime_in(project, mode) as runtime:
            transport = StdioTransport(runtime, "odd", module)
            async with transport as (reading, _):
                await reading.receive()
            assert "No module named mailserver" in transport.reason
            assert str(folder_for(runtime, "odd", module)) == "/"

    run(go())


@pytest.mark.spec("K1", "N8")
@pytest.mark.parametrize("mode", ["auto", "off"])
@pytest.mark.parametrize("place", ["project", "link", "writable"])
def test_the_program_of_a_server_is_never_one_of_the_project(
    mode: str, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor one that a command could have written; not with a PATH that leads there, as a project's `.envrc` sets it."""
    project, shared, mark = tmp_path / "project", tmp_path / "shared", tmp_path / "ran"
    programs = (shared if place == "writable" else project) / "bin"
    programs.mkdir(parents=True)
    (programs / "uvx").write_text(f"#!/bin/sh\ntouch {mark}\n")
    (programs / "uvx").chmod(0o755)
    (tmp_path / "link").symlink_to(programs)
    first = tmp_path / "link" if place == "link" else programs
    monkeypatch.setenv("PATH", f"{first}:{programs}/../bin:bin:.::/usr/bin:/bin")
    config = Config(sandbox=SandboxConfig(mode=mode, writable=("$root", str(shared))))  # pyright: ignore[reportArgumentType]
    for folder in (project, shared):
        folder.mkdir(exist_ok=True)
    monkeypatch.chdir(project)

    async def go() -> None:
        async with Runtime(config=config, workspace=Workspace(root=project, state=tmp_path / "state")) as runtime:
            with pytest.raises(SandboxRefused, match="There is no program 'uvx' on the PATH"):
                await start_server(runtime, "odd", McpServer(command="uvx"))

    run(go())
    assert not mark.exists()


@pytest.mark.spec("K1")
def test_the_project_as_a_folder_needs_a_project() -> None:
    with pytest.raises(SandboxRefused, match=r"mcp\.servers\.odd\.cwd is '\$root/x', but there is no project"):
        folder_for(Runtime(), "odd", McpServer(command="x", cwd="$root/x"))


@pytest.mark.spec("K1")
def test_a_server_writes_nowhere_unless_its_configuration_names_the_folder(tmp_path: Path) -> None:
    async def go() -> None:
        async with runtime_in(tmp_path / "project") as runtime:
            inside, hook, outside = (tmp_path / path for path in ("project/a", "project/.git/hooks/b", "elsewhere"))
            hook.parent.mkdir(parents=True)
            paths = {"paths": [str(inside), str(hook), str(outside)]}
            found = json.loads(await _call(runtime, "writes", paths))
            assert "written" not in (found[str(inside)], found[str(hook)])
            found = json.loads(await _call(runtime, "writes", paths, writable=("$root",)))
            assert (found[str(inside)], found[str(hook)] != "written") == ("written", True)
            assert inside.read_text() == "was here"
            assert not hook.exists()
            assert not outside.exists()

    run(go())


@pytest.mark.spec("U2")
def test_that_a_server_with_writable_folders_lives_is_known(tmp_path: Path) -> None:
    async def go() -> None:
        document, before = tmp_path / "project" / "talk.md", time.time()
        async with runtime_in(tmp_path / "project") as runtime:
            async with talking(runtime, "environment"):
                assert not may_have_written(document, None)
            async with talking(runtime, "environment", writable=("$root",)):
                assert may_have_written(document, None)
        assert (may_have_written(document, None), may_have_written(document, before)) == (False, True)

    run(go())


@pytest.mark.spec("K1")
def test_what_a_person_adds_to_the_project_while_a_server_runs_stays(tmp_path: Path) -> None:
    async def go() -> None:
        project = tmp_path / "project"
        async with runtime_in(project) as runtime:
            async with talking(runtime, "healthy"):
                assert list(project.iterdir()) == []
                (project / ".vscode").mkdir()
                (project / ".vscode" / "settings.json").write_text("{}")
                (project / ".envrc").write_text("export A=1")
            assert (project / ".vscode" / "settings.json").read_text() == "{}"
            assert (project / ".envrc").read_text() == "export A=1"

    run(go())


@pytest.mark.spec("K1")
def test_the_network_is_what_the_server_is_given(tmp_path: Path) -> None:
    async def go() -> None:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            there = {"port": listening.getsockname()[1]}
            async with runtime_in(tmp_path / "project") as runtime:
                assert await _call(runtime, "connects", there) == "ConnectionRefusedError"
                assert await _call(runtime, "connects", there, network="on") == "connected"

    run(go())


@pytest.mark.spec("K1")
def test_a_list_of_hosts_lets_a_server_reach_those_and_no_others(tmp_path: Path) -> None:
    async def go() -> None:
        with _web() as good, _web() as bad:
            async with runtime_in(tmp_path / "project") as runtime:
                network = (f"127.0.0.1:{good}",)
                for port, said in ((good, "welcome"), (bad, "HTTP Error 403: Forbidden")):
                    url = f"http://127.0.0.1:{port}/"
                    assert await _call(runtime, "fetches", {"url": url}, network=network) == said

    run(go())


@pytest.mark.spec("K1")
def test_without_a_sandbox_a_server_is_not_started_unless_a_person_switched_it_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Sandbox, "backend", lambda self: None)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    monkeypatch.setattr(Sandbox, "problem", lambda self: "none held")  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]

    async def go() -> None:
        marker = mark()
        async with runtime_in(tmp_path / "project") as runtime:
            with pytest.raises(
                SandboxRefused, match=r"'odd' was not started because .*none held.*sandbox\.mode = \"off\""
            ):
                await _call(runtime, "healthy", marker=marker)
            assert survivors(marker) == []
        async with runtime_in(tmp_path / "project", "off") as runtime:
            assert await _call(runtime, "healthy") == "done"

    run(go())


@pytest.mark.spec("K1")
@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        (
            {"command": "./serve"},
            SandboxRefused,
            r"'\./serve', which differs in every folder\. Give its absolute path, or the folder",
        ),
        ({"command": "node_modules/.bin/serve"}, SandboxRefused, r"mcp\.servers\.odd\.cwd"),
        ({"command": "no-such-program-anywhere"}, SandboxRefused, "no program 'no-such-program-anywhere'"),
        ({"command": sys.executable, "env": {"A": "${secret:absent}"}}, SecretUnavailable, "'absent'"),
        ({"command": sys.executable, "env": {"A": "\0"}}, SandboxRefused, r"mcp\.servers\.odd\.env holds 'A'"),
        ({"command": sys.executable, "env": {"A=B": "x"}}, SandboxRefused, r"mcp\.servers\.odd\.env holds 'A=B'"),
        ({"command": sys.executable, "args": ("\0",)}, SandboxRefused, "NUL character"),
    ],
)
def test_a_server_that_cannot_be_started_says_why(
    given: dict[str, Any], error: type[Exception], words: str, tmp_path: Path
) -> None:
    async def go() -> None:
        async with runtime_in(tmp_path / "project") as runtime:
            with pytest.raises(error, match=words):
                async with StdioTransport(runtime, "odd", McpServer(**given)):
                    raise AssertionError("it was started")

    run(go())


@pytest.mark.spec("K1")
@pytest.mark.parametrize("mode", ["auto", "off"])
def test_a_program_that_cannot_run_ends_the_connection_with_what_the_system_said(mode: str, tmp_path: Path) -> None:
    async def go() -> None:
        async with runtime_in(tmp_path / "project", mode) as runtime:
            transport = StdioTransport(runtime, "odd", McpServer(command="./absent", cwd="$root"))
            async with transport as (reading, _):
                said = str(await reading.receive())
            assert "No such file" in said
            assert said == transport.reason

    run(go())


@pytest.mark.spec("K1")
@pytest.mark.parametrize("mode", ["auto", "off"])
def test_a_server_that_ends_by_itself_is_not_killed(mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.mcp.client.server_process.GRACE", 3600)

    async def go() -> None:
        async with runtime_in(tmp_path / "project", mode) as runtime:
            process = await start_server(runtime, "odd", server("healthy"))
            await process.end()
            assert await process.ended(0) == "exited with 0"

    run(go())


@pytest.mark.spec("K1")
@pytest.mark.parametrize("mode", ["auto", "off"])
def test_one_that_stays_is_killed_after_its_grace(mode: str, tmp_path: Path) -> None:
    async def go() -> None:
        marker = mark()
        async with runtime_in(tmp_path / "project", mode) as runtime:
            async with talking(runtime, "stubborn", marker) as (client, _):
                await client.call_tool("do", {})
                began = time.monotonic()
            assert time.monotonic() - began >= 2
            assert survivors(marker) == []

    run(go())


@pytest.mark.spec("K1")
def test_who_cancels_the_ending_as_well_does_not_wait_for_the_grace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ending = asyncio.Event()

    async def end(process: ServerProcess) -> None:
        ending.set()
        await ended(process)

    ended = ServerProcess.end
    monkeypatch.setattr(ServerProcess, "end", end)
    monkeypatch.setattr("holdfast.mcp.client.server_process.GRACE", 3600)

    async def go() -> None:
        marker = mark()
        async with runtime_in(tmp_path / "project") as runtime:
            ready = asyncio.Event()

            async def serve() -> None:
                async with talking(runtime, "stubborn", marker) as (client, _):
                    await client.call_tool("do", {})
                    ready.set()
                    await asyncio.Event().wait()

            task = asyncio.create_task(serve())
            await ready.wait()
            task.cancel()
            await ending.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert survivors(marker) == []

    run(go())


@pytest.mark.spec("K1")
@pytest.mark.parametrize("after", [0.0, 0.001, 0.01, 0.03, 0.1])
def test_a_start_that_is_cancelled_leaves_nothing(after: float, tmp_path: Path) -> None:
    async def go() -> None:
        marker, before = mark(), _open_files()
        async with runtime_in(tmp_path / "project") as runtime:
            runtime.sandbox.backend()
            for _ in range(3):
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(after), talking(runtime, "never initialises", marker):
                        raise AssertionError("it answered")
            await until(lambda: not survivors(marker))
        await until(lambda: _open_files() <= before)

    run(go())


@pytest.mark.spec("K1")
def test_a_server_that_came_and_went_often_leaves_no_open_files(tmp_path: Path) -> None:
    async def go() -> None:
        async with runtime_in(tmp_path / "project") as runtime:
            assert await _call(runtime, "healthy") == "done"
            before = _open_files()
            for way in ("healthy", "healthy", "crash", "huge line"):
                async with talking(runtime, way) as (client, _):
                    await asyncio.wait((asyncio.ensure_future(client.call_tool("do", {})),))
            assert _open_files() == before

    run(go())


@pytest.mark.spec("K1")
@pytest.mark.parametrize("mode", ["auto", "off"])
def test_servers_die_with_the_runtime_even_when_it_is_killed(mode: str, tmp_path: Path) -> None:
    marker = mark()
    driver = [sys.executable, "-m", "tests.mcp.client.kill_driver", str(tmp_path / "project"), mode, "daemon", marker]
    with subprocess.Popen(driver, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        others = [line for line in survivors(marker) if "kill_driver" not in line]
        process.send_signal(signal.SIGKILL)
    assert len(others) > 0
    run(until(lambda: not survivors(marker)))


def _open_files() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208


@contextmanager
def _web() -> Generator[int]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"welcome")

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as web:
        serving = threading.Thread(target=web.serve_forever, daemon=True)
        serving.start()
        try:
            yield web.server_address[1]
        finally:
            web.shutdown()
            serving.join(60)

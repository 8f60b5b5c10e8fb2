"""`holdfast mcp serve`: the real command with the official MCP client."""

from __future__ import annotations

import asyncio
import json
import select
import signal
import stat
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from holdfast.cli.reference import objects
from tests.cli.command_line import Cli, Json
from tests.cli.terminal import Terminal

PATIENCE = 60.0


@pytest.mark.spec("K3a", "E1a")
def test_on_a_terminal_it_explains_itself_instead(cli: Cli) -> None:
    with Terminal(cli, "mcp") as person:
        person.expect("holdfast mcp install claude")
        assert person.finish() == 2
    both = cli.run("mcp", "--http", "--stdio")
    assert both.code == 2
    assert (
        both.sentence
        == "Error: --http and --stdio exclude each other. Use one of them. See `holdfast mcp serve --help`."
    )


@pytest.mark.spec("K3a")
def test_a_client_starts_it_and_calls_a_tool(cli: Cli) -> None:
    async def session() -> tuple[list[str], Any]:
        from mcp import Client, StdioServerParameters
        from mcp.client.stdio import stdio_client

        program, *words = cli.command("-C", str(cli.project), "mcp")
        server = stdio_client(StdioServerParameters(command=program, args=words, env=cli.env))
        async with asyncio.timeout(PATIENCE), Client(server) as client:
            listed = await client.list_tools()
            result = await client.call_tool("calculator", {"expression": "6*7"})
            return [tool.name for tool in listed.tools], result

    names, result = asyncio.run(session())
    assert "calculator" in names and "file--read" in names
    assert "42" in result.content[0].text
    (record,) = cli.run("ledger", "--json").lines
    assert record["caller"]["interface"] == "mcp"


@pytest.mark.spec("K3a")
def test_end_of_input_ends_it(cli: Cli) -> None:
    done = cli.run("mcp", stdin=b"")
    assert (done.code, done.out) == (0, "")


@contextmanager
def served(cli: Cli, *args: str) -> Generator[tuple[Json, subprocess.Popen[bytes]]]:
    """Start the command with --http; yield it and its first output."""
    process = subprocess.Popen(
        cli.command("mcp", "--http", "--port", "0", "--json", *args),
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=cli.project, env=cli.env,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        ready, _, _ = select.select([process.stdout], [], [], PATIENCE)
        assert ready, "nothing was said"
        yield json.loads(process.stdout.readline()), process
    finally:
        process.kill()
        process.communicate(timeout=PATIENCE)


@pytest.mark.spec("K3a")
def test_over_http_the_token_of_a_private_file_is_needed_and_ctrl_c_ends_it(cli: Cli) -> None:
    with served(cli) as (told, process):
        assert set(told) == set(objects()["serving"])
        assert told["token"] is None
        file = Path(told["token_file"])
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        token = file.read_text().strip()
        ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        headers = {"Accept": "application/json, text/event-stream"}
        with httpx2.Client(trust_env=False, timeout=PATIENCE) as client:
            assert client.post(told["url"], json=ping, headers=headers).status_code == 401
            guessed = headers | {"Authorization": f"Bearer {token[:-1]}x"}
            assert client.post(told["url"], json=ping, headers=guessed).status_code == 401
            let_in = client.post(told["url"], json=ping, headers=headers | {"Authorization": f"Bearer {token}"})
            assert let_in.status_code not in (401, 403)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=PATIENCE)
        assert (process.returncode, said) == (0, b"")
    with served(cli, "--show-token") as (again, _):
        assert again["token"] == token, "the same one as before"


@pytest.mark.spec("K3a")
def test_a_token_file_that_others_can_read_or_that_holds_no_token_is_refused(cli: Cli) -> None:
    file = cli.project.parent / "token"
    file.write_text("x" * 40)
    file.chmod(0o644)
    done = cli.run("mcp", "--http", "--port", "0", "--token-file", str(file))
    assert done.code == 2
    assert "is not yours alone" in done.sentence
    file.chmod(0o600)
    file.write_text("short")
    assert "holds no token" in cli.run("mcp", "--http", "--port", "0", "--token-file", str(file)).sentence
    inside = cli.run("mcp", "--http", "--port", "0", "--token-file", "token")
    assert inside.code == 2
    assert "lies inside the project" in inside.sentence


@pytest.mark.spec("K3a")
def test_a_client_set_up_for_all_projects_has_the_token_of_each(cli: Cli) -> None:
    other = cli.project.parent / "other"
    (other / ".git").mkdir(parents=True)
    assert cli.run("mcp", "install", "claude", "--user", "--http", "--yes").code == 0
    entry = json.loads(Path(cli.env["HOME"], ".claude.json").read_text())["mcpServers"]["holdfast"]
    with served(Cli(other, cli.env), "--show-token") as (told, _):
        assert entry["headers"]["Authorization"] == f"Bearer {told['token']}"


@pytest.mark.spec("K3a")
def test_a_port_that_is_taken_is_named(cli: Cli) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = cli.run("mcp", "--http", "--port", str(port))
    assert done.code == 2
    assert f"Cannot use port {port}: " in done.sentence and "Choose another with --port." in done.sentence


def test_two_processes_that_need_a_token_first_get_the_same(tmp_path: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    from holdfast.cli.mcp.serve import read_token

    file = tmp_path / "deep" / "token"
    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(read_token, [file] * 32))
    assert len(found) == 1
    assert [path.name for path in file.parent.iterdir()] == ["token"]

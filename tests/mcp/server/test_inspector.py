"""The Inspector's command line against the real `holdfast mcp`, over stdio and HTTP, in both protocols."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from selectors import EVENT_READ, DefaultSelector
from typing import Any

import pytest

from tests.cli.command_line import Cli
from tests.peers import environment, inspector
from tests.soak import some

ERAS = ("legacy", "modern")
SECONDS = 60
"""The first start of a test run compiles all of the SDK, on machines that are busy."""


def run(cli: Cli, *arguments: str) -> subprocess.CompletedProcess[str]:
    home = cli.project.parent / "inspector"
    home.mkdir(exist_ok=True)
    command = [*inspector(), "--quiet", "--connect-timeout", str(SECONDS * 1000), *arguments]
    return subprocess.run(
        command, cwd=home, env=environment(home), capture_output=True, text=True, timeout=SECONDS, check=False
    )


def ask(cli: Cli, *arguments: str) -> dict[str, Any]:
    done = run(cli, *arguments)
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


def over_stdio(cli: Cli) -> list[str]:
    given = [item for name, value in cli.env.items() for item in ("-e", f"{name}={value}")]
    return ["--cwd", str(cli.project), *given, "--", *cli.command("mcp")]


@contextmanager
def over_http(cli: Cli) -> Generator[tuple[str, str]]:
    """The address and the token of a `holdfast mcp --http`, for as long as it is needed."""
    command = cli.command("mcp", "--http", "--port", "0", "--show-token", "--json")
    with (
        (cli.project.parent / "stderr.txt").open("wb") as told,
        subprocess.Popen(command, cwd=cli.project, env=cli.env, stdout=subprocess.PIPE, stderr=told) as process,
    ):
        assert process.stdout is not None
        try:
            with DefaultSelector() as waiting:
                waiting.register(process.stdout, EVENT_READ)
                assert waiting.select(30), Path(told.name).read_text()
            where = json.loads(process.stdout.readline())
            yield where["url"], where["token"]
        finally:
            process.terminate()
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()


@pytest.mark.spec("K3a")
@pytest.mark.parametrize("era", some(reversed(ERAS), 1))
def test_the_inspector_lists_and_calls_tools_over_stdio(cli: Cli, era: str) -> None:
    (cli.project / "notes.txt").write_text("Remember the milk.\n")
    listed = ask(cli, "--protocol-era", era, "--method", "tools/list", *over_stdio(cli))
    tools = {tool["name"]: tool for tool in listed["tools"]}
    assert tools["file--read"]["annotations"]["readOnlyHint"] is True
    assert tools["file--write"]["annotations"]["readOnlyHint"] is False
    call = ("--method", "tools/call", "--tool-name", "file--read", "--tool-arg", "path=notes.txt")
    read = ask(cli, "--protocol-era", era, *call, *over_stdio(cli))
    assert read["isError"] is False
    assert "Remember the milk." in read["content"][0]["text"]


@pytest.mark.spec("K3a")
def test_the_inspector_lists_and_calls_tools_over_http_with_the_token(cli: Cli) -> None:
    with over_http(cli) as (url, token):
        for era in ERAS:
            there = ("--protocol-era", era, "--server-url", url, "--transport", "http")
            known = (*there, "--header", f"Authorization: Bearer {token}")
            listed = ask(cli, *known, "--method", "tools/list")
            assert "calculator" in [tool["name"] for tool in listed["tools"]]
            call = ("--method", "tools/call", "--tool-name", "calculator")
            args = ("--tool-args-json", '{"expression": "6 * 7"}')
            assert "42" in ask(cli, *known, *call, *args)["content"][0]["text"]
        stranger = run(cli, "--server-url", url, "--transport", "http", "--stored-auth-only", "--method", "tools/list")
        assert stranger.returncode != 0
        assert '"tools"' not in stranger.stdout


@pytest.mark.spec("K3a", "A13c")
def test_what_the_inspector_cannot_ask_its_person_waits_for_another_interface(asking: Cli) -> None:
    asking.configure('[approval]\nauto_approve = ["$readonly"]\n\n[mcp]\nwait = 0.1\n')
    call = ("--method", "tools/call", "--tool-name", "file--write")
    args = ("--tool-args-json", json.dumps({"path": "new.txt", "content": "Written.\n"}))
    told = ask(asking, *call, *args, *over_stdio(asking))
    assert told["isError"] is True
    call_id = told["_meta"]["holdfast/call"]
    assert f"holdfast approve {call_id}" in told["content"][0]["text"]
    assert not (asking.project / "new.txt").exists()
    assert "│ +Written." in asking.run("pending", call_id).out
    assert asking.run("approve", call_id).code == 0
    assert (asking.project / "new.txt").read_text() == "Written.\n"

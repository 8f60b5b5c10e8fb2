"""The server as a process of its own: its wire carries nothing else, and it ends when its client does."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import mcp_types as types
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from holdfast.contract.enums import State
from holdfast.store.ledger import Ledger
from holdfast.store.queries import CallFilter
from tests.mcp.server.served_runtime import ERAS, Era, text_of
from tests.mcp.server.test_server import run

pytestmark = pytest.mark.spec("K3a")

ROOT: Final = Path(__file__).parents[3]
MODULE: Final = ("-m", "tests.mcp.server.served_runtime")


class Wire:
    """A client by hand: lines in, lines out."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process

    def send(self, **message: Any) -> None:
        self.write(json.dumps({"jsonrpc": "2.0", **message}).encode())

    def write(self, line: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def read(self) -> Any:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def answer(self, number: int) -> Any:
        """The answer to this request; notifications before it are passed over."""
        while (message := self.read()).get("id") != number:
            assert "method" in message
        return message

    def shake_hands(self, **capabilities: Any) -> None:
        info = {"name": "wire", "version": "1"}
        params = {"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": info}
        self.send(id=1, method="initialize", params=params)
        assert self.answer(1)["result"]["serverInfo"]["name"] == "holdfast"
        self.send(method="notifications/initialized")

    def call(self, number: int, name: str, **arguments: Any) -> None:
        self.send(id=number, method="tools/call", params={"name": name, "arguments": arguments})


@contextmanager
def wired(folder: Path) -> Generator[Wire]:
    process = subprocess.Popen(
        [sys.executable, *MODULE, folder],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    with process:
        try:
            yield Wire(process)
        finally:
            process.kill()


@pytest.mark.parametrize("era", ERAS)
def test_the_official_client_calls_and_approves_over_stdio(tmp_path: Path, era: Era) -> None:
    async def yes(context: object, params: object) -> types.ElicitResult:
        return types.ElicitResult(action="accept", content={"decision": "approve"})

    async def body() -> None:
        command = StdioServerParameters(command=sys.executable, args=[*MODULE, str(tmp_path)], cwd=ROOT)
        async with Client(stdio_client(command), mode=era, elicitation_callback=yes) as client:
            assert (await client.call_tool("math--add", {"a": 1, "b": 2})).structured_content == {"sum": 3}
            assert text_of(await client.call_tool("erase", {"what": "all"})) == "Erased all."

    run(body())


def test_the_end_of_stdin_ends_everything_and_the_running_call_is_recorded(tmp_path: Path) -> None:
    with wired(tmp_path) as wire:
        wire.shake_hands()
        wire.call(2, "math--add", a=1, b=1)
        assert wire.answer(2)["result"]["structuredContent"] == {"sum": 2}
        wire.call(3, "wait")
        wire.call(4, "tell")
        assert "result" in wire.answer(4)  # the call before it has begun by now
        assert wire.process.stdin is not None
        wire.process.stdin.close()
        assert wire.process.wait(60) == 0
    with Ledger.open(tmp_path / "ledger.db", read_only=True) as ledger:
        (ended,) = ledger.calls(wanted=CallFilter(tool="wait"))
        assert ended.state is State.CANCELLED


def test_a_client_that_goes_away_while_its_person_is_asked_leaves_nothing_that_could_run(tmp_path: Path) -> None:
    with wired(tmp_path) as wire:
        wire.shake_hands(elicitation={})
        wire.call(2, "erase", what="all")
        assert wire.read()["method"] == "elicitation/create"
        assert wire.process.stdin is not None
        wire.process.stdin.close()
        assert wire.process.wait(60) == 0
    with Ledger.open(tmp_path / "ledger.db") as ledger:
        assert ledger.pending() == []
        assert [item.state for item in ledger.calls(wanted=CallFilter(tool="erase"))] == [State.CANCELLED]


def test_lines_that_are_too_long_or_no_json_harm_only_themselves(tmp_path: Path) -> None:
    with wired(tmp_path) as wire:
        wire.shake_hands()
        wire.write(b"this is no JSON")
        assert wire.read()["error"]["code"] == types.PARSE_ERROR
        wire.write(b'{"jsonrpc":"2.0","id":9,"method":"' + b"x" * (17 * 1024 * 1024) + b'"}')
        refused = wire.read()
        assert refused["error"]["code"] == types.PARSE_ERROR and "16,777,216" in refused["error"]["message"]
        wire.write(b"")
        wire.write(b"[" * 100_000)
        assert wire.read()["error"]["code"] == types.PARSE_ERROR
        wire.call(5, "math--add", a=2, b=2)
        assert wire.answer(5)["result"]["structuredContent"] == {"sum": 4}


def test_answers_of_any_size_arrive_whole_although_the_client_reads_late(tmp_path: Path) -> None:
    with wired(tmp_path) as wire:
        wire.shake_hands()
        for number in range(10, 400):
            wire.send(id=number, method="tools/list", params={})
        seen = {wire.read()["id"] for _ in range(10, 400)}
        assert seen == set(range(10, 400))


def test_what_is_no_message_but_has_an_id_is_refused_under_it(tmp_path: Path) -> None:
    with wired(tmp_path) as wire:
        wire.shake_hands()
        for line, number in (
            (b'{"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"name":"\\ud800"}}', 6),
            (b'{"jsonrpc":"1.0","id":"seven","method":"ping"}', "seven"),
            (b'{"jsonrpc":"2.0","id":8,"method":"ping","params":[1]}', 8),
            (b'{"jsonrpc":"2.0","id":[9],"method":"ping"}', None),
            (b'[{"jsonrpc":"2.0","id":10,"method":"ping"}]', None),
        ):
            wire.write(line)
            refused = wire.read()
            assert (refused["id"], refused["error"]["code"]) == (number, types.INVALID_REQUEST)
        wire.write(b'{"jsonrpc":"2.0","id":11,"method":"x","params":{"a":[' + b"1," * 1_100_000 + b"1]}}")
        assert "more than 1,000,000 values" in wire.read()["error"]["message"]
        wire.send(id=12, method="ping")
        assert wire.answer(12)["result"] == {}


def test_what_came_before_the_end_of_the_input_is_still_answered(tmp_path: Path) -> None:
    with wired(tmp_path) as wire:
        wire.shake_hands()
        wire.call(2, "math--add", a=1, b=1)
        assert wire.process.stdin is not None
        wire.process.stdin.write(b'{"jsonrpc":"2.0","id":3,"method":"ping"}')  # no line break at the end
        wire.process.stdin.close()
        answers = {wire.read()["id"], wire.read()["id"]}
        assert answers == {2, 3}
        assert wire.process.wait(60) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_in_order(tmp_path: Path, number: signal.Signals) -> None:
    with wired(tmp_path) as wire:
        wire.shake_hands(elicitation={})
        wire.call(2, "wait")
        wire.call(3, "erase", what="all")
        assert wire.read()["method"] == "elicitation/create"
        wire.process.send_signal(number)
        assert wire.process.wait(60) == 0
    with Ledger.open(tmp_path / "ledger.db") as ledger:
        assert ledger.pending() == []
        assert {item.call.tool: item.state for item in ledger.calls()} == {
            "wait": State.CANCELLED,
            "erase": State.CANCELLED,
        }


def test_a_question_between_two_rounds_outlives_a_signal(tmp_path: Path) -> None:
    meta: dict[str, Any] = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
    }
    with wired(tmp_path) as wire:
        params = {"name": "erase", "arguments": {"what": "all"}, "_meta": meta}
        wire.send(id=1, method="tools/call", params=params)
        assert "requestState" in wire.answer(1)["result"]
        wire.process.send_signal(signal.SIGTERM)
        assert wire.process.wait(60) == 0
    with Ledger.open(tmp_path / "ledger.db") as ledger:
        assert [held.call.tool for held in ledger.pending()] == ["erase"]

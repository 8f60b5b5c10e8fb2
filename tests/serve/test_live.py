"""The page of running calls shows their output as it is printed, and stops those that run here."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.contract.call import Decision
from holdfast.contract.enums import State, Verdict
from holdfast.contract.event import Finished, Output, Started
from holdfast.contract.result import ok
from holdfast.runtime.runtime import Runtime
from holdfast.serve.live import output_stream
from holdfast.serve.live_output import TAIL_CHARS, LiveOutput
from tests.serve.daemon_client import DaemonClient, run, until

pytestmark = pytest.mark.spec("E3")

UNSANDBOXED = '[sandbox]\nmode = "off"\n[approval]\nauto_approve = []\n'
DECISION = Decision(Verdict.APPROVE, "urn:holdfast:approval:config", "approved")


def read_event(block: bytes) -> dict[str, Any] | None:
    found = re.search(rb"^data: (.*)$", block, re.MULTILINE)
    return None if found is None else json.loads(found[1])


async def received(blocks: AsyncIterator[bytes]) -> dict[str, Any]:
    """The next event with data."""
    async for block in blocks:
        if (found := read_event(block)) is not None:
            return found
    raise AssertionError("The stream ended.")


def test_output_is_streamed_and_the_call_can_be_cancelled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(client: DaemonClient) -> None:
        assert "No call is running." in await client.page("/live")
        command = "printf '<b>one\\033[31m\\n'; sleep 50"
        pending = await client.call("shell.exec", {"command": command})
        async with client.http.stream("GET", "/live/events") as reply:
            assert reply.headers["content-type"].startswith("text/event-stream")
            blocks = reply.aiter_bytes()
            await client.approve(pending.call_id)
            text = ""
            while "one" not in text:
                event = await received(blocks)
                assert event["call_id"] == pending.call_id
                text += event.get("text", "")
            assert "\x1b" not in text
            assert "<b>one" in text
            page = await client.page("/live")
            assert "&lt;b&gt;one" in page
            assert "<b>one" not in page
            async with client.other("view") as viewer:
                assert ">Cancel<" not in await viewer.page("/live")
                await viewer.post(f"/calls/{client.key}/{pending.call_id}/cancel", 403, digest="")
            await client.post(f"/calls/{client.key}/{pending.call_id}/cancel", digest="")
            while not (event := await received(blocks)).get("state"):
                pass
            assert event["state"] == "cancelled"

        async def is_empty() -> bool:
            return "No call is running." in await client.page("/live")

        await until(is_empty)

    run(body, tmp_path, monkeypatch, UNSANDBOXED)


@pytest.mark.spec("E3r")
def test_the_output_of_another_process_is_streamed_and_it_is_asked_to_stop_the_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(client: DaemonClient) -> None:
        command = "printf '<b>afar\\n'; sleep 50"
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "holdfast", "call", "--json", "shell.exec", f"command={command}",
            cwd=client.project.cwd, stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        async with client.http.stream("GET", "/live/events") as reply:
            blocks = reply.aiter_bytes()
            text, call_id = "", ""
            while "afar" not in text:
                event = await received(blocks)
                text, call_id = text + event.get("text", ""), event["call_id"]
            page = await client.page("/live")
            assert f"Process {process.pid} runs it." in page
            assert "&lt;b&gt;afar" in page
            await client.post(f"/calls/{client.key}/{call_id}/cancel", digest="")
            while not (event := await received(blocks)).get("state"):
                pass
            assert event["state"] == "cancelled"
        written, _ = await asyncio.wait_for(process.communicate(), 60)
        assert json.loads(written)["state"] == "cancelled"

    run(body, tmp_path, monkeypatch, '[sandbox]\nmode = "off"\n[approval]\nauto_approve = ["shell.exec"]\n')


def test_nobody_reads_the_output_without_logging_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(client: DaemonClient) -> None:
        async with client.other() as stranger:
            await stranger.get("/live", 303)
            await stranger.get("/live/events", 401, Accept="text/event-stream")

    run(body, tmp_path, monkeypatch)


@pytest.mark.spec("E3r")
def test_a_slow_reader_loses_the_oldest_output_and_is_told_how_much() -> None:
    async def body() -> None:
        output = LiveOutput()
        async with asyncio.timeout(60), Runtime() as runtime:
            output.listen("p", runtime)
            emit = runtime.events.emit
            emit(Started("ended before", "t"))
            emit(Finished("ended before", ok(""), State.DONE))
            emit(Started("c", "t"))
            emit(Output("c", "first", "c"))
            blocks = output_stream(output, lambda: True)
            event = await received(blocks)
            assert (event["call_id"], event["text"], event["reset"]) == ("c", "first", True)
            for _ in range(10):
                emit(Output("c", "x" * TAIL_CHARS, "c"))
            emit(Finished("c", ok(""), State.DONE))
            event = await received(blocks)
            assert event["dropped"] == TAIL_CHARS * 9
            assert event["text"] == "x" * TAIL_CHARS
            assert event["state"] == "done"
            assert "reset" not in event
            await blocks.aclose()

    asyncio.run(body())


def test_a_stream_ends_by_itself_and_when_the_reader_may_not_read_any_more() -> None:
    async def body() -> None:
        blocks = [block async for block in output_stream(LiveOutput(), lambda: True, seconds=0.01)]
        assert blocks == [b"retry: 1000\n\n"]
        blocks = [block async for block in output_stream(LiveOutput(), lambda: False)]
        assert blocks == [b"retry: 1000\n\n"]

    asyncio.run(body())

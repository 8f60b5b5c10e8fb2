"""The running calls of other processes: their output and requests to cancel, through the project's state folder."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from holdfast import Config, Runtime, Tool
from holdfast.contract.context import Context
from holdfast.contract.enums import State
from holdfast.contract.json import Args
from holdfast.runtime.live_calls import (
    MAX_CHARS,
    WATCH_SECONDS,
    LiveOutput,
    live_output,
    request_cancel,
    unwatch_live_calls,
    watch_live_calls,
)
from holdfast.store.ledger import Ledger


async def until(found: Callable[[], bool], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not found():
        assert time.monotonic() < end, "it did not happen in time"
        await asyncio.sleep(0.02)


def talker(text: str) -> Tool:
    """A tool that writes a text and then waits until it is cancelled."""

    async def execute(args: Args, ctx: Context) -> str:
        ctx.stream(text)
        ctx.progress("half done")
        await asyncio.Event().wait()
        return "never"

    return Tool(name="talk", execute=execute, effects=frozenset({"process"}))  # a pure call is recorded at its end


ALLOWED = Config.from_dict({"approval": {"auto_approve": ["talk"]}})


def test_output_is_published_while_it_is_watched_and_the_call_can_be_cancelled(tmp_path: Path) -> None:
    async def body() -> None:
        with Ledger.open(tmp_path / "ledger.db") as ledger:
            async with Runtime([talker("first\n")], ledger=ledger, config=ALLOWED) as runtime:
                watch_live_calls(tmp_path)
                await until(lambda: not runtime.events.idle)
                call_id = runtime.pipeline.new_call_id()
                call = asyncio.create_task(runtime.call("talk", call_id=call_id))
                await until(lambda: live_output(tmp_path, call_id) is not None)
                found = live_output(tmp_path, call_id)
                assert found is not None
                assert (found.text, found.total, found.progress) == ("first\n", 6, "half done")
                request_cancel(tmp_path, call_id)
                result = await asyncio.wait_for(call, 60)
                assert result.state in (State.CANCELLED, State.UNKNOWN)
                await until(lambda: live_output(tmp_path, call_id) is None)
                assert [path.name for path in (tmp_path / "live").iterdir()] == ["watched"]

    asyncio.run(body())


def test_only_the_end_of_a_long_output_is_kept(tmp_path: Path) -> None:
    async def body() -> None:
        with Ledger.open(tmp_path / "ledger.db") as ledger:
            watch_live_calls(tmp_path)
            async with Runtime([talker("x" * MAX_CHARS + "end")], ledger=ledger, config=ALLOWED) as runtime:
                await until(lambda: not runtime.events.idle)
                call_id = runtime.pipeline.new_call_id()
                call = asyncio.create_task(runtime.call("talk", call_id=call_id))
                await until(lambda: live_output(tmp_path, call_id) is not None)
                found = live_output(tmp_path, call_id)
                assert found is not None
                assert (found.total, len(found.text), found.text[-3:]) == (MAX_CHARS + 3, MAX_CHARS, "end")
                runtime.cancel(call_id)
                await asyncio.wait_for(call, 60)

    asyncio.run(body())


def test_nothing_is_written_and_no_event_is_made_while_nobody_watches(tmp_path: Path) -> None:
    async def body() -> None:
        with Ledger.open(tmp_path / "ledger.db") as ledger:
            async with Runtime([talker("secret\n")], ledger=ledger, config=ALLOWED) as runtime:
                watch_live_calls(tmp_path)
                await until(lambda: not runtime.events.idle)
                unwatch_live_calls(tmp_path)
                await until(lambda: runtime.events.idle)
                assert not (tmp_path / "live").exists()

    asyncio.run(body())


def test_a_damaged_file_is_no_output(tmp_path: Path) -> None:
    request_cancel(tmp_path, "a")
    (request,) = (tmp_path / "live").iterdir()
    request.rename(request.with_suffix(".json"))
    assert live_output(tmp_path, "a") is None
    assert LiveOutput(call_id="a").text == ""


def test_what_a_killed_daemon_left_is_not_taken_for_a_daemon(tmp_path: Path) -> None:
    async def body() -> None:
        with Ledger.open(tmp_path / "ledger.db") as ledger:
            async with Runtime([talker("x")], ledger=ledger, config=ALLOWED) as runtime:
                watch_live_calls(tmp_path)
                await until(lambda: not runtime.events.idle)
                long_ago = time.time() - 2 * WATCH_SECONDS
                os.utime(tmp_path / "live" / "watched", (long_ago, long_ago))
                await until(lambda: runtime.events.idle)

    asyncio.run(body())


def test_output_that_is_no_unicode_does_not_end_the_view(tmp_path: Path) -> None:
    async def body() -> None:
        with Ledger.open(tmp_path / "ledger.db") as ledger:
            watch_live_calls(tmp_path)
            async with Runtime([talker("a \udc80 b")], ledger=ledger, config=ALLOWED) as runtime:
                await until(lambda: not runtime.events.idle)
                call_id = runtime.pipeline.new_call_id()
                call = asyncio.create_task(runtime.call("talk", call_id=call_id))
                await until(lambda: live_output(tmp_path, call_id) is not None)
                request_cancel(tmp_path, call_id)
                await asyncio.wait_for(call, 60)

    asyncio.run(body())


def test_a_daemon_that_ends_leaves_the_requests_of_another(tmp_path: Path) -> None:
    watch_live_calls(tmp_path)
    request_cancel(tmp_path, "a")
    unwatch_live_calls(tmp_path)
    assert [path.suffix for path in (tmp_path / "live").iterdir()] == [".cancel"]


PROGRAM = """
import asyncio, sys
from pathlib import Path
from holdfast import Runtime
from holdfast.store.ledger import Ledger
from tests.runtime.test_live_calls import ALLOWED, talker, until

async def main():
    with Ledger.open(Path(sys.argv[1]) / "ledger.db") as ledger:
        async with Runtime([talker("from afar")], ledger=ledger, config=ALLOWED) as runtime:
            await until(lambda: not runtime.events.idle)
            result = await runtime.call("talk", call_id=runtime.pipeline.new_call_id())
            print(result.state)
asyncio.run(main())
"""


def test_a_call_of_another_process_is_seen_and_cancelled(tmp_path: Path) -> None:
    async def body() -> None:
        watch_live_calls(tmp_path)
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", PROGRAM, str(tmp_path), stdout=subprocess.PIPE
        )
        with Ledger.open(tmp_path / "ledger.db") as ledger:

            def running() -> list[str]:
                return [call for (call,) in ledger.rows("SELECT call FROM open_calls WHERE state = 'running'")]

            await until(lambda: bool(running()))
            (call_id,) = running()
            await until(lambda: live_output(tmp_path, call_id) is not None)
            request_cancel(tmp_path, call_id)
            written, _ = await asyncio.wait_for(process.communicate(), 60)
            assert written.strip() in (b"cancelled", b"unknown")

    asyncio.run(body())

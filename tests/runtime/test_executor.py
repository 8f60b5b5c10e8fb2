"""The executor: tools in threads and in the event loop, and results that only the runtime can make."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from holdfast import Result, Runtime, State, Tool
from holdfast.contract.enums import Failure
from tests.runtime.support import approving, run


@pytest.mark.spec("X3")
def test_the_result_of_a_stopped_thread_says_that_it_may_still_run() -> None:
    release = threading.Event()

    def execute(args: Any) -> str:
        release.wait(20)
        return "late"

    stuck = Tool(name="stuck", execute=execute, effects=frozenset({"external"}), timeout=0.02)
    try:
        result = run(Runtime(tools=[stuck], config=approving("stuck")).call("stuck"))
        assert result.state is State.UNKNOWN
        assert "may still be running" in (result.error or "")
    finally:
        release.set()


@pytest.mark.spec("X3")
def test_a_tool_that_never_returns_does_not_block_the_exit_of_the_program(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import asyncio, threading\n"
        "from holdfast import Runtime, tool\n"
        "@tool(effects=(), timeout=0.05)\n"
        "def forever() -> str:\n"
        "    threading.Event().wait()\n"
        "    return 'never'\n"
        "print(asyncio.run(Runtime(tools=[forever]).call('forever')).state)\n"
    )
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=30, check=False)
    assert (done.stdout.strip(), done.returncode) == ("timed_out", 0)


@pytest.mark.spec("X4")
def test_closing_the_coroutine_of_a_call_closes_the_tool() -> None:
    closed: list[str] = []

    async def execute(args: Any) -> str:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            closed.append("yes")
        return "never"

    async def main() -> None:
        work = Runtime(tools=[Tool(name="open", execute=execute, effects=frozenset())]).call("open")
        work.send(None)
        work.close()

    run(main())
    assert closed == ["yes"]


@pytest.mark.parametrize("state", [State.UNKNOWN, State.CANCELLED, State.TIMED_OUT, State.DENIED])
@pytest.mark.spec("T4")
def test_a_tool_cannot_claim_that_it_was_stopped(state: State) -> None:
    async def execute(args: Any) -> Result:
        return Result(False, error="I was stopped", state=state, failure=Failure.DENIED_BY_POLICY)

    result = run(Runtime(tools=[Tool(name="liar", execute=execute, effects=frozenset())]).call("liar"))
    assert (result.state, result.failure) == (State.FAILED, Failure.TOOL_ERROR)


@pytest.mark.spec("X3")
@pytest.mark.parametrize("first", [True, False])
def test_a_tool_that_blocks_the_event_loop_past_its_timeout_is_reported(
    first: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def execute(args: Any) -> str:
        if not first:
            await asyncio.sleep(0)
        end = time.monotonic() + 0.05
        while time.monotonic() < end:
            pass
        return "late"

    run(Runtime(tools=[Tool(name="busy", execute=execute, effects=frozenset(), timeout=0.01)]).call("busy"))
    assert re.search(r"Tool 'busy' blocked the event loop for \d+\.\d s; its timeout is 0\.01 s\.", caplog.text)
    assert "make it a plain function, which runs in a thread" in caplog.text

"""Measure running turns of a document: `python turns.py [--quick]` prints one JSON object.

Memory over many turns of tool calls in one document, and the processor time of an idle
`holdfast chat --watch`.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from time import perf_counter, sleep

from holdfast.contract.message import Message, Text, ToolUse
from holdfast.contract.tool import Tool
from holdfast.factory.chat import open_chat
from holdfast.models.port import ModelEvent, PartEnded, ReplyEnded, Settings, Usage

WARM_UP = 50
LOOK = "holdfast-bench"


class Caller:
    """A model that asks for one calculation after the other, until it has asked often enough."""

    provider = name = "bench"

    def __init__(self, turns: int) -> None:
        self.left = turns

    async def stream(
        self, messages: Sequence[Message], tools: Sequence[Tool], settings: Settings
    ) -> AsyncIterator[ModelEvent]:
        if self.left == 0:
            yield PartEnded(Text("That is all."))
            yield ReplyEnded("end", Usage())
            return
        self.left -= 1
        arguments = json.dumps({"expression": f"{self.left} * 7 + 1"})
        yield PartEnded(Text(f"Calculating, {self.left} to go."))
        yield PartEnded(ToolUse(f"call_{self.left}", "calculator", arguments))
        yield ReplyEnded("tool_use", Usage(input=10, output=10))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    with tempfile.TemporaryDirectory(prefix=LOOK) as scratch:
        root = Path(scratch) / "project"
        root.mkdir()
        (root / "holdfast.toml").write_text("")
        os.environ["XDG_STATE_HOME"] = str(Path(scratch) / "state")
        os.environ["XDG_CONFIG_HOME"] = str(Path(scratch) / "config")
        times = asyncio.run(memory(root, 200 if quick else 1_000))
        times |= watching(root, 2.0 if quick else 10.0)
    print(json.dumps({"times": times}))


async def memory(root: Path, turns: int) -> dict[str, float]:
    document = root / "turns.chat"
    document.write_text("@You:\nCalculate.\n")
    flags = {"chat.max_turns": 10 * turns}
    model = Caller(WARM_UP)
    async with open_chat(document, flags=flags, model=model) as chat:
        await chat.loop.advance()
        gc.collect()
        before = resident()
        model.left = turns
        with document.open("a") as file:
            file.write("Go on.\n")
        began = perf_counter()
        outcome = await chat.loop.advance()
        seconds = perf_counter() - began
        assert outcome.kind == "done", outcome
        gc.collect()
        return {"megabytes": (resident() - before) / 1e6, "turn": seconds / turns, "turns": turns}


def resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def watching(root: Path, seconds: float) -> dict[str, float]:
    """Processor seconds a watch uses in so many seconds in which nobody saves anything."""
    document = root / "idle.chat"
    document.write_text("@You:\nread holdfast.toml\n")
    command = [sys.executable, "-m", "holdfast", "chat", str(document), "--watch"]
    watch = subprocess.Popen(command, cwd=root, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        settle(watch.pid, document)
        began = used(watch.pid)
        sleep(seconds)
        return {"watch": used(watch.pid) - began, "watched": seconds}
    finally:
        watch.terminate()
        watch.wait(30)


def settle(pid: int, document: Path) -> None:
    """Until the reply is there and a second passes in which nothing happens."""
    for _ in range(60):
        before = used(pid)
        sleep(1)
        if "Read `holdfast.toml`" in document.read_text() and used(pid) == before:
            return
    raise TimeoutError("The watch never came to rest.")


def used(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()

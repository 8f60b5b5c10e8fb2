"""Helpers for tests of commands: runtimes with a shell, commands that resist a kill, and a search for survivors."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

from holdfast import Config, Result, Runtime, Tool
from holdfast.config.config import ApprovalConfig, OutputConfig, SandboxConfig
from holdfast.contract.event import Output, Received
from holdfast.tools import processes
from holdfast.tools.shell import SHELL_EXEC
from tests.runtime.support import runtime_in

Mode = Literal["auto", "required", "off"]

NASTY = {
    "setsid": "setsid sleep {mark} & echo ready; wait",
    "double fork": "(setsid sh -c 'sleep {mark} & sleep {mark}' &) ; echo ready; sleep {mark}",
    "SIGTERM ignored": "trap '' TERM HUP INT; sleep {mark} & echo ready; while :; do sleep {mark}; done",
    "stopped": "sleep {mark} & echo ready; kill -STOP $$; sleep {mark}",
    "stdout held open": "sleep {mark} & disown; echo ready; exec sleep {mark}",
    "stdio closed": "echo ready; exec >&- 2>&- <&-; sleep {mark} & sleep {mark}",
    "fork in a loop": "echo ready; while :; do (sleep {mark} &) ; sleep 0.01; done",
    "sessions without end": "echo ready; while :; do setsid sh -c 'sleep {mark} &'; done",
}
"""Commands that resist being killed. `{mark}` is a number of seconds by which their processes are found."""


def mark() -> str:
    return f"86{uuid4().int % 10**9:09d}"


def survivors(marker: str) -> list[str]:
    """The command lines of live processes that contain the marker."""
    found: list[str] = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            line = entry.joinpath("cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            state = entry.joinpath("stat").read_text(errors="replace").rpartition(")")[2].split()[0]
        except OSError:
            continue
        if marker in line and state not in "ZX" and entry.name != str(os.getpid()):
            found.append(line)
    return found


async def until(condition: Any, seconds: float = 50) -> None:
    """Poll, for a bounded time, a condition outside this process."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - there is no event to await
            await asyncio.sleep(0.01)


def config(mode: Mode = "off", **changes: Any) -> Config:
    sandbox: dict[str, Any] = {"undo": "off", **changes.pop("sandbox", {})}
    return Config(
        sandbox=SandboxConfig(mode=mode, **sandbox),
        output=OutputConfig(**changes.pop("output", {})),
        approval=ApprovalConfig(auto_approve=("shell.exec", "process.*", "output.read", "probe")),
        **changes,
    )


PROCESS_TOOLS = tuple(value for value in vars(processes).values() if isinstance(value, Tool))


def shell_in(folder: Path, mode: Mode = "off", *tools: Tool, **options: Any) -> Runtime:
    settings = {name: options.pop(name) for name in ("sandbox", "output", "tools_config") if name in options}
    options.setdefault("config", config(mode, **settings))
    return runtime_in(folder, SHELL_EXEC, *PROCESS_TOOLS, *tools, **options)


async def call_until_ready(runtime: Runtime, command: str, **args: Any) -> tuple[str, asyncio.Task[Result]]:
    """Start a command; returns the call's id and task when it has printed `ready`."""
    call_id = ""
    with runtime.subscribe() as events:
        task = asyncio.create_task(runtime.call("shell.exec", {"command": command, **args}))
        async for event in events:
            if isinstance(event, Received):
                call_id = event.call_id
            if isinstance(event, Output) and "ready" in event.text:
                break
    return call_id, task

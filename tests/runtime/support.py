"""Shared by the tests of the runtime: small tools, and `run` for coroutines with a time limit."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

from holdfast import Answer, Config, PendingCall, Result, Runtime, Tool, tool
from holdfast.config.config import ApprovalConfig
from holdfast.contract.event import Pending
from holdfast.runtime.runtime import Rules
from holdfast.runtime.workspace import Workspace
from holdfast.store.ledger import Ledger

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T], seconds: float = 60) -> T:
    async def bounded() -> T:
        return await asyncio.wait_for(work, seconds)

    return asyncio.run(bounded())


@tool(effects=())
async def add(a: int, b: int = 0) -> int:
    """Add two numbers."""
    return a + b


def recorder(name: str = "note", **changes: Any) -> tuple[Tool, list[Any]]:
    """A mutating tool and the list of arguments it was called with."""
    seen: list[Any] = []

    async def execute(args: Any) -> str:
        seen.append(args)
        return f"noted {args.get('text', '')}"

    made = Tool(
        name=name,
        description="Write a note.",
        input_schema={
            "type": "object",
            "properties": {"text": {"type": "string"}},
            "required": ["text"],
            "additionalProperties": False,
        },
        execute=execute,
        effects=frozenset({"external"}),
    )
    return made.with_(**changes), seen


def text_of(args: Any) -> str:
    return args["text"]


def approving(*names: str) -> Config:
    return Config(approval=ApprovalConfig(auto_approve=names))


def yes(by: str = "ann") -> Any:
    async def asker(pending: PendingCall) -> Answer:
        return Answer(kind="approve", by=by)

    return asker


async def until_pending(
    runtime: Runtime, work: Coroutine[Any, Any, Result]
) -> tuple[PendingCall, asyncio.Task[Result]]:
    """Start a call and return when it is pending."""
    with runtime.subscribe() as events:
        task = asyncio.create_task(work)
        async for event in events:
            if isinstance(event, Pending):
                break
    return runtime.pending.list()[0], task


def open_ledger(folder: Path) -> Ledger:
    return Ledger.open(folder / "ledger.db")


def runtime_in(folder: Path, *tools: Tool, **options: Any) -> Runtime:
    """A runtime with a project root and a ledger outside it."""
    root = folder / "project"
    root.mkdir(parents=True, exist_ok=True)
    options.setdefault("ledger", open_ledger(folder / "state"))
    place = {name: options.pop(name) for name in ("cwd", "document", "state", "sandbox") if name in options}
    if "cwd" in place:
        place["cwd"] = str(place["cwd"])
    ruled = {name: options.pop(name) for name in ("caps", "plan", "grants", "decider", "clock") if name in options}
    return Runtime(tools=tools, workspace=Workspace(root=root, **place), rules=Rules(**ruled), **options)

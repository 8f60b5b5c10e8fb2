"""Measure holdfast against its own targets: `python ours.py SECTION [--quick]` prints one JSON object."""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import sys
import tempfile
import threading
import tracemalloc
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from time import perf_counter
from typing import Any, Literal

from calls import functions
from measure import ARGUMENTS, FULL, QUICK, Call, Effort, Run, add, add_sync, race, repeat, unit
from targets import SECTIONS

from holdfast import Config, Runtime, define, tool
from holdfast.config.config import ApprovalConfig
from holdfast.store.ledger import Ledger

Times = dict[str, float]
IN_FLIGHT = 100
APPROVED = Config(approval=ApprovalConfig(auto_approve=("change",)))

pure = tool(effects=())(add)
change = tool(name="change", effects=("external",))(add)


async def ledger(effort: Effort, stack: AsyncExitStack) -> Times:
    runtime = await _with_ledger(stack, "process")
    return await race(
        {
            "unit": unit(),
            "pure": repeat(await _sound(runtime, "add")),
            "mutating": repeat(await _sound(runtime, "change")),
        },
        effort,
    )


async def flight(effort: Effort, stack: AsyncExitStack) -> Times:
    runtime = await _with_ledger(stack, "process")
    together = {
        "pure": _together(await _sound(runtime, "add")),
        "mutating": _together(await _sound(runtime, "change")),
    }
    times = await race({"unit": unit(), **together}, effort._replace(batch=4 * effort.batch))
    return {name: taken / IN_FLIGHT if name in together else taken for name, taken in times.items()}


async def power(effort: Effort, stack: AsyncExitStack) -> Times:
    runtime = await _with_ledger(stack, "power")
    handle = os.open(_scratch(stack) / "line", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    stack.callback(os.close, handle)

    async def fsync(n: int) -> None:
        for _ in range(n):
            os.write(handle, b"x" * 200 + b"\n")
            os.fsync(handle)

    times = await race(
        {
            "unit": unit(),
            "fsync": fsync,
            "pure": repeat(await _sound(runtime, "add")),
            "mutating": repeat(await _sound(runtime, "change")),
            "flight": _together(await _sound(runtime, "change")),
        },
        effort,
    )
    return times | {"flight": times["flight"] / IN_FLIGHT}


async def size(effort: Effort, stack: AsyncExitStack) -> Times:
    few, many = await _with_tools(stack, 10), await _with_tools(stack, 10_000)
    subjects = {"few": repeat(await _sound(few, "add")), "many": repeat(await _sound(many, "add"))}
    return await race(subjects, effort)


async def register(effort: Effort, stack: AsyncExitStack) -> Times:
    """A function becomes a tool, is registered among 10 000 and called, whatever that makes necessary again."""
    runtime = await _with_tools(stack, 10_000)
    call = await _sound(runtime, "add")
    best = float("inf")
    for number in range(effort.batches * 2):
        await call(ARGUMENTS)
        start = perf_counter()
        handle = runtime.register(tool(name=f"new_{number}", effects=())(add))
        result = await runtime.call(f"new_{number}", ARGUMENTS)
        best = min(best, perf_counter() - start)
        _expect(result)
        handle.remove()
    return {"next": best}


async def text(effort: Effort, stack: AsyncExitStack) -> Times:
    async def length(text: str) -> int:
        """Count characters."""
        return len(text)

    return await _own_unit(length, json.dumps({"text": "lorem ipsum dolor " * 5690}), stack, effort)


async def objects(effort: Effort, stack: AsyncExitStack) -> Times:
    async def count(items: list[dict[str, Any]]) -> int:
        """Count items."""
        return len(items)

    item = {"type": "object", "properties": {"id": {"type": "integer"}, "name": {"type": "string"}}, "required": ["id"]}
    schema = {"type": "object", "properties": {"items": {"type": "array", "items": item}}, "required": ["items"]}
    arguments = json.dumps({"items": [{"id": i, "name": f"item {i}"} for i in range(3500)]})
    return await _own_unit(count, arguments, stack, effort, input_schema=schema)


async def invalid(effort: Effort, stack: AsyncExitStack) -> Times:
    runtime = await _with_tools(stack, 10)
    wrong = '{"a": 3, "b": "four"}'
    refused = await runtime.call("add", wrong)
    if refused.success or refused.failure != "invalid_arguments":
        raise SystemExit(f"Wrong arguments were not refused: {refused}.")
    return await race({"unit": unit(), "call": repeat(lambda text: runtime.call("add", text), wrong)}, effort)


async def sync(effort: Effort, stack: AsyncExitStack) -> Times:
    seen: dict[str, int] = {}

    def inline(a: int, b: int) -> int:
        """Add."""
        seen["inline"] = threading.get_ident()
        return a + b

    quick, slow = tool(effects=(), runs="inline")(inline), tool(name="thread", effects=(), runs="thread")(add_sync)
    runtime = await stack.enter_async_context(Runtime(tools=[quick, slow]))
    subjects = {name: repeat(await _sound(runtime, name)) for name in ("inline", "thread")}
    if seen["inline"] != threading.get_ident():
        raise SystemExit("The inline tool ran in another thread.")
    return await race({"unit": unit(), **subjects}, effort)


async def subscriber(effort: Effort, stack: AsyncExitStack) -> Times:
    alone, watched = await _with_tools(stack, 10), await _with_tools(stack, 10)
    subscription = watched.subscribe()
    subjects = {"without": repeat(await _sound(alone, "add")), "with": repeat(await _sound(watched, "add"))}
    times = await race(subjects, effort)
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    await subjects["with"](20_000)
    gc.collect()
    held = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    if not subscription.dropped:
        raise SystemExit("A subscriber that never reads lost nothing, so its queue has no bound.")
    return times | {"megabytes": max(0.0, held / 1e6)}


async def thousand(effort: Effort, stack: AsyncExitStack) -> Times:
    plain = functions(1000, sync=False)
    defined = float("inf")
    for _ in range(max(2, effort.batches // 5)):
        gc.collect()
        start = perf_counter()
        runtime = Runtime(tools=[tool(effects=())(function) for function in plain])
        defined = min(defined, perf_counter() - start)
    await stack.enter_async_context(runtime)
    if len(runtime.tool_list("openai")) != 1000:
        raise SystemExit("The list does not hold the 1 000 tools.")

    async def listing(n: int) -> None:
        for _ in range(n):
            runtime.tool_list("openai")

    return {"define": defined, **await race({"listing": listing}, effort)}


async def _with_tools(stack: AsyncExitStack, count: int) -> Runtime:
    tools = [pure.with_(name="add" if number == 0 else f"add_{number}") for number in range(count)]
    return await stack.enter_async_context(Runtime(tools=tools))


async def _with_ledger(stack: AsyncExitStack, durability: Literal["process", "power"]) -> Runtime:
    book = Ledger.open(_scratch(stack) / "ledger.db", durability=durability)
    stack.callback(book.close)
    return await stack.enter_async_context(Runtime(tools=[pure, change], ledger=book, config=APPROVED))


def _scratch(stack: AsyncExitStack) -> Path:
    """A folder in the working directory, which the runner puts on a real disk."""
    return Path(stack.enter_context(tempfile.TemporaryDirectory(dir=Path.cwd())))


async def _sound(runtime: Runtime, name: str) -> Call:
    """The call, once it has been seen to add."""
    _expect(await runtime.call(name, ARGUMENTS))
    return lambda text: runtime.call(name, text)


def _expect(result: Any) -> None:
    if not result.success or result.output != "7":
        raise SystemExit(f"The call did not answer 7: {result}.")


def _together(call: Call) -> Run:
    """IN_FLIGHT calls at once, n times."""

    async def run(n: int) -> None:
        for _ in range(n):
            await asyncio.gather(*(call(ARGUMENTS) for _ in range(IN_FLIGHT)))

    return run


async def _own_unit(
    function: Callable[..., Awaitable[Any]], arguments: str, stack: AsyncExitStack, effort: Effort, **definition: Any
) -> Times:
    """A call measured in the unit of its own arguments."""
    made = tool(effects=())(function)
    if definition:
        execute = made.execute
        made = define(name=made.name, execute=execute, effects=(), **definition)
    runtime = await stack.enter_async_context(Runtime(tools=[made]))
    answer = await runtime.call(made.name, arguments)
    if not answer.success or answer.output != str(await function(**json.loads(arguments))):
        raise SystemExit(f"The call did not answer: {str(answer)[:300]}.")
    call = repeat(lambda text: runtime.call(made.name, text), arguments)
    return await race({"unit": unit(function, arguments), "call": call}, effort)


PARTS: dict[str, Callable[[Effort, AsyncExitStack], Awaitable[Times]]] = {
    "ledger": ledger,
    "flight": flight,
    "power": power,
    "size": size,
    "register": register,
    "text": text,
    "objects": objects,
    "invalid": invalid,
    "sync": sync,
    "subscriber": subscriber,
    "thousand": thousand,
}


async def measure(section: str, effort: Effort) -> Times:
    async with AsyncExitStack() as stack:
        return await PARTS[section](effort, stack)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("section", choices=SECTIONS)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    times = asyncio.run(measure(options.section, QUICK if options.quick else FULL))
    json.dump({"times": times}, sys.stdout)


if __name__ == "__main__":
    main()

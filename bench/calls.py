"""Measure one contender in its own environment: `python calls.py NAME [--quick]` prints one JSON object."""

from __future__ import annotations

import argparse
import asyncio
import inspect
import json
import sys
import types
from collections.abc import Callable
from contextlib import AsyncExitStack
from importlib.metadata import version
from time import perf_counter
from typing import Any

from contenders import ASYNC_ONLY, CONTENDERS, SYNC_ONLY, Build, Routes
from measure import ANSWER, ARGUMENTS, FULL, QUICK, Effort, add, add_sync, race, repeat, unit

MANY = 1000


def functions(count: int, *, sync: bool) -> list[Callable[..., Any]]:
    """`add` and copies of it under other names."""
    body = add_sync if sync else add
    return [_named(body, "add" if i == 0 else f"add_{i}") for i in range(count)]


def _named(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    source: Any = function
    copy = types.FunctionType(source.__code__, source.__globals__, name)
    copy.__annotations__, copy.__doc__, copy.__module__ = {"a": int, "b": int, "return": int}, source.__doc__, __name__
    copy.__qualname__ = name
    return copy


async def measure(name: str, effort: Effort) -> dict[str, Any]:
    build = CONTENDERS[name]
    times: dict[str, float] = {}
    async with AsyncExitStack() as stack:
        routes = await build(functions(1, sync=name in SYNC_ONLY), stack)
        subjects = {"unit": unit(), "by_name": repeat(routes.by_name)}
        if routes.direct is not None:
            subjects["direct"] = repeat(routes.direct)
        if name not in SYNC_ONLY | ASYNC_ONLY:
            sync = await build(functions(1, sync=True), stack)
            subjects["sync"] = repeat(sync.by_name)
        await _check(routes)
        times |= await race(subjects, effort)
    return times | await _many(build, name in SYNC_ONLY, effort)


async def _check(routes: Routes) -> None:
    """Each route must really have added: a fast error is not a call."""
    for call in filter(None, (routes.by_name, routes.direct)):
        answer = await call(ARGUMENTS)
        if str(ANSWER) not in str(answer):
            raise SystemExit(f"The call did not answer {ANSWER} but {answer!r}.")


async def _many(build: Build, sync: bool, effort: Effort) -> dict[str, float]:
    """Define and register many tools, call one of them, and list them all again."""
    wanted = functions(MANY, sync=sync)
    async with AsyncExitStack() as stack:
        start = perf_counter()
        routes = await build(wanted, stack)
        registered = perf_counter() - start
        subjects = {"many_unit": unit(), "many_by_name": repeat(routes.by_name)}
        listing = routes.listing
        if listing is not None:

            async def listed(n: int) -> None:
                for _ in range(n):
                    found = listing()
                    if inspect.isawaitable(found):
                        await found

            subjects["many_listing"] = listed
        return {"many_register": registered, **await race(subjects, effort._replace(batches=effort.batches // 2))}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("name", choices=CONTENDERS)
    parser.add_argument("--package", required=True)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    times = asyncio.run(measure(options.name, QUICK if options.quick else FULL))
    json.dump({"version": version(options.package), "times": times}, sys.stdout)


if __name__ == "__main__":
    main()

"""The timer for every contender: the unit, and batches that take turns. Standard library only."""

from __future__ import annotations

import gc
import json
from collections.abc import Awaitable, Callable, Mapping
from time import perf_counter_ns
from typing import Any, NamedTuple

ARGUMENTS = '{"a": 3, "b": 4}'
ANSWER = 7

Call = Callable[[str], Awaitable[Any]]
Run = Callable[[int], Awaitable[None]]
"""Do the thing n times, one after the other."""


class Effort(NamedTuple):
    """How long to look: `batches` of about `batch` seconds for each subject."""

    batches: int
    batch: float


FULL = Effort(batches=40, batch=0.005)
QUICK = Effort(batches=15, batch=0.003)


async def add(a: int, b: int) -> int:
    """Add two whole numbers.

    Args:
        a: The first number.
        b: The second number.
    """
    return a + b


def add_sync(a: int, b: int) -> int:
    """Add two whole numbers.

    Args:
        a: The first number.
        b: The second number.
    """
    return a + b


def unit(function: Callable[..., Awaitable[Any]] = add, text: str = ARGUMENTS) -> Run:
    """`await f(**json.loads(s))`, n times."""

    async def run(n: int) -> None:
        loads = json.loads
        for _ in range(n):
            await function(**loads(text))

    return run


def repeat(call: Call, text: str = ARGUMENTS) -> Run:
    async def run(n: int) -> None:
        for _ in range(n):
            await call(text)

    return run


async def race(subjects: Mapping[str, Run], effort: Effort) -> dict[str, float]:
    """The best seconds per call of each subject. Batches are short and alternate: a slow moment hits all of them."""
    sizes = {name: await _batch_size(run, effort.batch) for name, run in subjects.items()}
    best = dict.fromkeys(subjects, float("inf"))
    gc.collect()
    for _ in range(effort.batches):
        for name, run in subjects.items():
            best[name] = min(best[name], await _seconds(run, sizes[name]) / sizes[name])
    return best


async def _batch_size(run: Run, seconds: float) -> int:
    """How many calls fill a batch; finding out is the warm-up, and the first call does not count."""
    await run(1)
    n = 1
    while True:
        taken = await _seconds(run, n)
        if taken >= seconds / 2:
            return max(1, round(n * seconds / taken))
        n *= 4 if taken < seconds / 8 else 2


async def _seconds(run: Run, n: int) -> float:
    start = perf_counter_ns()
    await run(n)
    return (perf_counter_ns() - start) / 1e9

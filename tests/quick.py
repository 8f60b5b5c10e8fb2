"""`quickly`: a CPU-time limit for hostile input. `least`: a CPU time to compare with another one."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from time import process_time


@contextmanager
def quickly(seconds: float = 20) -> Generator[None]:
    """Assert that the block takes less CPU time: far below the cost of an attack that works, and ten times the cost of
    one that is refused, because contended caches and page faults make the same work several times as expensive."""
    began = process_time()
    yield
    taken = process_time() - began
    assert taken < seconds, f"took {taken:.1f} s of CPU time"


def least(work: Callable[[], object], times: int = 20) -> float:
    """Return the CPU time of the cheapest of several runs, to compare with another one on the same machine."""
    return min(_taken(work) for _ in range(times))


def _taken(work: Callable[[], object]) -> float:
    began = process_time()
    work()
    return process_time() - began


def wakeups(pid: int, threads: Iterable[int | None] | None = None) -> int:
    """How often threads of a process went to sleep so far: while all of them wait and nothing ticks, the number stays
    the same, however long that takes."""
    tasks = Path(f"/proc/{pid}/task")
    chosen = tasks.iterdir() if threads is None else (tasks / str(thread) for thread in threads)
    return sum(
        int(re.findall(r"^voluntary_ctxt_switches:\s+(\d+)", (task / "status").read_text(), re.M)[0]) for task in chosen
    )

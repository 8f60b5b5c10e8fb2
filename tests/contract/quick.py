"""A bound on how long hostile input may keep us."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from time import perf_counter


@contextmanager
def quickly(seconds: float = 5) -> Generator[None]:
    """Generous for a busy machine, and far below what each of these attacks costs where it works."""
    began = perf_counter()
    yield
    taken = perf_counter() - began
    assert taken < seconds, f"took {taken:.1f} s"

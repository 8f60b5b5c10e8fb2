"""`quickly`: a CPU-time limit for hostile input."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from time import process_time


@contextmanager
def quickly(seconds: float = 5) -> Generator[None]:
    """Assert that the block takes less CPU time, which other programs do not affect. Far below the cost of an attack
    that works."""
    began = process_time()
    yield
    taken = process_time() - began
    assert taken < seconds, f"took {taken:.1f} s of CPU time"

"""A bound on how much work hostile input may make us do."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from time import process_time


@contextmanager
def quickly(seconds: float = 5) -> Generator[None]:
    """Seconds of the processor, so that other programs do not count; far below what each of these attacks costs where
    it works."""
    began = process_time()
    yield
    taken = process_time() - began
    assert taken < seconds, f"took {taken:.1f} s of the processor"

"""How often a test repeats and which cases it tries: a sample in `make test`, all in `make soak`."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TypeVar

T = TypeVar("T")
SOAK = os.environ.get("HOLDFAST_SOAK") == "1"


def rounds(sample: int, whole: int) -> int:
    """`sample` must be enough to notice a regression, `whole` to find rare races."""
    return whole if SOAK else sample


def some(cases: Iterable[T], sample: int) -> list[T]:
    """All cases in `make soak`; in `make test` so many of them, evenly spread: neighbours test the same code."""
    whole = list(cases)
    count = min(rounds(sample, len(whole)), len(whole))
    return [whole[index * len(whole) // count] for index in range(count)]

"""How often a test repeats itself: a sample in `make test`, everything in `make soak`."""

from __future__ import annotations

import os

SOAK = os.environ.get("HOLDFAST_SOAK") == "1"


def rounds(sample: int, whole: int) -> int:
    """`sample` must be enough to notice that the behaviour broke, `whole` to find what happens once in a long while."""
    return whole if SOAK else sample

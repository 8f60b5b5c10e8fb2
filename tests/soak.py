"""`rounds`: how often a test repeats, a sample in `make test` and all in `make soak`."""

from __future__ import annotations

import os

SOAK = os.environ.get("HOLDFAST_SOAK") == "1"


def rounds(sample: int, whole: int) -> int:
    """`sample` must be enough to notice a regression, `whole` to find rare races."""
    return whole if SOAK else sample

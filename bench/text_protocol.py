"""Run the benchmark of the text protocol: `python bench/text_protocol.py [--quick]`."""

from __future__ import annotations

from collections.abc import Callable

import parts
from targets import Measured, Target, ratio, times

KINDS = {
    "prose": "prose",
    "fences": "prose with fences",
    "code": "code full of brackets",
    "brackets": "prose with 10 000 calls in brackets",
    "blocks": "prose with 10 000 calls in blocks",
    "body": "one written file",
}


def against_find(kind: str) -> Callable[[Measured], float]:
    return ratio(f"replies.{kind}.parse", f"replies.{kind}.find")


TARGETS: tuple[Target, ...] = (
    *(
        Target(f"read 1 MB of {name}; against `str.find` of every tag", "×", against_find(kind), 3)
        for kind, name in KINDS.items()
    ),
    *(
        Target(f"the same in pieces of 4 characters: {name}", "ms", times(f"replies.{kind}.stream", 1e3), None)
        for kind, name in KINDS.items()
    ),
)


if __name__ == "__main__":
    parts.main("Measure what reading calls out of text costs.", "text_protocol", ("replies",), TARGETS)

"""Run the benchmarks of documents and turns: `python bench/chats.py [--quick] [--only PART]`."""

from __future__ import annotations

from collections.abc import Callable

import parts
from documents import PEERS
from targets import Measured, Target, ratio, times

PARTS = ("documents", "turns")


def against(ours: str, theirs: str) -> Callable[[Measured], float]:
    return ratio(f"documents.{ours}", f"documents.{theirs}")


def slowest(*keys: str) -> Callable[[Measured], float]:
    return lambda m: max(m[f"documents.{key}"] for key in keys) / m["documents.parse"]


TARGETS: tuple[Target, ...] = (
    Target("parse 10 MB into nodes; against a fence loop over its lines", "×", against("parse", "lines"), 3),
    Target("change one line of it; against parsing it", "×", against("edit", "parse"), 1 / 30),
    Target("open or close a fence at its start; against parsing it", "×", slowest("open", "close"), 1.2),
    Target("a reply of 1.5 MB in pieces, a byte at its end; against its start", "×", against("end", "start"), 1.25),
    *(
        Target(f"for scale: {name} parses it; against the fence loop", "×", against(f"peer.{name}", "lines"), None)
        for name in PEERS
    ),
    Target("1 000 turns of tool calls: memory grows by", "MB", times("turns.megabytes", 1), 20),
    Target("one such turn: two replies of the model, one call, all written down", "ms", times("turns.turn", 1e3), None),
    Target("`chat --watch` with nothing to do: processor time in 10 s", "ms", times("turns.watch", 1e3), 10),
)


if __name__ == "__main__":
    parts.main("Measure documents, and what driving them costs.", "chats", PARTS, TARGETS)

"""The performance targets: one row each, with its limit and how its number is computed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

Measured = Mapping[str, float]
"""Best seconds by dotted key: `calls.NAME.route`, `ours.section.subject`, `startup.NAME.command`."""

Scale = Literal["units", "own units", "×", "ms", "µs", "MB"]


SECTIONS = (
    "ledger",
    "flight",
    "power",
    "size",
    "register",
    "text",
    "objects",
    "invalid",
    "sync",
    "subscriber",
    "thousand",
)
"""The parts of `ours.py`, each measured in a process of its own."""


@dataclass(frozen=True)
class Target:
    what: str
    scale: Scale
    value: Callable[[Measured], float]
    limit: float | None
    """None: measured and shown, nothing promised."""


def ratio(part: str, whole: str) -> Callable[[Measured], float]:
    return lambda m: m[part] / m[whole]


def times(key: str, factor: float) -> Callable[[Measured], float]:
    return lambda m: m[key] * factor


TARGETS: tuple[Target, ...] = (
    Target("a governed call, no ledger", "units", ratio("calls.holdfast.by_name", "calls.holdfast.unit"), 3),
    Target("with the ledger, pure, one at a time", "units", ratio("ours.ledger.pure", "ours.ledger.unit"), 22),
    Target("with the ledger, mutating, one at a time", "units", ratio("ours.ledger.mutating", "ours.ledger.unit"), 42),
    Target("with the ledger, pure, 100 in flight", "units", ratio("ours.flight.pure", "ours.flight.unit"), 10),
    Target("with the ledger, mutating, 100 in flight", "units", ratio("ours.flight.mutating", "ours.flight.unit"), 10),
    Target("durability = power, pure, one at a time", "units", ratio("ours.power.pure", "ours.power.unit"), None),
    Target(
        "durability = power, mutating, one at a time", "units", ratio("ours.power.mutating", "ours.power.unit"), None
    ),
    Target("durability = power, mutating, 100 in flight", "units", ratio("ours.power.flight", "ours.power.unit"), None),
    Target("for scale: a line appended and fsynced", "units", ratio("ours.power.fsync", "ours.power.unit"), None),
    Target("10 000 tools against 10", "×", ratio("ours.size.many", "ours.size.few"), 1.1),
    Target("one registration and the next call among 10 000", "ms", times("ours.register.next", 1e3), 1),
    Target("a 100 KB string argument", "own units", ratio("ours.text.call", "ours.text.unit"), 1),
    Target("3 500 small objects", "own units", ratio("ours.objects.call", "ours.objects.unit"), 3),
    Target("invalid arguments answered", "units", ratio("ours.invalid.call", "ours.invalid.unit"), 3),
    Target("a sync tool that says it does not block", "units", ratio("ours.sync.inline", "ours.sync.unit"), 3),
    Target("the same in a thread (the default for sync)", "units", ratio("ours.sync.thread", "ours.sync.unit"), None),
    Target("a subscriber that never reads", "×", ratio("ours.subscriber.with", "ours.subscriber.without"), 1.1),
    Target("memory it holds after 20 000 calls", "MB", times("ours.subscriber.megabytes", 1), 8),
    Target("1 000 functions defined and registered", "ms", times("ours.thousand.define", 1e3), 100),
    Target("their provider list emitted again", "µs", times("ours.thousand.listing", 1e6), 10),
    Target(
        "import, define, call; against `import pydantic`",
        "×",
        ratio("startup.holdfast.first_call", "startup.holdfast.pydantic"),
        1.5,
    ),
    Target(
        "`holdfast call calculator expression=1+1`; against `python -c pass`",
        "×",
        ratio("startup.holdfast.calculator", "startup.holdfast.pass"),
        10,
    ),
    Target(
        "`holdfast --version`; against `python -c pass`",
        "×",
        ratio("startup.holdfast.version", "startup.holdfast.pass"),
        3,
    ),
)

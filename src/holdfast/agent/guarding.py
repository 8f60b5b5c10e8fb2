"""What may stand between the loop and a model that needs help. It may narrow, correct, act or answer; never loosen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct, field

from holdfast.agent.surfaces import Surface
from holdfast.contract.message import Part, ToolResult, ToolUse
from holdfast.contract.result import Result


class Step(Struct, frozen=True):
    """One call of a reply, and what came of it."""

    use: ToolUse
    told: ToolResult | None = None
    """What the model is told; None while there is no result."""
    result: Result | None = None
    """The typed result, where this process saw it or the ledger still has it."""


class Round(Struct, frozen=True):
    """One reply: what it said, and the calls it asked for."""

    text: str
    steps: tuple[Step, ...] = ()


class Turn(Struct, frozen=True, kw_only=True):
    """One message of a person, and all that was done about it since. Whoever guards it derives everything from this."""

    number: int
    """Which message of the person it is, counted from 1."""
    prompt: str
    """The words; never what a tool gave back."""
    before: tuple[str | None, ...] = ()
    """The words of the messages before, the last at the end; None for one whose words were not all the person's."""
    foreign: bool = False
    """Something in the message was not written there: a file is attached, or its text was put in."""
    rounds: tuple[Round, ...] = ()
    earlier: tuple[Round, ...] = ()
    """The replies before this message, of the whole conversation."""
    corrected: Mapping[str, int] = field(default_factory=dict[str, int])
    """How often a reply to this message was sent back, by rule; such replies are not in `rounds`."""


class Send(Struct, frozen=True):
    """Ask the model, with these tools in sight and these notes to it. Notes are sent once, and not kept."""

    surface: Surface | None = None
    notes: tuple[str, ...] = ()


class Act(Struct, frozen=True):
    """Ask for these calls in the model's place; they take the path like any others."""

    rule: str
    uses: tuple[ToolUse, ...]
    why: str = ""


class Finish(Struct, frozen=True):
    """End the turn with this answer."""

    rule: str
    answer: str
    stopped: bool = False
    """The model was stopped: what it was asked for has not been done."""


class Accept(Struct, frozen=True):
    """Keep the reply, perhaps with its calls put right."""

    parts: tuple[Part, ...]
    changed: Mapping[str, str] = field(default_factory=dict[str, str])
    """Rules that put something right, each with what it did in a few words."""


class Again(Struct, frozen=True):
    """Do not keep the reply; ask once more, with this said about it."""

    rule: str
    note: str


class Refused(Struct, frozen=True):
    """A call a rule does not let through."""

    rule: str
    text: str
    """What the model is told."""


class Guard(Protocol):
    """All methods are functions of their arguments: after a crash the same conversation gives the same answers."""

    def prepare(self, turn: Turn) -> Send | Act | Finish:
        """What to do instead of asking the model, or how to ask it. Every call of `turn` has its result."""
        ...

    def receive(self, turn: Turn, parts: tuple[Part, ...]) -> Accept | Again | Act | Finish:
        """What to do with a whole reply. `turn` is the one it answers, without it."""
        ...

    def surface(self, turn: Turn) -> Surface | None:
        """What the last reply of `turn` was left with, for the calls in it."""
        ...

    def refusals(self, turn: Turn) -> Mapping[str, Refused]:
        """The calls of the last reply of `turn` that are not run, by their ids.

        What other calls of the same reply brought makes no difference: they run in any order.
        """
        ...

"""What may stand between the loop and a model that needs help. It may narrow, correct, act or answer; never loosen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from holdfast.agent.events import Guarded
from holdfast.agent.loop_context import Bench
from holdfast.agent.surface import Notebook, Surface
from holdfast.contract.message import Message, Part, ToolResult, ToolUse
from holdfast.contract.result import Result
from holdfast.runtime.middleware import Deny


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


class GuardAdapter:
    def __init__(self, guard: Guard, bench: Bench) -> None:
        self._guard = guard
        self._bench = bench
        self._refusals: dict[tuple[int, ToolUse], Refused | None] = {}
        """Why calls of the last reply are not run; None for those that are."""
        self._surface: Surface | None = None
        """What they are left with."""
        self._again: Counter[tuple[str, str]] = Counter()
        """How often a reply was sent back, by message and rule."""
        self._notebook = bench.notebook = Notebook(bench.runtime, bench.conversation.id)

    @contextmanager
    def refusing(self) -> Generator[None]:
        """While the loop goes on, calls that are refused are denied on the path. Nothing of it outlives that."""
        self._refusals.clear()
        self._again.clear()
        hook = self._bench.runtime.middleware_for("", before=self._before)
        try:
            yield
        finally:
            hook.remove()

    def prepare(self, messages: Sequence[Message]) -> Send | Act | Finish:
        return self._guard.prepare(self._turn(messages))

    def receive(self, messages: Sequence[Message], parts: tuple[Part, ...]) -> Accept | Again | Act | Finish:
        turn = self._turn(messages)
        reaction = self._guard.receive(turn, parts)
        if isinstance(reaction, Again):
            self._again[turn.prompt, reaction.rule] += 1
        return reaction

    def look(self) -> None:
        """See what the calls of the last reply are left with, and which are to be refused; before any of them runs."""
        bench = self._bench
        slots = bench.slots()
        if any((slot.turn, slot.use) not in self._refusals for slot in slots):
            turn = self._turn(_until_reply(bench.conversation.messages()))
            self._surface = self._guard.surface(turn)
            refusals = self._guard.refusals(turn)
            self._refusals = {(slot.turn, slot.use): refusals.get(slot.use.id) for slot in slots}
            for refused in dict.fromkeys(filter(None, self._refusals.values())):
                bench.tell(Guarded(refused.rule, "refused", refused.text))
        bench.narrowed = self._surface

    def _before(self, args: Any, ctx: Any) -> Deny | None:
        slots = self._bench.conversation.slots()
        asked = next((slot for slot in slots if slot.open and slot.open.call_id == ctx.call_id), None)
        refused = None if asked is None else self._refusals.get((asked.turn, asked.use))
        return None if refused is None else Deny(refused.text)

    def _turn(self, messages: Sequence[Message]) -> Turn:
        waiting = {slot.use.id for slot in self._bench.conversation.slots()}
        turn = turn_of(messages, self._notebook, waiting)
        counts = {rule: count for (prompt, rule), count in self._again.items() if prompt == turn.prompt}
        return replace(turn, corrected=counts) if counts else turn


def _until_reply(messages: Sequence[Message]) -> list[Message]:
    """The conversation as its last reply answers it: a person's words after that are about something else."""
    end = max((place for place, message in enumerate(messages) if message.role == "assistant"), default=-1) + 1
    after = messages[end].parts if end < len(messages) else ()
    results = tuple(part for part in after if isinstance(part, ToolResult))
    return [*messages[:end], *([Message("user", results)] if results else [])]


def turn_of(messages: Sequence[Message], notebook: Notebook, waiting: Collection[str]) -> Turn:
    """The last message of a person and what came of it. `waiting`: calls of the last reply that have no result yet."""
    rounds: list[Round] = []
    begins, foreign = 0, False
    prompt = ""
    said: list[str | None] = []
    for place, message in enumerate(messages):
        if message.role == "assistant":
            rounds.append(_round(message, messages[place + 1 : place + 2]))
        elif message.role == "user" and (message.own_text or message.foreign):
            begins, foreign, prompt = len(rounds), message.foreign, message.own_text
            said.append(None if foreign else prompt)
    if rounds and rounds[-1].steps and waiting:
        steps = (Step(step.use) if step.use.id in waiting else step for step in rounds[-1].steps)
        rounds[-1] = Round(rounds[-1].text, tuple(steps))
    typed = notebook.results([[step.told for step in each.steps if step.told] for each in rounds])
    rounds = [
        Round(each.text, tuple(Step(step.use, step.told, step.told and found.get(step.use.id)) for step in each.steps))
        for each, found in zip(rounds, typed, strict=True)
    ]
    return Turn(
        number=len(said),
        prompt=prompt,
        before=tuple(said[:-1]),
        foreign=foreign,
        rounds=tuple(rounds[begins:]),
        earlier=tuple(rounds[:begins]),
    )


def _round(message: Message, after: Sequence[Message]) -> Round:
    told = {part.id: part for part in (after[0].parts if after else ()) if isinstance(part, ToolResult)}
    return Round(message.text, tuple(Step(use, told.get(use.id)) for use in message.tool_uses))

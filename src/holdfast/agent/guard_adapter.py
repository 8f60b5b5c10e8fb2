"""Connects a `Guard` to the loop: shows it the turn, and denies on the path what it refuses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Generator, Sequence
from contextlib import contextmanager
from typing import Any

from msgspec.structs import replace

from holdfast.agent.bench import Bench
from holdfast.agent.events import Guarded
from holdfast.agent.guarding import Accept, Act, Again, Finish, Guard, Refused, Round, Send, Step, Turn
from holdfast.agent.notebook import Notebook
from holdfast.agent.surfaces import Surface
from holdfast.contract.message import Message, Part, ToolResult, ToolUse
from holdfast.runtime.middleware import Deny


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
        rounds[-1] = Round(rounds[-1].text, tuple(_unless(step, waiting) for step in rounds[-1].steps))
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


def _unless(step: Step, waiting: Collection[str]) -> Step:
    return Step(step.use) if step.use.id in waiting else step

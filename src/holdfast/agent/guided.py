"""Takes a guard along through a conversation: tells it what there is, and has its refusals made on the path."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from holdfast.agent.bench import Bench
from holdfast.agent.guarding import Accept, Act, Again, Finish, Guard, Send, Turn
from holdfast.agent.notebook import Notebook
from holdfast.agent.surfaces import Surface
from holdfast.agent.turns import turn_of
from holdfast.contract.message import Message, Part, ToolUse
from holdfast.runtime.middleware import Deny


class Guided:
    def __init__(self, guard: Guard, bench: Bench) -> None:
        self._guard = guard
        self._bench = bench
        self._refusals: dict[tuple[int, ToolUse], str | None] = {}
        """Why calls of the last reply are not run; None for those that are."""
        self._surface: Surface | None = None
        """What they are left with."""
        self._again: dict[int, Counter[str]] = {}
        """How often a reply was sent back, by message and rule."""
        self._notebook = bench.notebook = Notebook(bench.runtime, bench.conversation.id)
        bench.runtime.middleware_for("", before=self._before)

    def prepare(self, messages: Sequence[Message]) -> Send | Act | Finish:
        return self._guard.prepare(self._turn(messages))

    def receive(self, messages: Sequence[Message], parts: tuple[Part, ...]) -> Accept | Again | Act | Finish:
        turn = self._turn(messages)
        reaction = self._guard.receive(turn, parts)
        if isinstance(reaction, Again):
            self._again.setdefault(turn.number, Counter())[reaction.rule] += 1
        return reaction

    def look(self) -> None:
        """See what the calls of the last reply are left with, and which are to be refused; before any of them runs."""
        bench = self._bench
        slots = bench.slots()
        if any((slot.turn, slot.use) not in self._refusals for slot in slots):
            turn = self._turn(bench.conversation.messages())
            self._surface = self._guard.surface(turn)
            refusals = self._guard.refusals(turn)
            self._refusals = {(slot.turn, slot.use): refusals.get(slot.use.id) for slot in slots}
        bench.surface = self._surface or bench.surface

    def _before(self, args: Any, ctx: Any) -> Deny | None:
        slots = self._bench.conversation.slots()
        asked = next((slot for slot in slots if slot.open and slot.open.call_id == ctx.call_id), None)
        reason = None if asked is None else self._refusals.get((asked.turn, asked.use))
        return None if reason is None else Deny(reason)

    def _turn(self, messages: Sequence[Message]) -> Turn:
        waiting = {slot.use.id for slot in self._bench.conversation.slots()}
        turn = turn_of(messages, self._notebook, waiting)
        return turn if turn.number not in self._again else replace(turn, corrected=self._again[turn.number])

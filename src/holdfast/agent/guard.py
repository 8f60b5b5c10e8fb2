"""What may stand between the loop and a model that needs help. It may narrow, correct, act or answer; never loosen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from holdfast.agent.events import GuardrailApplied
from holdfast.agent.loop_context import LoopContext
from holdfast.agent.surface import ResultHistory, Surface
from holdfast.contract.message import Message, Part, ToolResult, ToolUse
from holdfast.contract.result import Result
from holdfast.runtime.middleware import Deny


class ReplyCall(Struct, frozen=True):
    """One call of a reply, and what came of it."""

    use: ToolUse
    sent: ToolResult | None = None
    """What the model is told; None while there is no result."""
    result: Result | None = None
    """The typed result, where this process saw it or the ledger still has it."""


class PastReply(Struct, frozen=True):
    """One reply: what it said, and the calls it asked for."""

    text: str
    calls: tuple[ReplyCall, ...] = ()


class TurnHistory(Struct, frozen=True, kw_only=True):
    """One message of a person, and all that was done about it since. Whoever guards it derives everything from this."""

    number: int
    """Which message of the person it is, counted from 1."""
    prompt: str
    """The words; never what a tool gave back."""
    earlier_prompts: tuple[str | None, ...] = ()
    """The words of the messages before, the last at the end; None for one whose words were not all the person's."""
    has_foreign_text: bool = False
    """Something in the message was not written there: a file is attached, or its text was put in."""
    replies: tuple[PastReply, ...] = ()
    earlier_replies: tuple[PastReply, ...] = ()
    """The replies before this message, of the whole conversation."""
    retries: Mapping[str, int] = field(default_factory=dict[str, int])
    """How often a reply to this message was sent back, by rule; such replies are not in `rounds`."""


class AskModel(Struct, frozen=True):
    """Ask the model, with these tools in sight and these notes to it. Notes are sent once, and not kept."""

    surface: Surface | None = None
    notes: tuple[str, ...] = ()


class CallTools(Struct, frozen=True):
    """Ask for these calls in the model's place; they take the path like any others."""

    rule: str
    uses: tuple[ToolUse, ...]
    reason: str = ""


class EndTurn(Struct, frozen=True):
    """End the turn with this answer."""

    rule: str
    answer: str
    stopped: bool = False
    """The model was stopped: what it was asked for has not been done."""


class AcceptReply(Struct, frozen=True):
    """Keep the reply, perhaps with its calls put right."""

    parts: tuple[Part, ...]
    corrections: Mapping[str, str] = field(default_factory=dict[str, str])
    """Rules that put something right, each with what it did in a few words."""


class RetryReply(Struct, frozen=True):
    """Do not keep the reply; ask once more, with this said about it."""

    rule: str
    note: str


class RefusedCall(Struct, frozen=True):
    """A call a rule does not let through."""

    rule: str
    message: str
    """What the model is told."""


class Guard(Protocol):
    """All methods are functions of their arguments: after a crash the same conversation gives the same answers."""

    def prepare(self, turn: TurnHistory) -> AskModel | CallTools | EndTurn:
        """What to do instead of asking the model, or how to ask it. Every call of `turn` has its result."""
        ...

    def receive(self, turn: TurnHistory, parts: tuple[Part, ...]) -> AcceptReply | RetryReply | CallTools | EndTurn:
        """What to do with a whole reply. `turn` is the one it answers, without it."""
        ...

    def surface(self, turn: TurnHistory) -> Surface | None:
        """What the last reply of `turn` was left with, for the calls in it."""
        ...

    def refusals(self, turn: TurnHistory) -> Mapping[str, RefusedCall]:
        """The calls of the last reply of `turn` that are not run, by their ids.

        What other calls of the same reply brought makes no difference: they run in any order.
        """
        ...


class GuardAdapter:
    def __init__(self, guard: Guard, bench: LoopContext) -> None:
        self._guard = guard
        self._bench = bench
        self._refusals: dict[tuple[int, ToolUse], RefusedCall | None] = {}
        """Why calls of the last reply are not run; None for those that are."""
        self._surface: Surface | None = None
        """What they are left with."""
        self._again: Counter[tuple[str, str]] = Counter()
        """How often a reply was sent back, by message and rule."""
        self._notebook = bench.notebook = ResultHistory(bench.runtime, bench.conversation.id)

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

    def prepare(self, messages: Sequence[Message]) -> AskModel | CallTools | EndTurn:
        return self._guard.prepare(self._turn(messages))

    def receive(
        self, messages: Sequence[Message], parts: tuple[Part, ...]
    ) -> AcceptReply | RetryReply | CallTools | EndTurn:
        turn = self._turn(messages)
        reaction = self._guard.receive(turn, parts)
        if isinstance(reaction, RetryReply):
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
                bench.tell(GuardrailApplied(refused.rule, "refused", refused.message))
        bench.narrowed = self._surface

    def _before(self, args: Any, ctx: Any) -> Deny | None:
        slots = self._bench.conversation.slots()
        asked = next((slot for slot in slots if slot.call and slot.call.call_id == ctx.call_id), None)
        refused = None if asked is None else self._refusals.get((asked.turn, asked.use))
        return None if refused is None else Deny(refused.message)

    def _turn(self, messages: Sequence[Message]) -> TurnHistory:
        waiting = {slot.use.id for slot in self._bench.conversation.slots()}
        turn = turn_history(messages, self._notebook, waiting)
        counts = {rule: count for (prompt, rule), count in self._again.items() if prompt == turn.prompt}
        return replace(turn, retries=counts) if counts else turn


def _until_reply(messages: Sequence[Message]) -> list[Message]:
    """The conversation as its last reply answers it: a person's words after that are about something else."""
    end = max((place for place, message in enumerate(messages) if message.role == "assistant"), default=-1) + 1
    after = messages[end].parts if end < len(messages) else ()
    results = tuple(part for part in after if isinstance(part, ToolResult))
    return [*messages[:end], *([Message("user", results)] if results else [])]


def turn_history(messages: Sequence[Message], notebook: ResultHistory, waiting: Collection[str]) -> TurnHistory:
    """The last message of a person and what came of it. `waiting`: calls of the last reply that have no result yet."""
    rounds: list[PastReply] = []
    begins, foreign = 0, False
    prompt = ""
    said: list[str | None] = []
    for place, message in enumerate(messages):
        if message.role == "assistant":
            rounds.append(_round(message, messages[place + 1 : place + 2]))
        elif message.role == "user" and (message.own_text or message.has_included_content):
            begins, foreign, prompt = len(rounds), message.has_included_content, message.own_text
            said.append(None if foreign else prompt)
    if rounds and rounds[-1].calls and waiting:
        steps = (ReplyCall(step.use) if step.use.id in waiting else step for step in rounds[-1].calls)
        rounds[-1] = PastReply(rounds[-1].text, tuple(steps))
    typed = notebook.results([[step.sent for step in each.calls if step.sent] for each in rounds])
    rounds = [
        PastReply(
            each.text,
            tuple(ReplyCall(step.use, step.sent, step.sent and found.get(step.use.id)) for step in each.calls),
        )
        for each, found in zip(rounds, typed, strict=True)
    ]
    return TurnHistory(
        number=len(said),
        prompt=prompt,
        earlier_prompts=tuple(said[:-1]),
        has_foreign_text=foreign,
        replies=tuple(rounds[begins:]),
        earlier_replies=tuple(rounds[:begins]),
    )


def _round(message: Message, after: Sequence[Message]) -> PastReply:
    told = {part.id: part for part in (after[0].parts if after else ()) if isinstance(part, ToolResult)}
    return PastReply(message.text, tuple(ReplyCall(use, told.get(use.id)) for use in message.tool_uses))

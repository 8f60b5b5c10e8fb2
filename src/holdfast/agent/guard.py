"""The protocol for guard-rails between the loop and a weak model, and the adapter that applies their decisions.

A guard can narrow the tools, correct a reply, make calls or answer; it cannot loosen anything.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from holdfast.agent.events import GuardrailApplied
from holdfast.agent.loop_context import LoopContext
from holdfast.agent.result_history import ResultHistory
from holdfast.agent.surface import Surface
from holdfast.contract.message import Message, Part, ToolResult, ToolUse
from holdfast.contract.result import Result
from holdfast.runtime.middleware import Deny


class ReplyCall(Struct, frozen=True):
    """A call of a reply and its result."""

    use: ToolUse
    sent: ToolResult | None = None
    """The result as the model receives it; None if there is none yet."""
    result: Result | None = None
    """The typed result, if this process or the ledger has it."""


class PastReply(Struct, frozen=True):
    """The text and the calls of a reply."""

    text: str
    calls: tuple[ReplyCall, ...] = ()


class TurnHistory(Struct, frozen=True, kw_only=True):
    """A user message and everything since. A guard derives all its decisions from it."""

    number: int
    """Number of the user message, from 1."""
    prompt: str
    """The user's own text, without tool results."""
    has_foreign_text: bool = False
    """Whether the message has attached or included files."""
    replies: tuple[PastReply, ...] = ()
    earlier_replies: tuple[PastReply, ...] = ()
    """All replies of the conversation before this message."""
    retries: Mapping[str, int] = field(default_factory=dict[str, int])
    """How often a reply to this message was rejected, by rule; such replies are not in `replies`."""


class AskModel(Struct, frozen=True):
    """Ask the model, with this surface and these notes. Notes are sent once and not stored."""

    surface: Surface | None = None
    notes: tuple[str, ...] = ()


class CallTools(Struct, frozen=True):
    """Make these calls in the model's place, through the pipeline."""

    rule: str
    uses: tuple[ToolUse, ...]
    reason: str = ""


class EndTurn(Struct, frozen=True):
    """End the turn with this answer."""

    rule: str
    answer: str
    stopped: bool = False
    """Whether the model was stopped before the request was fulfilled."""


class AcceptReply(Struct, frozen=True):
    """Keep the reply, possibly with corrected calls."""

    parts: tuple[Part, ...]
    corrections: Mapping[str, str] = field(default_factory=dict[str, str])
    """A short description of each correction, by rule."""


class RetryReply(Struct, frozen=True):
    """Discard the reply and ask again, with this note."""

    rule: str
    note: str


class RefusedCall(Struct, frozen=True):
    """A call that a rule refuses."""

    rule: str
    message: str
    """The error that the model receives."""


class Guard(Protocol):
    """All methods are pure functions: after a crash the same conversation yields the same decisions."""

    def prepare(self, turn: TurnHistory) -> AskModel | CallTools | EndTurn:
        """Decide how to ask the model, or what to do instead. Every call of `turn` has a result."""
        ...

    def receive(self, turn: TurnHistory, parts: tuple[Part, ...]) -> AcceptReply | RetryReply | CallTools | EndTurn:
        """Decide about a complete reply to `turn`, which does not include it."""
        ...

    def surface(self, turn: TurnHistory) -> Surface | None:
        """The surface for the calls of the last reply of `turn`."""
        ...

    def refusals(self, turn: TurnHistory) -> Mapping[str, RefusedCall]:
        """The refused calls of the last reply of `turn`, by id.

        Must not depend on the results of other calls of that reply, which run in any order.
        """
        ...


class GuardAdapter:
    """Applies the decisions of a guard to one loop."""

    def __init__(self, guard: Guard, context: LoopContext) -> None:
        self._guard = guard
        self._context = context
        self._refusals: dict[tuple[int, ToolUse], RefusedCall | None] = {}
        """Refusals of calls of the last reply; None for an allowed call."""
        self._surface: Surface | None = None
        """The surface for the calls of the last reply."""
        self._retries: Counter[tuple[str, str]] = Counter()
        """Number of rejected replies by prompt and rule."""
        self._results = context.guard_results = ResultHistory(context.runtime, context.conversation.id)

    @contextmanager
    def active(self) -> Generator[None]:
        """Deny refused calls in the pipeline while the loop runs."""
        self._refusals.clear()
        self._retries.clear()
        middleware = self._context.runtime.middleware_for("", before=self._before)
        try:
            yield
        finally:
            middleware.remove()

    def prepare(self, messages: Sequence[Message]) -> AskModel | CallTools | EndTurn:
        return self._guard.prepare(self._turn(messages))

    def receive(
        self, messages: Sequence[Message], parts: tuple[Part, ...]
    ) -> AcceptReply | RetryReply | CallTools | EndTurn:
        turn = self._turn(messages)
        reaction = self._guard.receive(turn, parts)
        if isinstance(reaction, RetryReply):
            self._retries[turn.prompt, reaction.rule] += 1
        return reaction

    def evaluate_last_reply(self) -> None:
        """Compute the surface and the refusals of the last reply, before any of its calls runs."""
        context = self._context
        slots = context.slots()
        if any((slot.turn, slot.use) not in self._refusals for slot in slots):
            turn = self._turn(_until_last_reply(context.conversation.messages()))
            self._surface = self._guard.surface(turn)
            refusals = self._guard.refusals(turn)
            self._refusals = {(slot.turn, slot.use): refusals.get(slot.use.id) for slot in slots}
            for refused in dict.fromkeys(filter(None, self._refusals.values())):
                context.emit(GuardrailApplied(refused.rule, "refused", refused.message))
        context.guard_surface = self._surface

    def _before(self, args: Any, ctx: Any) -> Deny | None:
        slots = self._context.conversation.slots()
        found = next((slot for slot in slots if slot.call and slot.call.call_id == ctx.call_id), None)
        refused = None if found is None else self._refusals.get((found.turn, found.use))
        return None if refused is None else Deny(refused.message)

    def _turn(self, messages: Sequence[Message]) -> TurnHistory:
        unfinished = {slot.use.id for slot in self._context.conversation.slots()}
        turn = turn_history(messages, self._results, unfinished)
        counts = {rule: count for (prompt, rule), count in self._retries.items() if prompt == turn.prompt}
        return replace(turn, retries=counts) if counts else turn


def _until_last_reply(messages: Sequence[Message]) -> list[Message]:
    """The messages up to the last reply and its results, without user text after it."""
    end = max((index for index, message in enumerate(messages) if message.role == "assistant"), default=-1) + 1
    after = messages[end].parts if end < len(messages) else ()
    results = tuple(part for part in after if isinstance(part, ToolResult))
    return [*messages[:end], *([Message("user", results)] if results else [])]


def turn_history(messages: Sequence[Message], history: ResultHistory, unfinished: Collection[str]) -> TurnHistory:
    """The history since the last user message. `unfinished`: ids of calls of the last reply without a result."""
    replies: list[PastReply] = []
    first_reply, has_foreign_text = 0, False
    number, prompt = 0, ""
    for index, message in enumerate(messages):
        if message.role == "assistant":
            replies.append(_past_reply(message, messages[index + 1 : index + 2]))
        elif message.role == "user" and (message.own_text or message.has_included_content):
            first_reply, has_foreign_text, prompt = len(replies), message.has_included_content, message.own_text
            number += 1
    if replies and replies[-1].calls and unfinished:
        calls = (ReplyCall(call.use) if call.use.id in unfinished else call for call in replies[-1].calls)
        replies[-1] = PastReply(replies[-1].text, tuple(calls))
    typed = history.results([[call.sent for call in reply.calls if call.sent] for reply in replies])
    replies = [_with_results(reply, results) for reply, results in zip(replies, typed, strict=True)]
    return TurnHistory(
        number=number,
        prompt=prompt,
        has_foreign_text=has_foreign_text,
        replies=tuple(replies[first_reply:]),
        earlier_replies=tuple(replies[:first_reply]),
    )


def _past_reply(message: Message, after: Sequence[Message]) -> PastReply:
    sent = {part.id: part for part in (after[0].parts if after else ()) if isinstance(part, ToolResult)}
    return PastReply(message.text, tuple(ReplyCall(use, sent.get(use.id)) for use in message.tool_uses))


def _with_results(reply: PastReply, results: Mapping[str, Result]) -> PastReply:
    calls = (ReplyCall(call.use, call.sent, call.sent and results.get(call.use.id)) for call in reply.calls)
    return PastReply(reply.text, tuple(calls))

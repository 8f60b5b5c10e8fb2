"""The loop between a model and the path: sort the calls, run them, send; until it is done or a person is needed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import nullcontext, suppress
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from holdfast.agent.conversation import Conflict, Conversation, Diagnostic, LedgerCall, SetStatus, Slot, Status
from holdfast.agent.events import (
    EXIT_CODES,
    GuardrailApplied,
    OnEvent,
    Outcome,
    OutcomeKind,
    PhaseStarted,
    ReplyWritten,
    UsageCounted,
)
from holdfast.agent.guard import AcceptReply, AskModel, CallTools, EndTurn, Guard, GuardAdapter, RetryReply
from holdfast.agent.loop_context import LoopContext, LoopStopped
from holdfast.agent.phases import RUNNING_STEPS, Job, carry_out, categorise, execute
from holdfast.agent.reply import ModelReply, calls_without_result, receive_reply
from holdfast.agent.slot_state import INTERRUPTED, SlotAction, SlotState, read_slot_state
from holdfast.agent.surface import Surface, ToolLoader, with_registered_names
from holdfast.contract.call import Caller
from holdfast.contract.enums import Verdict
from holdfast.contract.errors import HoldfastError
from holdfast.contract.message import Message, Part, Text, Thinking, ToolResult, ToolUse
from holdfast.contract.result import Result
from holdfast.contract.tool import Tool
from holdfast.models.port import Model, Settings, TextDelta, Usage
from holdfast.runtime.results import ABORTED
from holdfast.runtime.runtime import Runtime

KEPT_MESSAGES: Final = 10
"""Messages at the end whose calls always stay."""


class TrimLimits(Struct, frozen=True):
    window: int
    messages: int
    lines: int


TRIM_LIMITS: Final = (
    TrimLimits(16_000, 40, 200),
    TrimLimits(8_000, 30, 150),
    TrimLimits(4_000, 20, 80),
    TrimLimits(0, 12, 40),
)


def trim(messages: Sequence[Message], window: int) -> list[Message]:
    """The messages as a model with room for `window` tokens is sent them. A call and its result go together.

    The cut moves in steps, not with every message: between two steps what is sent only grows at its end, so that a
    provider's prompt cache stays good.
    """
    limits = next(limits for limits in TRIM_LIMITS if window >= limits.window)
    cut = _cut(messages, limits.messages)
    made: list[Message] = []
    for place, message in enumerate(messages):
        short = (_short(part, limits.lines) for part in message.parts)
        parts = _without_calls(message.parts) if place < cut else tuple(short)
        if not parts:
            continue
        if made and made[-1].role == message.role:
            made[-1] = Message(message.role, (*made[-1].parts, *parts))
        else:
            made.append(Message(message.role, parts))
    return made


def _cut(messages: Sequence[Message], limit: int) -> int:
    """How many messages from the start lose their calls, so that at most `limit` are left where that can be."""
    step, cut, left = limit - KEPT_MESSAGES, 0, len(messages)
    while left > limit and cut + step + KEPT_MESSAGES <= len(messages):
        left -= sum(not _without_calls(message.parts) for message in messages[cut : cut + step])
        cut += step
    return cut - 1 if cut and messages[cut - 1].tool_uses else cut


def _without_calls(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """Thinking goes with the calls: its signature is only good together with them."""
    if not any(isinstance(part, ToolUse | ToolResult) for part in parts):
        return parts
    return tuple(part for part in parts if not isinstance(part, ToolUse | ToolResult | Thinking))


def _short(part: Part, limit: int) -> Part:
    lines = part.output.split("\n") if isinstance(part, ToolResult) else []
    if not isinstance(part, ToolResult) or len(lines) <= limit:
        return part
    kept = "\n".join(lines[:limit])
    return replace(part, output=f"{kept}\n[{len(lines) - limit} more lines left out to save room]")


_ACTIONABLE: Final = RUNNING_STEPS | {SlotAction.WRITE_RESULT}
_SORTED: Final = frozenset({SlotAction.JUDGE, SlotAction.MARK_PENDING})
_SHOWN: Final = 3


def _runs_here(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether this is code of the loop, and not of another thread."""
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False


class RulesChanged(Exception):
    """Somebody changed the rules of the conversation."""


class Loop:
    """Drives one conversation. One thing at a time; `cancel` may come from anywhere."""

    def __init__(
        self,
        runtime: Runtime,
        model: Model,
        conversation: Conversation,
        settings: Settings,
        *,
        autopilot: bool = True,
        max_turns: int = 100,
        context: int | None = None,
        surface: Surface | None = None,
        guard: Guard | None = None,
        caller: Caller | Callable[[], Caller] | None = None,
        by: str = "person",
        is_current: Callable[[], bool] | None = None,
        on_event: OnEvent | None = None,
    ) -> None:
        self.runtime = runtime
        self.model = model
        self.conversation = conversation
        self.settings = settings
        self.autopilot = autopilot
        self.max_turns = max_turns
        self.context = context
        """Tokens the model has room for; None sends everything."""
        self.surface = surface
        """What the model is left with; may be changed between two turns."""
        self._is_current = is_current or (lambda: True)
        """Whether the rules this loop was given are still those of the conversation; asked before every step."""
        self._bench = LoopContext(runtime, conversation, caller, model.provider, by, on_event)
        self._guided = None if guard is None else GuardAdapter(guard, self._bench)
        self._loading = ToolLoader(self._bench.searches, runtime.config.tools.search_threshold)
        self._usage = Usage()
        self._unwritten: Usage | None = None
        """Of replies the conversation does not count yet; some are never kept."""
        self._running: asyncio.AbstractEventLoop | None = None

    async def advance(self, *, step: bool = False) -> Outcome:
        """Go on until it is done or a person is needed; with `step`, or without autopilot, one phase at a time."""
        return await self._guarded(self._advance(step or not self.autopilot))

    async def run_one(self, use_id: str, approved: LedgerCall | None = None) -> Outcome:
        """Run or resolve one call of the last reply alone. One that waits is approved by this: as it was shown in the
        conversation, or as exactly what `approved` says the person was shown elsewhere."""
        return await self._guarded(self._run_one(use_id, approved))

    def tools(self) -> Sequence[Tool]:
        """What the model could be shown now; a guard may show it less."""
        return self._bench.tools()

    def cancel(self) -> bool:
        """Stop the request or the tools that run, from any thread; False if nothing is going on."""
        running = self._running
        if running is None:
            return False
        if _runs_here(running):
            self._bench.stop.set()  # now: whatever is scheduled already must see it
            return True
        try:
            running.call_soon_threadsafe(self._bench.stop.set)
        except RuntimeError:  # its event loop is gone, and all of it with it
            return False
        return True

    async def _guarded(self, work: Coroutine[Any, Any, Outcome]) -> Outcome:
        """One at a time. A caller that is cancelled stops the work as a person would, and waits for its end."""
        if self._running is not None:
            work.close()
            return self._outcome("failed", "This conversation is being driven already; wait, or cancel that first.")
        self._running = asyncio.get_running_loop()
        self._bench.begin()
        self._bench.surface = self.surface
        self._usage = Usage()
        task = asyncio.create_task(self._ended(work))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            self._bench.stop.set()
            await asyncio.wait({task})
            raise
        finally:
            self._running = None

    async def _ended(self, work: Coroutine[Any, Any, Outcome]) -> Outcome:
        try:
            with nullcontext() if self._guided is None else self._guided.refusing():
                outcome = await work
        except RulesChanged:
            outcome = self._outcome("stale", "The rules of this conversation have changed; open it again to go on.")
        except LoopStopped:
            outcome = self._outcome("cancelled", INTERRUPTED)
        except Conflict as conflict:
            outcome = self._outcome("conflict", str(conflict))
        except (HoldfastError, OSError) as error:
            outcome = self._outcome("failed", str(error))
        self._bench.tell(outcome)
        return outcome

    async def _advance(self, step: bool) -> Outcome:
        self._refresh()
        self._tell_warnings()
        await self._wait_for_tools()
        await self._judge_again()
        while True:
            self._refresh()
            self.conversation.repair()
            if self._bench.slots():
                outcome = await self._work(at_once=not step)
                if outcome is not None:
                    return outcome
                if step:
                    return self._outcome("stepped")
            if not self.runtime.registry.ready:
                await self._bench.unless_stopped(self.runtime.pipeline.wait_for_sources())
                continue
            outcome = self._nothing_to_send(step) or await self._send(step)
            if outcome is not None:
                return outcome

    async def _wait_for_tools(self) -> None:
        """What a call asks for may come from a source that is still loading."""
        registry = self.runtime.registry
        if not registry.ready and any(registry.find(slot.use.name) is None for slot in self._bench.slots()):
            await self._bench.unless_stopped(self.runtime.pipeline.wait_for_sources())

    async def _judge_again(self) -> None:
        """What waits for a person may be approved by the rules as they are now: it then runs like any other call."""
        for standing in self._bench.standings():
            slot, held = standing.slot, standing.pending
            if standing.action is not SlotAction.WAIT_FOR_ANSWER or slot.call is None or held is None:
                continue
            if standing.arguments_changed or held.definition_only:
                continue
            decision = await self._bench.unless_stopped(self._bench.judge(slot))
            if decision.verdict is not Verdict.APPROVE:
                continue
            now = read_slot_state(self.runtime, slot)
            if (
                now.pending is not None
                and now.pending.digest == held.digest
                and now.action is SlotAction.WAIT_FOR_ANSWER
                and not now.arguments_changed
            ):
                self._bench.withdraw(now)

    def _tell_warnings(self) -> None:
        for diagnostic in self.conversation.diagnostics():
            if diagnostic.severity == "warning":
                self._bench.warn(self._placed(diagnostic))

    def _placed(self, diagnostic: Diagnostic) -> str:
        line = "" if diagnostic.line is None else f":{diagnostic.line}"
        return f"{self.conversation.name}{line}: {diagnostic.message}"

    def _refresh(self) -> None:
        self.conversation.refresh()
        if not self._is_current():
            raise RulesChanged

    async def _work(self, only: str | None = None, *, at_once: bool = True) -> Outcome | None:
        """Phases 1 and 2, until nothing can be done about any call; None when none is left."""
        bench = self._bench
        before: list[SlotState] = []
        if self._guided is not None:
            self._guided.look()
        while True:
            if bench.trouble is not None:
                raise bench.trouble
            if bench.conflict is not None:
                return self._outcome("conflict", bench.conflict)
            self._refresh()
            standings = bench.standings(only)
            bench.sight.show_again(standings if only is None else bench.standings())
            awake = [each for each in standings if (each.slot.turn, each.slot.use) not in bench.resting]
            if bench.stopped:
                return self._outcome("cancelled", ABORTED)
            if awake == before:
                return self._left(standings)
            before = awake
            if unsorted := [each for each in awake if each.action in _SORTED]:
                await categorise(bench, unsorted, at_once=at_once)
            elif ready := [each for each in awake if each.action in _ACTIONABLE]:
                await execute(bench, ready)
            else:
                return self._left(standings)

    def _left(self, standings: list[SlotState]) -> Outcome | None:
        """What is said about calls only a person can do something about."""
        edited = [each.slot for each in standings if each.action is SlotAction.EDITED]
        if edited:
            for slot in edited:
                self._bench.warn(_edited(slot))
            return self._outcome("edited", _edited(edited[0]))
        if not standings:
            return None
        names = [f"{each.slot.use.name} ({each.slot.use.id})" for each in standings]
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        calls = "1 call waits" if len(names) == 1 else f"{len(names)} calls wait"
        return self._outcome("pending", f"{calls} for an answer: {', '.join(names[:_SHOWN])}{more}.")

    def _nothing_to_send(self, step: bool) -> Outcome | None:
        self._tell_warnings()
        errors = [item for item in self.conversation.diagnostics() if item.severity == "error"]
        if errors:
            return self._outcome("failed", self._placed(errors[0]))
        if not self.conversation.awaits_reply():
            return self._outcome("done")
        if not step and self.conversation.turns_since_user() >= self.max_turns:
            message = f"Autopilot stopped – exceeded {self.max_turns} consecutive turns."
            self._bench.warn(message)
            return self._outcome("stopped", f"{message} Write something of your own to go on.")
        return None

    async def _send(self, step: bool) -> Outcome | None:
        """Phase 3; None when the reply asks for calls that are to be seen to at once."""
        bench = self._bench
        if bench.stopped:
            raise LoopStopped
        messages = self.conversation.messages()
        if not messages or messages[-1].role != "user":
            return self._outcome("failed", "There is nothing to answer: your words are empty once they are filled in.")
        if missing := calls_without_result(messages):
            return self._outcome("failed", f"Call '{missing[0]}' has no result beside it, so nothing was sent.")
        move = AskModel() if self._guided is None else self._guided.prepare(messages)
        if not isinstance(move, AskModel):
            return self._instead(move, step)
        bench.narrowed = move.surface
        bench.tell(PhaseStarted("send"))
        reply = await self._ask(messages, move.notes)
        if not isinstance(reply, ModelReply):
            return self._instead(reply, step)
        uses = self._write(reply)
        if reply.stopped:
            return self._outcome("cancelled", INTERRUPTED)
        if reply.ended is None:
            return self._outcome("failed", reply.error)
        if reply.ended.stop == "refusal":
            return self._outcome("failed", "The model refused to answer; ask in another way.")
        if reply.ended.stop == "max_tokens":
            bench.warn("The reply is longer than `model.max_tokens` lets it be, and was cut there.")
        if not reply.parts:
            return self._outcome("done", "The model had nothing to say.")
        if uses and not step:
            return None
        return self._outcome("stepped" if uses else "done")

    async def _ask(self, messages: Sequence[Message], notes: Sequence[str]) -> ModelReply | CallTools | EndTurn:
        """The model's reply, or what a guard would have instead; a reply it sends back is not kept."""
        bench = self._bench
        crowd = bench.crowd()
        tools = self._loading.tools_to_send(crowd, messages)
        sent = list(messages) if self.context is None else trim(messages, self.context)
        if notes:
            sent[-1] = Message("user", (*sent[-1].parts, Text("".join(f"\n\n{note}" for note in notes))))
        while True:
            reply = await receive_reply(bench, self.model.stream(sent, tools, self.settings))
            reply = replace(reply, parts=with_registered_names(reply.parts, crowd))
            if reply.usage is not None:
                self._usage += reply.usage
                self._unwritten = reply.usage if self._unwritten is None else self._unwritten + reply.usage
                bench.tell(UsageCounted(reply.usage, self._usage))
            if self._guided is None or reply.ended is None or reply.ended.stop == "refusal" or not reply.parts:
                return reply
            reaction = self._guided.receive(messages, reply.parts)
            if isinstance(reaction, AcceptReply):
                for rule, done in reaction.corrections.items():
                    bench.tell(GuardrailApplied(rule, "changed", done))
                return replace(reply, parts=reaction.parts)
            if not isinstance(reaction, RetryReply):
                return reaction
            bench.tell(GuardrailApplied(reaction.rule, "again", reaction.note))
            said = Text("".join(part.text for part in reply.parts if isinstance(part, Text)) or "…")
            sent += [Message("assistant", (said,)), Message("user", (Text(reaction.note),))]

    def _instead(self, move: CallTools | EndTurn, step: bool) -> Outcome | None:
        """Write what a guard asks for or answers in the model's place, as a reply like any other."""
        bench = self._bench
        if isinstance(move, CallTools):
            bench.tell(GuardrailApplied(move.rule, "acted", move.reason))
            self._write(ModelReply(move.uses))
            return self._outcome("stepped") if step else None
        bench.tell(GuardrailApplied(move.rule, "stopped" if move.stopped else "answered"))
        answer = move.answer.rstrip("\n")
        bench.tell(TextDelta(answer))
        self._write(ModelReply((Text(answer),)))
        if move.stopped:
            return self._outcome("stopped", f"The model was stopped by the guard-rail `guardrails.{move.rule}`.")
        return self._outcome("done")

    def _write(self, reply: ModelReply) -> tuple[ToolUse, ...]:
        """Put the reply into the conversation, all at once; nothing if nothing came."""
        if not reply.parts:
            return ()
        bench, ended = self._bench, reply.ended
        aborted = reply.error or None
        self.conversation.add_reply(reply.parts, aborted=aborted, usage=self._unwritten)
        self._unwritten = None
        bench.forget_all()
        uses = tuple(part for part in reply.parts if isinstance(part, ToolUse))
        bench.tell(ReplyWritten(uses, aborted, "" if ended is None else ended.model))
        return uses

    async def _run_one(self, use_id: str, approved: LedgerCall | None) -> Outcome:
        bench = self._bench
        self._refresh()
        await self._wait_for_tools()
        found = bench.standings(use_id)
        if not found:
            return self._outcome("failed", f"No call '{use_id}' of the last reply waits for a result.")
        slot, held = found[0].slot, found[0].pending
        if slot.status is Status.PENDING and not slot.text.strip():
            now = None if held is None else LedgerCall(call_id=held.call.id, digest=held.digest)
            if approved not in (None, now):
                bench.warn(f"Call '{use_id}' is not what was shown any more, so that it was not approved.")
            elif now is not None and slot.call is not None and (approved or slot.call.digest in ("", now.digest)):
                await carry_out(bench, [Job(replace(slot, call=now), SlotAction.APPROVE)])
            else:
                bench.write([SetStatus(slot, Status.APPROVED)])
        outcome = await self._work(use_id)
        return outcome or self._outcome("stepped", result=bench.settled.get(use_id))

    def _outcome(self, kind: OutcomeKind, message: str = "", result: Result | None = None) -> Outcome:
        code = EXIT_CODES[kind] if result is None else result.exit_code
        slots: Sequence[Slot] = ()
        with suppress(HoldfastError, OSError):
            slots = self.conversation.slots()
        return Outcome(kind, message, tuple(slots), self._usage, code)


def _edited(slot: Slot) -> str:
    place = "" if slot.line is None else f" (line {slot.line})"
    return (
        f"Call '{slot.use.id}'{place} was not run, because there is text where its result goes; "
        "remove the `flemma:tool` fence to send your text, or the text to let the call run."
    )

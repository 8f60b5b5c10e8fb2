"""The agent loop between a model and the pipeline: categorise calls, run them, send, repeat."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import nullcontext, suppress
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from holdfast.agent.call_runner import RUN_ACTIONS, CallJob, CallRunner
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
"""Messages at the end that always keep their calls."""


class TrimLimits(Struct, frozen=True):
    window: int
    """Smallest context window, in tokens, for these limits."""
    messages: int
    lines: int
    """Lines of a tool result."""


TRIM_LIMITS: Final = (
    TrimLimits(16_000, 40, 200),
    TrimLimits(8_000, 30, 150),
    TrimLimits(4_000, 20, 80),
    TrimLimits(0, 12, 40),
)


def trim(messages: Sequence[Message], window: int) -> list[Message]:
    """Drop old calls and shorten results for a context window of `window` tokens. A call and its result go together.

    The cut moves in steps, not with every message: between two steps the request only grows at its end, so the
    provider's prompt cache stays valid.
    """
    limits = next(limits for limits in TRIM_LIMITS if window >= limits.window)
    cut = _cut(messages, limits.messages)
    made: list[Message] = []
    for index, message in enumerate(messages):
        shortened = (_shortened(part, limits.lines) for part in message.parts)
        parts = _without_calls(message.parts) if index < cut else tuple(shortened)
        if not parts:
            continue
        if made and made[-1].role == message.role:
            made[-1] = Message(message.role, (*made[-1].parts, *parts))
        else:
            made.append(Message(message.role, parts))
    return made


def _cut(messages: Sequence[Message], limit: int) -> int:
    """How many messages from the start lose their calls, so that at most `limit` are left if possible."""
    step, cut, left = limit - KEPT_MESSAGES, 0, len(messages)
    while left > limit and cut + step + KEPT_MESSAGES <= len(messages):
        left -= sum(not _without_calls(message.parts) for message in messages[cut : cut + step])
        cut += step
    return cut - 1 if cut and messages[cut - 1].tool_uses else cut


def _without_calls(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """The parts without calls, results and thinking, whose signature is only valid together with its calls."""
    if not any(isinstance(part, ToolUse | ToolResult) for part in parts):
        return parts
    return tuple(part for part in parts if not isinstance(part, ToolUse | ToolResult | Thinking))


def _shortened(part: Part, limit: int) -> Part:
    lines = part.output.split("\n") if isinstance(part, ToolResult) else []
    if not isinstance(part, ToolResult) or len(lines) <= limit:
        return part
    kept = "\n".join(lines[:limit])
    return replace(part, output=f"{kept}\n[{len(lines) - limit} more lines omitted]")


_EXECUTE_ACTIONS: Final = RUN_ACTIONS | {SlotAction.WRITE_RESULT}
_CATEGORISE_ACTIONS: Final = frozenset({SlotAction.JUDGE, SlotAction.MARK_PENDING})
_SHOWN_CALLS: Final = 3


class RulesChanged(Exception):
    """The rules of the conversation changed while the loop was running."""


class Loop:
    """Advances one conversation, one run at a time. `cancel` may be called from any thread."""

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
        instructions: str = "",
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
        """The model's context window in tokens; None sends everything."""
        self._instructions = instructions
        """Sent with every request, after the conversation's own system message."""
        self.surface = surface
        """The tools that the model sees; may be changed between two turns."""
        self._is_current = is_current or (lambda: True)
        """Whether the rules of the conversation are still those of this loop; checked before every step."""
        self._context = LoopContext(runtime, conversation, caller, model.provider, by, on_event)
        self._calls = CallRunner(self._context)
        self._guard = None if guard is None else GuardAdapter(guard, self._context)
        self._tool_loader = ToolLoader(self._context.search_results, runtime.config.tools.search_threshold)
        self._usage = Usage()
        self._unwritten_usage: Usage | None = None
        """Usage of replies that the conversation has not counted, such as rejected ones."""
        self._running: asyncio.AbstractEventLoop | None = None

    async def advance(self, *, step: bool = False) -> Outcome:
        """Advance until the model is done or a person is needed; with `step`, or without autopilot, by one step."""
        return await self._exclusive(self._advance(step or not self.autopilot))

    async def run_one(self, use_id: str, approved: LedgerCall | None = None) -> Outcome:
        """Run or finish a single call of the last reply. Approves a pending call as the conversation shows it, or, with
        `approved`, as it was shown elsewhere."""
        return await self._exclusive(self._run_one(use_id, approved))

    def tools(self) -> Sequence[Tool]:
        """The tools that the model may see now; a guard may narrow them."""
        return self._context.tools()

    def cancel(self) -> bool:
        """Cancel the request or the running tools, from any thread; return False if nothing is running."""
        running = self._running
        if running is None:
            return False
        if _is_current_loop(running):
            self._context.stop.set()  # at once: callbacks that are already scheduled must see it
            return True
        try:
            running.call_soon_threadsafe(self._context.stop.set)
        except RuntimeError:  # the event loop is closed, and everything in it has ended
            return False
        return True

    async def _exclusive(self, work: Coroutine[Any, Any, Outcome]) -> Outcome:
        """Run one advance at a time. If the caller is cancelled, stop the work like `cancel` and wait for its end."""
        if self._running is not None:
            work.close()
            return self._outcome(
                "failed", "This conversation is already being advanced. Wait for it to finish, or cancel it."
            )
        self._running = asyncio.get_running_loop()
        self._context.reset()
        self._context.surface = self.surface
        self._usage = Usage()
        task = asyncio.create_task(self._run_to_outcome(work))
        try:
            # Shielded: a cancelled caller must not interrupt a call between running and recording its result.
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            self._context.stop.set()
            await asyncio.wait({task})
            raise
        finally:
            self._running = None

    async def _run_to_outcome(self, work: Coroutine[Any, Any, Outcome]) -> Outcome:
        try:
            with nullcontext() if self._guard is None else self._guard.active():
                outcome = await work
        except RulesChanged:
            outcome = self._outcome("stale", "The rules of this conversation changed. Open it again to continue.")
        except LoopStopped:
            outcome = self._outcome("cancelled", INTERRUPTED)
        except Conflict as conflict:
            outcome = self._outcome("conflict", str(conflict))
        except (HoldfastError, OSError) as error:
            outcome = self._outcome("failed", str(error))
        self._context.emit(outcome)
        return outcome

    async def _advance(self, step: bool) -> Outcome:
        self._refresh()
        self._emit_warnings()
        await self._wait_for_tools()
        await self._judge_pending_again()
        while True:
            self._refresh()
            self.conversation.repair()
            if self._context.slots():
                outcome = await self._process_calls(at_once=not step)
                if outcome is not None:
                    return outcome
                if step:
                    return self._outcome("stepped")
            if not self.runtime.registry.ready:
                await self._context.run_unless_stopped(self.runtime.pipeline.wait_for_sources())
                continue
            outcome = self._reason_not_to_send(step) or await self._send(step)
            if outcome is not None:
                return outcome

    async def _wait_for_tools(self) -> None:
        """Wait for sources that are loading if a call names an unknown tool."""
        registry = self.runtime.registry
        if not registry.ready and any(registry.find(slot.use.name) is None for slot in self._context.slots()):
            await self._context.run_unless_stopped(self.runtime.pipeline.wait_for_sources())

    async def _judge_pending_again(self) -> None:
        """Let pending calls run that the current rules approve, for example after the frontmatter was trusted."""
        for state in self._context.slot_states():
            slot, pending = state.slot, state.pending
            if state.action is not SlotAction.WAIT_FOR_ANSWER or slot.call is None or pending is None:
                continue
            if state.arguments_changed or pending.definition_only:
                continue
            decision = await self._context.run_unless_stopped(self._context.judge(slot))
            if decision.verdict is not Verdict.APPROVE:
                continue
            # Read it again: another interface may have answered or edited the call during the decision.
            now = read_slot_state(self.runtime, slot)
            unchanged = now.pending is not None and now.pending.digest == pending.digest and not now.arguments_changed
            if unchanged and now.action is SlotAction.WAIT_FOR_ANSWER:
                self._context.withdraw(now)

    def _emit_warnings(self) -> None:
        for diagnostic in self.conversation.diagnostics():
            if diagnostic.severity == "warning":
                self._context.warn(self._with_location(diagnostic))

    def _with_location(self, diagnostic: Diagnostic) -> str:
        line = "" if diagnostic.line is None else f":{diagnostic.line}"
        return f"{self.conversation.name}{line}: {diagnostic.message}"

    def _refresh(self) -> None:
        self.conversation.refresh()
        if not self._is_current():
            raise RulesChanged

    async def _process_calls(self, only: str | None = None, *, at_once: bool = True) -> Outcome | None:
        """Phases 1 and 2, until no call can be advanced; None if no call is left."""
        context = self._context
        before: list[SlotState] = []
        if self._guard is not None:
            self._guard.evaluate_last_reply()
        while True:
            if context.write_error is not None:
                raise context.write_error
            if context.conflict is not None:
                return self._outcome("conflict", context.conflict)
            self._refresh()
            states = context.slot_states(only)
            self._restore_shown(states if only is None else context.slot_states())
            active = [state for state in states if (state.slot.turn, state.slot.use) not in context.deferred]
            if context.stopped:
                return self._outcome("cancelled", ABORTED)
            if active == before:
                return self._remaining_outcome(states)
            before = active
            if uncategorised := [state for state in active if state.action in _CATEGORISE_ACTIONS]:
                await self._calls.categorise(uncategorised, at_once=at_once)
            elif executable := [state for state in active if state.action in _EXECUTE_ACTIONS]:
                await self._calls.execute(executable)
            else:
                return self._remaining_outcome(states)

    def _restore_shown(self, states: Sequence[SlotState]) -> None:
        self._context.provenance.restore_shown(
            (state.slot, state.pending)
            for state in states
            if state.action is SlotAction.WAIT_FOR_ANSWER and state.pending is not None
        )

    def _remaining_outcome(self, states: list[SlotState]) -> Outcome | None:
        """The outcome for calls that only a person can advance."""
        edited = [state.slot for state in states if state.action is SlotAction.EDITED]
        if edited:
            for slot in edited:
                self._context.warn(_edited_message(slot))
            return self._outcome("edited", _edited_message(edited[0]))
        if not states:
            return None
        names = [f"{state.slot.use.name} ({state.slot.use.id})" for state in states]
        more = f" and {len(names) - _SHOWN_CALLS} more" if len(names) > _SHOWN_CALLS else ""
        calls = "1 call is pending" if len(names) == 1 else f"{len(names)} calls are pending"
        return self._outcome("pending", f"{calls}: {', '.join(names[:_SHOWN_CALLS])}{more}.")

    def _reason_not_to_send(self, step: bool) -> Outcome | None:
        self._emit_warnings()
        errors = [item for item in self.conversation.diagnostics() if item.severity == "error"]
        if errors:
            return self._outcome("failed", self._with_location(errors[0]))
        if not self.conversation.awaits_reply():
            return self._outcome("done")
        if not step and self.conversation.turns_since_user() >= self.max_turns:
            message = f"Autopilot stopped – exceeded {self.max_turns} consecutive turns."
            self._context.warn(message)
            return self._outcome("stopped", f"{message} Write a message to continue.")
        return None

    async def _send(self, step: bool) -> Outcome | None:
        """Phase 3; None if the reply has calls to process at once."""
        context = self._context
        if context.stopped:
            raise LoopStopped
        messages = self.conversation.messages()
        if not messages or messages[-1].role != "user":
            return self._outcome("failed", "There is nothing to send: your message is empty after template expansion.")
        if missing := calls_without_result(messages):
            return self._outcome("failed", f"Call '{missing[0]}' has no result next to it, so nothing was sent.")
        move = AskModel() if self._guard is None else self._guard.prepare(messages)
        if not isinstance(move, AskModel):
            return self._act_for_model(move, step)
        context.guard_surface = move.surface
        context.emit(PhaseStarted("send"))
        reply = await self._request_reply(messages, move.notes)
        if not isinstance(reply, ModelReply):
            return self._act_for_model(reply, step)
        uses = self._write_reply(reply)
        if reply.stopped:
            return self._outcome("cancelled", INTERRUPTED)
        if reply.ended is None:
            return self._outcome("stopped" if reply.malformed else "failed", reply.error)
        if reply.ended.stop == "refusal":
            return self._outcome("failed", "The model refused to answer. Rephrase your message.")
        if reply.ended.stop == "max_tokens":
            context.warn("The reply was cut off at `model.max_tokens`.")
        if not reply.parts:
            return self._outcome("done", "The model returned an empty reply.")
        if uses and not step:
            return None
        return self._outcome("stepped" if uses else "done")

    async def _request_reply(
        self, messages: Sequence[Message], notes: Sequence[str]
    ) -> ModelReply | CallTools | EndTurn:
        """The model's reply, or the guard's move instead. A reply that the guard rejects is not stored."""
        context = self._context
        catalog = context.catalog()
        tools = self._tool_loader.tools_to_send(catalog, messages)
        sent = list(messages) if self.context is None else trim(messages, self.context)
        if self._instructions:
            sent = _with_system_text(sent, self._instructions)
        if notes:
            sent[-1] = Message("user", (*sent[-1].parts, Text("".join(f"\n\n{note}" for note in notes))))
        while True:
            reply = await receive_reply(context, self.model.stream(sent, tools, self.settings))
            reply = replace(reply, parts=with_registered_names(reply.parts, catalog))
            if reply.usage is not None:
                self._count(reply.usage)
            if self._guard is None or reply.ended is None or reply.ended.stop == "refusal" or not reply.parts:
                return reply
            reaction = self._guard.receive(messages, reply.parts)
            if isinstance(reaction, AcceptReply):
                for rule, correction in reaction.corrections.items():
                    context.emit(GuardrailApplied(rule, "changed", correction))
                return replace(reply, parts=reaction.parts)
            if not isinstance(reaction, RetryReply):
                return reaction
            context.emit(GuardrailApplied(reaction.rule, "again", reaction.note))
            text = Text("".join(part.text for part in reply.parts if isinstance(part, Text)) or "…")
            sent += [Message("assistant", (text,)), Message("user", (Text(reaction.note),))]

    def _count(self, usage: Usage) -> None:
        self._usage += usage
        self._unwritten_usage = usage if self._unwritten_usage is None else self._unwritten_usage + usage
        self._context.emit(UsageCounted(usage, self._usage))

    def _act_for_model(self, move: CallTools | EndTurn, step: bool) -> Outcome | None:
        """Write the guard's calls or answer as an ordinary reply."""
        context = self._context
        if isinstance(move, CallTools):
            context.emit(GuardrailApplied(move.rule, "acted", move.reason))
            self._write_reply(ModelReply(move.uses))
            return self._outcome("stepped") if step else None
        context.emit(GuardrailApplied(move.rule, "stopped" if move.stopped else "answered"))
        answer = move.answer.rstrip("\n")
        context.emit(TextDelta(answer))
        self._write_reply(ModelReply((Text(answer),)))
        if move.stopped:
            return self._outcome("stopped", f"The model was stopped by the guard-rail `guardrails.{move.rule}`.")
        return self._outcome("done")

    def _write_reply(self, reply: ModelReply) -> tuple[ToolUse, ...]:
        """Write the reply to the conversation atomically, unless it is empty; return its calls."""
        if not reply.parts:
            return ()
        context, ended = self._context, reply.ended
        aborted = reply.error or None
        self.conversation.add_reply(reply.parts, aborted=aborted, usage=self._unwritten_usage)
        self._unwritten_usage = None
        context.forget_calls()
        uses = tuple(part for part in reply.parts if isinstance(part, ToolUse))
        context.emit(ReplyWritten(uses, aborted, "" if ended is None else ended.model))
        return uses

    async def _run_one(self, use_id: str, approved: LedgerCall | None) -> Outcome:
        context = self._context
        self._refresh()
        await self._wait_for_tools()
        found = context.slot_states(use_id)
        if not found:
            return self._outcome("failed", f"The last reply has no unfinished call '{use_id}'.")
        slot, pending = found[0].slot, found[0].pending
        if slot.status is Status.PENDING and not slot.text.strip():
            now = None if pending is None else LedgerCall(call_id=pending.call.id, digest=pending.digest)
            if approved not in (None, now):
                context.warn(f"Call '{use_id}' changed since it was shown, so it was not approved. Review it again.")
            elif now is not None and slot.call is not None and (approved or slot.call.digest in ("", now.digest)):
                await self._calls.run([CallJob(replace(slot, call=now), SlotAction.APPROVE)])
            else:
                context.write([SetStatus(slot, Status.APPROVED)])
        outcome = await self._process_calls(use_id)
        return outcome or self._outcome("stepped", result=context.written_results.get(use_id))

    def _outcome(self, kind: OutcomeKind, message: str = "", result: Result | None = None) -> Outcome:
        code = EXIT_CODES[kind] if result is None else result.exit_code
        slots: Sequence[Slot] = ()
        with suppress(HoldfastError, OSError):
            slots = self.conversation.slots()
        return Outcome(kind, message, tuple(slots), self._usage, code)


def _with_system_text(messages: list[Message], text: str) -> list[Message]:
    if messages and messages[0].role == "system":
        return [Message("system", (*messages[0].parts, Text(f"\n\n{text}"))), *messages[1:]]
    return [Message("system", (Text(text),)), *messages]


def _is_current_loop(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether this code runs in the event loop, not in another thread."""
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False


def _edited_message(slot: Slot) -> str:
    line = "" if slot.line is None else f" (line {slot.line})"
    return (
        f"Call '{slot.use.id}'{line} was not run because its result block contains text. Remove the `flemma:tool` "
        "fence to send the text as the result, or remove the text to run the call."
    )

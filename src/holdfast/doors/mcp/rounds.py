"""The requests that are being worked on, those between two rounds, and those whose server process has ended."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import mcp_types as types
from mcp.shared.exceptions import MCPError
from msgspec.structs import replace

from holdfast.contract.call import HeldCall
from holdfast.contract.errors import CallError, HoldfastError, NotPending, StaleApproval, UnknownCall
from holdfast.contract.inquiry import CANCELLED, Inquiry, Reply
from holdfast.contract.result import Result
from holdfast.contract.vocabulary import Failure, State
from holdfast.doors.mcp.exchange import Exchange, Sealed, Unaskable
from holdfast.doors.mcp.questions import answer_of, approval_form, reply_to
from holdfast.doors.mcp.sealing import STATE_SECONDS
from holdfast.doors.mcp.telling import Teller, Watch
from holdfast.runtime.refusals import awaiting_program

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext

    from holdfast.contract.call import Answer
    from holdfast.runtime.runtime import Runtime

MAX_SUSPENDED: Final = 256
"""Requests that may wait for their client's next round; beyond that the oldest wait in the ledger only."""
_LOST: Final = "What this answers is not open any more. Send the request again, without requestState."
_LAST_WORDS: Final = 0.7
"""Seconds calls have to end in when the door closes."""


class Rounds:
    """Finds the exchange of a call for whoever asks its person, and keeps it until its client has the answer."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._all: dict[str, Exchange] = {}
        self._by_call: dict[str, Exchange] = {}
        self._suspended: dict[str, asyncio.TimerHandle] = {}
        self.watch = Watch(self._teller_of, runtime.redact)

    def enter(self, exchange: Exchange, call_id: str, tool: str) -> None:
        """A call now runs for this request."""
        exchange.calls.append(call_id)
        self._by_call[call_id] = exchange
        self.watch.begin(call_id, tool)

    async def drive(
        self, exchange: Exchange, ctx: ServerRequestContext[Any, Any], teller: Teller
    ) -> Result | types.InputRequiredResult:
        """One round: until the request is answered or the client must come back with an answer of its own."""
        self._all[exchange.id] = exchange
        self._resume(exchange.id)
        exchange.ctx, exchange.teller = ctx, teller
        try:
            outcome = await exchange.drive()
            await teller.finish()
        except asyncio.CancelledError:
            teller.drop()
            exchange.stop(self._runtime.cancel)
            exchange.work.add_done_callback(lambda _: self._forget(exchange))
            raise
        except Exception:
            self._forget(exchange)
            raise
        finally:
            if exchange.teller is teller:
                exchange.teller = None
        if isinstance(outcome, Result):
            self._forget(exchange)
        else:
            self._suspend(exchange)
        return outcome

    async def find(self, state: Sealed) -> Exchange | None:
        """The exchange that waits for this round; one that was given up leaves it to the ledger."""
        exchange = self._all.get(state.exchange)
        if exchange is None or not exchange.given_up:
            return exchange
        await asyncio.wait((exchange.work,))
        return None

    async def ask(self, held: HeldCall) -> Answer | None:
        """The runtime's asker: the client's person, or whoever answers at another door in time."""
        exchange = self._by_call.get(held.call.group)
        if exchange is None:
            return None
        try:
            return await self._ask(exchange, held)
        except Unaskable:
            await asyncio.sleep(self._runtime.config.mcp.wait)
            return None

    async def inquire(self, inquiry: Inquiry) -> tuple[Reply, ...]:
        """The runtime's inquirer. What a client did not say it can answer is cancelled."""
        group = inquiry.group or self.watch.group_of(inquiry.call_id)
        exchange = self._by_call.get(group)
        if exchange is None:
            return (CANCELLED,) * len(inquiry.questions)
        asked = [place for place, question in enumerate(inquiry.questions) if exchange.can_ask(question)]
        answers = await exchange.ask([inquiry.questions[place] for place in asked])
        replies = [CANCELLED] * len(inquiry.questions)
        for place, reply in zip(asked, answers, strict=True):
            replies[place] = CANCELLED if reply is None else replace(reply, by=exchange.by)
        return tuple(replies)

    async def settle(self, exchange: Exchange, state: Sealed, responses: Mapping[str, object]) -> Result:
        """A round whose exchange is gone: an approval is still good, since the ledger holds the call."""
        await self._runtime.wait_for_sources()
        approvals = [(key, call_id, digest) for key, (_, call_id, digest) in state.asked.items() if call_id]
        for key, call_id, digest in approvals:
            held = self._runtime.ledger_for_held().held(call_id)
            if held is None or held.state not in (State.PENDING, State.APPROVED):
                continue
            if held.call.parent is not None:
                text = f"The call that wanted this ended with its server; it waits: holdfast approve {call_id}"
                return Result(False, error=text, state=State.UNKNOWN, failure=Failure.STALE, call_id=state.root)
            self.enter(exchange, call_id, held.call.tool)
            return await self._settle(exchange, held, digest, responses.get(key))
        ended = self._runtime.result(state.root) if state.root else None
        if ended is None:
            raise MCPError(types.INVALID_PARAMS, _LOST, {"reason": "not_open"})
        return ended

    async def close(self) -> None:
        """Held calls stay in the ledger; what runs is stopped and gets its end."""
        for timer in self._suspended.values():
            timer.cancel()
        left = list(self._all.values())
        for exchange in left:
            if exchange.inquires:
                exchange.stop(self._runtime.cancel)  # nobody has said no, so the tool must not go on as if they had
            else:
                exchange.give_up()
        tasks = [exchange.work for exchange in left if not exchange.work.done()]
        if tasks:
            await asyncio.wait(tasks, timeout=_LAST_WORDS / 2)
        for exchange in left:
            if not exchange.work.done():
                exchange.stop(self._runtime.cancel)
        if tasks:
            await asyncio.wait(tasks, timeout=_LAST_WORDS / 2)

    async def _ask(self, exchange: Exchange, held: HeldCall) -> Answer | None:
        tool = self._runtime.registry.find(held.call.tool)
        form = approval_form(held, "unknown" if tool is None else tool.risk, exchange.ctx.protocol_version)
        form = replace(form, message=self._runtime.redact(form.message))
        if not self._runtime.config.mcp.client_approves or not exchange.can_ask(form):
            raise Unaskable
        (reply,) = await exchange.ask((form,), held)
        return None if reply is None else answer_of(reply, held, exchange.by)

    async def _settle(self, exchange: Exchange, held: HeldCall, digest: str, response: object) -> Result:
        """Use the answer for what was shown; ask again about anything else."""
        runtime = self._runtime
        if held.state is State.APPROVED:
            return await runtime.desk.resume_one(held) or _elsewhere(held)
        form = approval_form(held, "", exchange.ctx.protocol_version)
        counts = held.digest == digest and runtime.config.mcp.client_approves
        reply = reply_to(form, response) if counts else None
        try:
            answer = await self._ask(exchange, held) if reply is None else answer_of(reply, held, exchange.by)
        except Unaskable:
            answer = None
        if answer is None:
            text = f"Call {held.call.id} waits for approval: holdfast approve {held.call.id}"
            failure = Failure.AWAITING_APPROVAL
            return Result(False, error=text, state=State.PENDING, failure=failure, call_id=held.call.id)
        try:
            return await runtime.answer(held.call.id, answer, digest=held.digest)
        except (NotPending, UnknownCall, StaleApproval, CallError) as error:
            ended = runtime.result(held.call.id)
            return ended or Result(False, error=str(error), state=State.PENDING, call_id=held.call.id)
        except HoldfastError as error:
            return Result(False, error=str(error), state=State.FAILED, call_id=held.call.id)

    def _teller_of(self, group: str) -> Teller | None:
        exchange = self._by_call.get(group)
        return None if exchange is None else exchange.teller

    def _suspend(self, exchange: Exchange) -> None:
        if len(self._suspended) >= MAX_SUSPENDED:
            self._expire(next(iter(self._suspended)))
        loop = asyncio.get_running_loop()
        self._suspended[exchange.id] = loop.call_later(STATE_SECONDS, self._expire, exchange.id)

    def _resume(self, identity: str) -> None:
        timer = self._suspended.pop(identity, None)
        if timer is not None:
            timer.cancel()

    def _expire(self, identity: str) -> None:
        self._resume(identity)
        exchange = self._all.get(identity)
        if exchange is not None:
            exchange.give_up()
            exchange.work.add_done_callback(lambda _: self._forget(exchange))

    def _forget(self, exchange: Exchange) -> None:
        self._resume(exchange.id)
        self._all.pop(exchange.id, None)
        for call_id in exchange.calls:
            self._by_call.pop(call_id, None)
            self.watch.end(call_id)


def _elsewhere(held: HeldCall) -> Result:
    text = awaiting_program(held)
    return Result(False, error=text, state=State.APPROVED, failure=Failure.AWAITING_PROGRAM, call_id=held.call.id)

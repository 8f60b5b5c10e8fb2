"""The requests that are being worked on, those between two rounds, and those whose server process has ended."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, cast

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from msgspec.structs import replace

from holdfast.contract.call import Answer, Call, Caller, PendingCall
from holdfast.contract.elicitation import CANCELLED, Elicitation, ElicitationReply, Question
from holdfast.contract.enums import Failure, State
from holdfast.contract.errors import HoldfastError, NotPending, StaleApproval, UnknownCall
from holdfast.contract.json import Args
from holdfast.contract.result import Result
from holdfast.contract.tool import Tool
from holdfast.mcp.server.client_request import STATE_SECONDS, CannotAsk, ClientRequest, RequestState
from holdfast.mcp.server.elicitation import SERVER, answer_of, approval_form, line_of, presented, redacted, reply_to
from holdfast.mcp.server.notifications import ClientNotifier, EventForwarder
from holdfast.runtime.runtime import Runtime
from holdfast.store import process_identity

MAX_SUSPENDED: Final = 256
"""Requests that may wait for their client's next round; beyond that the oldest wait in the ledger only."""
_LOST: Final = "What this answers is not open any more. Send the request again, without requestState."
DECLINED: Final = ElicitationReply(action="decline")
_LAST_WORDS: Final = 0.7
"""Seconds calls have to end in when the interface closes."""


class RequestTable:
    """Finds the exchange of a call for whoever asks its person, and keeps it until its client has the answer."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._all: dict[str, ClientRequest] = {}
        self._by_call: dict[str, ClientRequest] = {}
        self._suspended: dict[str, asyncio.TimerHandle] = {}
        self.watch = EventForwarder(self._teller_of, self._line_of)

    def enter(self, exchange: ClientRequest, call_id: str, tool: str) -> None:
        """A call now runs for this request."""
        exchange.calls.append(call_id)
        self._by_call[call_id] = exchange
        self.watch.begin(call_id, tool)

    async def drive(
        self, exchange: ClientRequest, ctx: ServerRequestContext[Any, Any], teller: ClientNotifier
    ) -> Result | types.InputRequiredResult:
        """One round: until the request is answered or the client must come back with an answer of its own."""
        self._all[exchange.id] = exchange
        self._resume(exchange.id)
        exchange.ctx, exchange.teller = ctx, teller
        exchange.drivers += 1
        try:
            outcome = await exchange.drive()
            await teller.finish()
        except asyncio.CancelledError:
            teller.drop()
            if exchange.drivers == 1 and exchange.id not in self._suspended:
                self._stop(exchange)
                exchange.work.add_done_callback(lambda _: self._forget(exchange))
            raise
        except Exception:
            self._forget(exchange)
            raise
        finally:
            exchange.drivers -= 1
            if exchange.teller is teller:
                exchange.teller = None
        if isinstance(outcome, Result):
            self._forget(exchange)
        else:
            self._suspend(exchange)
        return outcome

    async def find(self, state: RequestState) -> ClientRequest | None:
        """The exchange that waits for this round; one that was given up leaves it to the ledger."""
        exchange = self._all.get(state.exchange)
        if exchange is None or not exchange.given_up:
            return exchange
        await asyncio.wait((exchange.work,))
        return None

    def of_call(self, call_id: str) -> ClientRequest | None:
        """The exchange that works on this call right now."""
        return self._by_call.get(call_id)

    async def ask(self, held: PendingCall) -> Answer | None:
        """The runtime's asker: the client's person, or whoever answers at another interface in time."""
        exchange = self._by_call.get(held.call.group)
        return None if exchange is None else await self._ask(exchange, held)

    async def elicit(self, elicitation: Elicitation) -> tuple[ElicitationReply, ...]:
        """The runtime's elicitor. What a client did not say it can answer is cancelled."""
        group = elicitation.group or self.watch.group_of(elicitation.call_id)
        exchange = self._by_call.get(group)
        if exchange is None:
            return (CANCELLED,) * len(elicitation.questions)
        replies = [CANCELLED] * len(elicitation.questions)
        asked: dict[int, Question] = {}
        for place, question in enumerate(elicitation.questions):
            put = presented(question, elicitation.asked_by) if elicitation.asked_by.startswith(SERVER) else question
            if put is None:
                replies[place] = DECLINED
            elif exchange.can_ask(put):
                asked[place] = put
        answers = await exchange.ask(tuple(asked.values()))
        for place, reply in zip(asked, answers, strict=True):
            replies[place] = CANCELLED if reply is None else replace(reply, by=exchange.by)
        return tuple(replies)

    async def settle(self, exchange: ClientRequest, state: RequestState, responses: Mapping[str, object]) -> Result:
        """A round whose exchange is gone: an approval is still good, since the ledger holds the call."""
        runtime = self._runtime
        await runtime.pipeline.wait_for_sources()
        approvals = [(key, call_id, digest) for key, (_, call_id, digest) in state.asked.items() if call_id]
        for key, call_id, digest in approvals:
            held = runtime.pending.ledger.find_pending(call_id)
            if held is None:
                continue
            root = state.root or held.call.group
            if held.call.parent is not None and held.state in (State.PENDING, State.APPROVED):
                text = f"The call that wanted this ended with its server; it waits: holdfast approve {call_id}"
                return Result(False, error=text, state=State.UNKNOWN, failure=Failure.STALE, call_id=root)
            said = self._said(exchange, held, digest, responses.get(key))
            return await self.rejoin(exchange, root if held.state is State.RUNNING else call_id, said, digest)
        for call_id in (state.root,) if state.root else self._roots_of(call_id for _, call_id, _ in approvals):
            ended = runtime.pending.result(call_id)
            if ended is not None:
                return ended
        raise MCPError(types.INVALID_PARAMS, _LOST, {"reason": "not_open"})

    async def rejoin(
        self, exchange: ClientRequest, call_id: str, said: Answer | None = None, digest: str = ""
    ) -> Result:
        """Go on with a call that waits or runs already: `said` is an answer to what was shown with this digest."""
        runtime = self._runtime
        exchange.joined = True
        if call_id not in exchange.calls:
            held = runtime.pending.get(call_id)
            self.enter(exchange, call_id, "" if held is None else held.call.tool)
        if said is not None:
            try:
                await runtime.lifecycle.answer(call_id, said, digest)
            except (NotPending, UnknownCall, StaleApproval):
                pass  # somebody else was faster
            except HoldfastError as error:
                return Result(False, error=str(error), state=State.PENDING, call_id=call_id)
        return await runtime.lifecycle.rejoin(call_id, runtime.config.mcp.wait)

    async def close(self) -> None:
        """Held calls stay in the ledger; what runs is stopped and gets its end."""
        for timer in self._suspended.values():
            timer.cancel()
        left = list(self._all.values())
        for exchange in left:
            if exchange.elicits:
                self._stop(exchange)  # nobody has said no, so the tool must not go on as if they had
            else:
                exchange.give_up()
        tasks = [exchange.work for exchange in left if not exchange.work.done()]
        if tasks:
            await asyncio.wait(tasks, timeout=_LAST_WORDS / 2)
        for exchange in left:
            if not exchange.work.done():
                self._stop(exchange)
        if tasks:
            await asyncio.wait(tasks, timeout=_LAST_WORDS / 2)

    async def _ask(self, exchange: ClientRequest, held: PendingCall) -> Answer | None:
        """Whoever cannot be asked here gets the time to go to another interface."""
        runtime = self._runtime
        tool = runtime.registry.find(held.call.tool)
        shown = redacted(held, tool, runtime.redactor)
        form = approval_form(shown, "unknown" if tool is None else tool.risk, exchange.ctx.protocol_version)
        form = replace(form, message=runtime.redactor(form.message))
        try:
            if not runtime.config.mcp.client_approves or not exchange.can_ask(form):
                raise CannotAsk
            (reply,) = await exchange.ask((form,), held)
        except CannotAsk:
            await asyncio.sleep(runtime.config.mcp.wait)
            return None
        return None if reply is None else answer_of(reply, held, exchange.by)

    def _said(self, exchange: ClientRequest, held: PendingCall, digest: str, response: object) -> Answer | None:
        """An answer counts for what was shown, and for nothing else."""
        if held.state is not State.PENDING or held.digest != digest or not self._runtime.config.mcp.client_approves:
            return None
        shown = redacted(held, self._runtime.registry.find(held.call.tool), self._runtime.redactor)
        reply = reply_to(approval_form(shown, "", exchange.ctx.protocol_version), response)
        return None if reply is None else answer_of(reply, held, exchange.by)

    def _roots_of(self, call_ids: Iterable[str]) -> Iterator[str]:
        """The outermost calls of what was asked about, as the ledger knows them."""
        for call_id in call_ids:
            with contextlib.suppress(HoldfastError):
                call = self._runtime.pending.ledger.call(call_id).call
                yield call.group or call.id

    def _line_of(self, call: Call) -> str:
        clean = replace(call, args=cast(Args, self._runtime.redactor.value(call.args)))
        return line_of(clean, self._runtime.registry.find(call.tool))

    def _stop(self, exchange: ClientRequest) -> None:
        """What it waits for is withdrawn with it, unless that was parked before it came; what runs here ends."""
        exchange.stop(self._runtime.pipeline.cancel if exchange.joined else self._runtime.cancel)

    def _teller_of(self, group: str) -> ClientNotifier | None:
        exchange = self._by_call.get(group)
        return None if exchange is None else exchange.teller

    def _suspend(self, exchange: ClientRequest) -> None:
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

    def _forget(self, exchange: ClientRequest) -> None:
        self._resume(exchange.id)
        self._all.pop(exchange.id, None)
        for call_id in exchange.calls:
            self._by_call.pop(call_id, None)
            self.watch.end(call_id)


MAX_PARKED: Final = 256
PARKED_SECONDS: Final = 3600.0
_WAITS: Final = frozenset({State.PENDING, State.APPROVED, State.RUNNING})


class PendingRetries:
    """Remembers by who asked for what; a result is given once, and after that the same request is a new call."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._calls: dict[str, tuple[str, float]] = {}
        self._left: set[str] | None = None

    def key_of(self, caller: Caller, tool: Tool | None, args: Any) -> str:
        """The same for the same; empty where that cannot be told."""
        if tool is None:
            return ""
        try:
            said = json.dumps([caller.agent, caller.session, tool.name, args], sort_keys=True)
        except (TypeError, ValueError, RecursionError):
            return ""
        return hashlib.sha256(said.encode()).hexdigest()

    def find(self, key: str, caller: Caller, tool: Tool | None, args: Any) -> str | None:
        """The call that waits for this very thing, here or left behind by a server that has ended."""
        if not key or tool is None:
            return None
        call_id, since = self._calls.get(key, ("", 0.0))
        if call_id and time.monotonic() - since < PARKED_SECONDS:
            return call_id
        self._calls.pop(key, None)
        return self._left_behind(caller, tool, args)

    def ended(self, key: str, result: Result) -> None:
        """What a request was answered with: a call that goes on is remembered, any other is over."""
        self._calls.pop(key, None)
        if not key or result.state not in _WAITS or not result.call_id:
            return
        self._calls[key] = (result.call_id, time.monotonic())
        if len(self._calls) > MAX_PARKED:
            del self._calls[next(iter(self._calls))]

    def _left_behind(self, caller: Caller, tool: Tool, args: Any) -> str | None:
        """What servers before this one left in the ledger is looked through once: there is nothing new among it."""
        if self._left is None:
            own = f"{self._runtime.session}-"
            self._left = {held.call.id for held in self._runtime.pending.list() if not held.call.id.startswith(own)}
        if not self._left:
            return None
        try:
            accepted = tool.schema.validate(dict(args))
        except HoldfastError:
            return None
        for call_id in tuple(self._left):
            held = self._runtime.pending.get(call_id)
            if held is None:
                self._left.discard(call_id)
            elif held.call.args == accepted and _is_of(held, caller, tool):
                return call_id
        return None


def _is_of(held: PendingCall, caller: Caller, tool: Tool) -> bool:
    """Asked for by nobody who still waits, and by the same client as far as that can be known."""
    call, asked = held.call, held.call.caller
    if (asked.interface, asked.agent, call.tool, call.parent) != (caller.interface, caller.agent, tool.name, None):
        return False
    return held.waiter is None or not process_identity.is_alive(held.waiter)

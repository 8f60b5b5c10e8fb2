"""Tracks client requests: in progress, between two rounds, and resumed after a server restart. Deduplicates retries."""

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
from holdfast.runtime.results import still_pending
from holdfast.runtime.runtime import Runtime
from holdfast.store import process_identity

MAX_SUSPENDED: Final = 256
"""Requests that may wait for their client's next round; beyond that the oldest stay pending in the ledger only."""
_LOST: Final = "This answers a question that is no longer open. Send the request again without requestState."
DECLINED: Final = ElicitationReply(action="decline")
_LAST_WORDS: Final = 0.7
"""Seconds that calls have to finish when the server closes."""


class RequestTable:
    """Finds the request of a call, to ask its user, and keeps it until the client has the response."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._all: dict[str, ClientRequest] = {}
        self._by_call: dict[str, ClientRequest] = {}
        self._suspended: dict[str, asyncio.TimerHandle] = {}
        self.watch = EventForwarder(self._teller_of, self._line_of)

    def enter(self, exchange: ClientRequest, call_id: str, tool: str) -> None:
        """Register a call that runs for this request."""
        exchange.calls.append(call_id)
        self._by_call[call_id] = exchange
        self.watch.begin(call_id, tool)

    async def drive(
        self, exchange: ClientRequest, ctx: ServerRequestContext[Any, Any], teller: ClientNotifier
    ) -> Result | types.InputRequiredResult:
        """One round: until the request has a response, or a question that the client must answer in another round."""
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
        """The request that waits for this round; None if it was abandoned and only the ledger has its call."""
        exchange = self._all.get(state.exchange)
        if exchange is None or not exchange.given_up:
            return exchange
        await asyncio.wait((exchange.work,))
        return None

    def of_call(self, call_id: str) -> ClientRequest | None:
        """The request that is working on this call."""
        return self._by_call.get(call_id)

    async def ask(self, held: PendingCall) -> Answer | None:
        """The runtime's asker: asks the client's user, while any other interface may answer first."""
        exchange = self._by_call.get(held.call.group)
        return None if exchange is None else await self._ask(exchange, held)

    async def elicit(self, elicitation: Elicitation) -> tuple[ElicitationReply, ...]:
        """The runtime's elicitor. A question that the client cannot answer is cancelled."""
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
        """Take the answers of a round whose request is gone. An approval still counts: the ledger has the call."""
        runtime = self._runtime
        await runtime.pipeline.wait_for_sources()
        approvals = [(key, call_id, digest) for key, (_, call_id, digest) in state.asked.items() if call_id]
        for key, call_id, digest in approvals:
            held = runtime.pending.ledger.find_pending(call_id)
            if held is None:
                continue
            root = state.root or held.call.group
            if held.call.parent is not None and held.state in (State.PENDING, State.APPROVED):
                text = f"The server was restarted, and the call is pending: holdfast approve {call_id}"
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
        """Continue with a call that is pending or running; `said` answers what was shown with this digest."""
        runtime = self._runtime
        exchange.joined = True
        if call_id not in exchange.calls:
            held = runtime.pending.get(call_id)
            self.enter(exchange, call_id, "" if held is None else held.call.tool)
        if said is not None:
            try:
                answered = await runtime.lifecycle.answer(call_id, said, digest)
                if answered.state is State.PENDING:  # another person must approve it, too
                    return still_pending(answered, shared=runtime.pending.shared)
            except (NotPending, UnknownCall, StaleApproval):
                pass  # another interface answered first
            except HoldfastError as error:
                return Result(False, error=str(error), state=State.PENDING, call_id=call_id)
        return await runtime.lifecycle.rejoin(call_id, runtime.config.mcp.wait)

    async def close(self) -> None:
        """Stop running calls, which get their result. Pending calls stay in the ledger."""
        for timer in self._suspended.values():
            timer.cancel()
        left = list(self._all.values())
        for exchange in left:
            if exchange.elicits:
                self._stop(exchange)  # no answer is not a "no": the tool must not continue as if the user had declined
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
        """Ask the user. If the client cannot, give another interface time to answer."""
        runtime = self._runtime
        tool = runtime.registry.find(held.call.tool)
        shown = redacted(held, tool, runtime.redactor)
        form = approval_form(shown, "unknown" if tool is None else tool.risk, exchange.ctx.protocol_version)
        form = replace(form, message=runtime.redactor(form.message))
        try:
            approves = runtime.config.mcp.client_approves and process_identity.own_identity() not in held.approved_by
            if not approves or not exchange.can_ask(form):
                raise CannotAsk
            (reply,) = await exchange.ask((form,), held)
        except CannotAsk:
            await asyncio.sleep(runtime.config.mcp.wait)
            return None
        return None if reply is None else answer_of(reply, held, exchange.by)

    def _said(self, exchange: ClientRequest, held: PendingCall, digest: str, response: object) -> Answer | None:
        """The answer, if it is for exactly the call and digest that were shown."""
        if held.state is not State.PENDING or held.digest != digest or not self._runtime.config.mcp.client_approves:
            return None
        shown = redacted(held, self._runtime.registry.find(held.call.tool), self._runtime.redactor)
        reply = reply_to(approval_form(shown, "", exchange.ctx.protocol_version), response)
        return None if reply is None else answer_of(reply, held, exchange.by)

    def _roots_of(self, call_ids: Iterable[str]) -> Iterator[str]:
        """The outermost calls of the calls that were asked about, from the ledger."""
        for call_id in call_ids:
            with contextlib.suppress(HoldfastError):
                call = self._runtime.pending.ledger.call(call_id).call
                yield call.group or call.id

    def _line_of(self, call: Call) -> str:
        clean = replace(call, args=cast(Args, self._runtime.redactor.value(call.args)))
        return line_of(clean, self._runtime.registry.find(call.tool))

    def _stop(self, exchange: ClientRequest) -> None:
        """Cancel the request's work. A call that was pending before it stays."""
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
    """Deduplicates retries by caller, tool and arguments: a client that repeats a pending request joins the existing
    call. A result is delivered once; after that the same request is a new call."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._calls: dict[str, tuple[str, float]] = {}
        self._left: set[str] | None = None

    def key_of(self, caller: Caller, tool: Tool | None, args: Any) -> str:
        """The deduplication key; empty if the request cannot be identified."""
        if tool is None:
            return ""
        try:
            said = json.dumps([caller.agent, caller.session, tool.name, args], sort_keys=True)
        except (TypeError, ValueError, RecursionError):
            return ""
        return hashlib.sha256(said.encode()).hexdigest()

    def find(self, key: str, caller: Caller, tool: Tool | None, args: Any) -> str | None:
        """The pending call of the same request, from this process or from an earlier server."""
        if not key or tool is None:
            return None
        call_id, since = self._calls.get(key, ("", 0.0))
        if call_id and time.monotonic() - since < PARKED_SECONDS:
            return call_id
        self._calls.pop(key, None)
        return self._left_behind(caller, tool, args)

    def ended(self, key: str, result: Result) -> None:
        """Record the end of a request: a call that is still pending is remembered, any other is forgotten."""
        self._calls.pop(key, None)
        if not key or result.state not in _WAITS or not result.call_id:
            return
        self._calls[key] = (result.call_id, time.monotonic())
        if len(self._calls) > MAX_PARKED:
            del self._calls[next(iter(self._calls))]

    def _left_behind(self, caller: Caller, tool: Tool, args: Any) -> str | None:
        """Look through the calls of earlier servers. Once is enough: no new ones appear among them."""
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
    """Whether the call has no waiting process and comes from the same client, as far as that is known."""
    call, asked = held.call, held.call.caller
    if (asked.interface, asked.agent, call.tool, call.parent) != (caller.interface, caller.agent, tool.name, None):
        return False
    return held.waiter is None or not process_identity.is_alive(held.waiter)

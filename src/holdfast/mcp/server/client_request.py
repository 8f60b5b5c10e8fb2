"""One client request from arrival to response, over any number of elicitation rounds."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import mcp_types as types
import msgspec
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types.methods import INPUT_REQUIRED_METHODS, serialize_server_result
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from msgspec import Struct
from pydantic import ValidationError

from holdfast.contract.call import Caller, PendingCall
from holdfast.contract.elicitation import CANCELLED, ElicitationReply, Question
from holdfast.contract.enums import Failure, State
from holdfast.contract.errors import HoldfastError
from holdfast.contract.result import Result
from holdfast.fs.replace import create_private_once, read_private
from holdfast.mcp.server.elicitation import can_answer, reply_to, request_of, result_type
from holdfast.mcp.server.notifications import ClientNotifier

APPROVAL: Final = "approval-"
"""Prefix of the key of a question whose answer approves a call."""
_MAX_OPEN: Final = 64
"""Questions that may be open for one request."""


class CannotAsk(Exception):
    """The client cannot put this question to its user."""


class RequestState(Struct, frozen=True, kw_only=True, array_like=True):
    """State that the client sends back, sealed, in its next round."""

    exchange: str
    root: str
    """The call of the request; empty for a request with several calls."""
    asked: dict[str, tuple[int, str, str]]
    """Per question its number and, for an approval, the pending call and the digest that was shown."""


class _Open:
    """A question that is waiting for the next round."""

    def __init__(self, number: int, question: Question, request: types.InputRequest, held: PendingCall | None) -> None:
        self.number = number
        self.question = question
        self.request = request
        self.held = held
        self.reply: asyncio.Future[ElicitationReply | None] = asyncio.get_running_loop().create_future()


class ClientRequest:
    """A request in progress. Its work runs in its own task, because a round may end while a question is open."""

    def __init__(self, ctx: ServerRequestContext[Any, Any], caller: Caller, by: str) -> None:
        self.id = secrets.token_hex(8)
        self.root = ""
        self.calls: list[str] = []
        self.caller = caller
        self.by = by
        self.teller: ClientNotifier | None = None
        self.ctx = ctx
        self.modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
        self.given: dict[str, Any] = {}
        """Answers that arrived with the request itself, before anything was asked. They never approve a call."""
        self.given_up = False
        self.joined = False
        """Whether the call existed before this request; such a call stays when the request goes."""
        self.drivers = 0
        """Requests that wait for its end right now: a client may send the same round twice."""
        self._suspends = self.modern and ctx.method in INPUT_REQUIRED_METHODS
        self._open: dict[str, _Open] = {}
        self._numbers = 0
        self._woken = asyncio.Event()
        self._work: asyncio.Task[Result] | None = None

    def begin(self, work: Awaitable[Result]) -> None:
        async def run() -> Result:
            try:
                return await work
            finally:
                self._woken.set()  # wakes `drive` now, not one loop iteration later

        self._work = asyncio.create_task(run())
        self._work.add_done_callback(self._ended)

    def _ended(self, work: asyncio.Task[Result]) -> None:
        if not work.cancelled():
            work.exception()  # marks the exception as retrieved, even if the client has disconnected
        self._woken.set()

    @property
    def work(self) -> asyncio.Task[Result]:
        assert self._work is not None
        return self._work

    async def drive(self) -> Result | types.InputRequiredResult:
        """Wait until the work ends or asks a question that the client must answer in another round."""
        work = self.work
        while not work.done():
            self._drop_unaskable()
            if self._open and self._suspends:
                return self.question()
            self._woken.clear()
            await self._woken.wait()
        return _cancelled() if work.cancelled() else work.result()

    def question(self) -> types.InputRequiredResult:
        asked = {key: (item.number, *_subject(item.held)) for key, item in self._open.items()}
        state = RequestState(exchange=self.id, root=self.root, asked=asked)
        requests = {key: item.request for key, item in self._open.items()}
        return types.InputRequiredResult(input_requests=requests, request_state=seal_state(state))

    def receive(self, state: RequestState, responses: Mapping[str, object]) -> None:
        """Take the answers to questions that are still open as they were asked; ignore the others."""
        for key, (number, _, _) in state.asked.items():
            item = self._open.get(key)
            if item is None or item.number != number or item.reply.done():
                continue
            reply = reply_to(item.question, responses.get(key))
            if reply is not None:
                del self._open[key]
                item.reply.set_result(reply)

    def _drop_unaskable(self) -> None:
        """Drop questions that this round's client cannot answer: every round declares its capabilities again."""
        for key, item in list(self._open.items()):
            if item.reply.done() or self.can_ask(item.question):
                continue
            del self._open[key]
            if item.held is None:
                item.reply.set_result(None)
            else:
                item.reply.set_exception(CannotAsk())

    def give_up(self) -> None:
        """Abandon the open questions: no further round will come. Pending calls stay in the ledger."""
        self.given_up = True
        for item in self._open.values():
            if not item.reply.done():
                item.reply.set_result(None)
        self._open.clear()

    @property
    def elicits(self) -> bool:
        """Whether a question is open that no other interface can answer."""
        return any(item.held is None for item in self._open.values())

    def can_ask(self, question: Question) -> bool:
        reaches = self._suspends if self.modern else self.ctx.session.can_send_request
        return reaches and can_answer(question, self.ctx.session.client_capabilities)

    async def ask(
        self, questions: Sequence[Question], held: PendingCall | None = None
    ) -> tuple[ElicitationReply | None, ...]:
        """Ask the user all questions at once; None for a question without an answer. Raises `CannotAsk`."""
        put = self._put_aside if self._suspends else self._send
        return tuple(await asyncio.gather(*(put(question, held) for question in questions)))

    def stop(self, cancel: Callable[[str], bool]) -> None:
        """Stop the work: the client disconnected or cancelled. The call is cancelled and still gets its result."""
        stopped = False
        for call_id in self.calls:
            with contextlib.suppress(HoldfastError):
                stopped = cancel(call_id) or stopped
        if not stopped:
            self.work.cancel()

    async def _put_aside(self, question: Question, held: PendingCall | None) -> ElicitationReply | None:
        given = self.given.pop(question.key, None) if held is None and question.key else None
        if given is not None and (reply := reply_to(question, given)) is not None:
            return reply
        if len(self._open) >= _MAX_OPEN:
            return None
        request = self._checked(question)
        self._numbers += 1
        key = self._key_for(question, held)
        item = self._open[key] = _Open(self._numbers, question, request, held)
        self._woken.set()
        try:
            return await item.reply
        finally:
            if self._open.get(key) is item:
                del self._open[key]
                self._woken.set()

    def _key_for(self, question: Question, held: PendingCall | None) -> str:
        """An unused key. Keys of approvals are reserved."""
        wanted = question.key
        if held is None and wanted and not wanted.startswith(APPROVAL) and wanted not in self._open:
            return wanted
        kind, number = APPROVAL if held is not None else "question-", self._numbers
        while f"{kind}{number}" in self._open:
            number += 1
        return f"{kind}{number}"

    def _checked(self, question: Question) -> types.InputRequest:
        """The question as a request. Raises if this protocol version cannot express it, so that only the question
        fails."""
        request = request_of(question)
        asked = types.InputRequiredResult(input_requests={"key": request})
        wire = asked.model_dump(by_alias=True, mode="json", exclude_none=True)
        serialize_server_result(self.ctx.method, self.ctx.protocol_version, wire)
        return request

    async def _send(self, question: Question, held: PendingCall | None) -> ElicitationReply | None:
        request: Any = request_of(question)
        related = ServerMessageMetadata(related_request_id=self.ctx.request_id)
        try:
            answer = await self.ctx.session.send_request(request, result_type(question), metadata=related)
        except (MCPError, ValidationError) as error:
            if held is not None:
                raise CannotAsk(str(error)) from error
            declined = isinstance(error, MCPError) and error.error.code != types.CONNECTION_CLOSED
            return ElicitationReply(action="decline") if declined else CANCELLED
        return reply_to(question, answer) or CANCELLED


def seal_state(state: RequestState) -> str:
    return json.dumps([state.exchange, state.root, state.asked], separators=(",", ":"))


def unseal_state(text: str) -> RequestState:
    """The state from its sealed form. The SDK has verified the seal, so it is our own."""
    return msgspec.convert(json.loads(text), RequestState)


def _subject(held: PendingCall | None) -> tuple[str, str]:
    return ("", "") if held is None else (held.call.id, held.digest)


def _cancelled() -> Result:
    text = "The call was stopped before it finished."
    return Result(False, error=text, state=State.CANCELLED, failure=Failure.CANCELLED)


KEY_FILE: Final = "mcp.key"
STATE_SECONDS: Final = 3600.0
"""Seconds a client has to answer a question. After that the call is pending in the ledger only."""
_KEY_BYTES: Final = 32


def sealing_key(state: Path | None) -> bytes:
    """The project's sealing key, created on first use; without a state directory, a key for this process only."""
    if state is None:
        return _new_key()
    path = state / KEY_FILE
    try:
        return _read(path)
    except FileNotFoundError:
        create_private_once(path, _new_key)
        return _read(path)


def _new_key() -> bytes:
    return os.urandom(_KEY_BYTES)


def _read(path: Path) -> bytes:
    try:
        key = read_private(path, _KEY_BYTES + 1)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise _unusable(path) from error
    if len(key) != _KEY_BYTES:
        raise _unusable(path)
    return key


def _unusable(path: Path) -> HoldfastError:
    return HoldfastError(
        f"{path} is not a key file that only you can read. Delete it to create a new one; open questions are lost."
    )

"""Pending calls, an inbox and a clock for the tests of notifications."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from holdfast.contract.call import Call, Caller, Decision, PendingCall, Proposal
from holdfast.contract.enums import Risk, State, Verdict
from holdfast.notify.message import Message, pending_message, question_of
from holdfast.store.redact import Redactor
from holdfast.text.preview import preview

PROJECT = "/home/ada/web"


def pending_call(
    call_id: str = "c1",
    tool: str = "shell.exec",
    text: str | None = None,
    *,
    command: str = "rm -rf build",
    risk: Risk | None = Risk.HIGH,
    agent: str | None = "coder",
    digest: str = "d1",
    state: State = State.PENDING,
    held_at: float = 1_000.0,
) -> PendingCall:
    """A call that waits for an answer. `text` is its preview; without it, the one that the runtime would make."""
    args: dict[str, Any] = {"command": command}
    proposal = None
    if risk is not None:
        proposal = Proposal(tool_name=tool, summary=command, risk=risk, payload={"command": command})
    return PendingCall(
        call=Call(call_id, tool, tool, args, Caller(interface="cli", agent=agent), PROJECT),
        state=state,
        digest=digest,
        definition_digest="def",
        decision=Decision(Verdict.ASK, "rule", "No rule covers this call."),
        preview=preview(tool, args, 160, lambda given, _: given["command"]) if text is None else text,
        summary=command,
        proposal=proposal,
        held_at=held_at,
    )


def message_of(*calls: PendingCall, redactor: Redactor | None = None, link: str = "") -> Message:
    redactor = redactor or Redactor()
    return pending_message([question_of(each, PROJECT, redactor, link=link) for each in calls])


@dataclass
class FakeInbox:
    """Knows what was answered."""

    answered: set[str] = field(default_factory=set[str])
    base: str = "http://127.0.0.1:4455"

    def is_pending(self, project: str, pending: PendingCall) -> bool:
        return pending.call.id not in self.answered

    def link(self, project: str, pending: PendingCall | None) -> str:
        return f"{self.base}/" if pending is None else f"{self.base}/calls/{pending.call.id}"

    def expires_at(self, project: str, pending: PendingCall) -> float | None:
        return pending.held_at + 60


@dataclass
class RecordingChannel:
    """Keeps messages; `behave` may raise or wait."""

    name: str = "recorder"
    target: str = "here"
    messages: list[Message] = field(default_factory=list[Message])
    behave: Callable[[], Any] | None = None

    async def send(self, message: Message) -> None:
        if self.behave is not None and (found := self.behave()) is not None:
            await found
        self.messages.append(message)


class FakeClock:
    """Time that passes only when a test says so. `sleep` ends when the time has come."""

    def __init__(self, now: float = 1_000.0) -> None:
        self.now = now
        self._sleepers: list[tuple[float, asyncio.Event]] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        woken = asyncio.Event()
        self._sleepers.append((self.now + seconds, woken))
        await woken.wait()

    async def asleep(self) -> None:
        """Wait until something sleeps."""
        await _until(lambda: bool(self._sleepers))

    async def advance(self, seconds: float) -> None:
        """Let time pass, and let everything run that was waiting for it."""
        self.now += seconds
        due = [each for each in self._sleepers if each[0] <= self.now]
        self._sleepers = [each for each in self._sleepers if each[0] > self.now]
        for _, woken in due:
            woken.set()
        for _ in range(50):
            await asyncio.sleep(0)


async def _until(met: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not met():  # noqa: ASYNC110 - what it waits for sets no event
            await asyncio.sleep(0)

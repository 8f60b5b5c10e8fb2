"""Interfaces attached to a runtime, several at once: each can be asked for approvals and put questions to a person."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, Literal, cast, get_args

from msgspec import Struct

from holdfast.contract.call import Answer, PendingCall
from holdfast.contract.elicitation import CANCELLED, Elicitation, ElicitationReply, Elicitor
from holdfast.contract.errors import CallError
from holdfast.contract.event import ElicitationStarted
from holdfast.contract.result import Result
from holdfast.contract.tool import suggest_choices
from holdfast.runtime.events import Events
from holdfast.runtime.results import message_of

AskerReply = Answer | bool | None
"""What an asker returns: an answer, True to approve, False to reject, or None if nobody answered."""
Asker = Callable[[PendingCall], AskerReply | Awaitable[AskerReply]]
"""Shows a pending call to a person. A plain function runs in a thread, so it may block on input."""
OnAnswered = Callable[[PendingCall, PendingCall | Result], None]
"""Called when another interface answered first: with the call as it was asked about, and the approved call or the
result."""
Nobody = Literal["deny", "pending", "wait"]
"""What happens to a call that needs approval when no interface answers: it is denied, it stays pending for a later
answer, or the caller waits."""


def check_nobody(given: object) -> Nobody:
    if isinstance(given, str) and given in get_args(Nobody):
        return cast(Nobody, given)
    shown = message_of(given, type(given).__name__)[:40]
    raise CallError(f"nobody={shown!r} is not known. {suggest_choices(shown, get_args(Nobody))}")


class AttachedInterface(Struct, frozen=True, eq=False, kw_only=True):
    """The handle of an attached interface. Use it as a context manager, or call `remove`."""

    owner: Interfaces
    asker: Asker | None = None
    elicitor: Elicitor | None = None
    on_answered: OnAnswered | None = None
    nobody: Nobody | None = None
    by: str = "program"

    def remove(self) -> bool:
        return self.owner.detach(self)

    def __enter__(self) -> AttachedInterface:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    async def ask(self, pending: PendingCall) -> Answer | None:
        """The person's answer; None if nobody answered."""
        if self.asker is None:
            return None
        reply = self.asker(pending) if _is_async(self.asker) else await asyncio.to_thread(self.asker, pending)
        if inspect.isawaitable(reply):
            reply = await reply
        if isinstance(reply, bool):
            return Answer(kind="approve" if reply else "reject", by=self.by)
        return reply


class Interfaces:
    """The attached interfaces. All are asked about a pending call, and the first valid answer counts."""

    def __init__(self, events: Events, nobody: Nobody) -> None:
        self._events = events
        self._nobody: Nobody = check_nobody(nobody)
        self._attached: tuple[AttachedInterface, ...] = ()
        self._on_change: list[Callable[[], None]] = []

    def attach(
        self,
        asker: Asker | None = None,
        *,
        elicitor: Elicitor | None = None,
        on_answered: OnAnswered | None = None,
        nobody: Nobody | None = None,
        by: str = "program",
    ) -> AttachedInterface:
        for what, given in (("asker", asker), ("elicitor", elicitor), ("on_answered", on_answered)):
            if given is not None and not callable(given):
                raise CallError(f"The {what} of an interface must be a function, not {type(given).__name__}.")
        if nobody is not None:
            nobody = check_nobody(nobody)
        made = AttachedInterface(
            owner=self, asker=asker, elicitor=elicitor, on_answered=on_answered, nobody=nobody, by=by
        )
        self._attached = (*self._attached, made)
        self._changed()
        return made

    def detach(self, interface: AttachedInterface) -> bool:
        left = tuple(item for item in self._attached if item is not interface)
        gone = len(left) < len(self._attached)
        self._attached = left
        self._changed()
        return gone

    def on_change(self, changed: Callable[[], None]) -> None:
        self._on_change.append(changed)

    def _changed(self) -> None:
        for changed in self._on_change:
            changed()

    @property
    def can_ask(self) -> bool:
        """Whether a call that needs approval may get an answer, now or later."""
        return bool(self.askers) or self.nobody != "deny"

    @property
    def askers(self) -> tuple[AttachedInterface, ...]:
        return tuple(item for item in self._attached if item.asker is not None)

    @property
    def can_elicit(self) -> bool:
        """Whether a running tool's questions can reach a person."""
        return any(item.elicitor is not None for item in self._attached)

    @property
    def nobody(self) -> Nobody:
        """What happens to a call that no interface answers; the interface attached last decides."""
        for item in reversed(self._attached):
            if item.nobody is not None:
                return item.nobody
        return self._nobody

    async def elicit(self, elicitation: Elicitation) -> tuple[ElicitationReply, ...]:
        """Put questions to a person, through the interface attached last first. Without one, each is cancelled."""
        if not self._events.idle:
            self._events.emit(ElicitationStarted(elicitation.call_id, elicitation))
        nothing = (CANCELLED,) * len(elicitation.questions)
        for item in reversed(self._attached):
            if item.elicitor is None:
                continue
            try:
                replies = await item.elicitor(elicitation)
            except Exception as error:
                reason = message_of(error, "an error")
                self._events.warn(f"The questions of '{elicitation.asked_by}' could not be shown to a person: {reason}")
                continue
            if replies != nothing:
                return replies
        return nothing


def _is_async(asker: Any) -> bool:
    """Whether calling it returns a coroutine; an object can have an async `__call__`."""
    return inspect.iscoroutinefunction(asker) or inspect.iscoroutinefunction(asker.__call__)

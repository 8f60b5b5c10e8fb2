"""Who can be asked: the interfaces that are attached to a runtime, several at once."""

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
"""What an asker says: an answer, a plain yes or no, or that nobody answered here."""
Asker = Callable[[PendingCall], AskerReply | Awaitable[AskerReply]]
"""Shows a pending call to a person. A plain function runs in a thread of its own, so that it may wait for input."""
OnAnswered = Callable[[PendingCall, PendingCall | Result], None]
"""Hears that somebody else answered: the call as it was asked about, and the approved call or the result."""
Nobody = Literal["deny", "pending", "wait"]
"""What happens to a call that must be asked about when nobody here answers."""


def check_nobody(given: object) -> Nobody:
    if isinstance(given, str) and given in get_args(Nobody):
        return cast(Nobody, given)
    shown = message_of(given, type(given).__name__)[:40]
    raise CallError(f"nobody={shown!r} is not known. {suggest_choices(shown, get_args(Nobody))}")


class AttachedInterface(Struct, frozen=True, eq=False, kw_only=True):
    """One attached interface. Use it as a context manager, or call `remove`."""

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
        """The answer of the person behind this interface; None if there is none."""
        if self.asker is None:
            return None
        said = self.asker(pending) if _is_async(self.asker) else await asyncio.to_thread(self.asker, pending)
        if inspect.isawaitable(said):
            said = await said
        if isinstance(said, bool):
            return Answer(kind="approve" if said else "reject", by=self.by)
        return said


class Interfaces:
    """Every interface is asked about every call that is waited for here. The first valid answer counts."""

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

    def detach(self, attachment: AttachedInterface) -> bool:
        left = tuple(item for item in self._attached if item is not attachment)
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
        """Whether somebody may answer, now or later."""
        return bool(self.askers) or self.nobody != "deny"

    @property
    def askers(self) -> tuple[AttachedInterface, ...]:
        return tuple(item for item in self._attached if item.asker is not None)

    @property
    def can_elicit(self) -> bool:
        """Whether questions of a running tool reach anybody."""
        return any(item.elicitor is not None for item in self._attached)

    @property
    def nobody(self) -> Nobody:
        """What happens to a call that nobody here answers; the interface that came last decides."""
        for item in reversed(self._attached):
            if item.nobody is not None:
                return item.nobody
        return self._nobody

    async def elicit(self, elicitation: Elicitation) -> tuple[ElicitationReply, ...]:
        """Put questions to a person, at the interface that came last first; where nobody is, each is cancelled."""
        if not self._events.idle:
            self._events.emit(ElicitationStarted(elicitation.call_id, elicitation))
        nothing = (CANCELLED,) * len(elicitation.questions)
        for item in reversed(self._attached):
            if item.elicitor is None:
                continue
            try:
                replies = await item.elicitor(elicitation)
            except Exception as error:
                words = message_of(error, "an error")
                self._events.warn(f"What '{elicitation.asked_by}' asked could not be put to anybody: {words}")
                continue
            if replies != nothing:
                return replies
        return nothing


def _is_async(asker: Any) -> bool:
    """Objects with an async `__call__` count, too."""
    return inspect.iscoroutinefunction(asker) or inspect.iscoroutinefunction(asker.__call__)

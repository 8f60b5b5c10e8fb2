"""What the loop needs of a conversation, wherever it is kept: in memory, or in a document that people edit."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import StrEnum
from typing import Final, Literal, Protocol

from msgspec import Struct

from holdfast.contract.message import Message, Part, ToolUse
from holdfast.contract.result import Result
from holdfast.models.port import Usage

NOT_RECORDED: Final = "No result was recorded for this call; it was not run again."
"""What `repair` tells the model about a call of an earlier reply."""


class Status(StrEnum):
    """What a placeholder says about its call. A person may change it; a result replaces it."""

    PENDING = "pending"
    APPROVED = "approved"
    DENIED = "denied"
    REJECTED = "rejected"
    ABORTED = "aborted"


class LedgerCall(Struct, frozen=True, kw_only=True):
    """The call in the ledger that stands for a slot."""

    call_id: str
    digest: str
    """What was held when the placeholder was written: an approval in the conversation is an approval of this.
    Empty for a call that runs without being held."""


class Slot(Struct, frozen=True, kw_only=True):
    """A call of the last reply that has no result yet, and what the conversation says about it."""

    turn: int
    """Which reply asks for it, counted from 0. Ids are unique only within one."""
    use: ToolUse
    status: Status | None = None
    """None: there is no placeholder yet."""
    text: str = ""
    """What a person put into the placeholder."""
    aborted: str | None = None
    """Why the reply that asks for it was stopped, if it was."""
    call: LedgerCall | None = None
    """Set only while exactly this call (turn, id, name, arguments) is the one in the ledger."""
    line: int | None = None
    """Where its placeholder is, from 1; where a conversation has lines."""


class SetStatus(Struct, frozen=True):
    """Say this about a call, in place of what is said now; whatever text was in the placeholder goes."""

    slot: Slot
    status: Status


class SetResult(Struct, frozen=True):
    """This is the result of a call."""

    slot: Slot
    result: Result


class Diagnostic(Struct, frozen=True):
    """Something a person should look at. An error keeps the conversation from being sent."""

    severity: Literal["error", "warning"]
    message: str
    line: int | None = None
    column: int | None = None


class Conflict(Exception):
    """Somebody changed the conversation in a way that does not go together with what was to be written.

    Nothing of theirs was touched; what was to be written is kept where the message says.
    """


class Conversation(Protocol):
    """Every method that changes something does so durably and as one step, or raises and changes nothing."""

    @property
    def id(self) -> str:
        """The same for the same conversation in every process; no other has it."""
        ...

    @property
    def name(self) -> str:
        """How messages call it: the name of a file, for one."""
        ...

    def refresh(self) -> bool:
        """Take in what others changed since; whether anything did."""
        ...

    def slots(self) -> Sequence[Slot]:
        """The calls of the last reply that have no result, in the order they were asked for.

        Calls of earlier replies never come here: `repair` gives them a result that says they were not run.
        """
        ...

    def repair(self) -> int:
        """Give every call of an earlier reply that has no result one, beside it; how many there were."""
        ...

    def change(self, changes: Sequence[SetStatus | SetResult]) -> None:
        """Write placeholders and results beside their calls, in the order of the calls. Raises `Conflict`."""
        ...

    def remember(self, slot: Slot, opened: LedgerCall | None) -> None:
        """Keep, across crashes, which call of the ledger stands for a slot; None forgets it."""
        ...

    def remember_all(self, opened: Sequence[tuple[Slot, LedgerCall]]) -> None:
        """Like `remember`, for many slots in one step."""
        ...

    def forget(self, call_ids: Collection[str]) -> None:
        """Drop what was remembered of these calls of the ledger, whether or not a slot still asks for them."""
        ...

    def remembered(self) -> Sequence[LedgerCall]:
        """All that was remembered and not forgotten, also for calls the conversation does not ask for any more."""
        ...

    def messages(self) -> Sequence[Message]:
        """What is sent to a model. Every call in it has its result in the message after it."""
        ...

    def diagnostics(self) -> Sequence[Diagnostic]: ...

    def awaits_reply(self) -> bool:
        """Whether the last word is a person's or a tool's, so that a model has something to answer."""
        ...

    def turns_since_user(self) -> int:
        """Replies since a person last wrote something of their own."""
        ...

    def add_reply(self, parts: Sequence[Part], *, aborted: str | None = None, usage: Usage | None = None) -> None:
        """Append a reply, and make room for the person's next words after one that asks for no calls.

        Raises `Conflict` when what it answers has been changed meanwhile.
        """
        ...

"""The `Conversation` protocol that the agent loop works on, whether it is kept in memory or in a document."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import StrEnum
from typing import Final, Literal, Protocol

from msgspec import Struct

from holdfast.contract.message import Message, Part, ToolUse
from holdfast.contract.result import Result
from holdfast.models.port import Usage

NOT_RECORDED: Final = "No result was recorded for this call; it was not run again."
"""The error result that `repair` writes for a call of an earlier reply."""


class Status(StrEnum):
    """The status in a call's placeholder. A person may change it; a result replaces the placeholder."""

    PENDING = "pending"
    APPROVED = "approved"
    DENIED = "denied"
    REJECTED = "rejected"
    ABORTED = "aborted"


class LedgerCall(Struct, frozen=True, kw_only=True):
    """The ledger's call for a slot."""

    call_id: str
    digest: str
    """Digest of the call that was pending when the placeholder was written: the only one an approval in the
    conversation counts for. Empty for a call that needs no approval, or while none counts."""


class Slot(Struct, frozen=True, kw_only=True):
    """A call of the last reply without a result, and its placeholder in the conversation."""

    turn: int
    """Index of the reply with the call, from 0. Ids are unique only within a reply."""
    use: ToolUse
    status: Status | None = None
    """None without a placeholder."""
    text: str = ""
    """Text that a person typed into the placeholder."""
    aborted: str | None = None
    """Why the reply was stopped, if it was."""
    call: LedgerCall | None = None
    """Set only while turn, id, name and arguments match the ledger's call."""
    line: int | None = None
    """Line of the placeholder, from 1, in conversations with lines."""


class SetStatus(Struct, frozen=True):
    """Write a placeholder with this status over the current one, discarding its text."""

    slot: Slot
    status: Status


class SetResult(Struct, frozen=True):
    """Write the result of a call."""

    slot: Slot
    result: Result


class Diagnostic(Struct, frozen=True):
    """A problem in the conversation. An error prevents sending."""

    severity: Literal["error", "warning"]
    message: str
    line: int | None = None
    column: int | None = None


class Conflict(Exception):
    """A concurrent edit cannot be merged with the change to write.

    The conversation is untouched; the message says where the unwritten change is kept.
    """


class Conversation(Protocol):
    """Every mutating method is durable and atomic: it raises or takes full effect."""

    @property
    def id(self) -> str:
        """A unique id, the same in every process."""
        ...

    @property
    def name(self) -> str:
        """The name in messages, such as a file name."""
        ...

    def refresh(self) -> bool:
        """Merge outside changes; return whether there were any."""
        ...

    def slots(self) -> Sequence[Slot]:
        """The calls of the last reply without a result, in order.

        Calls of earlier replies are never included: `repair` gives them an error result.
        """
        ...

    def repair(self) -> int:
        """Write an error result for every unfinished call of an earlier reply; return their number."""
        ...

    def change(self, changes: Sequence[SetStatus | SetResult]) -> None:
        """Write placeholders and results next to their calls, in the order of the calls. Raises `Conflict`."""
        ...

    def remember(self, slot: Slot, opened: LedgerCall | None) -> None:
        """Store the ledger's call for a slot durably; None forgets it."""
        ...

    def remember_all(self, opened: Sequence[tuple[Slot, LedgerCall]]) -> None:
        """Like `remember`, for many slots atomically."""
        ...

    def forget(self, call_ids: Collection[str]) -> None:
        """Forget these calls of the ledger, whether or not a slot still has them."""
        ...

    def remembered(self) -> Sequence[LedgerCall]:
        """All remembered calls, including those that are no longer in the conversation."""
        ...

    def messages(self) -> Sequence[Message]:
        """The messages to send to a model. Every call has its result in the next message."""
        ...

    def diagnostics(self) -> Sequence[Diagnostic]: ...

    def awaits_reply(self) -> bool:
        """Whether the conversation ends with user text or a result, so that the model has something to answer."""
        ...

    def turns_since_user(self) -> int:
        """Number of replies since the last user text."""
        ...

    def add_reply(self, parts: Sequence[Part], *, aborted: str | None = None, usage: Usage | None = None) -> None:
        """Append a reply, followed by an empty user message if it has no calls.

        Raises `Conflict` if the message it answers has changed.
        """
        ...

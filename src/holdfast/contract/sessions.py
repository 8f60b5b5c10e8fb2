"""Sessions as a tool sees them: the conversations and runs whose calls the ledger has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from holdfast.contract.context import Context


class SessionSummary(Struct, frozen=True, kw_only=True):
    """One conversation (all calls of a document), or one run of a program or command."""

    id: str
    document: str | None
    """The path of the document, if the session is a conversation in one."""
    interface: str
    agent: str | None
    skill: str | None
    first: float
    """When its first call was recorded: Unix time."""
    last: float
    calls: int
    pending: int
    """Calls that wait for an answer, or that were approved and have not begun."""
    running: int
    bytes: int
    """Size of its entries in the ledger, without stored files."""
    last_entry: int
    """Changes whenever one of its calls does."""


class DeletedSession(Struct, frozen=True, kw_only=True):
    id: str
    calls: int
    entries: int
    blobs: int
    """Stored contents that were removed: before-images, long outputs, attachments. Those that others use stay."""
    freed: int
    """Their size in bytes."""
    erased: bool
    """Whether the ledger was rewritten; if not, removed text stays in its file until another process closes it."""
    kept: tuple[str, ...] = ()
    """Files of attachments beside the document that stay, because they were changed."""


class Sessions(Protocol):
    """Lists and deletes sessions. The methods raise `SessionRefused`."""

    def list(self, since: float | None = None, until: float | None = None, text: str = "") -> Sequence[SessionSummary]:
        """Return the sessions with a call in this time (Unix time), newest first.

        `text` is searched in the id, the document, the interface, the agent and the skill, ignoring case.
        """
        ...

    def find(self, session: str, ctx: Context) -> SessionSummary:
        """Return a session that the call may delete, by its id or the path of its document."""
        ...

    def delete(self, session: str, last_entry: int, ctx: Context) -> DeletedSession:
        """Delete what is recorded of a session, if nothing was added to it since `last_entry`."""
        ...

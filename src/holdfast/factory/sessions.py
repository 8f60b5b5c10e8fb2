"""The sessions of a project: its ledger and the stored state of its documents, as the tools see them."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from holdfast.chat.state_file import DocumentBusy, DocumentLock, remove_state
from holdfast.contract.context import Context
from holdfast.contract.errors import CallError, SessionRefused
from holdfast.contract.sessions import DeletedSession, SessionSummary
from holdfast.runtime.context import RunContext
from holdfast.store.sessions import check_deletable, check_unchanged, delete_session, list_sessions, session_id
from holdfast.text.escape import escape
from holdfast.text.suggest import did_you_mean

if TYPE_CHECKING:
    from holdfast.store.ledger import Ledger

_LOG: Final = logging.getLogger("holdfast")


class ProjectSessions:
    """Satisfies `Sessions`."""

    def __init__(self, ledger: Ledger | None, chats: Path, pages: Path) -> None:
        """`chats` has the stored state of documents, `pages` the cached pages of the web."""
        self._ledger = ledger
        self._chats = chats
        self._pages = pages

    def list(self, since: float | None = None, until: float | None = None, text: str = "") -> Sequence[SessionSummary]:
        return list_sessions(self._required(), since=since, until=until, text=text)

    def find(self, session: str, ctx: Context) -> SessionSummary:
        found = self._find(session)
        if found.id == _session_of(ctx):
            raise SessionRefused("This is the current session, which cannot delete itself. Delete it from another one.")
        check_deletable(found)
        return found

    def delete(self, session: str, last_entry: int, ctx: Context) -> DeletedSession:
        """The ledger comes last: until then the session is listed, so that an interrupted deletion can be repeated."""
        found = self.find(session, ctx)
        ledger, by = self._required(), f"call {ctx.call_id}"
        check_unchanged(found, last_entry)
        self._remove_pages()
        if found.document is None:
            return delete_session(ledger, found.id, last_entry, by=by)
        path = Path(found.document)
        try:
            with DocumentLock(path, self._chats).acquire():
                files = remove_state(path, self._chats)
                done = delete_session(ledger, found.id, last_entry, by=by)
        except DocumentBusy as error:
            raise SessionRefused(f"The session '{found.id}' was not deleted: {error}") from None
        for name in files.kept:
            _LOG.warning(
                "Kept %s: it was changed after the tool returned it, or another document links to it.", escape(name)
            )
        return replace(done, blobs=done.blobs + files.count, freed=done.freed + files.size, kept=files.kept)

    def _remove_pages(self) -> None:
        """Remove all cached pages: whose session fetched a page is not stored, and each can be fetched again."""
        for path in self._pages.glob("*"):
            path.unlink(missing_ok=True)

    def _find(self, session: str) -> SessionSummary:
        known = self.list()
        paths = {session, os.path.realpath(session)}
        found = [item for item in known if session == item.id or item.document in paths]
        if found:
            return found[0]
        meant = did_you_mean(session, [item.id for item in known])
        hint = f"Did you mean '{meant}'?" if meant else "`sessions.list` lists them."
        raise SessionRefused(f"There is no session '{escape(session[:80])}'. {hint}")

    def _required(self) -> Ledger:
        if self._ledger is None:
            raise SessionRefused("The ledger is disabled (ledger.enabled = false), so no sessions are recorded.")
        return self._ledger


def _session_of(ctx: Context) -> str:
    if not isinstance(ctx, RunContext):
        raise CallError("Sessions can be deleted only for a runtime's call: pass the context the tool received.")
    call = ctx.call_record
    return session_id(call.id, call.caller.document, call.caller.session)

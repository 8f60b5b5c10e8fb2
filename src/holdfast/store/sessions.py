"""Sessions in the ledger: which calls belong together, and their deletion.

All calls of a document are one session. Every other call belongs to the session that its caller names, else to the run
of the program that made it, which the first part of a call's id names. An undo belongs to the session of the call that
it undid, because it stores the same contents.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from holdfast.contract.errors import LedgerError, SessionRefused
from holdfast.contract.sessions import DeletedSession, SessionSummary
from holdfast.store.changes import CallUndone
from holdfast.store.database import Transaction
from holdfast.store.entries import EntriesPruned, RemovedCall
from holdfast.store.retention import blobs_of, remove_calls, used_blobs
from holdfast.store.saved_attachments import remove_copies

if TYPE_CHECKING:
    from holdfast.store.ledger import Ledger

_PAGE: Final = 1000
_ROWS: Final = """
    SELECT id, call, kind, at, length(body), CASE WHEN kind IN ('call', 'pending', 'intent', 'undone') THEN body END
    FROM entries WHERE id > ? AND call != '' ORDER BY id LIMIT ?
"""


class _Caller(Struct):
    interface: str = "python"
    agent: str | None = None
    skill: str | None = None
    session: str | None = None
    document: str | None = None


class _Call(Struct):
    id: str
    caller: _Caller


class _Pending(Struct):
    call: _Call


class _Body(Struct):
    """The caller in the body of an entry that contains a call; everything else is skipped."""

    call: _Call | None = None
    pending: _Pending | None = None


_decoder: Final = msgspec.json.Decoder(_Body)


class _Found(Struct):
    """A session while it is collected."""

    caller: _Caller
    first: float
    last: float
    calls: dict[str, None]
    entries: int = 0
    bytes: int = 0
    last_entry: int = 0


def session_id(call_id: str, document: str | None, session: str | None) -> str:
    """The id of the session that a call belongs to."""
    if document is not None:
        return f"chat-{sha256(os.fsencode(document)).hexdigest()[:12]}"
    return session or call_id.partition("-")[0]


def list_sessions(
    ledger: Ledger, *, since: float | None = None, until: float | None = None, text: str = ""
) -> list[SessionSummary]:
    """Return the sessions with an entry in this time, newest first."""
    wanted = text.casefold()
    states = dict(ledger.rows("SELECT call, state FROM open_calls"))
    found = (_summary(name, session, states) for name, session in _collect(ledger).items())
    chosen = [
        session
        for session in found
        if (since is None or session.last >= since)
        and (until is None or session.first < until)
        and any(
            wanted in (field or "").casefold()
            for field in (session.id, session.document, session.interface, session.agent, session.skill)
        )
    ]
    return sorted(chosen, key=lambda session: session.last_entry, reverse=True)


def delete_session(ledger: Ledger, name: str, last_entry: int, *, by: str) -> DeletedSession:
    """Remove every entry of a session and the contents that only it refers to. The hash chain stays valid.

    Raises `SessionRefused` if the session has open calls, or changed since `last_entry`.
    """
    session = _collect(ledger).get(name)
    if session is None:
        raise SessionRefused(f"There is no session '{name}'. `sessions.list` lists them.")
    calls = list(session.calls)
    kept = tuple(_kept_of(ledger, call) for call in calls)
    blobs = blobs_of(ledger, calls)

    def op(tx: Transaction) -> int:
        open_calls = {call for (call,) in tx.execute("SELECT call FROM open_calls").fetchall()}
        if not open_calls.isdisjoint(calls):
            raise SessionRefused(_still_open(name))
        # Checked under the write lock: a call of the session may have got an entry since it was shown.
        newest = (tx.execute("SELECT max(id) FROM entries WHERE call = ?", (call,)).fetchone()[0] for call in calls)
        if max((number or 0 for number in newest), default=0) != last_entry:
            raise _changed(name)
        return remove_calls(ledger, tx, calls, EntriesPruned(by=by, session=name, removed=kept))

    entries = ledger.run(op)
    erased = ledger.shrink()
    count, freed = ledger.blobs.discard(blobs, lambda: used_blobs(ledger))
    if not ledger.volatile:  # one in memory has no folder of its own
        copies, size = remove_copies(ledger.path.parent, blobs - used_blobs(ledger))
        count, freed = count + copies, freed + size
    return DeletedSession(id=name, calls=len(calls), entries=entries, blobs=count, freed=freed, erased=erased)


def check_deletable(session: SessionSummary) -> None:
    """Raise `SessionRefused` for a session with open calls."""
    if session.pending or session.running:
        raise SessionRefused(_still_open(session.id))


def check_unchanged(session: SessionSummary, last_entry: int) -> None:
    """Raise `SessionRefused` for a session that got an entry since `last_entry`."""
    if session.last_entry != last_entry:
        raise _changed(session.id)


def _changed(name: str) -> SessionRefused:
    return SessionRefused(f"The session '{name}' changed since it was shown. Ask for the deletion again.")


def _still_open(name: str) -> str:
    return f"The session '{name}' has calls that are pending or running. Answer or stop them first."


def _collect(ledger: Ledger) -> dict[str, _Found]:
    found: dict[str, _Found] = {}
    names: dict[str, str] = {}
    for number, call, kind, at, size, body in _rows(ledger):
        name = names.get(call)
        caller = None
        if name is None:
            caller = _caller(ledger, body)
            if caller is None:
                continue  # a damaged entry; `verify` reports it
            name = names[call] = session_id(call, caller.document, caller.session)
        if kind == "undone":
            _adopt_undo(ledger, body, name, names, found)
        session = found.get(name)
        if session is None:
            session = found[name] = _Found(caller or _Caller(), at, at, {})
        session.calls[call] = None
        session.first, session.last = min(session.first, at), max(session.last, at)
        session.entries += 1
        session.bytes += size
        session.last_entry = max(session.last_entry, number)
    return found


def _adopt_undo(ledger: Ledger, body: str | None, name: str, names: dict[str, str], found: dict[str, _Found]) -> None:
    """Count the call that undid a call to the session of that call. The undo began before this entry was written."""
    with suppress(LedgerError):
        undo = ledger.read_body(body or "", CallUndone).undo
        own = found.pop(names.get(undo, ""), None) if names.get(undo) != name else None
        if own is not None and name in found:
            into = found[name]
            into.calls |= own.calls
            into.first, into.last = min(into.first, own.first), max(into.last, own.last)
            into.entries, into.bytes = into.entries + own.entries, into.bytes + own.bytes
            into.last_entry = max(into.last_entry, own.last_entry)
            names.update(dict.fromkeys(own.calls, name))


def _rows(ledger: Ledger) -> Iterator[tuple[int, str, str, float, int, str | None]]:
    after = 0
    while page := ledger.rows(_ROWS, (after, _PAGE)):
        after = page[-1][0]
        for row in page:
            if _is_sound(row):
                yield row  # pyright: ignore[reportReturnType] - checked
    return


def _is_sound(row: tuple[Any, ...]) -> bool:
    _, call, _, at, size, body = row
    return isinstance(call, str) and isinstance(at, float) and isinstance(size, int) and isinstance(body, str | None)


def _caller(ledger: Ledger, body: str | None) -> _Caller | None:
    if body is None:
        return None
    try:
        read = _decoder.decode(ledger.read_body.text(body))
    except (LedgerError, msgspec.MsgspecError, ValueError, RecursionError):
        return None
    call = read.call or (read.pending.call if read.pending is not None else None)
    return None if call is None else call.caller


def _summary(name: str, session: _Found, open_calls: Mapping[str, str]) -> SessionSummary:
    states = [open_calls[call] for call in session.calls if call in open_calls]
    running = states.count("running")
    return SessionSummary(
        id=name,
        document=session.caller.document,
        interface=session.caller.interface,
        agent=session.caller.agent,
        skill=session.caller.skill,
        first=session.first,
        last=session.last,
        calls=len(session.calls),
        pending=len(states) - running,
        running=running,
        bytes=session.bytes,
        last_entry=session.last_entry,
    )


def _kept_of(ledger: Ledger, call: str) -> RemovedCall:
    try:
        record = ledger.call(call)
    except LedgerError:
        return RemovedCall(call, "", "", 0.0, "")
    return RemovedCall(call, record.call.tool, record.state.value, record.received_at, record.decided_by)

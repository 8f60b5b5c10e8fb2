"""What can be asked of the ledger."""

from __future__ import annotations

import re
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from itertools import islice
from math import inf
from time import localtime, strftime
from typing import Any, Final, TypeGuard

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.contract.call import Answer, Call, Decision, PendingCall
from holdfast.contract.enums import State, Verdict
from holdfast.contract.errors import LedgerCorrupt, LedgerError, UnknownCall
from holdfast.contract.json import Json, encode_json
from holdfast.contract.result import Result
from holdfast.store.database import Database
from holdfast.store.entries import (
    BodyReader,
    CallAnswered,
    CallBegun,
    CallEnded,
    CallPending,
    CallRecorded,
    EntriesPruned,
    LedgerEntry,
    chain_hash,
)
from holdfast.store.operations import parse_state, unknown_call
from holdfast.text.preview import format_arguments

_PAGE: Final = 500
_LOOKED_THROUGH: Final = 20_000
"""Entries, where no index helps."""
_CANDIDATES: Final = 5
_RANDOM: Final = re.compile(r"[a-z0-9]{1,8}", re.ASCII)
_OWN_ID: Final = re.compile(r"[a-z0-9]{8}-([0-9]+|undo)", re.ASCII)
_MAX_REMEMBERED: Final = 1000
_COLUMNS: Final = "id, call, kind, at, body, hash"
_WITH_DIGEST: Final = (
    "SELECT o.call, o.state, o.approver, e.kind, e.body FROM open_calls o LEFT JOIN entries e ON e.id = o.entry "
    "WHERE o.digest IS NOT NULL"
)
"""Only calls that were held have a digest."""
_WITHOUT_DIGEST: Final = "SELECT call FROM open_calls WHERE digest IS NULL AND state != 'running' ORDER BY entry"
"""Nothing that waits is like this, unless its row is damaged."""
_LAST_MOMENT: Final = 253_402_300_800
"""The year 10,000: no clock says so, and no calendar shows it."""


class GivenAnswer(Struct, frozen=True, kw_only=True):
    answer: Answer
    digest: str
    """Of what the person was shown."""
    at: float


class CallRecord(Struct, frozen=True, kw_only=True):
    """Everything the ledger knows of one call."""

    call: Call
    state: State
    received_at: float
    began_at: float | None = None
    ended_at: float | None = None
    decisions: tuple[Decision, ...] = ()
    answers: tuple[GivenAnswer, ...] = ()
    result: Result | None = None
    original_args: Json = None
    """What the caller sent, where that is not what was used."""
    entries: tuple[int, ...] = ()
    preview: str = ""
    """As it was shown to a person, if it was."""

    @property
    def decided_by(self) -> str:
        """The person who answered last, else the rule that decided; empty while nothing has."""
        for given in reversed(self.answers):
            if given.answer.kind != "edit":
                return given.answer.by
        last = self.decisions[-1] if self.decisions else None
        if last is None or last.verdict is Verdict.ASK:
            return ""
        return last.source.removeprefix("urn:holdfast:").removeprefix("approval:")


class CallFilter(Struct, frozen=True, kw_only=True):
    """Which calls are wanted: those for which all that is given holds."""

    tool: str | None = None
    """A name or a pattern (`file.*`)."""
    state: State | None = None
    since: float | None = None
    until: float | None = None
    """Before this moment."""
    by: str | None = None
    """Who decided: `cli:ada`, `ada`, or the name of a rule."""
    document: str | None = None
    """The full path of the document that asked, or the end of it."""
    text: re.Pattern[str] | None = None
    """Found in the tool's name, the arguments, the result or what a person said."""

    def matches(self, record: CallRecord) -> bool:
        call = record.call
        return (
            (self.tool is None or any(fnmatchcase(name, self.tool) for name in (call.tool, call.name_used)))
            and self.state in (None, record.state)
            and (self.since is None or record.received_at >= self.since)
            and (self.until is None or record.received_at < self.until)
            and (self.by is None or self._is_by(record))
            and (self.document is None or f"/{call.caller.document or ''}".endswith(f"/{self.document}"))
            and (self.text is None or any(map(self.text.search, _texts(record))))
        )

    def _is_by(self, record: CallRecord) -> bool:
        names = {record.decided_by, *(given.answer.by for given in record.answers)}
        return any(self.by in (name, name.partition(":")[2]) for name in names if name)


def _texts(record: CallRecord) -> Iterator[str]:
    yield record.call.tool
    yield record.call.name_used
    yield format_arguments(record.call.args)
    if record.result is not None:
        yield record.result.output
        yield record.result.error or ""
    for given in record.answers:
        yield given.answer.message


class Queries:
    def __init__(self, database: Database, read: BodyReader) -> None:
        self._database = database
        self.rows = database.rows
        """One statement that reads."""
        self.read_body = read
        self._shown: dict[str, PendingCall] = {}

    def cache_pending(self, pending: PendingCall) -> None:
        """Keep in memory what this process holds: the record of it has no secrets, and could not be run."""
        self._shown[pending.call.id] = pending
        if len(self._shown) > _MAX_REMEMBERED:
            del self._shown[next(iter(self._shown))]

    def uncache_pending(self, call_id: str) -> None:
        self._shown.pop(call_id, None)

    def unredacted(self, pending: PendingCall) -> PendingCall:
        shown = self._shown.get(pending.call.id)
        if shown is None or shown.digest != pending.digest:
            return pending
        return replace(shown, state=pending.state, approver=pending.approver)

    def find_pending(self, call_id: str) -> PendingCall | None:
        """A call that was held and has not ended: pending, approved or running. None for any other."""
        rows = self.rows(f"{_WITH_DIGEST} AND o.call = ?", (call_id,))
        with _about(call_id):
            return self._read_pending(*rows[0][1:]) if rows else None

    def pending(self) -> list[PendingCall]:
        """What waits for a person (pending) or for a process that runs it (approved), oldest first.

        A call whose record cannot be read is left out: see `unreadable_pending`.
        """
        found: list[PendingCall] = []
        for _, *row in self._waiting():
            with suppress(LedgerError):
                found.append(self._waits(*row))
        return found

    def unreadable_pending(self) -> list[str]:
        """The calls that wait and whose record cannot be read: nobody can approve them, only end them."""
        found: list[str] = []
        for call_id, *row in self._waiting():
            try:
                self._waits(*row)
            except LedgerError:
                found.append(call_id)
        return found + [call for (call,) in self.rows(_WITHOUT_DIGEST)]

    def _waiting(self) -> list[tuple[Any, ...]]:
        """What is open and does not run, in whatever state its row says it is."""
        return self.rows(f"{_WITH_DIGEST} AND o.state != 'running' ORDER BY o.entry")

    def _waits(self, state: str, approver: str | None, kind: str, body: str) -> PendingCall:
        if parse_state(state) not in (State.PENDING, State.APPROVED):
            raise LedgerCorrupt(f"An open call is {state!a}, which only a call that has ended can be.")
        return self._read_pending(state, approver, kind, body)

    def _read_pending(self, state: str, approver: str | None, kind: str, body: str) -> PendingCall:
        if kind != "pending":
            raise LedgerCorrupt(f"An entry of the ledger is {kind!a} where what is held should be.")
        read = replace(self.read_body(body, CallPending).pending, state=parse_state(state), approver=approver)
        return self.unredacted(read)

    def approved_at(self, call_id: str) -> float | None:
        """When the call was last answered."""
        rows = self.rows("SELECT MAX(at) FROM entries WHERE call = ? AND kind = 'answered'", (call_id,))
        return rows[0][0] if rows and isinstance(rows[0][0], float) else None

    def result(self, call_id: str) -> Result | None:
        """The one result of a call that has ended."""
        sql = "SELECT kind, body FROM entries WHERE call = ? AND kind IN ('call', 'answered', 'ended') ORDER BY id DESC"
        with _about(call_id):
            for kind, body in self.rows(sql, (call_id,)):
                result = self.read_body(body, _ENDS[kind]).result
                if result is not None:
                    return result
        return None

    def has_call(self, call_id: str) -> bool:
        """Whether a call of this id is open or has ended."""
        return bool(self.rows("SELECT 1 FROM entries WHERE call = ? LIMIT 1", (call_id,)))

    def call(self, call_id: str) -> CallRecord:
        record = self._record(call_id)
        if record is None:
            raise self._unknown(call_id)
        return record

    def calls(
        self, limit: int = 50, wanted: CallFilter | None = None, *, unreadable: list[str] | None = None
    ) -> list[CallRecord]:
        """Those with the newest entries first. The ids of those that cannot be read are added to `unreadable`."""
        return list(islice(self._matching(wanted or CallFilter(), unreadable), min(limit, sys.maxsize)))

    def _matching(self, wanted: CallFilter, unreadable: list[str] | None) -> Generator[CallRecord]:
        sql = "SELECT id, call FROM entries WHERE id < ? AND call != '' AND (at < ?) IS NOT 1 ORDER BY id DESC LIMIT ?"
        seen: set[str] = set()
        before = 2**63 - 1
        while page := self.rows(sql, (before, -inf if wanted.since is None else wanted.since, _PAGE)):
            before = page[-1][0]
            fresh = [call for call in dict.fromkeys(call for _, call in page) if call not in seen]
            seen.update(fresh)
            for call in fresh:
                try:
                    record = self._record(call)
                except LedgerError:
                    if unreadable is not None:
                        unreadable.append(str(call))
                    continue
                if record and wanted.matches(record):
                    yield record

    def calls_for(self, request: str, limit: int, tool: str | None = None) -> list[CallRecord]:
        """Calls whose request begins so, of that tool alone if one is given, those that came last first.

        Only the newest entries are looked at.
        """
        sql = """SELECT call FROM entries WHERE id > (SELECT MAX(id) FROM entries) - ?
            AND kind IN ('call', 'pending', 'intent') AND instr(body, ?) AND instr(body, ?)
            GROUP BY call ORDER BY MAX(id) DESC LIMIT ?"""
        named = '"request":' + encode_json(request).decode().removesuffix('"')
        called = '"tool":' + ("" if tool is None else encode_json(tool).decode())
        found: list[CallRecord] = []
        for (call,) in self.rows(sql, (_LOOKED_THROUGH, named, called, limit)):
            with suppress(LedgerError):
                record = self._record(call)
                if record and (record.call.request or "").startswith(request) and tool in (None, record.call.tool):
                    found.append(record)
        return found

    def active_since(self, at: float) -> Generator[str]:
        """Calls that began or ended at that time or later, and those that still run."""
        running = [call for (call,) in self.rows("SELECT call FROM open_calls WHERE state = 'running'")]
        yield from running
        sql = "SELECT id, call, kind, at FROM entries WHERE id < ? AND call != '' ORDER BY id DESC LIMIT ?"
        before, seen = 2**63 - 1, set(running)
        while page := self.rows(sql, (before, _PAGE)):
            for _, call, kind, when in page:
                if isinstance(when, float) and when < at:
                    return
                if kind in ("intent", "ended") and call not in seen:
                    seen.add(call)
                    yield call
            before = page[-1][0]

    def find(self, given: str) -> str:
        """The id of the one call that is meant: the whole id, or one that holdfast made with its random part cut short.

        An id the ledger knows, of a call that is open or has ended, means that call and no other. A number is never
        completed, and neither is an id that somebody else chose.
        """
        if not given:
            raise UnknownCall("The id is empty; `holdfast ledger` lists the calls.")
        if not given.isprintable():
            raise self._unknown(given)
        if self.has_call(given):
            return given
        part, dash, number = given.partition("-")
        if not _RANDOM.fullmatch(part) or (dash and not number):
            raise self._unknown(given)
        sql = "SELECT DISTINCT call FROM entries WHERE call >= ? AND call < ? AND (? = '' OR call LIKE ?) ORDER BY call"
        rows = self.rows(sql, (part, f"{part}\U0010ffff", number, f"%-{number}"))
        found = [call for (call,) in rows if _made_here(call) and (not dash or call.partition("-")[2] == number)]
        if len(found) == 1:
            return found[0]
        if not found:
            raise self._unknown(given)
        more = " and more" if len(found) > _CANDIDATES else ""
        raise UnknownCall(
            f"Several calls begin with '{given}': {', '.join(found[:_CANDIDATES])}{more}; give the whole id."
        )

    def calls_with_given_id(self, given_id: str, request: str | None = None) -> list[str]:
        """The calls, open or ended, that a model or client gave this id, in one request or in any.

        Only the newest entries are looked at.
        """
        sql = """SELECT DISTINCT call FROM entries WHERE id > (SELECT MAX(id) FROM entries) - ?
            AND kind IN ('call', 'pending', 'intent') AND instr(body, ?) AND instr(body, ?)"""
        named = '"given_id":' + encode_json(given_id).decode()
        asked = '"request":' + ("" if request is None else encode_json(request).decode())
        return [call for (call,) in self.rows(sql, (_LOOKED_THROUGH, named, asked))]

    def pending_version(self, call_id: str, digest: str) -> PendingCall | None:
        """The call as it was held when its digest began so."""
        for (body,) in self.rows("SELECT body FROM entries WHERE call = ? AND kind = 'pending'", (call_id,)):
            with suppress(LedgerError):
                pending = self.read_body(body, CallPending).pending
                if pending.digest.startswith(digest):
                    return pending
        return None

    def _unknown(self, call_id: str) -> UnknownCall:
        rows = self.rows("SELECT body FROM entries WHERE call = '' AND kind = 'pruned'")
        pruned: float | None = None
        for (body,) in rows:
            with suppress(LedgerError):
                older_than = self.read_body(body, EntriesPruned).older_than
                if _is_time(older_than):
                    pruned = max(older_than, pruned or 0.0)
        if pruned is None:
            return unknown_call(call_id)
        day = strftime("%Y-%m-%d", localtime(pruned))
        return UnknownCall(f"No call has the id '{call_id}'; calls older than {day} were pruned with all they kept.")

    def entries(self, after: int = 0, call: str | None = None) -> Generator[LedgerEntry]:
        """Raises `LedgerCorrupt` at one that cannot be read; `export` writes that it cannot, and goes on."""
        for entry in self._entries(after, call):
            if entry.problem:
                raise LedgerCorrupt(f"Entry {entry.id} cannot be read: {entry.problem}")
            yield entry

    def _entries(self, after: int = 0, call: str | None = None) -> Generator[LedgerEntry]:
        for row in self._pages(after, call):
            number, name, kind, at, body, digest = row
            try:
                _check_time(number, at)
                chain_hash(digest, name, kind, at, body)  # fails where a column is not of its kind
                content = msgspec.json.decode(self.read_body.text(body))
            except (LedgerError, ValueError, TypeError, RecursionError) as error:
                yield _damaged(row, str(error))
            else:
                yield LedgerEntry(id=number, call=name, kind=kind, at=at, hash=digest.hex(), body=content)

    def export(self, wanted: CallFilter | None = None, *, unreadable: list[str] | None = None) -> Generator[bytes]:
        """Each entry as one line of ASCII JSON: nothing in it can end the line or steer a terminal.

        With `wanted`, the entries of those calls; the ids of calls that cannot be read are added to `unreadable`.
        """
        calls = None if wanted is None else {record.call.id for record in self._matching(wanted, unreadable)}
        for entry in self._entries():
            if calls is not None and entry.call not in calls:
                continue
            try:
                yield _line(entry)
            except (RecursionError, ValueError) as error:  # read at the very limit of what can be read
                yield _line(replace(entry, body=None, problem=str(error)))

    def _pages(self, after: int, call: str | None) -> Generator[tuple[Any, ...]]:
        sql = f"SELECT {_COLUMNS} FROM entries WHERE id > ? AND ? IN ('', call) ORDER BY id LIMIT {_PAGE}"  # noqa: S608
        if call is not None:
            sql = f"SELECT {_COLUMNS} FROM entries WHERE id > ? AND call = ? ORDER BY id LIMIT {_PAGE}"  # noqa: S608
        while page := self.rows(sql, (after, call or "")):
            yield from page
            after = page[-1][0]

    def _record(self, call_id: str) -> CallRecord | None:
        rows = self.rows("SELECT id, kind, at, body FROM entries WHERE call = ? ORDER BY id", (call_id,))
        record: CallRecord | None = None
        with _about(call_id):
            for number, kind, at, body in rows:
                _check_time(number, at)
                record = self._extended(record, kind, at, body)
                if record is not None:
                    record = replace(record, entries=(*record.entries, number))
        return record

    def _extended(self, record: CallRecord | None, kind: str, at: float, body: str) -> CallRecord | None:
        """The record with one more entry taken in."""
        if kind == "call":
            whole = self.read_body(body, CallRecorded)
            return CallRecord(
                call=whole.call,
                state=whole.result.state,
                received_at=at,
                ended_at=at,
                decisions=(whole.decision,),
                result=whole.result,
                original_args=whole.original_args,
            )
        if kind == "pending":
            pending = self.read_body(body, CallPending).pending
            record = record or CallRecord(call=pending.call, state=State.PENDING, received_at=at)
            decisions = (*record.decisions, pending.decision)
            return replace(record, call=pending.call, state=State.PENDING, decisions=decisions, preview=pending.preview)
        if kind == "intent":
            intent = self.read_body(body, CallBegun)
            if record is None and intent.call is not None:
                record = CallRecord(call=intent.call, state=State.RUNNING, received_at=at)
            if record is None:
                raise LedgerCorrupt("A call began that was never held; run `holdfast ledger verify`.")
            return replace(record, state=State.RUNNING, began_at=at, decisions=(*record.decisions, intent.decision))
        if record is None:
            return None
        if kind == "answered":
            said = self.read_body(body, CallAnswered)
            given = GivenAnswer(answer=said.answer, digest=said.digest, at=at)
            state = State.APPROVED if said.answer.kind == "approve" else record.state
            record = replace(record, answers=(*record.answers, given), state=state)
            return record if said.result is None else _ended(record, said.result, at)
        return _ended(record, self.read_body(body, CallEnded).result, at) if kind == "ended" else record


def _made_here(call_id: object) -> bool:
    """Whether holdfast made the id itself: `Runtime.new_call_id`, or an undo."""
    return isinstance(call_id, str) and _OWN_ID.fullmatch(call_id) is not None


@contextmanager
def _about(call_id: str) -> Generator[None]:
    """Damage is damage of one call, which the message names."""
    try:
        yield
    except LedgerCorrupt as error:
        raise LedgerCorrupt(
            f"The record of call {_shown(call_id)} cannot be read: {error} Other calls are not affected; "
            "`holdfast doctor` says what to do."
        ) from error


def _damaged(row: tuple[Any, ...], problem: str) -> LedgerEntry:
    number, name, kind, at, _, digest = row
    return LedgerEntry(
        id=number,
        call=_shown(name),
        kind=_shown(kind),
        at=at if _is_time(at) else 0.0,
        hash=digest.hex() if isinstance(digest, bytes) else "",
        body=None,
        problem=_shown(problem),
    )


def _is_time(at: object) -> TypeGuard[float]:
    return isinstance(at, float) and 0 <= at < _LAST_MOMENT


def _check_time(entry: int, at: object) -> None:
    if not _is_time(at):
        raise LedgerCorrupt(f"Entry {entry} has no time: {str(at)[:80]!a}.")


def _line(entry: LedgerEntry) -> bytes:
    from json import dumps

    return dumps(msgspec.to_builtins(entry), separators=(",", ":"), allow_nan=False).encode() + b"\n"


def _shown(text: object) -> str:
    """A column that may hold anything, as JSON can carry it."""
    return str(text).encode(errors="backslashreplace").decode()


_ENDS: Final[dict[str, type[CallRecorded | CallAnswered | CallEnded]]] = {
    "call": CallRecorded,
    "answered": CallAnswered,
    "ended": CallEnded,
}


def _ended(record: CallRecord, result: Result, at: float) -> CallRecord:
    return replace(record, state=result.state, result=result, ended_at=at)

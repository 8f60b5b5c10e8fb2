"""Read access to the ledger: pending calls, call records, filters, id completion, export."""

from __future__ import annotations

import re
import sys
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from itertools import islice
from json import dumps
from math import inf
from time import localtime, strftime
from typing import Any, Final, TypeGuard

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.contract.call import Answer, Call, Decision, PendingCall, ProcessIdentity
from holdfast.contract.enums import State, Verdict
from holdfast.contract.errors import LedgerCorrupt, LedgerError, UnknownCall
from holdfast.contract.json import Json, encode_json
from holdfast.contract.result import Result
from holdfast.store.approval_count import APPROVALS, ApprovalCount, count_approvals
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
from holdfast.text.times import MAX_TIME

_PAGE: Final = 500
_SMALL_PAGE: Final = 100
_SCAN_LIMIT: Final = 20_000
"""The number of newest entries that a query without an index scans."""
_CANDIDATES: Final = 5
_RANDOM_PART: Final = re.compile(r"[a-z0-9]{1,8}", re.ASCII)
_GENERATED_ID: Final = re.compile(r"[a-z0-9]{8}-([0-9]+|undo)", re.ASCII)
_MAX_CACHED: Final = 1000
_COLUMNS: Final = "id, call, kind, at, body, hash"
_WITH_DIGEST: Final = (
    "SELECT o.call, o.state, o.approver, e.kind, e.body FROM open_calls o LEFT JOIN entries e ON e.id = o.entry "
    "WHERE o.digest IS NOT NULL"
)
"""Only calls that were pending at some time have a digest."""
_WITHOUT_DIGEST: Final = "SELECT call FROM open_calls WHERE digest IS NULL AND state != 'running' ORDER BY entry"
"""Calls that are neither running nor have a digest: only damaged rows look like this."""
MAX_ENTRY: Final = 2**63 - 1
"""Above the number of every entry."""


class GivenAnswer(Struct, frozen=True, kw_only=True):
    answer: Answer
    digest: str
    """The digest of the version that the user was shown."""
    at: float


class CallRecord(Struct, frozen=True, kw_only=True):
    """Everything that the ledger contains about one call."""

    call: Call
    state: State
    received_at: float
    began_at: float | None = None
    ended_at: float | None = None
    decisions: tuple[Decision, ...] = ()
    answers: tuple[GivenAnswer, ...] = ()
    result: Result | None = None
    original_args: Json = None
    """The arguments that the caller sent, if they were changed before the run."""
    entries: tuple[int, ...] = ()
    preview: str = ""
    """The preview that was shown with the approval prompt, if there was one."""

    @property
    def decided_by(self) -> str:
        """The user who answered last, else the rule that decided; empty while undecided."""
        for given in reversed(self.answers):
            if given.answer.kind != "edit":
                return given.answer.by
        last = self.decisions[-1] if self.decisions else None
        if last is None or last.verdict is Verdict.ASK:
            return ""
        return last.source.removeprefix("urn:holdfast:").removeprefix("approval:")


class CallFilter(Struct, frozen=True, kw_only=True):
    """Selects calls that meet all given conditions."""

    tool: str | None = None
    """A name or a pattern (`file.*`)."""
    state: State | None = None
    since: float | None = None
    until: float | None = None
    """Exclusive."""
    by: str | None = None
    """Who decided: `cli:ada`, `os:ada`, `ada`, or the name of a rule."""
    document: str | None = None
    """The full path of the document that made the call, or its last components."""
    text: re.Pattern[str] | None = None
    """Searched in the tool's name, the arguments, the result and the messages of answers."""

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
        answers = [given.answer for given in record.answers]
        names = {record.decided_by, *(answer.by for answer in answers), *(answer.identity for answer in answers)}
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
        self.read_body = read
        self._cached: dict[str, PendingCall] = {}

    def cache_pending(self, pending: PendingCall) -> None:
        """Keep the unredacted call in memory. The stored one has its secrets removed, so it could not run."""
        self._cached[pending.call.id] = pending
        if len(self._cached) > _MAX_CACHED:
            del self._cached[next(iter(self._cached))]

    def uncache_pending(self, call_id: str) -> None:
        self._cached.pop(call_id, None)

    def unredacted(self, pending: PendingCall) -> PendingCall:
        """Return the call from memory with its secrets, if this process has the same version; else as stored."""
        cached = self._cached.get(pending.call.id)
        if cached is None or cached.digest != pending.digest:
            return pending
        return replace(
            cached,
            state=pending.state,
            approver=pending.approver,
            approvals_needed=pending.approvals_needed,
            approved_by=pending.approved_by,
        )

    def find_pending(self, call_id: str) -> PendingCall | None:
        """Return a call that needed an answer and has not ended (pending, approved or running), else None."""
        rows = self.rows(f"{_WITH_DIGEST} AND o.call = ?", (call_id,))
        with _damage_of(call_id):
            return self._read_pending(*rows[0][1:]) if rows else None

    def pending(self) -> list[PendingCall]:
        """Return the calls that wait for an answer (pending) or for a process to run them (approved), oldest first.

        Unreadable ones are in `unreadable_pending`.
        """
        found: list[PendingCall] = []
        for _, *row in self._pending_rows():
            with suppress(LedgerError):
                found.append(self._check_pending(*row))
        return found

    def unreadable_pending(self) -> list[str]:
        """Return the ids of pending calls whose entry cannot be read. They cannot be approved, only ended."""
        found: list[str] = []
        for call_id, *row in self._pending_rows():
            try:
                self._check_pending(*row)
            except LedgerError:
                found.append(call_id)
        return found + [call for (call,) in self.rows(_WITHOUT_DIGEST)]

    def _pending_rows(self) -> list[tuple[Any, ...]]:
        """Return the open calls that are not running, whatever state a damaged row claims."""
        return self.rows(f"{_WITH_DIGEST} AND o.state != 'running' ORDER BY o.entry")

    def _check_pending(self, state: str, approver: str | None, kind: str, body: str) -> PendingCall:
        if parse_state(state) not in (State.PENDING, State.APPROVED):
            raise LedgerCorrupt(f"An open call has the state {state!a}, which only ended calls can have.")
        return self._read_pending(state, approver, kind, body)

    def _read_pending(self, state: str, approver: str | None, kind: str, body: str) -> PendingCall:
        if kind != "pending":
            raise LedgerCorrupt(f"A ledger entry has the kind {kind!a} instead of 'pending'.")
        read = replace(self.read_body(body, CallPending).pending, state=parse_state(state), approver=approver)
        if read.approvals_needed > 1:
            count = count_approvals(self.rows(APPROVALS, (read.call.id,)), self.read_body)
            read = replace(read, approved_by=count.identities)
        return self.unredacted(read)

    def approved_at(self, call_id: str) -> float | None:
        """Return when the call was last answered."""
        rows = self.rows("SELECT MAX(at) FROM entries WHERE call = ? AND kind = 'answered'", (call_id,))
        return rows[0][0] if rows and isinstance(rows[0][0], float) else None

    def result(self, call_id: str) -> Result | None:
        """Return the result of a call that has ended, with the bytes of its attachments, else None."""
        sql = "SELECT kind, body FROM entries WHERE call = ? AND kind IN ('call', 'answered', 'ended') ORDER BY id DESC"
        with _damage_of(call_id):
            for kind, body in self.rows(sql, (call_id,)):
                result = self.read_body(body, _ENDS[kind]).result
                if result is not None:
                    return self.read_body.with_bytes(result)
        return None

    def has_call(self, call_id: str) -> bool:
        """Whether the ledger has a call with this id, open or ended."""
        return bool(self.rows("SELECT 1 FROM entries WHERE call = ? LIMIT 1", (call_id,)))

    def call(self, call_id: str) -> CallRecord:
        """Return the record of one call, with the bytes of its attachments."""
        record = self.record(call_id)
        return record if record.result is None else replace(record, result=self.read_body.with_bytes(record.result))

    def record(self, call_id: str) -> CallRecord:
        """Return the record of one call, without the bytes of its attachments."""
        record = self._record(call_id)
        if record is None:
            raise self._unknown_call(call_id)
        return record

    def calls(
        self,
        limit: int = 50,
        wanted: CallFilter | None = None,
        *,
        unreadable: list[str] | None = None,
    ) -> list[CallRecord]:
        """Return call records, newest entry first, without the bytes of attachments.

        The ids of unreadable calls are appended to `unreadable`.
        """
        return list(islice(self._matching(wanted or CallFilter(), unreadable), min(limit, sys.maxsize)))

    def _matching(self, wanted: CallFilter, unreadable: list[str] | None) -> Generator[CallRecord]:
        sql = "SELECT id, call FROM entries WHERE id < ? AND call != '' AND (at < ?) IS NOT 1 ORDER BY id DESC LIMIT ?"
        seen: set[str] = set()
        before = MAX_ENTRY
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

    def received_calls(
        self,
        before: int | None = None,
        *,
        since: float | None = None,
        until: float | None = None,
        unreadable: list[str] | None = None,
    ) -> Generator[CallRecord]:
        """Yield call records, last received first, without the bytes of attachments.

        The order never changes, so the number of a call's first entry (`record.entries[0]`) is a position: `before`
        continues after it. The ids of unreadable calls are appended to `unreadable`.
        """
        sql = """SELECT id, call FROM entries WHERE id < ? AND place = 0 AND (at < ?) IS NOT 1 AND (at >= ?) IS NOT 1
            ORDER BY id DESC LIMIT ?"""
        before = MAX_ENTRY if before is None else before
        times = (-inf if since is None else since, inf if until is None else until)
        while page := self.rows(sql, (before, *times, _SMALL_PAGE)):
            for number, call in page:
                before = number
                try:
                    record = self._record(call)
                except LedgerError:
                    if unreadable is not None:
                        unreadable.append(str(call))
                    continue
                if record is not None and record.entries[0] == number:
                    yield record

    def nested_calls(self, call_id: str, limit: int) -> list[CallRecord]:
        """Return the calls that a call made, in order. Scans only the entries after it that name it or are in blobs."""
        sql = """SELECT DISTINCT call FROM entries WHERE id > (SELECT MIN(id) FROM entries WHERE call = ?)
            AND place = 0 AND (instr(body, ?) OR body LIKE '{"blob":"%') ORDER BY id"""
        named = '"parent":' + encode_json(call_id).decode()
        found: list[CallRecord] = []
        for (call,) in self.rows(sql, (call_id, named)):
            if len(found) >= limit:
                break
            with suppress(LedgerError):
                record = self._record(call)
                if record is not None and record.call.parent == call_id:
                    found.append(record)
        return found

    def running(self) -> list[tuple[CallRecord, ProcessIdentity | None]]:
        """Return the calls that run, oldest first, with the process that runs each. Unreadable ones are left out."""
        sql = "SELECT call, pid, pid_start FROM open_calls WHERE state = 'running' ORDER BY entry"
        found: list[tuple[CallRecord, ProcessIdentity | None]] = []
        for call, pid, started in self.rows(sql):
            with suppress(LedgerError):
                record = self._record(call)
                if record is not None:
                    found.append((record, ProcessIdentity(pid, started) if isinstance(pid, int) else None))
        return found

    def calls_for(self, request: str, limit: int, tool: str | None = None) -> list[CallRecord]:
        """Return calls whose request id starts with `request`, newest first, optionally of one tool.

        Scans only the newest entries.
        """
        sql = """SELECT call FROM entries WHERE id > (SELECT MAX(id) FROM entries) - ?
            AND kind IN ('call', 'pending', 'intent') AND instr(body, ?) AND instr(body, ?)
            GROUP BY call ORDER BY MAX(id) DESC LIMIT ?"""
        named = '"request":' + encode_json(request).decode().removesuffix('"')
        called = '"tool":' + ("" if tool is None else encode_json(tool).decode())
        found: list[CallRecord] = []
        for (call,) in self.rows(sql, (_SCAN_LIMIT, named, called, limit)):
            with suppress(LedgerError):
                record = self._record(call)
                if record and (record.call.request or "").startswith(request) and tool in (None, record.call.tool):
                    found.append(record)
        return found

    def asked_calls(self, tool: str, limit: int) -> Generator[PendingCall]:
        """Yield the calls of a tool that were pending at some time, as last shown, newest first.

        Scans only the newest entries.
        """
        # A long body is in a blob, so only the decoded call tells its tool.
        sql = """SELECT MAX(id) FROM entries WHERE id > (SELECT MAX(id) FROM entries) - ? AND kind = 'pending'
            AND (instr(body, ?) OR body LIKE '{"blob":"%') GROUP BY call ORDER BY MAX(id) DESC"""
        called = '"tool":' + encode_json(tool).decode()
        left = limit
        for number in self.rows(sql, (_SCAN_LIMIT, called)):
            if left <= 0:
                break
            asked = self._asked(number)
            if asked is not None and asked.call.tool == tool:
                left -= 1
                yield asked

    def _asked(self, number: Sequence[int]) -> PendingCall | None:
        for (body,) in self.rows("SELECT body FROM entries WHERE id = ?", number):
            with suppress(LedgerError):
                return self.read_body(body, CallPending).pending
        return None  # pruned meanwhile, or damaged

    def active_since(self, at: float) -> Generator[str]:
        """Yield the calls that are running, or that began or ended at this time or later."""
        running = [call for (call,) in self.rows("SELECT call FROM open_calls WHERE state = 'running'")]
        yield from running
        sql = "SELECT id, call, kind, at FROM entries WHERE id < ? AND call != '' ORDER BY id DESC LIMIT ?"
        before, seen = MAX_ENTRY, set(running)
        while page := self.rows(sql, (before, _PAGE)):
            for _, call, kind, when in page:
                if isinstance(when, float) and when < at:
                    return
                if kind in ("intent", "ended") and call not in seen:
                    seen.add(call)
                    yield call
            before = page[-1][0]

    def find(self, given: str) -> str:
        """Return the full id for an id or a unique prefix of one.

        An exact match always wins. Only the random part of ids that holdfast generated is completed, never a number or
        an id that a caller chose.
        """
        if not given:
            raise UnknownCall("The id is empty. `holdfast ledger` lists the calls.")
        if not given.isprintable():
            raise self._unknown_call(given)
        if self.has_call(given):
            return given
        part, dash, number = given.partition("-")
        if not _RANDOM_PART.fullmatch(part) or (dash and not number):
            raise self._unknown_call(given)
        sql = "SELECT DISTINCT call FROM entries WHERE call >= ? AND call < ? AND (? = '' OR call LIKE ?) ORDER BY call"
        rows = self.rows(sql, (part, f"{part}\U0010ffff", number, f"%-{number}"))
        found = [call for (call,) in rows if _is_generated(call) and (not dash or call.partition("-")[2] == number)]
        if len(found) == 1:
            return found[0]
        if not found:
            raise self._unknown_call(given)
        more = " and more" if len(found) > _CANDIDATES else ""
        raise UnknownCall(
            f"Several calls start with '{given}': {', '.join(found[:_CANDIDATES])}{more}. Use the full id."
        )

    def calls_with_given_id(self, given_id: str, request: str | None = None) -> list[str]:
        """Return the calls, open or ended, to which a model or client gave this id, optionally in one request.

        Scans only the newest entries.
        """
        sql = """SELECT DISTINCT call FROM entries WHERE id > (SELECT MAX(id) FROM entries) - ?
            AND kind IN ('call', 'pending', 'intent') AND instr(body, ?) AND instr(body, ?)"""
        named = '"given_id":' + encode_json(given_id).decode()
        asked = '"request":' + ("" if request is None else encode_json(request).decode())
        return [call for (call,) in self.rows(sql, (_SCAN_LIMIT, named, asked))]

    def pending_version(self, call_id: str, digest: str) -> PendingCall | None:
        """Return the version of a pending call whose digest starts with `digest`."""
        for (body,) in self.rows("SELECT body FROM entries WHERE call = ? AND kind = 'pending'", (call_id,)):
            with suppress(LedgerError):
                pending = self.read_body(body, CallPending).pending
                if pending.digest.startswith(digest):
                    return pending
        return None

    def _unknown_call(self, call_id: str) -> UnknownCall:
        rows = self.rows("SELECT body FROM entries WHERE call = '' AND kind = 'pruned'")
        pruned: float | None = None
        for (body,) in rows:
            with suppress(LedgerError):
                record = self.read_body(body, EntriesPruned)
                if any(call.id == call_id for call in record.removed):
                    return UnknownCall(f"Call '{call_id}' was deleted with its session '{record.session}'.")
                if _is_time(record.older_than):
                    pruned = max(record.older_than, pruned or 0.0)
        if pruned is None:
            return unknown_call(call_id)
        day = strftime("%Y-%m-%d", localtime(pruned))
        return UnknownCall(f"No call has the id '{call_id}'. Calls older than {day} were pruned.")

    def entries(self, after: int = 0, call: str | None = None) -> Generator[LedgerEntry]:
        """Yield the entries. Raises `LedgerCorrupt` at an unreadable one, unlike `export`, which marks it."""
        for entry in self._entries(after, call):
            if entry.problem:
                raise LedgerCorrupt(f"Entry {entry.id} cannot be read: {entry.problem}")
            yield entry

    def _entries(self, after: int = 0, call: str | None = None) -> Generator[LedgerEntry]:
        for row in self._pages(after, call):
            number, name, kind, at, body, digest = row
            try:
                _check_time(number, at)
                chain_hash(digest, name, kind, at, body)  # raises if a column has the wrong type
                content = msgspec.json.decode(self.read_body.text(body))
            except (LedgerError, ValueError, TypeError, RecursionError) as error:
                yield _damaged(row, str(error))
            else:
                yield LedgerEntry(id=number, call=name, kind=kind, at=at, hash=digest.hex(), body=content)

    def export(self, wanted: CallFilter | None = None, *, unreadable: list[str] | None = None) -> Generator[bytes]:
        """Yield each entry as one line of ASCII JSON, so that no content can break the line or control a terminal.

        With `wanted`, only entries of matching calls; the ids of unreadable calls are appended to `unreadable`.
        """
        calls = None if wanted is None else {record.call.id for record in self._matching(wanted, unreadable)}
        for entry in self._entries():
            if calls is None or entry.call in calls:
                yield _line(entry)

    def export_call(self, call_id: str) -> Generator[bytes]:
        """Yield each entry of one call like `export`."""
        return (_line(entry) for entry in self._entries(call=call_id))

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
        approvals = ApprovalCount()
        with _damage_of(call_id):
            for number, kind, at, body in rows:
                _check_time(number, at)
                if kind == "pending":
                    approvals = approvals.after_pending(self.read_body(body, CallPending).pending)
                elif kind == "answered":
                    approvals = approvals.after_answer(self.read_body(body, CallAnswered))
                record = self._extended(record, kind, at, body, approved=approvals.complete)
                if record is not None:
                    record = replace(record, entries=(*record.entries, number))
        return record

    def _extended(
        self, record: CallRecord | None, kind: str, at: float, body: str, *, approved: bool
    ) -> CallRecord | None:
        """Return the record extended by one entry, after which the call has all the approvals it needs or not."""
        if kind == "call":
            recorded = self.read_body(body, CallRecorded)
            return CallRecord(
                call=recorded.call,
                state=recorded.result.state,
                received_at=at,
                ended_at=at,
                decisions=(recorded.decision,),
                result=recorded.result,
                original_args=recorded.original_args,
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
                raise LedgerCorrupt("A call began without an entry that contains it. Run `holdfast ledger verify`.")
            return replace(record, state=State.RUNNING, began_at=at, decisions=(*record.decisions, intent.decision))
        if record is None:
            return None
        if kind == "answered":
            answered = self.read_body(body, CallAnswered)
            given = GivenAnswer(answer=answered.answer, digest=answered.digest, at=at)
            state = State.APPROVED if answered.answer.kind == "approve" and approved else record.state
            record = replace(record, answers=(*record.answers, given), state=state)
            return record if answered.result is None else _ended(record, answered.result, at)
        return _ended(record, self.read_body(body, CallEnded).result, at) if kind == "ended" else record


def _is_generated(call_id: object) -> bool:
    """Whether holdfast generated the id: in `Runtime.new_call_id`, or for an undo."""
    return isinstance(call_id, str) and _GENERATED_ID.fullmatch(call_id) is not None


@contextmanager
def _damage_of(call_id: str) -> Generator[None]:
    """Name the damaged call in `LedgerCorrupt`."""
    try:
        yield
    except LedgerCorrupt as error:
        raise LedgerCorrupt(
            f"The record of call {_printable(call_id)} cannot be read: {error} Other calls are not affected; "
            "`holdfast doctor` says what to do."
        ) from error


def _damaged(row: tuple[Any, ...], problem: str) -> LedgerEntry:
    number, name, kind, at, _, digest = row
    return LedgerEntry(
        id=number,
        call=_printable(name),
        kind=_printable(kind),
        at=at if _is_time(at) else 0.0,
        hash=digest.hex() if isinstance(digest, bytes) else "",
        body=None,
        problem=_printable(problem),
    )


def _is_time(at: object) -> TypeGuard[float]:
    return isinstance(at, float) and 0 <= at < MAX_TIME


def _check_time(entry: int, at: object) -> None:
    if not _is_time(at):
        raise LedgerCorrupt(f"Entry {entry} has an invalid time: {str(at)[:80]!a}.")


def _line(entry: LedgerEntry) -> bytes:
    try:
        text = dumps(msgspec.to_builtins(entry), separators=(",", ":"), allow_nan=False)
    except (RecursionError, ValueError) as error:  # nested just within the decoder's limit, not the encoder's
        return _line(replace(entry, body=None, problem=str(error)))
    return text.encode() + b"\n"


def _printable(text: object) -> str:
    """Return a column of any type as text that JSON can represent."""
    return str(text).encode(errors="backslashreplace").decode()


_ENDS: Final[dict[str, type[CallRecorded | CallAnswered | CallEnded]]] = {
    "call": CallRecorded,
    "answered": CallAnswered,
    "ended": CallEnded,
}


def _ended(record: CallRecord, result: Result, at: float) -> CallRecord:
    return replace(record, state=result.state, result=result, ended_at=at)

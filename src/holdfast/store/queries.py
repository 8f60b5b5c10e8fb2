"""What can be asked of the ledger."""

from __future__ import annotations

from collections.abc import Generator
from time import localtime, strftime
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.contract.call import Answer, Call, Decision, HeldCall
from holdfast.contract.errors import LedgerCorrupt, UnknownCall
from holdfast.contract.result import Result
from holdfast.contract.values import Json, encode_json
from holdfast.contract.vocabulary import State
from holdfast.store.bodies import Answered, Before, BodyReader, Ended, Held, Intent, Pruned, Whole
from holdfast.store.chain import Entry
from holdfast.store.database import Database
from holdfast.store.operations import unknown_call

_PAGE: Final = 500
_LOOKED_THROUGH: Final = 20_000
"""Entries, where no index helps."""
_CANDIDATES: Final = 5
_MAX_REMEMBERED: Final = 1000
_COLUMNS: Final = "id, call, kind, at, body, hash"
_HELD: Final = (
    "SELECT o.state, o.approver, e.body FROM open_calls o JOIN entries e ON e.id = o.entry WHERE e.kind = 'held'"
)


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


class Queries:
    def __init__(self, database: Database, read: BodyReader) -> None:
        self._database = database
        self.rows = database.rows
        """One statement that reads."""
        self.read_body = read
        self._shown: dict[str, HeldCall] = {}

    def remember(self, held: HeldCall) -> None:
        """Keep in memory what this process holds: the record of it has no secrets, and could not be run."""
        self._shown[held.call.id] = held
        if len(self._shown) > _MAX_REMEMBERED:
            del self._shown[next(iter(self._shown))]

    def forget(self, call_id: str) -> None:
        self._shown.pop(call_id, None)

    def as_shown(self, held: HeldCall) -> HeldCall:
        shown = self._shown.get(held.call.id)
        if shown is None or shown.digest != held.digest:
            return held
        return replace(shown, state=held.state, approver=held.approver)

    def held(self, call_id: str) -> HeldCall | None:
        """A call that was held and has not ended: pending, approved or running. None for any other."""
        rows = self.rows(f"{_HELD} AND o.call = ?", (call_id,))
        return self._held(*rows[0]) if rows else None

    def pending(self) -> list[HeldCall]:
        """What waits for a person (pending) or for a process that runs it (approved), oldest first."""
        rows = self.rows(f"{_HELD} AND o.state IN ('pending', 'approved') ORDER BY o.entry")
        return [self._held(*row) for row in rows]

    def _held(self, state: str, approver: str | None, body: str) -> HeldCall:
        return self.as_shown(replace(self.read_body(body, Held).held, state=State(state), approver=approver))

    def result(self, call_id: str) -> Result | None:
        """The one result of a call that has ended."""
        sql = "SELECT kind, body FROM entries WHERE call = ? AND kind IN ('call', 'answered', 'ended') ORDER BY id DESC"
        for kind, body in self.rows(sql, (call_id,)):
            result = self.read_body(body, _ENDS[kind]).result
            if result is not None:
                return result
        return None

    def call(self, call_id: str) -> CallRecord:
        record = self._record(call_id)
        if record is None:
            raise self._unknown(call_id)
        return record

    def calls(self, limit: int = 50, tool: str | None = None, state: State | None = None) -> list[CallRecord]:
        """Those with the newest entries first."""
        found: list[CallRecord] = []
        seen: set[str] = set()
        before = 2**63 - 1
        while len(found) < limit:
            sql = "SELECT id, call FROM entries WHERE id < ? AND call != '' ORDER BY id DESC LIMIT ?"
            page = self.rows(sql, (before, _PAGE))
            if not page:
                break
            before = page[-1][0]
            fresh = [call for call in dict.fromkeys(call for _, call in page) if call not in seen]
            seen.update(fresh)
            for call in fresh:
                record = self._record(call) if len(found) < limit else None
                if record and tool in (None, record.call.tool) and state in (None, record.state):
                    found.append(record)
        return found

    def calls_for(self, request: str, limit: int, tool: str | None = None) -> list[CallRecord]:
        """Calls whose request begins so, of that tool alone if one is given, those that came last first.

        Only the newest entries are looked at.
        """
        sql = """SELECT call FROM entries WHERE id > (SELECT MAX(id) FROM entries) - ?
            AND kind IN ('call', 'held', 'intent') AND instr(body, ?) AND instr(body, ?)
            GROUP BY call ORDER BY MAX(id) DESC LIMIT ?"""
        named = '"request":' + encode_json(request).decode().removesuffix('"')
        called = '"tool":' + ("" if tool is None else encode_json(tool).decode())
        found = [self._record(call) for (call,) in self.rows(sql, (_LOOKED_THROUGH, named, called, limit))]
        return [
            record
            for record in found
            if record and (record.call.request or "").startswith(request) and tool in (None, record.call.tool)
        ]

    def active_since(self, at: float) -> Generator[str]:
        """Calls that began or ended at that time or later, and those that still run."""
        running = [call for (call,) in self.rows("SELECT call FROM open_calls WHERE state = 'running'")]
        yield from running
        sql = "SELECT id, call, kind, at FROM entries WHERE id < ? AND call != '' ORDER BY id DESC LIMIT ?"
        before, seen = 2**63 - 1, set(running)
        while page := self.rows(sql, (before, _PAGE)):
            for _, call, kind, when in page:
                if when < at:
                    return
                if kind in ("intent", "ended") and call not in seen:
                    seen.add(call)
                    yield call
            before = page[-1][0]

    def find(self, prefix: str) -> str:
        """The id of the only call that begins so."""
        sql = "SELECT DISTINCT call FROM entries WHERE call >= ? AND call < ? ORDER BY call LIMIT ?"
        found = [row[0] for row in self.rows(sql, (prefix or "\0", f"{prefix}\U0010ffff", _CANDIDATES + 1))]
        if len(found) == 1 or (found and found[0] == prefix):
            return found[0]
        if not found:
            raise self._unknown(prefix)
        more = " and more" if len(found) > _CANDIDATES else ""
        raise UnknownCall(
            f"Several calls begin with '{prefix}': {', '.join(found[:_CANDIDATES])}{more}; give more of the id."
        )

    def _unknown(self, call_id: str) -> UnknownCall:
        rows = self.rows("SELECT body FROM entries WHERE call = '' AND kind = 'pruned'")
        times = [self.read_body(body, Pruned).older_than for (body,) in rows]
        pruned = max((at for at in times if at is not None), default=None)
        if pruned is None:
            return unknown_call(call_id)
        day = strftime("%Y-%m-%d", localtime(pruned))
        return UnknownCall(f"No call has the id '{call_id}'; calls older than {day} were pruned with all they kept.")

    def before_images(self, call_id: str) -> list[Before]:
        """In the order they were kept; the first of a path is what it held before the call."""
        rows = self.rows("SELECT body FROM entries WHERE call = ? AND kind = 'before' ORDER BY id", (call_id,))
        return [self.read_body(body, Before) for (body,) in rows]

    def entries(self, after: int = 0, call: str | None = None) -> Generator[Entry]:
        for number, name, kind, at, body, digest in self._pages(after, call):
            content = msgspec.json.decode(self.read_body.text(body))
            yield Entry(id=number, call=name, kind=kind, at=at, hash=digest.hex(), body=content)

    def export(self) -> Generator[bytes]:
        """Each entry as one line of ASCII JSON: nothing in it can end the line or steer a terminal."""
        from json import dumps

        for entry in self.entries():
            yield dumps(msgspec.to_builtins(entry), separators=(",", ":")).encode() + b"\n"

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
        for number, kind, at, body in rows:
            record = self._extended(record, kind, at, body)
            if record is not None:
                record = replace(record, entries=(*record.entries, number))
        return record

    def _extended(self, record: CallRecord | None, kind: str, at: float, body: str) -> CallRecord | None:
        """The record with one more entry taken in."""
        if kind == "call":
            whole = self.read_body(body, Whole)
            return CallRecord(
                call=whole.call,
                state=whole.result.state,
                received_at=at,
                ended_at=at,
                decisions=(whole.decision,),
                result=whole.result,
                original_args=whole.original_args,
            )
        if kind == "held":
            held = self.read_body(body, Held).held
            record = record or CallRecord(call=held.call, state=State.PENDING, received_at=at)
            return replace(record, call=held.call, state=State.PENDING, decisions=(*record.decisions, held.decision))
        if kind == "intent":
            intent = self.read_body(body, Intent)
            if record is None and intent.call is not None:
                record = CallRecord(call=intent.call, state=State.RUNNING, received_at=at)
            if record is None:
                raise LedgerCorrupt("A call began that was never held; run `holdfast ledger verify`.")
            return replace(record, state=State.RUNNING, began_at=at, decisions=(*record.decisions, intent.decision))
        if record is None:
            return None
        if kind == "answered":
            said = self.read_body(body, Answered)
            given = GivenAnswer(answer=said.answer, digest=said.digest, at=at)
            state = State.APPROVED if said.answer.kind == "approve" else record.state
            record = replace(record, answers=(*record.answers, given), state=state)
            return record if said.result is None else _ended(record, said.result, at)
        return _ended(record, self.read_body(body, Ended).result, at) if kind == "ended" else record


_ENDS: Final[dict[str, type[Whole | Answered | Ended]]] = {"call": Whole, "answered": Answered, "ended": Ended}


def _ended(record: CallRecord, result: Result, at: float) -> CallRecord:
    return replace(record, state=result.state, result=result, ended_at=at)

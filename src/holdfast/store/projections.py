"""Tables derived from the ledger entries: open calls, grants, trusted files, schedules.

They are materialised for speed. `verify` replays the entries and compares, so a tampered table is detected.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.contract.schedules import Schedule
from holdfast.store.approval_count import ApprovalCount
from holdfast.store.database import SCHEDULES_VERSION
from holdfast.store.entries import (
    BodyReader,
    CallAnswered,
    CallBegun,
    CallPending,
    GrantAdded,
    GrantRevoked,
    GrantUsed,
    ScheduleAdded,
    ScheduleRemoved,
    TrustedContent,
    TrustRevoked,
)

Row = tuple[Any, ...]


class OpenCallRow(Struct, frozen=True):
    """A row of `open_calls`; the fields are in column order."""

    call: str
    state: str
    digest: str | None
    approver: str | None
    pid: int | None
    pid_start: str | None
    mutates: int
    entry: int
    """The id of the entry that contains the call."""


TABLES: Final = {
    "open_calls": "call, state, digest, approver, pid, pid_start, mutates, entry",
    "grants": "id, uses, body",
    "trust": "path, digest, body",
    "schedules": "id, body",
}
"""The tables with their derived columns. When a schedule runs is not derived: entries of old runs are pruned."""


class ExpectedTables:
    """Replays entries in order and computes the rows that each table should have."""

    def __init__(self, read: BodyReader) -> None:
        self._read = read
        self.stray_end: int | None = None
        """The first entry that ends a call which is not open."""
        self._open: dict[str, OpenCallRow] = {}
        self._approvals: dict[str, ApprovalCount] = {}
        self._grants: dict[str, tuple[int | None, str]] = {}
        self._trust: dict[str, TrustedContent] = {}
        self._schedules: dict[str, str] = {}
        self._handlers: dict[str, Callable[[int, str, str], None]] = {
            "pending": self._pending,
            "answered": self._answered,
            "intent": self._intent,
            "ended": self._ended,
            "granted": self._granted,
            "revoked": self._revoked,
            "consumed": self._consumed,
            "trusted": self._trusted,
            "untrusted": self._untrusted,
            "scheduled": self._scheduled,
            "unscheduled": self._unscheduled,
        }

    def feed(self, entry: int, call: str, kind: str, body: str) -> None:
        handler = self._handlers.get(kind)
        if handler is not None:
            handler(entry, call, body)

    def rows(self, table: str) -> list[Row]:
        """Return the expected rows of a table, sorted by its key."""
        if table == "open_calls":
            return [msgspec.structs.astuple(row) for _, row in sorted(self._open.items())]
        if table == "grants":
            return [(name, *row) for name, row in sorted(self._grants.items())]
        if table == "schedules":
            return sorted(self._schedules.items())
        return [(path, row.digest, encode_row(row)) for path, row in sorted(self._trust.items())]

    def _pending(self, entry: int, call: str, body: str) -> None:
        pending = self._read(body, CallPending).pending
        self._approvals[call] = self._approvals.get(call, ApprovalCount()).after_pending(pending)
        self._open[call] = OpenCallRow(call, "pending", pending.digest, None, None, None, 1, entry)

    def _answered(self, entry: int, call: str, body: str) -> None:
        answered = self._read(body, CallAnswered)
        count = self._approvals.get(call, ApprovalCount()).after_answer(answered)
        self._approvals[call] = count
        if answered.result is not None:
            self._open.pop(call, None)
        elif answered.answer.kind == "approve" and count.complete and call in self._open:
            self._open[call] = replace(self._open[call], state="approved", approver=answered.answer.by)

    def _intent(self, entry: int, call: str, body: str) -> None:
        intent = self._read(body, CallBegun)
        known = self._open.get(call) or OpenCallRow(call, "running", None, None, None, None, 1, entry)
        self._open[call] = replace(
            known, state="running", pid=intent.pid, pid_start=intent.pid_start, mutates=int(intent.mutates)
        )

    def _ended(self, entry: int, call: str, body: str) -> None:
        if self._open.pop(call, None) is None:
            self.stray_end = self.stray_end or entry

    def _granted(self, entry: int, call: str, body: str) -> None:
        grant = self._read(body, GrantAdded).grant
        self._grants[grant.id] = (grant.uses, encode_row(grant))

    def _revoked(self, entry: int, call: str, body: str) -> None:
        self._grants.pop(self._read(body, GrantRevoked).id, None)

    def _consumed(self, entry: int, call: str, body: str) -> None:
        name = self._read(body, GrantUsed).id
        uses, grant = self._grants.pop(name, (None, ""))
        if uses is not None and uses > 1:
            self._grants[name] = (uses - 1, grant)

    def _trusted(self, entry: int, call: str, body: str) -> None:
        content = self._read(body, TrustedContent)
        self._trust[content.path] = content

    def _untrusted(self, entry: int, call: str, body: str) -> None:
        self._trust.pop(self._read(body, TrustRevoked).path, None)

    def _scheduled(self, entry: int, call: str, body: str) -> None:
        schedule = self._read(body, ScheduleAdded).schedule
        self._schedules[schedule.id] = encode_schedule(schedule)

    def _unscheduled(self, entry: int, call: str, body: str) -> None:
        self._schedules.pop(self._read(body, ScheduleRemoved).id, None)


def encode_row(row: Struct) -> str:
    return msgspec.json.encode(row).decode()


def encode_schedule(schedule: Schedule) -> str:
    """Encode the row of a schedule, with its sets sorted: their order differs from process to process."""
    return msgspec.json.encode(schedule, order="deterministic").decode()


def first_mismatch(expected: ExpectedTables, execute: Callable[..., sqlite3.Cursor]) -> str | None:
    """Return the name of the first table whose rows differ from the expected ones."""
    # A read-only ledger is not migrated, so it may predate a table.
    has_schedules = execute("PRAGMA user_version").fetchone()[0] >= SCHEDULES_VERSION
    for table, columns in TABLES.items():
        if table == "schedules" and not has_schedules:
            continue
        found = execute(f"SELECT {columns} FROM {table} ORDER BY 1").fetchall()  # noqa: S608 - both are constants of this module
        if found != expected.rows(table):
            return table
    return None

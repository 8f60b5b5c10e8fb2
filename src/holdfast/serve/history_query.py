"""Finds recorded calls: the filters of the history, pages of calls, and their export.

Pages are positions in the ledgers: the number of the first entry of a call, per project. A call that changes while
somebody reads never moves to another page.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from functools import cache
from heapq import merge
from itertools import islice
from typing import Final
from urllib.parse import quote, urlencode

from msgspec import Struct
from msgspec.structs import asdict, fields
from starlette.requests import Request

from holdfast.contract.enums import State
from holdfast.contract.json import encode_json
from holdfast.contract.tool import Tool
from holdfast.runtime.call_story import record_preview
from holdfast.serve.events import Position
from holdfast.serve.projects import ServedProject
from holdfast.serve.requests import BadRequest
from holdfast.store.queries import CallFilter, CallRecord
from holdfast.text.escape import escape_once
from holdfast.text.times import parse_time

PAGE_CALLS: Final = 50
SCANNED_CALLS: Final = 5000
"""Calls that one request looks at. A search that finds less than a page in them goes on at the next request."""
EXPORTED_CALLS: Final = 10_000
"""Matching calls of each project in one export."""
_MAX_FILTER_CHARS: Final = 1000
_PREVIEW_WIDTH: Final = 160


class HistoryQuery(Struct, frozen=True, kw_only=True):
    """The filters as they were typed; an empty field narrows nothing."""

    project: str = ""
    since: str = ""
    until: str = ""
    tool: str = ""
    state: str = ""
    by: str = ""
    document: str = ""
    text: str = ""

    @classmethod
    def of(cls, request: Request) -> HistoryQuery:
        """Raises `BadRequest` for a filter that is too long."""
        names = {field.name for field in fields(cls)}
        given = {name: value.strip() for name, value in request.query_params.items() if name in names}
        for name, value in given.items():
            if len(value) > _MAX_FILTER_CHARS:
                raise BadRequest(f"The filter '{name}' is longer than {_MAX_FILTER_CHARS:,} characters. Shorten it.")
        return cls(**given)

    def filter(self) -> CallFilter:
        """Raises `BadRequest` for a time or a state that cannot be read."""
        now = datetime.now().astimezone()
        try:
            state = State(self.state) if self.state else None
        except ValueError:
            raise BadRequest(f"No call has the state '{self.state}'. Choose one of the list.") from None
        try:
            since = parse_time(self.since, now) if self.since else None
            until = parse_time(self.until, now, end=True) if self.until else None
        except ValueError as error:
            raise BadRequest(str(error)) from None
        if since is not None and until is not None and until <= since:
            raise BadRequest("The end is not after the beginning, so no call can match. Swap the two times.")
        return CallFilter(
            tool=self.tool or None,
            state=state,
            since=since,
            until=until,
            by=self.by or None,
            document=self.document.removeprefix("./") or None,
            text=re.compile(re.escape(self.text), re.IGNORECASE) if self.text else None,
        )

    def address(self, page: str, **more: str) -> str:
        """The address of a page with these filters."""
        given = {name: value for name, value in {**asdict(self), **more}.items() if value}
        return f"{page}?{urlencode(given)}" if given else page


class HistoryRow(Struct, frozen=True, kw_only=True):
    project: ServedProject
    record: CallRecord

    @property
    def address(self) -> str:
        return history_address(self.project.key, self.record.call.id)

    @property
    def preview(self) -> str:
        """One line about it, escaped."""
        return escape_once(record_preview(self.record, _builtin_tools().get(self.record.call.tool), _PREVIEW_WIDTH))


class HistoryPage(Struct, frozen=True, kw_only=True):
    rows: list[HistoryRow]
    older: Position | None
    """Where the next page begins; None if there is none."""
    unfinished: bool
    """Whether the search ended early, so that the next page may have rows even if this one has few."""
    unreadable: list[str]
    """The ids of calls whose record is damaged."""


def history_address(project: str, call_id: str) -> str:
    return f"/history/{project}/{quote(call_id, safe='')}"


def read_history(
    projects: list[ServedProject], wanted: CallFilter, position: Position, *, limit: int = PAGE_CALLS
) -> HistoryPage:
    """Return a page of calls, last received first. Blocks."""
    unreadable: list[str] = []
    position = dict(position)
    rows: list[HistoryRow] = []
    found = (_received(project, wanted, position.get(project.key), unreadable) for project in projects)
    newest_first = merge(*found, key=lambda row: row.record.received_at, reverse=True)
    for scanned, row in enumerate(newest_first):
        matches = wanted.matches(row.record)
        if scanned >= SCANNED_CALLS or (matches and len(rows) == limit):
            return HistoryPage(rows=rows, older=position, unfinished=len(rows) < limit, unreadable=unreadable)
        position[row.project.key] = row.record.entries[0]
        if matches:
            rows.append(row)
    return HistoryPage(rows=rows, older=None, unfinished=False, unreadable=unreadable)


def _received(
    project: ServedProject, wanted: CallFilter, before: int | None, unreadable: list[str]
) -> Iterator[HistoryRow]:
    found = project.ledger.received_calls(before, since=wanted.since, until=wanted.until, unreadable=unreadable)
    return (HistoryRow(project=project, record=record) for record in found)


def export_history(projects: list[ServedProject], wanted: CallFilter, *, several: bool) -> Iterator[bytes]:
    """Every entry of the matching calls, at most `EXPORTED_CALLS` of each project; the last line says if more match."""
    for project in projects:
        found = project.ledger.received_calls(since=wanted.since, until=wanted.until)
        calls = [record.call.id for record in islice(filter(wanted.matches, found), EXPORTED_CALLS + 1)]
        for call_id in reversed(calls[:EXPORTED_CALLS]):
            for line in project.ledger.export_call(call_id):
                yield _in_project(project, line) if several else line
        if len(calls) > EXPORTED_CALLS:
            message = f"Only the newest {EXPORTED_CALLS:,} matching calls are here. Export a shorter time."
            yield encode_json({"truncated": message, "project": str(project.folder)}) + b"\n"


def _in_project(project: ServedProject, line: bytes) -> bytes:
    return b'{"project":%b,%b' % (encode_json(str(project.folder)), line.removeprefix(b"{"))


@cache
def _builtin_tools() -> dict[str, Tool]:
    from holdfast.tools import builtin_tools

    return {tool.name: tool for tool in builtin_tools()}

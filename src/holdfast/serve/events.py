"""Server-sent events: what changed in the ledgers, for pages and programs.

The id of an event is the number of the last ledger entry it covers, so a reader that slept resumes exactly where it
was. Each reader has its own position and is sent the present state of every call that changed since: a slow reader
gets fewer, newer events, and nothing is queued for it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Final

from msgspec import Struct

from holdfast.contract.errors import CallError
from holdfast.contract.json import encode_json
from holdfast.serve.projects import Projects, ServedProject
from holdfast.serve.watch import LedgerWatch

MAX_ENTRIES: Final = 500
"""Ledger entries that one event covers."""
FEW_CALLS: Final = 10
HEARTBEAT_SECONDS: Final = 15.0
STREAM_SECONDS: Final = 300.0
"""A stream ends after this time, and the browser opens another one: then a session may have expired."""
BRIEF_SECONDS: Final = 5
"""After this time a page in the background asks again."""
_POSITION: Final = re.compile(r"(?:[0-9a-f]{16}:[0-9]{1,15})(?:,[0-9a-f]{16}:[0-9]{1,15})*|[0-9]{1,15}|", re.ASCII)

Position = dict[str, int]
"""The last entry that a reader has seen, per project."""


class CallChange(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The present state of a call."""

    project: str
    call_id: str
    state: str
    digest: str = ""
    by: str = ""
    """Who answered it."""
    html: str = ""
    """Its row in the inbox, while it is pending."""


class Changes(Struct, frozen=True, kw_only=True):
    """The data of an event `calls`."""

    calls: list[CallChange]
    pending: int
    """How many calls are pending in all projects."""


def parse_position(text: str, projects: Projects) -> Position:
    """Read the id of an event: a number, or with several projects `KEY:NUMBER,KEY:NUMBER`."""
    if len(text) > 100_000 or not _POSITION.fullmatch(text):
        raise CallError("The position must be the id of an event.")
    if text.isdigit():
        only = [project.key for project in projects]
        return {key: int(text) for key in only[:1]}
    pairs = (item.partition(":") for item in text.split(",") if item)
    return {key: int(number) for key, _, number in pairs}


def format_position(position: Position, projects: Projects) -> str:
    if not projects.every and len(position) == 1:
        return str(next(iter(position.values())))
    return ",".join(f"{key}:{number}" for key, number in sorted(position.items()))


def heads(projects: Projects) -> Position:
    """The position of a reader who has just read everything."""
    return {project.key: head_of(project) for project in projects}


def head_of(project: ServedProject) -> int:
    rows = project.ledger.rows("SELECT MAX(id) FROM entries")
    return int(rows[0][0] or 0)


Describe = Callable[[ServedProject, str], CallChange]


async def stream(
    projects: Projects,
    watch: LedgerWatch,
    position: Position,
    describe: Describe,
    allowed: Callable[[], bool],
    *,
    brief: bool = False,
    seconds: float = STREAM_SECONDS,
) -> AsyncGenerator[bytes]:
    """Yield the events after `position`, as they happen, until the reader is not `allowed` to read any more.

    A `brief` stream ends when the reader has caught up, and the browser asks again after a while: for pages in the
    background, because a browser has only six connections to a server, for all its tabs.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    if any(position.get(project.key, 0) > head_of(project) for project in projects):
        position = heads(projects)  # the ledger was replaced or restored: nothing the reader knows holds
        yield event("reload", {}, format_position(position, projects))
    yield b"retry: %d\n\n" % (1000 * BRIEF_SECONDS if brief else 1000)
    beat = loop.time()
    while loop.time() < end and not watch.stopped and allowed():
        seen = watch.count
        for project in projects:
            position.setdefault(project.key, 0)
            while True:
                rows = project.ledger.rows(
                    "SELECT id, call FROM entries WHERE id > ? ORDER BY id LIMIT ?",
                    (position[project.key], MAX_ENTRIES),
                )
                if not rows or not allowed():
                    break
                position[project.key] = rows[-1][0]
                calls = [call for call in dict.fromkeys(call for _, call in rows) if call]
                changed = await _describe_all(project, calls, describe)
                data = Changes(calls=changed, pending=count_pending(projects))
                yield event("calls", data, format_position(position, projects))
                beat = loop.time()
                await asyncio.sleep(0)  # a reader that catches up leaves room for others
        if brief:
            return
        if loop.time() - beat >= HEARTBEAT_SECONDS:
            yield b": still here\n\n"
            beat = loop.time()
        await watch.wait(seen, min(HEARTBEAT_SECONDS, max(0.0, end - loop.time())))


async def _describe_all(project: ServedProject, calls: list[str], describe: Describe) -> list[CallChange]:
    if len(calls) <= FEW_CALLS:
        return [describe(project, call) for call in calls]
    # A reader that slept catches up beside the other requests, not in their way.
    return await asyncio.to_thread(lambda: [describe(project, call) for call in calls])


def count_pending(projects: Projects) -> int:
    sql = "SELECT count(*) FROM open_calls WHERE state = 'pending'"
    return sum(int(project.ledger.rows(sql)[0][0]) for project in projects)


def event(name: str, data: Struct | Mapping[str, object], position: str) -> bytes:
    # JSON has no line breaks, so the data is one line.
    return b"event: %b\nid: %b\ndata: %b\n\n" % (name.encode(), position.encode(), encode_json(data))

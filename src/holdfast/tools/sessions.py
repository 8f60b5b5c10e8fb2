"""`sessions.list` and `sessions.delete`: the conversations and runs whose calls are recorded."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final, cast

from holdfast.contract.call import Proposal
from holdfast.contract.context import Context
from holdfast.contract.enums import Risk
from holdfast.contract.errors import SessionRefused
from holdfast.contract.json import Args, Json
from holdfast.contract.result import Result, fail, ok
from holdfast.contract.sessions import Sessions, SessionSummary
from holdfast.text.escape import escape
from holdfast.text.preview import with_label
from holdfast.text.times import parse_time
from holdfast.text.truncate import format_size
from holdfast.tools.schemas import (
    BOOLEAN,
    INTEGER,
    LABEL,
    STRING,
    STRING_OR_NULL,
    array,
    builtin_tool,
    non_blank,
    nullable,
    read_only_tool,
    strict_object,
)

DEFAULT_LIMIT: Final = 20
MAX_LIMIT: Final = 200
REMOVED: Final = (
    "the arguments, results, previews, before-images, long outputs and attachments of its calls, and the cache of web "
    "pages"
)
KEPT: Final = (
    "the hash chain of the ledger with a record of this deletion: the id, tool, state and time of each call, and who "
    "decided about it; host names and call ids in the network log; and downloads of the browser in quarantine"
)


def _list(args: Args, ctx: Context) -> Result:
    limit = cast(int, args.get("limit") or DEFAULT_LIMIT)
    text = cast(str, args.get("text") or "")
    try:
        since, until = _time(args.get("since")), _time(args.get("until"), end=True)
        found = ctx.service(Sessions).list(since, until, text)
    except (SessionRefused, ValueError) as error:
        return fail(str(error))
    shown = [_fields(session) for session in found[:limit]]
    structured: dict[str, Json] = {"total": len(found), "sessions": cast(Json, shown)}
    return ok(_render(found, found[:limit]), structured=structured)


def _time(given: Json, *, end: bool = False) -> float | None:
    return None if given is None else parse_time(str(given), datetime.now().astimezone(), end=end)


def _fields(session: SessionSummary) -> dict[str, Any]:
    return {
        "id": session.id,
        "document": session.document,
        "interface": session.interface,
        "agent": session.agent,
        "skill": session.skill,
        "first": _iso(session.first),
        "last": _iso(session.last),
        "calls": session.calls,
        "pending": session.pending,
        "running": session.running,
        "bytes": session.bytes,
    }


def _iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _render(found: Sequence[SessionSummary], shown: Sequence[SessionSummary]) -> str:
    if not found:
        return "No sessions."
    more = f"\n[{len(found) - len(shown)} older ones. Raise `limit`, or narrow with `since`, `until` or `text`.]"
    lines = "\n".join(_line(session) for session in shown)
    return lines + (more if len(shown) < len(found) else "")


def _line(session: SessionSummary) -> str:
    who = " ".join(
        part
        for part in (
            session.interface,
            f"agent {session.agent}" if session.agent else "",
            f"skill {session.skill}" if session.skill else "",
        )
        if part
    )
    calls = _count(session.calls, "call")
    waiting = f", {session.pending} pending" if session.pending else ""
    running = f", {session.running} running" if session.running else ""
    where = escape(session.document) if session.document else escape(who)
    times = f"{_iso(session.first)} to {_iso(session.last)}"
    return f"{session.id}  {where}  {times}  {calls}{waiting}{running}, {format_size(session.bytes)}"


def _count(number: int, noun: str) -> str:
    return f"1 {noun}" if number == 1 else f"{number} {noun}s"


def _propose(args: Args, ctx: Context) -> Proposal | Result:
    try:
        session = ctx.service(Sessions).find(cast(str, args["session"]), ctx)
    except SessionRefused as error:
        return fail(str(error))
    document = f"The document {escape(session.document)} stays as it is." if session.document else ""
    lines = [
        _line(session),
        f"Removes {REMOVED}.",
        f"Keeps {KEPT}.",
        "Its changes to files stay, and can no longer be undone.",
        document,
    ]
    return Proposal(
        tool_name="sessions.delete",
        summary=f"delete session {session.id} ({_count(session.calls, 'call')})",
        risk=Risk.HIGH,
        payload={"session": session.id, "last_entry": session.last_entry},
        preview="\n".join(filter(None, lines)),
    )


def _apply(payload: Args, ctx: Context) -> Result:
    try:
        done = ctx.service(Sessions).delete(cast(str, payload["session"]), cast(int, payload["last_entry"]), ctx)
    except SessionRefused as error:
        return fail(str(error))
    stored = f"{_count(done.blobs, 'stored file')} ({format_size(done.freed)})"
    changed = (
        f"; files that changed since, or that another document links to: {', '.join(map(escape, done.kept))}"
        if done.kept
        else ""
    )
    kept = f"{KEPT}{changed}"
    late = "" if done.erased else " Another process uses the ledger, so its file is rewritten later."
    text = (
        f"Deleted session {done.id}: {_count(done.calls, 'call')} and {stored}. Removed: {REMOVED}. "
        f"Kept: {kept}. Its changes to files stay and can no longer be undone.{late}"
    )
    return ok(
        text,
        structured={
            "session": done.id,
            "calls": done.calls,
            "entries": done.entries,
            "blobs": done.blobs,
            "freed_bytes": done.freed,
            "erased": done.erased,
            "removed": REMOVED,
            "kept": kept,
        },
    )


def _preview_list(args: Args, width: int) -> str:
    given = (f"{name} {args[name]}" for name in ("text", "since", "until") if args.get(name) is not None)
    return with_label("  ".join(given), args)


def _preview_delete(args: Args, width: int) -> str:
    return with_label(str(args.get("session", "")), args)


SESSIONS_LIST: Final = read_only_tool(
    name="sessions.list",
    description="List the sessions whose calls are recorded, newest first: conversations in documents, and runs.",
    input_schema=strict_object(
        text=nullable("string", "Only sessions with this in their id, document, interface, agent or skill."),
        since=nullable("string", "Only sessions with a call since then: yesterday, 2h, 2026-05-01."),
        until=nullable("string", "Only sessions that began before: yesterday, 2h, 2026-05-01 (the end of that day)."),
        limit=nullable(
            "integer", f"Maximum number of sessions (default {DEFAULT_LIMIT}).", minimum=1, maximum=MAX_LIMIT
        ),
        label=LABEL,
    ),
    output_schema=strict_object(
        total=INTEGER,
        sessions=array(
            strict_object(
                id=STRING,
                document=STRING_OR_NULL,
                interface=STRING,
                agent=STRING_OR_NULL,
                skill=STRING_OR_NULL,
                first=STRING,
                last=STRING,
                calls=INTEGER,
                pending=INTEGER,
                running=INTEGER,
                bytes=INTEGER,
            )
        ),
    ),
    execute=_list,
    format_preview=_preview_list,
    groups=("sessions",),
)
SESSIONS_DELETE: Final = builtin_tool(
    name="sessions.delete",
    description=(
        "Delete what is recorded of a session: the arguments, results and stored files of its calls. "
        "Its changes to files stay but can no longer be undone. The current session cannot be deleted."
    ),
    input_schema=strict_object(
        session=non_blank("The id of the session, from `sessions.list`, or the path of its document."), label=LABEL
    ),
    output_schema=strict_object(
        session=STRING,
        calls=INTEGER,
        entries=INTEGER,
        blobs=INTEGER,
        freed_bytes=INTEGER,
        erased=BOOLEAN,
        removed=STRING,
        kept=STRING,
    ),
    propose=_propose,
    apply=_apply,
    risk=Risk.HIGH,
    effects=frozenset({"fs.write"}),
    format_preview=_preview_delete,
    groups=("sessions",),
)

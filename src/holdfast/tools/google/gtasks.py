"""`gtasks.list`: the tasks of a list."""

from __future__ import annotations

from datetime import UTC
from typing import Any, Final, cast

from msgspec import Struct

from holdfast.contract.context import Context
from holdfast.contract.json import Args, Json
from holdfast.contract.result import Result, ok
from holdfast.text.quote import behind_gutter
from holdfast.tools.google.results import PAGE, clean_text, in_quotes, moment, more_line, one_line, page_token, preview
from holdfast.tools.google.service import ApiSession, GoogleFailed, api_tool
from holdfast.tools.schemas import BOOLEAN, LABEL, STRING, STRING_OR_NULL, array, nullable, strict_object

DEFAULT_LIMIT: Final = 50
MAX_LIMIT: Final = 100
_MAX_LISTS: Final = 100
_NOTES_CHARS: Final = 1000


class _TaskList(Struct, frozen=True):
    id: str = ""
    title: str = ""


class _TaskLists(Struct, frozen=True):
    items: tuple[_TaskList, ...] = ()


class _Task(Struct, frozen=True):
    id: str = ""
    title: str = ""
    notes: str = ""
    status: str = ""
    due: str = ""
    completed: str = ""
    parent: str = ""


class _Tasks(Struct, frozen=True, rename="camel"):
    items: tuple[_Task, ...] = ()
    next_page_token: str = ""


async def _list(args: Args, ctx: Context, api: ApiSession) -> Result:
    limit, completed = cast("int | None", args.get("limit")) or DEFAULT_LIMIT, bool(args.get("completed"))
    query = {"maxResults": _MAX_LISTS}
    found = await api.read(_TaskLists, "tasks", "v1", "users", "@me", "lists", query=query, what="list of tasks")
    lists = found.items[:_MAX_LISTS]
    chosen = _chosen(lists, cast("str | None", args.get("list")))
    tasks = await api.read(
        _Tasks,
        "tasks",
        "v1",
        "lists",
        chosen.id,
        "tasks",
        query={
            "showCompleted": completed,
            "showHidden": completed,  # what was completed in Google's own clients is hidden
            "dueMin": _bound(args.get("due_from")),
            "dueMax": _bound(args.get("due_to"), end=True),
            "maxResults": limit,
            "pageToken": cast("str | None", args.get("page")),
        },
        what=f"list '{one_line(chosen.title, 80)}'",
    )
    output: Args = {
        "list": one_line(chosen.title),
        "lists": [{"id": one_line(each.id, 200), "title": one_line(each.title)} for each in lists],
        "tasks": [_task(each) for each in tasks.items[:limit]],
        "next_page": page_token(tasks.next_page_token),
    }
    return ok(_text(output), structured=output)


def _chosen(lists: tuple[_TaskList, ...], wanted: str | None) -> _TaskList:
    """Return the list with that id or title; without one, the first, which is the user's main list."""
    if not lists:
        raise GoogleFailed("The account has no list of tasks.")
    if wanted is None:
        return lists[0]
    matching = [each for each in lists if each.id == wanted] or [
        each for each in lists if each.title.casefold() == wanted.casefold()
    ]
    if len(matching) == 1:
        return matching[0]
    known = ", ".join(f"{one_line(each.title, 60)!r} ({one_line(each.id, 200)})" for each in lists[:20])
    told = "Several lists have" if matching else "There is no list with"
    raise GoogleFailed(f"{told} the title or id {one_line(wanted, 80)!r}. Lists: {known}.")


def _bound(given: Json, *, end: bool = False) -> str | None:
    """Return midnight in UTC of a day, or with `end` of the day after: a due day is stored as its midnight in UTC."""
    if given is None:
        return None
    day = moment(str(given), UTC).date().isoformat()
    return moment(day, UTC, end=end).isoformat(timespec="seconds")


def _task(task: _Task) -> Json:
    notes = clean_text(task.notes)
    return {
        "id": one_line(task.id, 200),
        "title": one_line(task.title),
        "completed": task.status == "completed",
        "due": one_line(task.due, 60)[:10] or None,  # the API keeps no time of day
        "completed_at": one_line(task.completed, 60) or None,
        "parent": one_line(task.parent, 200) or None,
        "notes": (notes if len(notes) <= _NOTES_CHARS else f"{notes[: _NOTES_CHARS - 1]}…") or None,
    }


def _text(output: Args) -> str:
    tasks = cast("list[dict[str, Any]]", output["tasks"])
    lists = cast("list[dict[str, str]]", output["lists"])
    lines = [f"{in_quotes(str(output['list']), '(no title)')}: {len(tasks)} task{'' if len(tasks) == 1 else 's'}"]
    shown = {each["id"] for each in tasks}
    for each in tasks:
        indent = "  " if each["parent"] in shown else ""
        due = f", due {each['due']}" if each["due"] else ""
        done = f", completed {each['completed_at'] or ''}".rstrip() if each["completed"] else ""
        mark = "x" if each["completed"] else " "
        lines.append(f"{indent}- [{mark}] {in_quotes(each['title'], '(no title)')}  (id {each['id']}{due}{done})")
        if each["notes"]:
            lines.append(behind_gutter(each["notes"]))
    if len(lists) > 1:
        titles = ", ".join(f"{in_quotes(each['title'], '(no title)')} ({each['id']})" for each in lists)
        lines += ["", f"Lists: {titles}"]
    return "\n".join([*lines, *more_line(cast("str | None", output["next_page"]))])


GTASKS_LIST: Final = api_tool(
    "gtasks",
    _list,
    name="gtasks.list",
    source="documents",
    description="List the tasks of a list of Google Tasks, and the lists there are.",
    input_schema=strict_object(
        list=nullable("string", "The title or id of a list (default: the main one).", minLength=1, maxLength=300),
        completed=nullable("boolean", "Include completed tasks (default false)."),
        due_from=nullable("string", "First due day, as 2026-03-01.", maxLength=60),
        due_to=nullable("string", "Last due day.", maxLength=60),
        limit=nullable("integer", "Number of tasks (default 50).", minimum=1, maximum=MAX_LIMIT),
        page=PAGE,
        label=LABEL,
    ),
    output_schema=strict_object(
        list=STRING,
        lists=array(strict_object(id=STRING, title=STRING)),
        tasks=array(
            strict_object(
                id=STRING,
                title=STRING,
                completed=BOOLEAN,
                due=STRING_OR_NULL,
                completed_at=STRING_OR_NULL,
                parent=STRING_OR_NULL,
                notes=STRING_OR_NULL,
            )
        ),
        next_page=STRING_OR_NULL,
    ),
    format_preview=preview("list", "due_from", "due_to"),
)

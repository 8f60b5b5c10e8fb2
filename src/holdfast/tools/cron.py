"""`cron.list`, `cron.add` and `cron.remove`: calls and documents that the daemon runs at given times."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from time import time
from typing import Any, Final, cast

import msgspec

from holdfast.contract.call import Proposal
from holdfast.contract.context import Context
from holdfast.contract.enums import Risk
from holdfast.contract.errors import BadJson, ScheduleRefused
from holdfast.contract.json import Args, Json, parse_json
from holdfast.contract.result import Result, fail, ok
from holdfast.contract.schedules import MAX_WORK_BYTES, ScheduledWork, Schedules, ScheduleStatus
from holdfast.text.cron_expression import CronExpression
from holdfast.text.escape import escape
from holdfast.text.preview import arguments_preview, format_arguments, with_label
from holdfast.text.table import render_table
from holdfast.tools.schemas import (
    BOOLEAN,
    INTEGER,
    LABEL,
    STRING,
    STRING_OR_NULL,
    array,
    builtin_tool,
    needs_extra,
    non_blank,
    nullable,
    read_only_tool,
    strict_object,
)

_SHOWN_TIMES: Final = 3
_WORK_WIDTH: Final = 60
_APPLIES: Final = (
    "Every run passes policy and approval when it is due, and is pending if it needs a person. It takes place while "
    "the daemon (holdfast serve) runs."
)
_missing: Final = needs_extra("serve", "cronsim")


# ------------------------------------------------------------------------ list


def _list(args: Args, ctx: Context) -> Result:
    try:
        found = ctx.service(Schedules).list()
    except ScheduleRefused as error:
        return fail(str(error))
    return ok(_render(found), structured={"schedules": cast(Json, [_fields(status) for status in found])})


def _render(found: Sequence[ScheduleStatus]) -> str:
    if not found:
        return "No schedules."
    rows = [
        (status.schedule.id, describe_time(status), format_next(status), describe_work(status.schedule.work),
         status.schedule.by, describe_last(status))
        for status in found
    ]  # fmt: skip
    notes = [f"{status.schedule.id}: {escape(status.missed_note)}" for status in found if status.missed_note]
    return "\n".join([*render_table(("id", "when", "next", "what", "by", "last"), rows), *notes])


def _fields(status: ScheduleStatus) -> dict[str, Any]:
    schedule = status.schedule
    work, caller, show = schedule.work, schedule.caller, _expression(schedule.work).format_time
    return {
        "id": schedule.id,
        "expression": work.expression,
        "zone": work.zone,
        "tool": work.tool,
        "arguments": None if work.args is None else msgspec.json.encode(work.args).decode(),
        "document": work.document,
        "message": work.message,
        "by": schedule.by,
        "agent": caller.agent,
        "skill": caller.skill,
        "added_by_call": schedule.call,
        "next": None if status.next_at is None else show(status.next_at),
        "last": None if status.last_at is None else show(status.last_at),
        "state": status.last_state,
        "call": status.last_call,
        "error": status.last_message,
        "missed": status.missed,
        "missed_note": status.missed_note,
        "running": status.running,
    }


def describe_time(status: ScheduleStatus) -> str:
    """Return the expression and its zone."""
    return f"{status.schedule.work.expression} {status.schedule.work.zone}"


def format_next(status: ScheduleStatus) -> str:
    return "never" if status.next_at is None else _expression(status.schedule.work).format_time(status.next_at)


def describe_work(work: ScheduledWork) -> str:
    """Say in one line what is run."""
    if work.document is not None:
        return f"document {work.document}"
    return f"{work.tool} {arguments_preview(_given(work), _WORK_WIDTH)}".rstrip()


def describe_last(status: ScheduleStatus) -> str:
    """Say what came of the last run, and how many were missed."""
    missed = f"{status.missed:,} missed" if status.missed else ""
    now = "running" if status.running else ""
    call = f"({status.last_call})" if status.last_call else ""
    return ", ".join(filter(None, (now, f"{status.last_state} {call}".strip(), missed))) or "no run yet"


# ------------------------------------------------------------------------- add


def _propose_add(args: Args, ctx: Context) -> Proposal | Result:
    try:
        expression = CronExpression.parse(cast(str, args["expression"]), cast("str | None", args.get("zone")))
        plan = ctx.service(Schedules).check(_work(args, expression), ctx)
    except (ScheduleRefused, BadJson, ValueError) as error:
        return fail(str(error))
    work = plan.work
    times = [expression.format_time(at) for at in islice(expression.times_after(time()), _SHOWN_TIMES)]
    lines = [
        f"When: {expression.describe()} ({expression.text}, {expression.zone})",
        f"Next: {', '.join(times)}",
        *_work_lines(work),
        f"Rights: {plan.rights}",
        _APPLIES,
    ]
    return Proposal(
        tool_name="cron.add",
        summary=f"schedule {describe_work(work)} at {expression.text} ({expression.zone})",
        risk=Risk.MEDIUM,
        payload=cast(Args, msgspec.to_builtins(work)),
        preview="\n".join(escape(line) for text in lines for line in text.split("\n")),
    )


def _work(args: Args, expression: CronExpression) -> ScheduledWork:
    given = cast("str | None", args.get("arguments"))
    document, tool = cast("str | None", args.get("document")), cast("str | None", args.get("tool"))
    message = cast("str | None", args.get("message")) or ""
    if (tool is None) == (document is None):
        raise ScheduleRefused("Give either a tool to call or a document to advance.")
    if document is not None and given is not None:
        raise ScheduleRefused("A document has no arguments. Use `message` for what is said in it.")
    if tool is not None and message:
        raise ScheduleRefused("A tool gets no message. Use `arguments`, or give a document.")
    parsed = None if tool is None else parse_json(given or "{}", limit=MAX_WORK_BYTES)
    if parsed is not None and not isinstance(parsed, dict):
        raise ScheduleRefused('The arguments must be a JSON object, such as {"path": "notes.txt"}.')
    return ScheduledWork(
        expression=expression.text, zone=expression.zone, tool=tool, args=parsed, document=document, message=message
    )


def _work_lines(work: ScheduledWork) -> list[str]:
    if work.document is None:
        return [f"Call: {work.tool}", *(f"  {line}" for line in format_arguments(work.args or {}).split("\n"))]
    said = [f"  {line}" for line in work.message.split("\n")] if work.message else []
    return [f"Advance: {work.document}", *(["Say first, unless it waits for something:", *said] if said else [])]


def _apply_add(payload: Args, ctx: Context) -> Result:
    try:
        status = ctx.service(Schedules).add(msgspec.convert(payload, ScheduledWork), ctx)
    except ScheduleRefused as error:
        return fail(str(error))
    text = f"Added schedule {status.schedule.id}. It is due next at {format_next(status)}."
    return ok(text, structured={"id": status.schedule.id, "next": format_next(status)})


# ---------------------------------------------------------------------- remove


def _propose_remove(args: Args, ctx: Context) -> Proposal | Result:
    try:
        status = ctx.service(Schedules).find(cast(str, args["id"]), ctx)
    except ScheduleRefused as error:
        return fail(str(error))
    schedule, now = status.schedule, " A run that has begun goes on." if status.running else ""
    lines = [
        f"When: {describe_time(status)}",
        *_work_lines(schedule.work),
        f"Made by: {schedule.by}",
        f"Last: {describe_last(status)}",
        f"Its records stay in the ledger.{now}",
    ]
    return Proposal(
        tool_name="cron.remove",
        summary=f"remove schedule {schedule.id}: {describe_work(schedule.work)}",
        risk=Risk.MEDIUM,
        payload={"id": schedule.id},
        preview="\n".join(map(escape, lines)),
    )


def _apply_remove(payload: Args, ctx: Context) -> Result:
    try:
        status = ctx.service(Schedules).remove(cast(str, payload["id"]), ctx)
    except ScheduleRefused as error:
        return fail(str(error))
    return ok(f"Removed schedule {status.schedule.id}.", structured={"id": status.schedule.id})


# ----------------------------------------------------------------- definitions


def _expression(work: ScheduledWork) -> CronExpression:
    return CronExpression(work.expression, work.zone)


def _given(work: ScheduledWork) -> Args:
    """The arguments that say something: null is what an omitted one becomes."""
    return {name: value for name, value in (work.args or {}).items() if value is not None}


def _list_preview(args: Args, width: int) -> str:
    return with_label("", args)


def _add_preview(args: Args, width: int) -> str:
    what = args.get("tool") or f"document {args.get('document')}"
    return with_label(f"{args.get('expression', '')}  {what}", args)


def _remove_preview(args: Args, width: int) -> str:
    return with_label(str(args.get("id", "")), args)


CRON_LIST: Final = read_only_tool(
    name="cron.list",
    description="List the schedules of this project: what runs when, who made it, and what came of the last run.",
    input_schema=strict_object(label=LABEL),
    output_schema=strict_object(
        schedules=array(
            strict_object(
                id=STRING,
                expression=STRING,
                zone=STRING,
                tool=STRING_OR_NULL,
                arguments=STRING_OR_NULL,
                document=STRING_OR_NULL,
                message=STRING,
                by=STRING,
                agent=STRING_OR_NULL,
                skill=STRING_OR_NULL,
                added_by_call=STRING,
                next=STRING_OR_NULL,
                last=STRING_OR_NULL,
                state=STRING,
                call=STRING_OR_NULL,
                error=STRING,
                missed=INTEGER,
                missed_note=STRING,
                running=BOOLEAN,
            )
        )
    ),
    execute=_list,
    unavailable=_missing,
    format_preview=_list_preview,
    groups=("cron",),
)
CRON_ADD: Final = builtin_tool(
    name="cron.add",
    description=(
        "Schedule a call of a tool, or advancing a document, by a cron expression. Each run has at most the rights of "
        "this call and may need approval."
    ),
    input_schema=strict_object(
        expression=non_blank(
            "When: minute, hour, day of the month, month, day of the week, such as '0 3 * * MON-FRI'; or @hourly, "
            "@daily, @weekly, @monthly."
        ),
        tool=nullable("string", "The tool to call. Give this or `document`."),
        arguments=nullable("string", 'The arguments of the tool, as a JSON object: {"path": "notes.txt"}.'),
        document=nullable("string", "The path of the document to advance. An agent can schedule its own."),
        message=nullable("string", "What to say in the document each time, unless it waits for something."),
        zone=nullable("string", "The time zone, such as Europe/Berlin (default: that of this machine)."),
        label=LABEL,
    ),
    output_schema=strict_object(id=STRING, next=STRING),
    propose=_propose_add,
    apply=_apply_add,
    risk=Risk.MEDIUM,
    effects=frozenset({"fs.write"}),
    unavailable=_missing,
    format_preview=_add_preview,
    groups=("cron",),
)
CRON_REMOVE: Final = builtin_tool(
    name="cron.remove",
    description="Remove a schedule, so that it does not run again. A run that has begun goes on.",
    input_schema=strict_object(id=non_blank("The id of the schedule, from cron.list."), label=LABEL),
    output_schema=strict_object(id=STRING),
    propose=_propose_remove,
    apply=_apply_remove,
    risk=Risk.MEDIUM,
    effects=frozenset({"fs.write"}),
    unavailable=_missing,
    format_preview=_remove_preview,
    groups=("cron",),
)

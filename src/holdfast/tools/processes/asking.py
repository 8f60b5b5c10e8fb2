"""`process.status`, `process.output` and `process.list`: what the processes do. They change nothing."""

from __future__ import annotations

from typing import Final, cast

from holdfast.contract.context import Context
from holdfast.contract.errors import HoldfastError
from holdfast.contract.processes import Processes, ProcessOutput
from holdfast.contract.result import Result, fail, ok
from holdfast.contract.tool import Tool
from holdfast.contract.values import Args, Json
from holdfast.contract.vocabulary import Risk
from holdfast.text.preview import with_label
from holdfast.text.truncate import format_size
from holdfast.tools.paging import Page, page_of
from holdfast.tools.processes.naming import ID, PID, PROCESS, describe, name_of, plain, preview
from holdfast.tools.schemas import LABEL, optional, strict_object

DEFAULT_LINES: Final = 500


def _status(args: Args, ctx: Context) -> Result:
    try:
        info = ctx.service(Processes).find(name_of(args))
    except HoldfastError as error:
        return fail(str(error))
    return ok(f"Process {describe(info)}", structured=plain(info))


def _list(args: Args, ctx: Context) -> Result:
    found = ctx.service(Processes).list()
    text = "\n".join(map(describe, found)) or "holdfast has started no process here."
    return ok(text, structured=cast(Json, {"processes": [plain(info) for info in found]}))


def _output(args: Args, ctx: Context) -> Result:
    offset = cast("int | None", args.get("offset"))
    limit = cast(int, args.get("limit") or DEFAULT_LINES)
    processes = ctx.service(Processes)
    try:
        name = name_of(args)
        page = processes.output(name, offset=offset, limit=limit)
        info = processes.find(name)
    except HoldfastError as error:
        return fail(str(error))
    if offset is not None and offset > max(1, page.total_lines):
        return fail(f"Offset {offset} is beyond the end of the output ({page.total_lines} lines so far).")
    first, shown = _end(page, ctx) if offset is None else (page.first, page_of(page.text, page.first, ctx))
    lines = shown.lines if page.text else 0
    structured: Args = {
        "id": info.id,
        "pid": info.pid,
        "state": info.state,
        "first_line": first,
        "lines": lines,
        "total_lines": page.total_lines,
        "dropped_lines": page.dropped,
        "content": shown.content,
    }
    body = shown.content if page.total_lines else "(no output)"
    notice = _notice(page, first + lines - 1, shown, whole=first == 1 and not shown.cut)
    return Result(
        True,
        f"{body}\n\n{notice}" if notice else body,
        structured=structured,
        metadata={"truncated": True},
    )


def _end(page: ProcessOutput, ctx: Context) -> tuple[int, Page]:
    """The last lines, and the number of the first of them."""
    cut = ctx.truncate.tail(page.text)
    first = page.first + cut.total_lines - cut.output_lines
    last = first + cut.output_lines - 1
    what = f"the last {format_size(cut.output_bytes)} of line {last}" if cut.last_line_partial else ""
    return first, Page(cut.content, cut.output_lines, cut.truncated, what or f"lines {first}-{last}")


def _notice(page: ProcessOutput, last: int, shown: Page, *, whole: bool) -> str:
    if whole and last >= page.total_lines:
        return ""
    dropped = f" Lines 1-{page.dropped} are not kept any more." if page.dropped else ""
    more = f" Use offset={last + 1} to continue." if last < page.total_lines else ""
    return f"[Showing {shown.range} of {page.total_lines}.{more}{dropped}]"


def _output_preview(args: Args, width: int) -> str:
    body = preview({**args, "label": None}, width)
    if args.get("offset") or args.get("limit"):
        body += f"  +{args.get('offset') or 'end'},{args.get('limit') or DEFAULT_LINES}"
    return with_label(body, args)


def _list_preview(args: Args, width: int) -> str:
    return with_label("", args).strip()


_READS: Final = frozenset({"fs.read"})

PROCESS_STATUS: Final = Tool(
    name="process.status",
    description="Get the status of a background process.",
    input_schema=strict_object(pid=PID, id=ID, label=LABEL),
    output_schema=PROCESS,
    execute=_status,
    strict=True,
    risk=Risk.LOW,
    effects=_READS,
    format_preview=preview,
    groups=("runtime",),
    needs_root=True,
    source="builtin",
)

PROCESS_OUTPUT: Final = Tool(
    name="process.output",
    description="Read what a background process has printed: the last lines, or lines from an offset on.",
    input_schema=strict_object(
        pid=PID,
        id=ID,
        offset=optional("integer", "First line, counted from 1 (default: the last lines).", minimum=1),
        limit=optional("integer", f"How many lines (default {DEFAULT_LINES}).", minimum=1, maximum=2000),
        label=LABEL,
    ),
    output_schema={
        "type": "object",
        "properties": {
            "id": {"type": "string"},
            "pid": {"type": "integer"},
            "state": {"enum": ["running", "exited", "lost"]},
            "first_line": {"type": "integer"},
            "lines": {"type": "integer"},
            "total_lines": {"type": "integer"},
            "dropped_lines": {"type": "integer"},
            "content": {"type": "string"},
        },
        "required": ["id", "pid", "state", "first_line", "lines", "total_lines", "dropped_lines", "content"],
        "additionalProperties": False,
    },
    execute=_output,
    strict=True,
    risk=Risk.LOW,
    effects=_READS,
    format_preview=_output_preview,
    groups=("runtime",),
    needs_root=True,
    keeps="tail",
    source="builtin",
)

PROCESS_LIST: Final = Tool(
    name="process.list",
    description="List the background processes of this project.",
    input_schema=strict_object(label=LABEL),
    output_schema={
        "type": "object",
        "properties": {"processes": {"type": "array", "items": PROCESS}},
        "required": ["processes"],
        "additionalProperties": False,
    },
    execute=_list,
    strict=True,
    risk=Risk.LOW,
    effects=_READS,
    format_preview=_list_preview,
    groups=("runtime",),
    needs_root=True,
    source="builtin",
)

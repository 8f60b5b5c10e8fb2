"""`output.read`: page through an output that was too long to show."""

from __future__ import annotations

from typing import Final, cast

from msgspec import Struct

from holdfast.contract.context import Context
from holdfast.contract.errors import HoldfastError
from holdfast.contract.json import Args
from holdfast.contract.result import Result, fail
from holdfast.contract.tool_finder import OUTPUT_READ
from holdfast.text.preview import with_label
from holdfast.text.truncate import byte_size, format_size, truncate_by_bytes
from holdfast.tools.schemas import INTEGER, LABEL, STRING, nullable, read_only_tool, strict_object, text


class Page(Struct, frozen=True):
    content: str
    lines: int
    """Number of lines shown, including a cut one."""
    cut: bool
    range: str
    """The range in words, such as `lines 1-20`."""


def first_page(text: str, first: int, ctx: Context) -> Page:
    """Return the first page of a text whose first line has the number `first`."""
    found = ctx.truncate.head(text)
    if not found.first_line_exceeds_limit:
        last = first + found.output_lines - 1
        return Page(found.content, found.output_lines, found.truncated, f"lines {first}-{last}")
    line, newline, _ = text.partition("\n")
    start = truncate_by_bytes(line, ctx.truncate.MAX_BYTES, "head").content
    # Without a newline after it, the line may have been cut before it got here.
    size = f"{'' if newline else 'at least '}{format_size(byte_size(line))}"
    return Page(start, 1, True, f"the first {format_size(byte_size(start))} of line {first} ({size} long)")


DEFAULT_LINES: Final = 500


def _execute(args: Args, ctx: Context) -> Result:
    call = cast(str, args["call"])
    offset = cast(int, args.get("offset") or 1)
    limit = cast(int, args.get("limit") or DEFAULT_LINES)
    try:
        content, total = ctx.storage.read_spill(call, offset, limit)
    except HoldfastError as error:
        return fail(str(error))
    if offset > total:
        return fail(f"Offset {offset} is beyond the end of the output ({total} lines in all).")
    page = first_page(content, offset, ctx)
    last = offset + page.lines - 1
    more = f" Use offset={last + 1} to continue." if last < total else ""
    notice = f"\n\n[Showing {page.range} of {total}.{more}]" if more or page.cut else ""
    structured = {"call": call, "offset": offset, "lines": page.lines, "total_lines": total, "content": page.content}
    metadata: Args = {"truncated": True} if page.cut else {}
    return Result(True, page.content + notice, structured=cast(Args, structured), metadata=metadata)


def _preview(args: Args, width: int) -> str:
    body = str(args.get("call", ""))
    if args.get("offset") or args.get("limit"):
        body += f"  +{args.get('offset') or 1},{args.get('limit') or DEFAULT_LINES}"
    return with_label(body, args)


OUTPUT_READ_TOOL: Final = read_only_tool(
    name=OUTPUT_READ,
    description="Read lines of the full output of an earlier call whose output was cut.",
    input_schema=strict_object(
        call=text("The id of the call whose output was cut."),
        offset=nullable("integer", "First line, counted from 1 (default 1).", minimum=1),
        limit=nullable("integer", f"Number of lines (default {DEFAULT_LINES}).", minimum=1, maximum=2000),
        label=LABEL,
    ),
    output_schema=strict_object(call=STRING, offset=INTEGER, lines=INTEGER, total_lines=INTEGER, content=STRING),
    execute=_execute,
    format_preview=_preview,
    groups=("system",),
    profiles=("minimal",),
)

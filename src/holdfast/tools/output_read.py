"""`output.read`: read back the part of an output that was too long to show."""

from __future__ import annotations

from typing import Final, cast

from holdfast.contract.context import Context
from holdfast.contract.errors import HoldfastError
from holdfast.contract.finding import OUTPUT_READ
from holdfast.contract.result import Result, fail
from holdfast.contract.tool import Tool
from holdfast.contract.values import Args
from holdfast.contract.vocabulary import Risk
from holdfast.text.preview import with_label
from holdfast.tools.paging import page_of
from holdfast.tools.schemas import INTEGER, LABEL, STRING, optional, strict_object, text

DEFAULT_LINES: Final = 500


def _execute(args: Args, ctx: Context) -> Result:
    call = cast(str, args["call"])
    offset = cast(int, args.get("offset") or 1)
    limit = cast(int, args.get("limit") or DEFAULT_LINES)
    try:
        content, total = ctx.keep.read_spill(call, offset, limit)
    except HoldfastError as error:
        return fail(str(error))
    if offset > total:
        return fail(f"Offset {offset} is beyond the end of the output ({total} lines in all).")
    page = page_of(content, offset, ctx)
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


OUTPUT_READ_TOOL: Final = Tool(
    name=OUTPUT_READ,
    description="Read lines of an earlier call's full output that was cut when it was shown.",
    input_schema=strict_object(
        call=text("The id of the call whose output was cut."),
        offset=optional("integer", "First line, counted from 1 (default 1).", minimum=1),
        limit=optional("integer", f"How many lines (default {DEFAULT_LINES}).", minimum=1, maximum=2000),
        label=LABEL,
    ),
    output_schema=strict_object(call=STRING, offset=INTEGER, lines=INTEGER, total_lines=INTEGER, content=STRING),
    execute=_execute,
    strict=True,
    risk=Risk.LOW,
    effects=frozenset({"fs.read"}),
    format_preview=_preview,
    groups=("system",),
    profiles=("minimal",),
    presets=("$readonly",),
    source="builtin",
)

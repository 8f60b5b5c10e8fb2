"""`file.read`: lines of a text file, or a binary file as an attachment."""

from __future__ import annotations

import os
from base64 import b64encode
from shlex import quote
from typing import Final, Literal, cast

from msgspec import Struct, to_builtins

from holdfast.contract.context import Context
from holdfast.contract.enums import CHECKS_IN_DRY_RUN
from holdfast.contract.errors import PathRefused
from holdfast.contract.json import Args, Json
from holdfast.contract.result import Attachment, Result, fail, ok
from holdfast.fs.beneath import NotRegular, open_file_beneath
from holdfast.text.preview import with_label
from holdfast.text.truncate import format_size
from holdfast.tools.files.file_state import ConfinedPath, os_error_reason, path_to_read
from holdfast.tools.files.pages import (
    SNIFFED_BYTES,
    UNKNOWN_MIME,
    LineReader,
    OffsetBeyondEnd,
    Page,
    PageLimits,
    attachment_kind,
    mime_type,
)
from holdfast.tools.schemas import LABEL, nullable, read_only_tool, strict_object, text

SMALL_LINES: Final = 200
MAX_ATTACHED: Final = 16 * 1024 * 1024


class FileRead(Struct, frozen=True, kw_only=True):
    """The structured result of `file.read`."""

    path: str
    size: int
    encoding: Literal["utf8", "base64", "attached"]
    content: str = ""
    mime_type: str | None = None
    offset: int = 1
    lines: int = 0
    total_lines: int | None = None
    next_offset: int | None = None
    limited_by: Literal["lines", "bytes", "limit", "line"] | None = None
    line_bytes: int | None = None


def _execute(args: Args, ctx: Context) -> Result:
    given = cast(str, args["path"])
    try:
        target = path_to_read(ctx, given)
        with open_file_beneath(target.root, target.path) as opened:
            if ctx.dry_run:
                return ok("")
            return _read(opened, target, args, ctx)
    except PathRefused as error:
        return fail(str(error))
    except NotRegular as error:
        return fail(f"{given} {error}{'; use file.list' if error.folder else ''}.")
    except (FileNotFoundError, NotADirectoryError):
        return fail(f"File not found: {given}")
    except OffsetBeyondEnd as error:
        return fail(f"Offset {_offset(args)} is beyond end of file ({error.total_lines} lines total)")
    except OSError as error:
        return fail(f"{given} cannot be read: {os_error_reason(error)}.")


def _read(opened: int, target: ConfinedPath, args: Args, ctx: Context) -> Result:
    size = os.fstat(opened).st_size
    mime = mime_type(os.pread(opened, SNIFFED_BYTES, 0), target.path.name)
    limits = ctx.truncate
    if args.get("encoding") == "base64":
        if args.get("offset") is not None or args.get("limit") is not None:
            return fail("offset and limit count lines of text. Leave them out with encoding base64.")
        if size * 4 <= (limits.MAX_BYTES - 4) * 3:
            return _as_base64(opened, target, size, mime or UNKNOWN_MIME)
        mime = mime or UNKNOWN_MIME
    if mime is not None:
        return _attached(opened, target, size, mime)
    page_limits = PageLimits(
        limits.MAX_LINES, limits.MAX_BYTES, SMALL_LINES if ctx.caps == "small" else limits.MAX_LINES
    )
    offset, limit = _offset(args), args.get("limit")
    lines = LineReader(opened, size, lambda: ctx.cancelled)
    page = lines.page(offset, None if limit is None else max(1, cast(int, limit)), page_limits)
    done = _page_read(page, target, size, offset)
    return ok(_text(done, target.requested, page_limits.bytes), structured=_to_json(done))


def _as_base64(opened: int, target: ConfinedPath, size: int, mime: str) -> Result:
    data = _whole(opened, size)
    content = b64encode(data).decode()
    done = FileRead(path=target.relative, size=len(data), encoding="base64", content=content, mime_type=mime)
    return ok(content, structured=_to_json(done))


def _attached(opened: int, target: ConfinedPath, size: int, mime: str) -> Result:
    if size > MAX_ATTACHED:
        return fail(
            f"{target.requested} is {mime}, {format_size(size)}; at most {format_size(MAX_ATTACHED)} can be attached. "
            "Read a part of it with a command."
        )
    data = _whole(opened, size)
    attachment = Attachment(kind=attachment_kind(mime), mime_type=mime, data=data, name=target.path.name)
    done = FileRead(path=target.relative, size=len(data), encoding="attached", mime_type=mime)
    output = f"{done.path} is {mime}, {format_size(done.size)}; attached."
    return ok(output, structured=_to_json(done), attachments=(attachment,))


def _whole(opened: int, size: int) -> bytes:
    with os.fdopen(os.dup(opened), "rb") as file:
        return file.read(size)


def _page_read(page: Page, target: ConfinedPath, size: int, offset: int) -> FileRead:
    return FileRead(
        path=target.relative,
        size=size,
        encoding="utf8",
        content=page.content,
        offset=offset,
        lines=page.lines,
        total_lines=page.total_lines,
        next_offset=page.next_offset,
        limited_by=page.limited_by,
        line_bytes=page.line_bytes,
    )


def _text(done: FileRead, given: str, max_bytes: int) -> str:
    if done.limited_by == "line":
        return _long_line(done, given, max_bytes)
    if not done.lines:
        return "(empty file)"
    body = done.content.removesuffix("\n")
    if done.next_offset is None:
        return body
    last = done.next_offset - 1
    then = f"Use offset={done.next_offset} to continue.]"
    if done.limited_by == "limit" and done.total_lines is not None:
        return f"{body}\n\n[{done.total_lines - last} more lines in file. {then}"
    whole = f"a {format_size(done.size)} file" if done.total_lines is None else done.total_lines
    by_bytes = f" ({format_size(max_bytes)} limit)" if done.limited_by == "bytes" else ""
    return f"{body}\n\n[Showing lines {done.offset}-{last} of {whole}{by_bytes}. {then}"


def _long_line(done: FileRead, given: str, max_bytes: int) -> str:
    size, limit = format_size(done.line_bytes or 0), format_size(max_bytes)
    path = quote(f"./{given}" if given.startswith("-") else given)
    command = f"sed -n '{done.offset}p' {path} | head -c {max_bytes}"
    return f"[Line {done.offset} is {size}, exceeds {limit} limit. Use bash: {command}]"


def _to_json(done: FileRead) -> Json:
    return cast(Json, to_builtins(done))


def _offset(args: Args) -> int:
    return max(1, cast(int, args.get("offset") or 1))


def _preview(args: Args, width: int) -> str:
    body = str(args.get("path", ""))
    offset, limit = args.get("offset"), args.get("limit")
    if offset is not None or limit is not None:
        body += f"  +{offset or 0}" + (f",{limit}" if limit is not None else "")
    return with_label(body, args)


def _touches(args: Args) -> list[str]:
    return [cast(str, args["path"])]


FILE_READ: Final = read_only_tool(
    name="file.read",
    description=(
        "Read a file. Long files come in pages: the last line gives the offset of the next page. "
        "Images, audio and other binary files are attached."
    ),
    input_schema=strict_object(
        path=text("The file, relative to the project root."),
        offset=nullable("integer", "First line, counted from 1 (default 1)."),
        limit=nullable("integer", "Number of lines (default: as many as fit)."),
        encoding={
            "type": ["string", "null"],
            "enum": ["utf8", "base64", None],
            "description": "File encoding (default: utf8). base64 returns every byte; utf8 replaces invalid bytes.",
        },
        label=LABEL,
    ),
    output_schema=strict_object(
        path=text("Relative to the project root."),
        size={"type": "integer", "description": "Bytes of the whole file."},
        encoding={"enum": ["utf8", "base64", "attached"]},
        content=text("The lines with their newlines, the file in base64, or nothing if it is attached."),
        mime_type=nullable("string", "MIME type of a file that is not text."),
        offset={"type": "integer"},
        lines={"type": "integer"},
        total_lines=nullable("integer", "null if the file is too large to count them."),
        next_offset=nullable("integer", "Offset of the next page; null at the end."),
        limited_by={"enum": ["lines", "bytes", "limit", "line", None]},
        line_bytes=nullable("integer", "Length of the first line, if it is too long to show."),
    ),
    execute=_execute,
    capabilities=frozenset({CHECKS_IN_DRY_RUN}),
    touches=_touches,
    format_preview=_preview,
    aliases=("read", "read_file"),
    groups=("fs",),
    profiles=("minimal",),
)

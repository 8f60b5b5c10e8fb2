"""`file.list`: what is in a folder."""

from __future__ import annotations

import os
from typing import Final, cast

from holdfast.contract.context import Context
from holdfast.contract.errors import PathRefused
from holdfast.contract.result import Result, fail, ok
from holdfast.contract.tool import Tool
from holdfast.contract.values import Args, Json
from holdfast.contract.vocabulary import CHECKS_IN_DRY_RUN, Risk
from holdfast.text.preview import with_label
from holdfast.text.visible import visible
from holdfast.tools.files.atomic import folder
from holdfast.tools.files.changing import Place, reading, reason
from holdfast.tools.files.pages import NOTICE_BYTES, NOTICE_LINES
from holdfast.tools.files.walking import Entry, Listing, Walk
from holdfast.tools.schemas import LABEL, optional, strict_object, text

DEFAULT_LIMIT: Final = 500
SMALL_LIMIT: Final = 200
MAX_DEPTH: Final = 10
_EMPTY: Final = "(empty directory)"


def _execute(args: Args, ctx: Context) -> Result:
    given = cast(str, args.get("path") or ".")
    depth = _depth(args)
    place: Place | None = None
    try:
        place = reading(ctx, given)
        with folder(place.root, place.path) as opened:
            if ctx.dry_run:
                return ok("")
            walk = Walk(place.path, place.root, ctx.sandbox.is_path_readable, lambda: ctx.cancelled)
            listing = walk.first(opened, depth, _limit(args, ctx))
            return _result(listing, walk, place, depth, ctx)
    except PathRefused as error:
        return fail(str(error))
    except NotADirectoryError:
        return fail(_no_folder(given, place))
    except FileNotFoundError:
        return fail(f"Directory not found: {given}")
    except OSError as error:
        return fail(f"{given} cannot be listed: {reason(error)}.")


def _no_folder(given: str, place: Place | None) -> str:
    if place is not None and place.path.is_file():
        return f"{given} is a file, not a folder; use file.read to see what is in it."
    return f"Directory not found: {given}"


def _result(listing: Listing, walk: Walk, place: Place, depth: int, ctx: Context) -> Result:
    names = [visible(_readable(entry.path)) + ("/" if entry.kind == "dir" else "") for entry in listing.entries]
    limits = ctx.truncate
    shown = limits.head("\n".join(names), limits.MAX_LINES - NOTICE_LINES, limits.MAX_BYTES - NOTICE_BYTES)
    count = shown.output_lines if names else 0
    done: Args = {
        "path": place.shown,
        "depth": depth,
        "entries": [_described(entry, walk) for entry in listing.entries[:count]],
        "total": listing.total,
        "complete": listing.complete,
        "build_folders_not_entered": listing.not_entered,
    }
    return ok(f"{shown.content if names else _EMPTY}\n\n{_footer(done, count)}", structured=done)


def _footer(done: Args, count: int) -> str:
    parts = ["1 entry" if count == 1 else f"{count} entries"]
    if cast(int, done["depth"]) > 1:
        parts.append(f"depth={done['depth']}")
    if hidden := cast(int, done["total"]) - count:
        parts.append(f"{hidden if done['complete'] else f'at least {hidden}'} more not shown")
    if skipped := cast(int, done["build_folders_not_entered"]):
        parts.append(f"{skipped} build {'folder' if skipped == 1 else 'folders'} not entered")
    return f"[{', '.join(parts)}]"


def _described(entry: Entry, walk: Walk) -> Json:
    return {"path": _readable(entry.path), "kind": entry.kind, "size": walk.size_of(entry), "link": entry.link}


def _readable(name: str) -> str:
    """A name that is not UTF-8 on disk, with its bytes written out."""
    return name if name.isascii() else os.fsencode(name).decode(errors="backslashreplace")


def _depth(args: Args) -> int:
    given = cast(int | None, args.get("max_depth"))
    if given is None:
        return MAX_DEPTH if args.get("recursive") else 1
    return min(MAX_DEPTH, max(1, given)) if args.get("recursive") is not False else 1


def _limit(args: Args, ctx: Context) -> int:
    most = SMALL_LIMIT if ctx.caps == "small" else ctx.truncate.MAX_LINES - NOTICE_LINES
    given = cast(int | None, args.get("limit"))
    return min(most, DEFAULT_LIMIT if given is None else max(1, given))


def _preview(args: Args, width: int) -> str:
    depth = _depth(args)
    return with_label(str(args.get("path") or ".") + (f"  depth={depth}" if depth > 1 else ""), args)


def _touches(args: Args) -> list[str]:
    return [cast(str, args.get("path") or ".")]


FILE_LIST: Final = Tool(
    name="file.list",
    description="List a folder, folders first. Below it only if asked, and then without build folders.",
    input_schema=strict_object(
        path=optional("string", "The folder (default: the project root)."),
        recursive=optional("boolean", "List recursively (default: false)."),
        max_depth=optional("integer", f"How deep (default 1, or {MAX_DEPTH} if recursive; at most {MAX_DEPTH})."),
        limit=optional("integer", f"How many entries (default {DEFAULT_LIMIT})."),
        label=LABEL,
    ),
    output_schema=strict_object(
        path=text("The folder, relative to the project root."),
        depth={"type": "integer"},
        entries={
            "type": "array",
            "items": strict_object(
                path=text("Relative to the folder."),
                kind={"enum": ["dir", "file", "link", "other"]},
                size=optional("integer", "Bytes of a file."),
                link={"type": "boolean", "description": "It is a symbolic link; to a folder, if its kind is dir."},
            ),
        },
        total={"type": "integer", "description": "Entries found, shown or not."},
        complete={"type": "boolean", "description": "Everything was looked at."},
        build_folders_not_entered={"type": "integer"},
    ),
    execute=_execute,
    strict=True,
    risk=Risk.LOW,
    effects=frozenset({"fs.read"}),
    capabilities=frozenset({CHECKS_IN_DRY_RUN}),
    touches=_touches,
    format_preview=_preview,
    aliases=("list", "ls", "list_dir"),
    groups=("fs",),
    source="builtin",
)

"""`file.find`: files whose name or path matches a glob."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import islice
from typing import Any, Final, cast

from holdfast.contract.context import Context
from holdfast.contract.errors import PathRefused, SandboxRefused
from holdfast.contract.result import Result, fail, ok
from holdfast.contract.tool import Tool
from holdfast.contract.values import Args
from holdfast.contract.vocabulary import CHECKS_IN_DRY_RUN, Risk
from holdfast.text.preview import with_label
from holdfast.tools.schemas import LABEL, optional, strict_object, text
from holdfast.tools.search import engines
from holdfast.tools.search.scope import BadQuery, Scope, glob_matcher, scope_of, shown_path, touches

LIMIT: Final = 500


async def find(args: Args, ctx: Context) -> Result:
    limit = cast(int, args.get("limit") or LIMIT)
    try:
        matches = glob_matcher(cast(str, args["pattern"]))
        scope = scope_of(cast("str | None", args.get("path")), ctx)
        if scope.is_file:
            return fail(f"Not a folder: {args['path']}; name the folder to look in.")
        if ctx.dry_run:
            return ok("")
        files, unreadable = await engines.files(scope, ctx)
    except (BadQuery, PathRefused, SandboxRefused, engines.SearchFailed) as error:
        return fail(str(error))
    found = await asyncio.to_thread(_first, files, matches, scope, limit + 1, ctx)
    output: Args = {
        "files": cast(Any, found[:limit]),
        "truncated": len(found) > limit,
        "unreadable_folders": unreadable,
    }
    return ok(_render(output), structured=output)


def _first(files: list[str], matches: Callable[[str], bool], scope: Scope, wanted: int, ctx: Context) -> list[str]:
    """The first matching files that may be read."""
    start = len(scope.below) + 1 if scope.below else 0
    matching = sorted(path for path in files if matches(path[start:]))
    readable = (path for path in matching if ctx.sandbox.is_path_readable(scope.root / path))
    return [shown_path(path) for path in islice(readable, wanted)]


def _render(output: Args) -> str:
    files = cast("list[str]", output["files"])
    parts = ["\n".join(files) or "No files found matching pattern."]
    if output["truncated"]:
        parts.append(f"[Results limited to {len(files)} entries. Narrow your pattern to see the rest.]")
    if count := cast(int, output["unreadable_folders"]):
        parts.append(f"[{count} folder{'' if count == 1 else 's'} could not be read]")
    return "\n\n".join(parts)


def _preview(args: Args, width: int) -> str:
    body = str(args.get("pattern", ""))
    return with_label(f"{body}  in {args['path']}" if args.get("path") else body, args)


FILE_FIND: Final = Tool(
    name="file.find",
    description=(
        "Find files by a glob such as *.py or src/**/test_*.py. Without a slash it is about the name at any depth. "
        "Hidden files and files that git ignores are left out."
    ),
    input_schema=strict_object(
        pattern=text("The glob: *, ?, **, [abc], {a,b}."),
        path=optional("string", "Folder to look in (default: the whole project)."),
        limit=optional("integer", f"How many files to list (default {LIMIT}).", minimum=1, maximum=10_000),
        label=LABEL,
    ),
    output_schema=strict_object(
        files={"type": "array", "items": {"type": "string"}},
        truncated={"type": "boolean"},
        unreadable_folders={"type": "integer"},
    ),
    execute=find,
    strict=True,
    risk=Risk.LOW,
    effects=frozenset({"fs.read"}),
    capabilities=frozenset({CHECKS_IN_DRY_RUN}),
    touches=touches,
    format_preview=_preview,
    aliases=("find", "glob", "find_files"),
    groups=("fs",),
    profiles=("minimal",),
    presets=("$readonly",),
    needs_root=True,
    source="builtin",
)

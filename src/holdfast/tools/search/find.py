"""`file.find`: files whose name or path matches a glob."""

from __future__ import annotations

import asyncio
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
from holdfast.tools.search.scope import BadQuery, Scope, glob_matcher, scope_of, shown_path

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
    start = len(scope.below) + 1 if scope.below else 0

    def matching() -> list[str]:
        return _readable(sorted(path for path in files if matches(path[start:])), scope, limit + 1, ctx)

    found = await asyncio.to_thread(matching)
    output: Args = {
        "files": cast(Any, found[:limit]),
        "truncated": len(found) > limit,
        "unreadable_folders": unreadable,
    }
    return ok(_render(output), structured=output)


def _readable(paths: list[str], scope: Scope, wanted: int, ctx: Context) -> list[str]:
    """The first of them that may be read."""
    found: list[str] = []
    for path in paths:
        if ctx.sandbox.is_path_readable(scope.root / path):
            found.append(shown_path(path))
            if len(found) == wanted:
                break
    return found


def _render(output: Args) -> str:
    files = cast("list[str]", output["files"])
    parts = ["\n".join(files) if files else "No files found matching pattern."]
    if output["truncated"]:
        parts.append(f"[Results limited to {len(files)} entries. Narrow your pattern to see the rest.]")
    if count := cast(int, output["unreadable_folders"]):
        parts.append(f"[{count} folder{'' if count == 1 else 's'} could not be read]")
    return "\n\n".join(parts)


def _preview(args: Args, width: int) -> str:
    body = str(args.get("pattern", ""))
    return with_label(f"{body}  in {args['path']}" if args.get("path") else body, args)


def _touches(args: Args) -> list[str]:
    return [cast(str, args.get("path") or ".")]


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
    output_schema={
        "type": "object",
        "properties": {
            "files": {"type": "array", "items": {"type": "string"}},
            "truncated": {"type": "boolean"},
            "unreadable_folders": {"type": "integer"},
        },
        "required": ["files", "truncated", "unreadable_folders"],
        "additionalProperties": False,
    },
    execute=find,
    strict=True,
    risk=Risk.LOW,
    effects=frozenset({"fs.read"}),
    capabilities=frozenset({CHECKS_IN_DRY_RUN}),
    touches=_touches,
    format_preview=_preview,
    aliases=("find", "glob", "find_files"),
    groups=("fs",),
    needs_root=True,
    source="builtin",
)

"""One look for files, from its arguments to its typed output."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, cast

from holdfast.contract.context import Context
from holdfast.contract.errors import PathRefused, SandboxRefused
from holdfast.contract.result import Result, fail, ok
from holdfast.contract.values import Args
from holdfast.tools.search.engines import Broken, OwnScan, Stopped, TooSlow
from holdfast.tools.search.globs import BadGlob
from holdfast.tools.search.rendering import shown_path
from holdfast.tools.search.scope import Scope, glob_matches, scope_of


async def find(args: Args, ctx: Context, default_limit: int) -> Result:
    limit = cast(int, args.get("limit") or default_limit)
    try:
        matches = glob_matches(cast(str, args["pattern"]))
        scope = scope_of(cast("str | None", args.get("path")), ctx)
        if scope.is_file:
            return fail(f"Not a folder: {args['path']}; name the folder to look in.")
        if ctx.dry_run:
            return ok("")
        files, unreadable = await OwnScan(ctx).files(scope)
    except (BadGlob, PathRefused, SandboxRefused, Broken) as error:
        return fail(str(error))
    except TooSlow:
        return fail("Looking through the project took too long and was stopped; narrow the path.")
    except Stopped:
        return fail("The search was stopped.")
    found = _first(files, matches, scope, limit + 1, ctx)
    output: Args = {
        "files": cast(Any, found[:limit]),
        "truncated": len(found) > limit,
        "unreadable_folders": unreadable,
    }
    return ok(_render(output), structured=output)


def _first(files: list[str], matches: Callable[[bytes], bool], scope: Scope, wanted: int, ctx: Context) -> list[str]:
    at = len(scope.below) + 1 if scope.below else 0
    found: list[str] = []
    for path in sorted(path for path in files if matches(os.fsencode(path)[at:])):
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

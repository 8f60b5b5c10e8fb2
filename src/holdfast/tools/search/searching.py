"""One search, from its arguments to its typed output: find, order, look, collect."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

from msgspec import Struct

from holdfast.contract.context import Context
from holdfast.contract.errors import PathRefused, SandboxRefused
from holdfast.contract.result import Result, fail, ok
from holdfast.contract.values import Args
from holdfast.tools.search.engines import Broken, Declined, Found, OwnScan, Ripgrep, Stopped, TooSlow, find_ripgrep
from holdfast.tools.search.globs import BadGlob
from holdfast.tools.search.pattern import BadPattern, Pattern, literal, regular
from holdfast.tools.search.ranking import FileHits, Hit, files_to_look_at, in_order, look_at
from holdfast.tools.search.rendering import SHOWN, render, shown_path
from holdfast.tools.search.scope import Scope, scope_of, wanted_by

COLLECTED: Final = 50
PER_FILE: Final = 3


class Asked(Struct, frozen=True, kw_only=True):
    pattern: Pattern
    scope: Scope
    wanted: Callable[[str], bool] | None
    shown: int

    @property
    def collected(self) -> int:
        return max(COLLECTED, self.shown)

    @property
    def per_file(self) -> int:
        """A search in one file is about its lines, not about which file to open."""
        return self.collected if self.scope.is_file else PER_FILE


async def search(args: Args, ctx: Context) -> Result:
    try:
        asked = _asked(args, ctx)
        if ctx.dry_run:
            return ok("")
        found, engine = await _find(asked, ctx)
        hits = await asyncio.to_thread(allowed, found, asked, ctx)
        first = in_order(hits, files_to_look_at(asked.pattern, asked.collected))
        places = await _places(found, engine, first, asked, ctx) if asked.pattern.regex else None
        looked = await asyncio.to_thread(
            look_at, first, asked.pattern, asked.scope, per_file=asked.per_file, places=places
        )
    except (BadPattern, BadGlob, PathRefused, SandboxRefused, Broken) as error:
        return fail(str(error))
    except TooSlow:
        return fail(
            "The search took too long and was stopped; narrow its path, or simplify the pattern "
            "(nested repeats such as (a+)+ are slow without ripgrep)."
        )
    except Stopped:
        return fail("The search was stopped.")
    output = _output(args, asked, looked, total=sum(count for _, count in hits), files=len(hits), found=found)
    return ok(render(output), structured=output)


def _asked(args: Args, ctx: Context) -> Asked:
    query = cast(str, args["query"])
    fold = args.get("case") == "insensitive"
    pattern = regular(query, fold=fold) if args.get("regex") else literal(query, fold=fold)
    scope = scope_of(cast("str | None", args.get("path")), ctx)
    return Asked(
        pattern=pattern,
        scope=scope,
        wanted=wanted_by(cast("str | None", args.get("glob")), scope),
        shown=cast(int, args.get("limit") or SHOWN),
    )


async def _find(asked: Asked, ctx: Context) -> tuple[Found, Ripgrep | None]:
    program = None if asked.scope.is_file else find_ripgrep(asked.scope.root)
    if program is not None:
        engine = Ripgrep(program, ctx)
        try:
            return await engine.search(asked.pattern, asked.scope), engine
        except Declined:
            pass
    return await OwnScan(ctx).search(asked.pattern, asked.scope, asked.per_file), None


async def _places(
    found: Found, engine: Ripgrep | None, first: Sequence[Hit], asked: Asked, ctx: Context
) -> Mapping[str, Sequence[int]]:
    """Where lines match: an expression is never tried in this process, which it could hold up without end."""
    if engine is not None:
        try:
            return await engine.places(asked.pattern, asked.scope, [path for path, _ in first], asked.per_file)
        except Declined:
            found = await OwnScan(ctx).search(asked.pattern, asked.scope, asked.per_file)
    return found.places


def allowed(found: Found, asked: Asked, ctx: Context) -> list[Hit]:
    """What was asked for and may be read. Where nothing kept denied files out of reach, not even a count may tell."""
    wanted = asked.wanted
    hits = found.hits if wanted is None else [hit for hit in found.hits if wanted(hit[0])]
    if found.contained:
        return hits
    readable = ctx.sandbox.is_path_readable
    return [hit for hit in hits if readable(asked.scope.root / hit[0])]


def _output(args: Args, asked: Asked, looked: list[FileHits], *, total: int, files: int, found: Found) -> Args:
    room = asked.collected
    listed: list[Any] = []
    for file in looked:
        lines = file.lines[:room]
        room -= len(lines)
        if lines:
            listed.append(
                {
                    "path": shown_path(file.path),
                    "matches": file.count,
                    "exact_definition": file.exact,
                    "lines": [{"line": line.number, "text": line.text} for line in lines],
                }
            )
    return {
        "query": cast(str, args["query"]),
        "total_matches": total,
        "total_files": files,
        "shown": asked.shown,
        "definition": _definition(looked),
        "files": listed,
        "unreadable_files": found.unreadable,
    }


def _definition(looked: list[FileHits]) -> str | None:
    """The one source file that defines it: exactly, or else as the only one with nothing but definitions."""
    source = [file for file in looked if file.tier == 0]
    exact = [file for file in source if file.exact] or [file for file in source if file.all_definitions]
    return shown_path(exact[0].path) if len(exact) == 1 else None

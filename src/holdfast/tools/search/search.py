"""`code.search`: lines that contain a text or match a pattern, the most useful files first."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, cast

from msgspec import Struct

from holdfast.contract.context import Context
from holdfast.contract.errors import PathRefused, SandboxRefused
from holdfast.contract.result import Result, fail, ok
from holdfast.contract.tool import Tool
from holdfast.contract.values import Args
from holdfast.contract.vocabulary import CHECKS_IN_DRY_RUN, Risk
from holdfast.text.preview import with_label
from holdfast.tools.schemas import LABEL, optional, strict_object, text
from holdfast.tools.search import engines
from holdfast.tools.search.ranking import LOOKED_AT, FileHits, Hit, in_order, look_at
from holdfast.tools.search.scope import BadQuery, Query, Scope, read_query, scope_of, shown_path, wanted_by

COLLECTED: Final = 50
PER_FILE: Final = 3
SHOWN: Final = 15
MOST_SHOWN: Final = 200


class Asked(Struct, frozen=True, kw_only=True):
    """One search, from its arguments."""

    query: Query
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
        query, scope = asked.query, asked.scope
        found = await engines.count(query, scope, ctx, first=asked.per_file)
        hits = await asyncio.to_thread(allowed, found, asked, ctx)
        first = in_order(hits, max(asked.collected, LOOKED_AT) if query.is_identifier else asked.collected)
        places = found.places
        if query.regex and places is None:
            places = await engines.places(query, scope, ctx, [path for path, _ in first], asked.per_file)
        looked = await asyncio.to_thread(look_at, first, query, scope, per_file=asked.per_file, places=places)
    except (BadQuery, PathRefused, SandboxRefused, engines.SearchFailed) as error:
        return fail(str(error))
    output: Args = {
        "query": cast(str, args["query"]),
        "total_matches": sum(count for _, count in hits),
        "total_files": len(hits),
        "shown": asked.shown,
        "definition": _definition(looked),
        "files": _listed(looked, asked.collected),
        "unreadable_files": found.unreadable,
    }
    return ok(_render(output), structured=output)


def _asked(args: Args, ctx: Context) -> Asked:
    fold = args.get("case") == "insensitive"
    query = read_query(cast(str, args["query"]), regex=bool(args.get("regex")), fold=fold)
    scope = scope_of(cast("str | None", args.get("path")), ctx)
    wanted = wanted_by(cast("str | None", args.get("glob")), scope)
    return Asked(query=query, scope=scope, wanted=wanted, shown=cast(int, args.get("limit") or SHOWN))


def allowed(found: engines.Found, asked: Asked, ctx: Context) -> list[Hit]:
    """What was asked for and may be read. Where nothing kept denied files out of reach, not even a count may tell."""
    wanted = asked.wanted
    hits = found.hits if wanted is None else [hit for hit in found.hits if wanted(hit[0])]
    if found.contained:
        return hits
    readable = ctx.sandbox.is_path_readable
    return [hit for hit in hits if readable(asked.scope.root / hit[0])]


def _listed(looked: list[FileHits], room: int) -> list[Any]:
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
    return listed


def _definition(looked: list[FileHits]) -> str | None:
    """The one source file that defines it: exactly, or else as the only one with nothing but definitions."""
    source = [file for file in looked if file.tier == 0]
    exact = [file for file in source if file.exact] or [file for file in source if file.all_definitions]
    return shown_path(exact[0].path) if len(exact) == 1 else None


def _render(output: Args) -> str:
    files = cast("list[dict[str, Any]]", output["files"])
    room = cast(int, output["shown"])
    groups: list[str] = []
    shown = 0
    for file in files:
        lines = file["lines"][: room - shown]
        if not lines:
            break
        shown += len(lines)
        groups.append(_group(file, lines))
    return "\n".join([*_notices(output, shown), *groups, *_unread(output)])


def _notices(output: Args, shown: int) -> list[str]:
    total = cast(int, output["total_matches"])
    if not total:
        return ["No matches found."]
    notices: list[str] = []
    if shown < total:
        notices.append(f"[showing first {shown} of {total} matches — read a specific matched file with read_file]")
    if output["definition"] is not None:
        notices.append(f"[definition found in {output['definition']} — read this file first]")
    return notices


def _group(file: dict[str, Any], lines: list[dict[str, Any]]) -> str:
    matches = file["matches"]
    exact = " [EXACT DEFINITION]" if file["exact_definition"] else ""
    count = f"{matches} match{'' if matches == 1 else 'es'}"
    part = f", showing {len(lines)}" if len(lines) < matches else ""
    shown = [f"  {line['line']}: {line['text']}" for line in lines]
    return "\n".join([f"{file['path']}{exact} ({count}{part})", *shown])


def _unread(output: Args) -> list[str]:
    count = cast(int, output["unreadable_files"])
    return [f"[{count} file{'' if count == 1 else 's'} could not be read]"] if count else []


def _preview(args: Args, width: int) -> str:
    body = f"/{args.get('query', '')}/" if args.get("regex") else f"'{args.get('query', '')}'"
    for key in ("path", "glob"):
        if args.get(key):
            body += f"  {'in ' if key == 'path' else ''}{args[key]}"
    return with_label(body, args)


def _touches(args: Args) -> list[str]:
    return [cast(str, args.get("path") or ".")]


_LINE: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"line": {"type": "integer"}, "text": {"type": "string"}},
    "required": ["line", "text"],
    "additionalProperties": False,
}
_FILE: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "path": {"type": "string"},
        "matches": {"type": "integer"},
        "exact_definition": {"type": "boolean"},
        "lines": {"type": "array", "items": _LINE},
    },
    "required": ["path", "matches", "exact_definition", "lines"],
    "additionalProperties": False,
}
_OUTPUT: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "query": {"type": "string"},
        "total_matches": {"type": "integer"},
        "total_files": {"type": "integer"},
        "shown": {"type": "integer"},
        "definition": {"type": ["string", "null"]},
        "files": {"type": "array", "items": _FILE},
        "unreadable_files": {"type": "integer"},
    },
    "required": ["query", "total_matches", "total_files", "shown", "definition", "files", "unreadable_files"],
    "additionalProperties": False,
}

CODE_SEARCH: Final = Tool(
    name="code.search",
    description=(
        "Search the project's text files for lines that contain a text. Source comes before configuration before "
        "documentation, grouped by file; files that git ignores, hidden and binary files are left out."
    ),
    input_schema=strict_object(
        query=text("The text to look for: one line, taken literally unless regex is true."),
        path=optional("string", "Folder or file to search in (default: the whole project)."),
        glob=optional("string", "Only files whose name matches, such as *.py; with a slash, whose path matches."),
        regex=optional("boolean", "Read the query as a regular expression (default false)."),
        case=optional("string", "sensitive (default) or insensitive.", enum=["sensitive", "insensitive", None]),
        limit=optional("integer", f"How many lines to show (default {SHOWN}).", minimum=1, maximum=MOST_SHOWN),
        label=LABEL,
    ),
    output_schema=_OUTPUT,
    execute=search,
    strict=True,
    risk=Risk.LOW,
    effects=frozenset({"fs.read"}),
    capabilities=frozenset({CHECKS_IN_DRY_RUN}),
    touches=_touches,
    format_preview=_preview,
    aliases=("search_code", "grep", "search"),
    groups=("fs",),
    needs_root=True,
    source="builtin",
)

"""`code.search`: lines that contain a text or match a pattern, most useful files first; and `file.find`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any, Final, cast

from holdfast.contract.context import Context
from holdfast.contract.enums import CHECKS_IN_DRY_RUN
from holdfast.contract.errors import PathRefused, SandboxRefused
from holdfast.contract.json import Args
from holdfast.contract.result import Result, fail, ok
from holdfast.text.preview import with_label
from holdfast.tools.schemas import LABEL, non_blank, nullable, read_only_tool, strict_object
from holdfast.tools.search import engines
from holdfast.tools.search.ranking import MAX_FILES_READ, FileHits, Hit, read_hits, top_hits
from holdfast.tools.search.scope import (
    BadQuery,
    SearchScope,
    display_path,
    glob_matcher,
    own_file_matcher,
    parse_query,
    path_filter,
    resolve_scope,
    touches,
)

MAX_COLLECTED: Final = 50
LINES_PER_FILE: Final = 3
DEFAULT_SHOWN: Final = 15


async def search(args: Args, ctx: Context) -> Result:
    shown = cast(int, args.get("limit") or DEFAULT_SHOWN)
    collected = max(MAX_COLLECTED, shown)
    try:
        fold = args.get("case") == "insensitive"
        query = parse_query(cast(str, args["query"]), regex=bool(args.get("regex")), fold=fold)
        scope = resolve_scope(cast("str | None", args.get("path")), ctx)
        wanted = path_filter(cast("str | None", args.get("glob")), scope)
        if ctx.dry_run:
            return ok("")
        # In a single file the lines matter, not which file to open.
        per_file = collected if scope.is_file else LINES_PER_FILE
        found = await engines.count_matches(query, scope, ctx)
        hits = await asyncio.to_thread(readable_hits, found, wanted, scope, ctx)
        first = await asyncio.to_thread(
            top_hits, hits, max(collected, MAX_FILES_READ) if query.is_identifier else collected
        )
        paths = [path for path, _ in first]
        offsets = await found.engine.match_offsets(query, paths, per_file) if query.regex and paths else None
        ranked = await asyncio.to_thread(read_hits, first, query, scope, per_file=per_file, offsets=offsets)
    except (BadQuery, PathRefused, SandboxRefused, engines.SearchFailed) as error:
        return fail(str(error))
    output: Args = {
        "query": cast(str, args["query"]),
        "total_matches": sum(count for _, count in hits),
        "total_files": len(hits),
        "shown": shown,
        "definition": _definition(ranked),
        "files": _file_entries(ranked, collected),
        "unreadable_files": found.unreadable,
    }
    return ok(_render(output), structured=output)


def readable_hits(
    found: engines.SearchHits, wanted: Callable[[str], bool] | None, scope: SearchScope, ctx: Context
) -> list[Hit]:
    """Return the hits that match the filter and may be read: not even a count may reveal the rest."""
    hits = found.hits if wanted is None else [hit for hit in found.hits if wanted(hit[0])]
    readable = ctx.sandbox.is_path_readable
    return [hit for hit in hits if readable(scope.root / hit[0])]


def _file_entries(ranked: list[FileHits], max_lines: int) -> list[Any]:
    listed: list[Any] = []
    for file in ranked:
        lines = file.lines[:max_lines]
        max_lines -= len(lines)
        if lines:
            listed.append(
                {
                    "path": display_path(file.path),
                    "matches": file.count,
                    "exact_definition": file.exact,
                    "lines": [{"line": line.number, "text": line.text} for line in lines],
                }
            )
    return listed


def _definition(ranked: list[FileHits]) -> str | None:
    """Return the only source file that defines the name: exactly, or else the only one with nothing but definitions."""
    source = [file for file in ranked if file.tier == 0]
    exact = [file for file in source if file.exact] or [file for file in source if file.all_definitions]
    return display_path(exact[0].path) if len(exact) == 1 else None


def _render(output: Args) -> str:
    max_lines = cast(int, output["shown"])
    groups: list[str] = []
    shown = 0
    for file in cast("list[dict[str, Any]]", output["files"]):
        if lines := file["lines"][: max_lines - shown]:
            shown += len(lines)
            groups.append(_group(file, lines))
    total = cast(int, output["total_matches"])
    notices = [] if total else ["No matches found."]
    if shown < total:
        notices.append(f"[showing first {shown} of {total} matches — read a specific matched file with read_file]")
    if output["definition"] is not None:
        notices.append(f"[definition found in {output['definition']} — read this file first]")
    if count := cast(int, output["unreadable_files"]):
        groups.append(f"[{count} file{'' if count == 1 else 's'} could not be read]")
    return "\n".join([*notices, *groups])


def _group(file: dict[str, Any], lines: list[dict[str, Any]]) -> str:
    matches = file["matches"]
    exact = " [EXACT DEFINITION]" if file["exact_definition"] else ""
    count = f"{matches} match{'' if matches == 1 else 'es'}"
    part = f", showing {len(lines)}" if len(lines) < matches else ""
    shown = [f"  {line['line']}: {line['text']}" for line in lines]
    return "\n".join([f"{file['path']}{exact} ({count}{part})", *shown])


def _preview(args: Args, width: int) -> str:
    body = f"/{args.get('query', '')}/" if args.get("regex") else f"'{args.get('query', '')}'"
    body += f"  in {args['path']}" if args.get("path") else ""
    return with_label(f"{body}  {args['glob']}" if args.get("glob") else body, args)


_LINE: Final = strict_object(line={"type": "integer"}, text={"type": "string"})
_FILE: Final = strict_object(
    path={"type": "string"},
    matches={"type": "integer"},
    exact_definition={"type": "boolean"},
    lines={"type": "array", "items": _LINE},
)

CODE_SEARCH: Final = read_only_tool(
    name="code.search",
    description=(
        "Search the project's text files for lines that contain a text, grouped by file: source, then configuration, "
        "then the rest. Skips files that git ignores, hidden files and binary files."
    ),
    input_schema=strict_object(
        query=non_blank("The text to search for: one line, literal unless regex is true."),
        path=nullable("string", "Folder or file to search in, relative to the project root (default: the root)."),
        glob=nullable("string", "Only files whose name matches, such as *.py; with a slash, whose path matches."),
        regex=nullable("boolean", "The query is a regular expression (default false; Python syntax without ripgrep)."),
        case=nullable("string", "sensitive (default) or insensitive.", enum=["sensitive", "insensitive", None]),
        limit=nullable("integer", f"Maximum number of lines (default {DEFAULT_SHOWN}).", minimum=1, maximum=200),
        label=LABEL,
    ),
    output_schema=strict_object(
        query={"type": "string"},
        total_matches={"type": "integer"},
        total_files={"type": "integer"},
        shown={"type": "integer"},
        definition={"type": ["string", "null"]},
        files={"type": "array", "items": _FILE},
        unreadable_files={"type": "integer"},
    ),
    execute=search,
    capabilities=frozenset({CHECKS_IN_DRY_RUN}),
    touches=touches,
    format_preview=_preview,
    aliases=("search_code", "grep", "search"),
    groups=("fs",),
    profiles=("minimal",),
    needs_root=True,
)


DEFAULT_FIND_LIMIT: Final = 500


async def find(args: Args, ctx: Context) -> Result:
    limit = cast(int, args.get("limit") or DEFAULT_FIND_LIMIT)
    try:
        matches = glob_matcher(cast(str, args["pattern"]))
        scope = resolve_scope(cast("str | None", args.get("path")), ctx)
        if scope.is_file:
            return fail(f"Not a folder: {args['path']}. Name the folder to search in.")
        if ctx.dry_run:
            return ok("")
        files, unreadable = await engines.list_files(scope, ctx)
    except (BadQuery, PathRefused, SandboxRefused, engines.SearchFailed) as error:
        return fail(str(error))
    wanted = _not_own(cast(str, args["pattern"]), scope)
    found = await asyncio.to_thread(_first_matches, filter(wanted, files), matches, scope, limit + 1, ctx)
    output: Args = {
        "files": cast(Any, found[:limit]),
        "truncated": len(found) > limit,
        "unreadable_folders": unreadable,
    }
    return ok(_render_files(output), structured=output)


def _first_matches(
    files: Iterable[str], matches: Callable[[str], bool], scope: SearchScope, wanted: int, ctx: Context
) -> list[str]:
    """Return the first matching files that may be read."""
    start = len(scope.below) + 1 if scope.below else 0
    matching = sorted(path for path in files if matches(path[start:]))
    readable = (path for path in matching if ctx.sandbox.is_path_readable(scope.root / path))
    return [display_path(path) for path in islice(readable, wanted)]


def _not_own(pattern: str, scope: SearchScope) -> Callable[[str], bool] | None:
    """Return a filter without the files of the conversation itself, except one that the pattern spells out."""
    is_own = own_file_matcher(scope)
    if is_own is None:
        return None
    named = pattern.removeprefix("/")
    start = len(scope.below) + 1 if scope.below else 0
    return lambda path: not is_own(path) or named in (path[start:], path.rpartition("/")[2])


def _render_files(output: Args) -> str:
    files = cast("list[str]", output["files"])
    parts = ["\n".join(files) or "No files found matching pattern."]
    if output["truncated"]:
        parts.append(f"[Results limited to {len(files)} entries. Narrow your pattern to see the rest.]")
    if count := cast(int, output["unreadable_folders"]):
        parts.append(f"[{count} folder{'' if count == 1 else 's'} could not be read]")
    return "\n\n".join(parts)


def _preview_find(args: Args, width: int) -> str:
    body = str(args.get("pattern", ""))
    return with_label(f"{body}  in {args['path']}" if args.get("path") else body, args)


FILE_FIND: Final = read_only_tool(
    name="file.find",
    description=(
        "Find files by a glob such as *.py or src/**/test_*.py. Without a slash it matches names at any depth. "
        "Skips hidden files and files that git ignores."
    ),
    input_schema=strict_object(
        pattern=non_blank("The glob: *, ?, **, [abc], {a,b}."),
        path=nullable("string", "Folder to search in, relative to the project root (default: the root)."),
        limit=nullable(
            "integer", f"Maximum number of files (default {DEFAULT_FIND_LIMIT}).", minimum=1, maximum=10_000
        ),
        label=LABEL,
    ),
    output_schema=strict_object(
        files={"type": "array", "items": {"type": "string"}},
        truncated={"type": "boolean"},
        unreadable_folders={"type": "integer"},
    ),
    execute=find,
    capabilities=frozenset({CHECKS_IN_DRY_RUN}),
    touches=touches,
    format_preview=_preview_find,
    aliases=("find", "glob", "find_files"),
    groups=("fs",),
    profiles=("minimal",),
    needs_root=True,
)

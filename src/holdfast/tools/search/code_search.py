"""`code.search`: lines that contain a text or match a pattern, the most useful files first."""

from __future__ import annotations

from typing import Final, cast

from holdfast.contract.context import Context
from holdfast.contract.result import Result
from holdfast.contract.tool import Tool
from holdfast.contract.values import Args
from holdfast.contract.vocabulary import CHECKS_IN_DRY_RUN, Risk
from holdfast.text.preview import with_label
from holdfast.tools.schemas import LABEL, optional, strict_object, text
from holdfast.tools.search.rendering import OUTPUT_SCHEMA, SHOWN

MOST_SHOWN: Final = 200


async def _execute(args: Args, ctx: Context) -> Result:
    from holdfast.tools.search.searching import search

    return await search(args, ctx)


def _preview(args: Args, width: int) -> str:
    body = f"/{args.get('query', '')}/" if args.get("regex") else f"'{args.get('query', '')}'"
    for key in ("path", "glob"):
        if args.get(key):
            body += f"  {'in ' if key == 'path' else ''}{args[key]}"
    return with_label(body, args)


def _touches(args: Args) -> list[str]:
    return [cast(str, args.get("path") or ".")]


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
    output_schema=OUTPUT_SCHEMA,
    execute=_execute,
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

"""`tool.search`: find tools by description, when there are too many to list."""

from __future__ import annotations

from itertools import islice
from typing import Any, Final, cast

from holdfast.contract.context import Context
from holdfast.contract.enums import Risk
from holdfast.contract.json import Args, Json
from holdfast.contract.result import Result
from holdfast.contract.tool import Tool
from holdfast.contract.tool_finder import TOOL_SEARCH, ToolFinder, schema_properties
from holdfast.text.escape import clip
from holdfast.text.preview import with_label
from holdfast.tools.schemas import INTEGER, LABEL, STRING, array, builtin_tool, non_blank, nullable, strict_object

DEFAULT_LIMIT: Final = 8
MAX_LIMIT: Final = 25
_DESCRIPTION: Final = 300
_PARAMETER: Final = 60
_PARAMETERS: Final = 20


def _execute(args: Args, ctx: Context) -> Result:
    query = cast(str, args["query"])
    found = ctx.service(ToolFinder).find(ctx, query, cast(int, args.get("limit") or DEFAULT_LIMIT))
    matches = [_match(tool) for tool in found.tools]
    structured = cast(Json, {"query": query, "tools": found.total, "matches": matches})
    return Result(True, _render(query, found.total, matches), structured=structured)


def _match(tool: Tool) -> dict[str, Any]:
    """Return a match with third-party text cut and reduced to one line."""
    return {
        "name": tool.name,
        "api_name": tool.api_name,
        "description": _line(tool.description, _DESCRIPTION),
        "parameters": [_line(name, _PARAMETER) for name in islice(schema_properties(tool), _PARAMETERS)],
    }


def _line(text: str, width: int) -> str:
    return clip(" ".join("".join(char if char.isprintable() else " " for char in text[: 4 * width]).split()), width)


def _render(query: str, tools: int, matches: list[dict[str, Any]]) -> str:
    if not matches:
        shown = _line(query, _PARAMETER)
        return (
            f"None of {tools} tools fits '{shown}'. Try other words: what it should do, what it works on, "
            "or the name of its server."
        )
    head = f"{len(matches)} of {tools} tools, best match first. They can be called from now on:"
    return "\n".join((head, "", *map(_entry, matches)))


def _entry(match: dict[str, Any]) -> str:
    known_as = "" if match["api_name"] == match["name"] else f" [{match['api_name']}]"
    description = f": {match['description']}" if match["description"] else ""
    return f"- {match['name']}{known_as} ({', '.join(match['parameters'])}){description}"


def _preview(args: Args, width: int) -> str:
    return with_label(str(args.get("query", "")), args)


TOOL_SEARCH_TOOL: Final = builtin_tool(
    name=TOOL_SEARCH,
    description=(
        "Find more tools than are listed here: describe what you need in a few words, "
        "and you can call the matching tools from your next turn on."
    ),
    input_schema=strict_object(
        query=non_blank("What the tool should do, or its name, in a few words: `create issue github`."),
        limit=nullable("integer", f"Maximum number of tools (default {DEFAULT_LIMIT}).", minimum=1, maximum=MAX_LIMIT),
        label=LABEL,
    ),
    output_schema=strict_object(
        query=STRING,
        tools=INTEGER,
        matches=array(strict_object(name=STRING, api_name=STRING, description=STRING, parameters=array(STRING))),
    ),
    execute=_execute,
    risk=Risk.LOW,
    effects=frozenset(),
    format_preview=_preview,
    profiles=("minimal",),
)

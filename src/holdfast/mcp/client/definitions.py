"""Tool definitions of MCP servers: converts them to `Tool`, pins them, and shows differences for review."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final, cast

from holdfast.config.config import McpServer
from holdfast.contract.enums import Risk
from holdfast.contract.errors import BadJson, ToolError
from holdfast.contract.json import Json, canonical_json, digest_of
from holdfast.contract.names import MCP_PREFIX
from holdfast.contract.tool import Apply, Execute, Propose, Tool
from holdfast.text.diff import unified_diff
from holdfast.text.escape import escape
from holdfast.text.quote import escape_line

if TYPE_CHECKING:
    import mcp_types

MAX_DESCRIPTION: Final = 16_000
_NAME: Final = re.compile(r"[A-Za-z0-9_./-]{1,128}")


def source_of(server: str) -> str:
    """The source name of a server's tools, also the name its questions are asked under."""
    return f"{MCP_PREFIX}{server}"


def is_wanted(name: str, server: McpServer) -> bool:
    """Whether the configuration includes a tool of this MCP name."""
    included = any(fnmatchcase(name, pattern) for pattern in server.include)
    return included and not any(fnmatchcase(name, pattern) for pattern in server.exclude)


def tool_from(
    server: str,
    definition: Json,
    *,
    timeout: float,
    execute: Execute | None = None,
    propose: Propose | None = None,
    apply: Apply | None = None,
    capabilities: frozenset[str] = frozenset(),
) -> Tool:
    """Convert a definition, or raise `ToolError`.

    Effects stay unknown: a server's claim that its tool is harmless proves nothing, so only the annotation that makes a
    tool more dangerous counts.
    """
    said = _mapping(definition)
    name = said.get("name")
    if not isinstance(name, str) or _NAME.fullmatch(name) is None:
        raise ToolError(
            f"its name {escape(str(name)[:80])!r} is outside what MCP allows: 1 to 128 of A-Z a-z 0-9 _ - . /"
        )
    output: Any = said.get("outputSchema")
    texts = (text for key in ("description", "title") if isinstance(text := said.get(key), str) and text)
    return Tool(
        name=f"{source_of(server)}:{name}",
        execute=execute,
        propose=propose,
        apply=apply,
        description=cut_text(next(texts, ""), MAX_DESCRIPTION),
        input_schema=cast(dict[str, Any], said.get("inputSchema")),
        output_schema=output,
        timeout=timeout,
        risk=Risk.HIGH if _mapping(said.get("annotations")).get("destructiveHint") is True else Risk.MEDIUM,
        effects=None,
        capabilities=capabilities,
        sources=("mcp",),
        sinks=("mcp",),
        source=source_of(server),
    )


def cut_text(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]} […] ({len(text) - most:,} more characters are omitted)"


def _mapping(value: Json) -> Mapping[str, Json]:
    return value if isinstance(value, dict) else {}


MAX_DEFINITION: Final = 256 * 1024
"""Bytes of a definition. A longer one could not be reviewed by a person."""
PARTS: Final = ("name", "title", "description", "inputSchema", "outputSchema", "annotations")

_WIDTH: Final = 110
_SENTENCE: Final = 40
_PIECE: Final = re.compile("‹[^›]*›|(?s:.)")
_CONTINUED: Final = "‹↩›"
"""Marks a folded line. The text's own `‹` is escaped, so it cannot be forged."""


def pin_name(name: str, server: McpServer) -> str:
    """The name under which pins are stored. A server with another command or address is another server."""
    where = {"url": server.url} if server.url else {"command": server.command, "args": server.args, "cwd": server.cwd}
    return f"{name} {digest_of(where)[:32]}"


def definition_of(tool: mcp_types.Tool) -> dict[str, Json]:
    """The parts of the definition that models and policies see, in wire format. Raises `BadJson` if it cannot be
    stored."""
    hints = tool.annotations
    definition: dict[str, Json] = {
        "name": tool.name,
        "title": tool.title,
        "description": tool.description,
        "inputSchema": tool.input_schema,
        "outputSchema": tool.output_schema,
        "annotations": None if hints is None else hints.model_dump(by_alias=True, exclude_none=True),
    }
    try:
        size = len(canonical_json(definition))
    except (UnicodeEncodeError, RecursionError, OverflowError, TypeError, ValueError) as error:
        raise BadJson(f"Its definition cannot be stored: {escape(str(error))}") from None
    if size > MAX_DEFINITION:
        raise BadJson(f"Its definition has {size:,} bytes; the limit is {MAX_DEFINITION:,}.")
    return definition


def is_same_definition(one: Json, other: Json) -> bool:
    """Compare by JSON types: Python considers `True` and 1 equal, JSON does not."""
    return canonical_json(_said(one)) == canonical_json(_said(other))


def definition_diff(old: Json, new: Json) -> str:
    """The diff a person reviews, with control characters escaped.

    It is empty only if nothing changed, and never cut: accepting it accepts the whole definition.
    """
    if is_same_definition(old, new):
        return ""
    before, after = _said(old), _said(new)
    parts = dict.fromkeys((*PARTS, *sorted(before.keys() | after.keys())))
    shown = (
        unified_diff(_lines(before.get(part)), _lines(after.get(part)), escape(part), max_lines=None) for part in parts
    )
    return "".join(shown) or "The definition changed in a way that cannot be shown.\n"


def _said(definition: Json) -> dict[str, Json]:
    given = definition if isinstance(definition, dict) else {}
    return {part: value for part, value in given.items() if value is not None}


def _lines(value: Json) -> str | None:
    if value is None:
        return None
    text = value if isinstance(value, str) else json.dumps(
        json.loads(canonical_json(value)), indent=2, sort_keys=True, ensure_ascii=False
    )  # fmt: skip
    return "".join(f"{piece}\n" for line in text.split("\n") for piece in _folded(escape_line(line)))


def _folded(line: str) -> Iterator[str]:
    """A long line in pieces, at sentence ends where possible, so that a change in its middle is not cut out of the
    diff."""
    if len(line) <= _WIDTH:
        yield line
        return
    piece, ended = "", False
    for char in _PIECE.findall(line):
        full = len(piece) + len(char) > _WIDTH
        if full or (ended and char == " " and len(piece) >= _SENTENCE):
            yield piece + _CONTINUED
            piece = ""
        piece += char
        ended = char in ".:;!?"
    yield piece

"""What an MCP server says of a tool: made into a `Tool`, pinned, and shown to a person where it has changed."""

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
    """What the tools of a server give as their source, and what its questions are asked by."""
    return f"{MCP_PREFIX}{server}"


def is_wanted(name: str, server: McpServer) -> bool:
    """Whether the configuration lets in a tool of this MCP name."""
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
    """The tool, or `ToolError` if it cannot be one.

    Effects stay unknown: what a server says about its own harmlessness is a claim, so that only the annotation
    that makes a tool more dangerous counts.
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
        source=source_of(server),
    )


def cut_text(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]} […] ({len(text) - most:,} more characters are left out)"


def _mapping(value: Json) -> Mapping[str, Json]:
    return value if isinstance(value, dict) else {}


MAX_DEFINITION: Final = 256 * 1024
"""Bytes of a definition; a longer one is no tool a person could judge."""
PARTS: Final = ("name", "title", "description", "inputSchema", "outputSchema", "annotations")

_WIDTH: Final = 110
_SENTENCE: Final = 40
_PIECE: Final = re.compile("‹[^›]*›|(?s:.)")
_CONTINUED: Final = "‹↩›"
"""Ends a line that is longer. The text's own `‹` is escaped, so that this cannot be a part of it."""


def pin_name(name: str, server: McpServer) -> str:
    """The name pins of a server are kept under: another program or address of the same name is another server."""
    where = {"url": server.url} if server.url else {"command": server.command, "args": server.args, "cwd": server.cwd}
    return f"{name} {digest_of(where)[:32]}"


def definition_of(tool: mcp_types.Tool) -> dict[str, Json]:
    """What is shown to a model and to policy, in the words of the wire; raises `BadJson` if that cannot be kept."""
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
        raise BadJson(f"Its definition cannot be kept: {escape(str(error))}") from None
    if size > MAX_DEFINITION:
        raise BadJson(f"Its definition has {size:,} bytes, and at most {MAX_DEFINITION:,} are taken.")
    return definition


def is_same_definition(one: Json, other: Json) -> bool:
    """Python takes `true` for 1; JSON, and a server, do not."""
    return canonical_json(_said(one)) == canonical_json(_said(other))


def definition_diff(old: Json, new: Json) -> str:
    """What a person is shown: a diff of every part that changed, with nothing in it a screen would hide or obey.

    Empty if, and only if, nothing changed, and never cut: a yes to it is a yes to all of the definition.
    """
    if is_same_definition(old, new):
        return ""
    before, after = _said(old), _said(new)
    parts = dict.fromkeys((*PARTS, *sorted(before.keys() | after.keys())))
    shown = (
        unified_diff(_lines(before.get(part)), _lines(after.get(part)), escape(part), max_lines=None) for part in parts
    )
    return "".join(shown) or "The definition has changed in a way that cannot be shown.\n"


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
    """A long line in pieces, at the ends of sentences where it has any: a change in its middle must not be cut out."""
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

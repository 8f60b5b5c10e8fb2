"""What an MCP server says of a tool, made into a `Tool`: nothing in it can loosen what policy says."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any, Final, cast

from holdfast.config.model import McpServer
from holdfast.contract.errors import ToolError
from holdfast.contract.names import SERVER
from holdfast.contract.tool import Apply, Execute, Propose, Tool
from holdfast.contract.values import Json
from holdfast.contract.vocabulary import Risk
from holdfast.text.visible import visible

MAX_DESCRIPTION: Final = 16_000
_NAME: Final = re.compile(r"[A-Za-z0-9_./-]{1,128}")


def source_of(server: str) -> str:
    """What the tools of a server give as their source, and what its questions are asked by."""
    return f"{SERVER}{server}"


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
            f"its name {visible(str(name)[:80])!r} is outside what MCP allows: 1 to 128 of A-Z a-z 0-9 _ - . /"
        )
    output: Any = said.get("outputSchema")
    return Tool(
        name=f"{source_of(server)}:{name}",
        execute=execute,
        propose=propose,
        apply=apply,
        description=_description(said),
        input_schema=cast(dict[str, Any], said.get("inputSchema")),
        output_schema=output,
        timeout=timeout,
        risk=Risk.HIGH if _mapping(said.get("annotations")).get("destructiveHint") is True else Risk.MEDIUM,
        effects=None,
        capabilities=capabilities,
        source=source_of(server),
    )


def _description(said: Mapping[str, Json]) -> str:
    text = next((text for key in ("description", "title") if isinstance(text := said.get(key), str) and text), "")
    if len(text) <= MAX_DESCRIPTION:
        return text
    return f"{text[:MAX_DESCRIPTION]} […] ({len(text) - MAX_DESCRIPTION:,} more characters are left out)"


def _mapping(value: Json) -> Mapping[str, Json]:
    return value if isinstance(value, dict) else {}

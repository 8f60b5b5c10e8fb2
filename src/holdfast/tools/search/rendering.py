"""The text of a search result, made from its typed form."""

from __future__ import annotations

import os
from typing import Any, Final, cast

from holdfast.contract.values import Args

SHOWN: Final = 15
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
OUTPUT_SCHEMA: Final[dict[str, Any]] = {
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


def shown_path(path: str) -> str:
    """A path below the root as text that can be printed: bytes that are not UTF-8 become replacement characters."""
    return path if path.isascii() else os.fsencode(path).decode(errors="replace")


def render(output: Args) -> str:
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

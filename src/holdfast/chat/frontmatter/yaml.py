"""Detects YAML frontmatter, which holdfast does not support, and suggests the TOML equivalent."""

from __future__ import annotations

import json
import re
from typing import Final

_BLOCK: Final = re.compile(r"\ufeff?---[ \t]*\r?\n(?P<body>.*?)^(?:---|\.\.\.)[ \t]*\r?$", re.DOTALL | re.MULTILINE)
_ENTRY: Final = re.compile(r"(?P<indent> *)(?P<key>[A-Za-z0-9_.$-]+):(?: +(?P<value>.*))?")
_ITEM: Final = re.compile(r" *- +(?P<value>.+)")
_LIST: Final = re.compile(r"\[(?P<items>[^\[\]{}]*)\]")
_LITERAL: Final = re.compile(r"true|false|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?")
_SPECIAL: Final = re.compile(r"[\[\]{}&*!|>%@`#]")
"""Characters with a special meaning in YAML."""
_EXAMPLE: Final = 'tools.profile = "minimal"'
_SHORTHANDS: Final = {"model": "model.name", "tools": "tools.allow", "temperature": "model.temperature"}
"""Keys that other tools write with a plain value, where holdfast has a table."""
_MAX_LENGTH: Final = 20_000


class _UnsupportedYaml(Exception):
    """YAML other than mappings, lists and plain scalars."""


def yaml_problem(text: str) -> str | None:
    """The error for a document that starts with YAML frontmatter; None for any other."""
    found = _BLOCK.match(text[:_MAX_LENGTH]) if text.lstrip("\ufeff").startswith("---") else None
    if found is None or not any(map(_ENTRY.match, found["body"].splitlines())):
        return None
    try:
        hint, lines = "Write it as TOML between fences:", _toml(found["body"])
    except _UnsupportedYaml:
        hint, lines = "Write it as TOML between fences, like this:", [_EXAMPLE]
    return "\n".join((f"This is YAML frontmatter, which holdfast does not read. {hint}", "```toml", *lines, "```"))


def _toml(body: str) -> list[str]:
    """The TOML equivalent, one dotted key per line."""
    values: dict[str, str | list[str]] = {}
    parents: list[tuple[int, str]] = []
    for line in body.splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if item := _ITEM.fullmatch(line):
            _add(values, parents, item["value"])
            continue
        entry = _ENTRY.fullmatch(line.rstrip())
        if entry is None:
            raise _UnsupportedYaml
        while parents and parents[-1][0] >= len(entry["indent"]):
            parents.pop()
        parents.append((len(entry["indent"]), entry["key"]))
        if entry["value"]:
            values[_path(parents)] = _value(entry["value"].strip())
    written = ((key, f"[{', '.join(value)}]" if isinstance(value, list) else value) for key, value in values.items())
    return [f"{_SHORTHANDS.get(key, key)} = {value}" for key, value in written]


def _add(values: dict[str, str | list[str]], parents: list[tuple[int, str]], item: str) -> None:
    if not parents:
        raise _UnsupportedYaml
    items = values.setdefault(_path(parents), [])
    if not isinstance(items, list):
        raise _UnsupportedYaml
    items.append(_value(item.strip()))


def _path(parents: list[tuple[int, str]]) -> str:
    return ".".join(key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else json.dumps(key) for _, key in parents)


def _value(written: str) -> str:
    if found := _LIST.fullmatch(written):
        return f"[{', '.join(_value(item.strip()) for item in found['items'].split(',') if item.strip())}]"
    if _LITERAL.fullmatch(written):
        return written
    if len(written) > 1 and written[0] == written[-1] and written[0] in "\"'":
        written = written[1:-1]
        if "\\" in written or written.count("'") % 2:
            raise _UnsupportedYaml
    elif _SPECIAL.match(written) or ": " in written or " #" in written:
        raise _UnsupportedYaml
    return json.dumps(written, ensure_ascii=False)

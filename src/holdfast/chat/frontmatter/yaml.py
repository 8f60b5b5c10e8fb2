"""Recognises YAML frontmatter, which holdfast does not read, and says how to write it in TOML."""

from __future__ import annotations

import json
import re
from typing import Final

_BLOCK: Final = re.compile(r"\ufeff?---[ \t]*\r?\n(?P<body>.*?)^(?:---|\.\.\.)[ \t]*\r?$", re.DOTALL | re.MULTILINE)
_ENTRY: Final = re.compile(r"(?P<indent> *)(?P<key>[A-Za-z0-9_.$-]+):(?: +(?P<value>.*))?")
_ITEM: Final = re.compile(r" *- +(?P<value>.+)")
_LIST: Final = re.compile(r"\[(?P<items>[^\[\]{}]*)\]")
_LITERAL: Final = re.compile(r"true|false|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?")
_STRANGE: Final = re.compile(r"[\[\]{}&*!|>%@`#]")
"""What means more in YAML than a plain text."""
_EXAMPLE: Final = 'tools.profile = "minimal"'
_SHORT: Final = {"model": "model.name", "tools": "tools.allow", "temperature": "model.temperature"}
"""Keys that others write with a plain value, where holdfast has a table."""
_LONGEST: Final = 20_000


class _NotPlain(Exception):
    """YAML beyond tables, lists and plain values."""


def yaml_problem(text: str) -> str | None:
    """What to tell about a document that begins with YAML frontmatter; None for any other."""
    found = _BLOCK.match(text[:_LONGEST]) if text.lstrip("\ufeff").startswith("---") else None
    if found is None or not any(map(_ENTRY.match, found["body"].splitlines())):
        return None
    try:
        said, lines = "Write it as TOML between fences:", _toml(found["body"])
    except _NotPlain:
        said, lines = "Write it as TOML between fences, like this:", [_EXAMPLE]
    return "\n".join((f"This is YAML frontmatter, which holdfast does not read. {said}", "```toml", *lines, "```"))


def _toml(body: str) -> list[str]:
    """The same in TOML, one dotted key per line."""
    values: dict[str, str | list[str]] = {}
    above: list[tuple[int, str]] = []
    for line in body.splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if item := _ITEM.fullmatch(line):
            _add(values, above, item["value"])
            continue
        entry = _ENTRY.fullmatch(line.rstrip())
        if entry is None:
            raise _NotPlain
        while above and above[-1][0] >= len(entry["indent"]):
            above.pop()
        above.append((len(entry["indent"]), entry["key"]))
        if entry["value"]:
            values[_path(above)] = _value(entry["value"].strip())
    written = ((key, f"[{', '.join(value)}]" if isinstance(value, list) else value) for key, value in values.items())
    return [f"{_SHORT.get(key, key)} = {value}" for key, value in written]


def _add(values: dict[str, str | list[str]], above: list[tuple[int, str]], item: str) -> None:
    if not above:
        raise _NotPlain
    items = values.setdefault(_path(above), [])
    if not isinstance(items, list):
        raise _NotPlain
    items.append(_value(item.strip()))


def _path(above: list[tuple[int, str]]) -> str:
    return ".".join(key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else json.dumps(key) for _, key in above)


def _value(written: str) -> str:
    if found := _LIST.fullmatch(written):
        return f"[{', '.join(_value(item.strip()) for item in found['items'].split(',') if item.strip())}]"
    if _LITERAL.fullmatch(written):
        return written
    if len(written) > 1 and written[0] == written[-1] and written[0] in "\"'":
        written = written[1:-1]
        if "\\" in written or written.count("'") % 2:
            raise _NotPlain
    elif _STRANGE.match(written) or ": " in written or " #" in written:
        raise _NotPlain
    return json.dumps(written, ensure_ascii=False)

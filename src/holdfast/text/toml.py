"""Formats values as TOML."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final, cast

_BARE: Final = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_CONTROL: Final = re.compile("[\x7f-\x9f]")


def toml_value(value: Any) -> str:
    """Format a value on one line. None is omitted from tables, since TOML has no null."""
    if isinstance(value, str):
        return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(value, ensure_ascii=False))
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        table = cast(Mapping[str, object], value)
        items = [f"{toml_key(key)} = {toml_value(item)}" for key, item in table.items() if item is not None]
        return f"{{ {', '.join(items)} }}" if items else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml_value, cast(list[object], value)))}]"
    return str(value)


def toml_lines(section: str, name: str, value: Any) -> list[str]:
    """Format an option of a section: a list of tables as `[[section.name]]` blocks, anything else on one line."""
    items = cast(list[object], value) if isinstance(value, list) else []
    if not items or not all(isinstance(item, Mapping) for item in items):
        return [f"{toml_key(name)} = {toml_value(value)}"]
    lines: list[str] = []
    for table in cast(list[Mapping[str, object]], items):
        lines += ["", f"[[{section}.{toml_key(name)}]]"]
        lines += [f"{toml_key(key)} = {toml_value(item)}" for key, item in table.items() if item is not None]
    return lines[1:]


def toml_key(name: str) -> str:
    return name if _BARE.fullmatch(name) else toml_value(name)

"""Helpers to declare built-in tools with strict schemas: every property is required, and optional ones are nullable."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any, Final

from holdfast.contract.enums import Risk
from holdfast.contract.schema import NOT_BLANK
from holdfast.contract.tool import Tool

Schema = dict[str, Any]
builtin_tool = partial(Tool, strict=True, source="builtin")
read_only_tool = partial(builtin_tool, risk=Risk.LOW, effects=frozenset({"fs.read"}), presets=("$readonly",))
"""A built-in that only reads files."""

LABEL: Final[Schema] = {"type": ["string", "null"], "description": "What this call is for, in a few words."}


STRING: Final[Schema] = {"type": "string"}
INTEGER: Final[Schema] = {"type": "integer"}
BOOLEAN: Final[Schema] = {"type": "boolean"}
STRING_OR_NULL: Final[Schema] = {"type": ["string", "null"]}
INTEGER_OR_NULL: Final[Schema] = {"type": ["integer", "null"]}


def array(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def text(description: str) -> Schema:
    return {"type": "string", "description": description}


def non_blank(description: str) -> Schema:
    """A string that is not blank."""
    return {"type": "string", "description": description, "pattern": NOT_BLANK}


def nullable(kind: str, description: str, **more: Any) -> Schema:
    return {"type": [kind, "null"], "description": description, **more}


def strict_object(**properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def needs_extra(extra: str, *packages: str) -> Callable[[], str | None]:
    """Return a function for `Tool.unavailable`: why the tool cannot be used if one of the packages is missing."""

    def reason() -> str | None:
        missing = [name for name in packages if find_spec(name) is None]
        if not missing:
            return None
        names = " and ".join(missing)
        return f"it needs {names}. Install {'it' if len(missing) == 1 else 'them'}: pip install 'holdfast[{extra}]'"

    return reason

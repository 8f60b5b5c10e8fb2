"""Small helpers for the strict schemas of built-ins: every property required, optional ones nullable."""

from __future__ import annotations

from typing import Any, Final

Schema = dict[str, Any]

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


def optional(kind: str, description: str, **more: Any) -> Schema:
    return {"type": [kind, "null"], "description": description, **more}


def strict_object(**properties: Schema) -> Schema:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }

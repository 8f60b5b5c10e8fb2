"""Schema violations in words a model can act on: where, what is wrong, what is wanted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from typing import Any, Final, cast

import jsonschema_rs

MAX_VIOLATIONS: Final = 10
_MAX_VALUE: Final = 60
_MAX_OPTIONS: Final = 20


def explain(errors: Iterable[jsonschema_rs.ValidationError], properties: Sequence[str]) -> list[str]:
    """One sentence per violation, at most `MAX_VIOLATIONS` and a count of the rest."""
    found: list[str] = []
    more = 0
    for error in errors:
        if len(found) < MAX_VIOLATIONS:
            found.append(_sentence(error, properties))
        else:
            more += 1
    return [*found, f"and {more} more"] if more else found


def _sentence(error: jsonschema_rs.ValidationError, properties: Sequence[str]) -> str:
    kind = error.kind.name
    facts = cast(dict[str, Any], error.kind.as_dict())
    where = _path(error.instance_path)
    if kind == "required":
        return f"{_join(where, facts['property'])} is missing"
    if kind == "additionalProperties":
        return "; ".join(_unexpected(where, name, properties) for name in facts["unexpected"][:MAX_VIOLATIONS])
    subject = where or "the arguments"
    if kind in ("anyOf", "oneOf"):
        return f"{subject} is {_show(error.instance)} but must be {_alternatives(facts['context'])}"
    phrase = _PHRASES.get(kind)
    if phrase is None:
        return f"{subject}: {error.message[:200]}"
    return f"{subject} is {_show(error.instance)} but must {phrase(facts)}"


def _types(facts: dict[str, Any]) -> str:
    return " or ".join(sorted(facts["types"], key=lambda kind: (kind == "null", kind)))


def _alternatives(context: list[list[jsonschema_rs.ValidationError]]) -> str:
    wanted: list[str] = []
    for branch in context:
        for inner in branch[:1]:
            facts = cast(dict[str, Any], inner.kind.as_dict())
            phrase = _PHRASES.get(inner.kind.name)
            words = _types(facts) if inner.kind.name == "type" else phrase(facts) if phrase else inner.message[:80]
            if words not in wanted:
                wanted.append(words)
    return " or ".join(wanted) or "exactly one of the allowed forms"


_PHRASES: Final[dict[str, Callable[[dict[str, Any]], str]]] = {
    "type": lambda facts: f"be {_types(facts)}",
    "enum": lambda facts: "be one of " + ", ".join(_show(option) for option in facts["options"][:_MAX_OPTIONS]),
    "const": lambda facts: f"be {_show(facts['expected_value'])}",
    "minimum": lambda facts: f"be at least {facts['limit']}",
    "maximum": lambda facts: f"be at most {facts['limit']}",
    "exclusiveMinimum": lambda facts: f"be more than {facts['limit']}",
    "exclusiveMaximum": lambda facts: f"be less than {facts['limit']}",
    "minLength": lambda facts: f"have at least {facts['limit']} characters",
    "maxLength": lambda facts: f"have at most {facts['limit']} characters",
    "minItems": lambda facts: f"have at least {facts['limit']} items",
    "maxItems": lambda facts: f"have at most {facts['limit']} items",
    "pattern": lambda facts: f"match {facts['pattern']!r}"[:200],
    "falseSchema": lambda _: "not be given",
}


def _unexpected(where: str, name: str, properties: Sequence[str]) -> str:
    close = get_close_matches(name[:80], properties, n=1) if not where else []
    hint = f" (did you mean {close[0]}?)" if close else ""
    return f"{_join(where, name[:80])} is not a known property{hint}"


def _path(steps: Iterable[str | int]) -> str:
    text = ""
    for step in steps:
        text += f"[{step}]" if isinstance(step, int) else f".{step[:80]}" if text else step[:80]
    return text


def _join(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


def _show(value: object) -> str:
    if isinstance(value, str):
        text = repr(value[:_MAX_VALUE])
        return text if len(value) <= _MAX_VALUE else f"{text[:-1]}…' ({len(value):,} characters)"
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list | tuple):
        return "a list"
    return {True: "true", False: "false", None: "null"}.get(cast(Any, value), str(value)) if value is None or isinstance(value, bool) else str(value)[:_MAX_VALUE]

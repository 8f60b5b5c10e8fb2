"""Schema violations in words a model can act on: where, what is wrong, what is wanted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import jsonschema_rs

from holdfast.contract.plain import path_of

MAX_VIOLATIONS: Final = 10
_MAX_VALUE: Final = 60
_MAX_NAME: Final = 80
_MAX_OPTIONS: Final = 20
_WHOLE: Final = "the whole value"


def explain(errors: Iterable[jsonschema_rs.ValidationError], properties: Sequence[str]) -> list[str]:
    """One sentence per violation, at most `MAX_VIOLATIONS` and a count of the rest."""
    found: list[str] = []
    more = 0
    for error in errors:
        if len(found) < MAX_VIOLATIONS:
            found.append(_sentence(error, properties))
        else:
            more += 1
    return [*found, f"and {more:,} more"] if more else found


def _sentence(error: jsonschema_rs.ValidationError, properties: Sequence[str]) -> str:
    kind = error.kind.name
    facts = error.kind.as_dict()
    where = error.instance_path
    if kind == "required":
        return f"{path_of([*where, facts['property']])} is missing"
    if kind in ("additionalProperties", "unevaluatedProperties"):
        return unexpected(where, facts["unexpected"], properties)
    if kind == "falseSchema" and error.schema_path[-1:] == ["additionalProperties"]:
        return f"{path_of(where) or _WHOLE} takes no properties"
    subject = path_of(where) or _WHOLE
    if kind in ("anyOf", "oneOf"):
        return f"{subject} is {show(error.instance)} but must be {_alternatives(error, facts['context'])}"
    if kind == "pattern" and "error" in facts:
        return f"{subject} is too hard to match against its pattern; send something shorter"
    phrase = _PHRASES.get(kind)
    if phrase is None:
        return f"{subject}: {error.message[:200]}"
    return f"{subject} is {show(error.instance)} but must {phrase(facts)}"


def type_words(types: Iterable[str]) -> str:
    return " or ".join(sorted(types, key=lambda kind: (kind == "null", kind)))


def _alternatives(
    outer: jsonschema_rs.ValidationError, context: list[list[jsonschema_rs.ValidationError]]
) -> str:
    wanted: list[str] = []
    for branch in context:
        if len(wanted) == _MAX_OPTIONS:
            wanted.append("another of the allowed forms")
            break
        for inner in branch[:1]:
            words = _alternative(inner, path_of(inner.instance_path[len(outer.instance_path) :]))
            if words not in wanted:
                wanted.append(words)
    return " or ".join(wanted) or "exactly one of the allowed forms"


def _alternative(error: jsonschema_rs.ValidationError, inside: str) -> str:
    kind = error.kind.name
    facts = error.kind.as_dict()
    if kind == "required":
        return f"one with {path_of([*([inside] if inside else []), facts['property']])}"
    phrase = _PHRASES.get(kind)
    if phrase is None or "error" in facts:
        return "another of the allowed forms"
    return f"one whose {inside} must {phrase(facts)}" if inside else phrase(facts).removeprefix("be ")


_PHRASES: Final[dict[str, Callable[[dict[str, Any]], str]]] = {
    "type": lambda facts: f"be {type_words(facts['types'])}",
    "enum": lambda facts: f"be one of {_options(facts['options'])}",
    "const": lambda facts: f"be {show(facts['expected_value'])}",
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


def _options(options: list[Any]) -> str:
    shown = ", ".join(show(option) for option in options[:_MAX_OPTIONS])
    rest = len(options) - _MAX_OPTIONS
    return f"{shown} or {rest:,} others" if rest > 0 else shown


def unexpected(where: list[str | int], names: list[str], properties: Sequence[str]) -> str:
    from difflib import get_close_matches

    sentences: list[str] = []
    for name in names[:MAX_VIOLATIONS]:
        close = get_close_matches(name[:_MAX_NAME], properties, n=1) if not where else []
        hint = f" (did you mean {close[0]}?)" if close else ""
        sentences.append(f"{path_of([*where, name])} is not a known property{hint}")
    rest = len(names) - MAX_VIOLATIONS
    return "; ".join([*sentences, f"and {rest:,} more"] if rest > 0 else sentences)


def show(value: object) -> str:
    if isinstance(value, str):
        text = repr(value[:_MAX_VALUE])
        return text if len(value) <= _MAX_VALUE else f"{text[:-1]}…' ({len(value):,} characters)"
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list | tuple):
        return "a list"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value)[:_MAX_VALUE]

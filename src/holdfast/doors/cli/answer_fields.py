"""The fields of a form that a program asks a person to fill in: what each wants, and what was typed as its value."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, cast

from msgspec import UNSET, Struct, UnsetType

from holdfast.contract.errors import BadJson, HoldfastError
from holdfast.contract.schema import CompiledSchema, compile_any
from holdfast.contract.values import Args, Json, parse_json
from holdfast.doors.forms import is_secret_field

Kind = Literal["text", "integer", "number", "boolean", "choice", "choices", "json"]

_TRUE: Final = frozenset(("y", "yes", "true"))
_FALSE: Final = frozenset(("n", "no", "false"))


class Bad(HoldfastError):
    """What was typed is not what the field wants; the text says what is."""


class Choice(Struct, frozen=True):
    value: Json
    title: str


class Field(Struct, frozen=True, kw_only=True):
    name: str
    title: str
    description: str
    kind: Kind
    required: bool
    secret: bool
    choices: tuple[Choice, ...] = ()
    default: Json | UnsetType = UNSET
    checked: CompiledSchema
    hint: str = ""
    """What is wanted, in a few words."""

    @property
    def is_typed(self) -> bool:
        """Whether it is filled in freely."""
        return self.kind in ("text", "integer", "number", "json")

    def read(self, typed: str) -> Json:
        """The value of what was typed. Raises `Bad`."""
        value = self._value(typed)
        wrong = self.checked.violations(value)
        if wrong:
            raise Bad(wrong[0].replace("the whole value", "it", 1))
        return value

    def _value(self, typed: str) -> Json:
        word = typed.strip()
        match self.kind:
            case "text":
                return typed
            case "integer" | "number":
                return _number(word, whole=self.kind == "integer")
            case "boolean":
                if word.lower() not in _TRUE | _FALSE:
                    raise Bad("type yes or no")
                return word.lower() in _TRUE
            case "choice":
                return self._chosen(word)
            case "choices":
                return [self._chosen(part.strip()) for part in word.split(",") if part.strip()]
            case "json":
                try:
                    return parse_json(word)
                except BadJson as error:
                    raise Bad(f"that is not JSON: {error}") from None

    def _chosen(self, word: str) -> Json:
        for choice in self.choices:
            if word in (choice.value, choice.title):
                return choice.value
        if word.isascii() and word.isdecimal() and 0 < int(word[:6]) <= len(self.choices):
            return self.choices[int(word[:6]) - 1].value
        raise Bad(f"type a number from 1 to {len(self.choices)}")


def fields_of(schema: Mapping[str, Any]) -> list[Field]:
    """Raises `HoldfastError` for what is no form."""
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        return []
    required = schema.get("required")
    wanted = cast(list[object], required) if isinstance(required, list) else []
    found: list[Field] = []
    for name, part in cast(Mapping[str, Any], properties).items():
        inner = cast(dict[str, Any], part) if isinstance(part, dict) else {}
        found.append(_field(name, inner, required=name in wanted))
    return found


def _field(name: str, schema: dict[str, Any], *, required: bool) -> Field:
    title, description = _text(schema, "title"), _text(schema, "description")
    kind, choices = _kind(schema)
    checked = compile_any(schema, f"The field '{name}'")
    sound = "default" in schema and checked.accepts(schema["default"])
    return Field(
        name=name,
        title=title or name,
        description=description,
        kind=kind,
        required=required,
        secret=is_secret_field(name, schema),
        choices=choices,
        default=cast(Json, schema["default"]) if sound else UNSET,
        checked=checked,
        hint=_hint(kind, schema),
    )


def _kind(schema: Mapping[str, Any]) -> tuple[Kind, tuple[Choice, ...]]:
    choices = _choices(schema)
    if choices:
        return "choice", choices
    kind = schema.get("type")
    if kind == "array" and isinstance(schema.get("items"), Mapping):
        items = _choices(cast(Mapping[str, Any], schema["items"]))
        return ("choices", items) if items else ("json", ())
    plain: dict[object, Kind] = {"string": "text", "integer": "integer", "number": "number", "boolean": "boolean"}
    return (plain.get(kind, "json") if isinstance(kind, str) else "json"), ()


def _choices(schema: Mapping[str, Any]) -> tuple[Choice, ...]:
    enum = schema.get("enum")
    if isinstance(enum, list) and enum:
        values = cast(list[Json], enum)
        named = schema.get("enumNames")
        names = cast(Sequence[object], named) if isinstance(named, list) else ()
        titles = [str(names[at]) if at < len(names) else str(value) for at, value in enumerate(values)]
        return tuple(Choice(value, title) for value, title in zip(values, titles, strict=True))
    for key in ("oneOf", "anyOf"):
        options = schema.get(key)
        if isinstance(options, list) and options and all(_is_const(item) for item in cast(list[object], options)):
            found = cast(list[dict[str, Json]], options)
            return tuple(Choice(item["const"], str(item.get("title") or item["const"])) for item in found)
    return ()


def _is_const(item: object) -> bool:
    return isinstance(item, dict) and "const" in item


def _number(word: str, *, whole: bool) -> Json:
    try:
        number = int(word[:400]) if whole else float(word)
    except ValueError:
        raise Bad("type a whole number" if whole else "type a number") from None
    if not math.isfinite(number):
        raise Bad("type a number")
    return number


def _hint(kind: Kind, schema: Mapping[str, Any]) -> str:
    words = {"integer": "a whole number", "number": "a number", "boolean": "yes or no", "json": "JSON"}
    hint = words.get(kind, "several, with commas between" if kind == "choices" else "")
    form = _text(schema, "format")
    return ", ".join(part for part in (hint, form if kind == "text" else "") if part)


def _text(schema: Mapping[str, Any], key: str) -> str:
    value = schema.get(key)
    return value if isinstance(value, str) else ""


def filled(fields: Sequence[Field], values: Mapping[str, Json]) -> Args:
    """The answer as it is sent, in the order of the form."""
    return {field.name: values[field.name] for field in fields if field.name in values}

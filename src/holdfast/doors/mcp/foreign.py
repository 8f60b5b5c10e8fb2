"""Questions of a bridged server, as they may be put to a client's person: who asks is said, and cannot be feigned."""

from __future__ import annotations

from typing import Any, Final, cast

from msgspec.structs import replace

from holdfast.contract.inquiry import Completion, Form, Question, Visit
from holdfast.contract.values import Args, Json
from holdfast.doors.forms import asks_for_a_secret, fault_of_address
from holdfast.text.quote import quoted
from holdfast.text.visible import clip_middle, visible, visible_block, visible_url

SERVER: Final = "mcp:"
"""How the name of somebody who asks begins that is a server, and none of our own tools."""
_MAX_MESSAGE: Final = 4000
_MAX_TITLE: Final = 200
_MAX_DESCRIPTION: Final = 1000
_MAX_FIELDS: Final = 50
_MAX_CHOICES: Final = 200
_COLUMNS: Final = 80


def presented(question: Question, asked_by: str) -> Question | None:
    """The question with who asks it; None for one that is declined without anybody being asked."""
    if isinstance(question, Completion):
        return None  # it is for a person to answer, and a client would give it to its model
    if isinstance(question, Form):
        if asks_for_a_secret(question):
            return None
        schema = _shown(question.schema)
        return None if schema is None else replace(question, message=_told(question.message, asked_by), schema=schema)
    if isinstance(question, Visit):
        if fault_of_address(question.url) is not None:
            return None
        message = f"{question.message}\n{visible_url(question.url)}"
        return replace(question, message=_told(message, asked_by))
    return question


def _told(message: str, asked_by: str) -> str:
    name = visible(clip_middle(asked_by.removeprefix(SERVER), _MAX_TITLE))
    lines = quoted(clip_middle(message, _MAX_MESSAGE), _COLUMNS)
    warning = "(Give it no passwords or other secrets.)"
    return "\n".join((f"The MCP server '{name}' asks this, not holdfast:", warning, *lines))


def _shown(schema: Args) -> Args | None:
    """The same form with its words made visible and bounded; None where a person could not read it through."""
    properties = schema.get("properties")
    if not isinstance(properties, dict) or len(properties) > _MAX_FIELDS:
        return None
    fields: Args = {}
    for name, part in properties.items():
        if not isinstance(part, dict) or not _readable(name, part):
            return None
        fields[name] = _field(part)
    return {**schema, **_words(schema), "properties": fields}


def _readable(name: str, part: Args) -> bool:
    """Names and values must come back as they are, so that one that hides something cannot be shown."""
    items = part.get("items")
    parts = [part, items] if isinstance(items, dict) else [part]
    values: list[Json] = [name]
    for each in parts:
        values += _choices(each, "enum")
        values += [_const(item) for key in ("oneOf", "anyOf") for item in _choices(each, key)]
    texts = [value for value in values if isinstance(value, str)]
    if len(values) > _MAX_CHOICES or any(len(text) > _MAX_TITLE or visible(text) != text for text in texts):
        return False
    given = part.get("default")
    return not isinstance(given, str) or (len(given) <= _MAX_DESCRIPTION and visible_block(given) == given)


def _field(part: Args) -> Args:
    shown: dict[str, Any] = {**part, **_words(part)}
    if "enumNames" in part:
        shown["enumNames"] = [_title(name) for name in _choices(part, "enumNames")]
    for key in ("oneOf", "anyOf"):
        if key in part:
            shown[key] = [_field(item) if isinstance(item, dict) else item for item in _choices(part, key)]
    if isinstance(items := part.get("items"), dict):
        shown["items"] = _field(items)
    return shown


def _words(part: Args) -> Args:
    words: Args = {}
    if "title" in part:
        words["title"] = _title(part["title"])
    if isinstance(text := part.get("description"), str):
        words["description"] = visible_block(clip_middle(text, _MAX_DESCRIPTION))
    return words


def _title(text: Json) -> str:
    return visible(clip_middle(text if isinstance(text, str) else str(text), _MAX_TITLE))


def _choices(part: Args, key: str) -> list[Json]:
    found = part.get(key)
    return cast("list[Json]", found) if isinstance(found, list) else []


def _const(item: Json) -> Json:
    return item.get("const") if isinstance(item, dict) else None

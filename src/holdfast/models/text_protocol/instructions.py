"""What a model is told: how calls are written, and which tools there are. The same tools give the same bytes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, cast
from urllib.parse import unquote

from holdfast.contract.tool import Tool
from holdfast.models.text_protocol.grammar import ANY_FRAME, ANY_TAG, TOOLS

FORMS: Final = {
    "read_file": "[read_file: PATH]",
    "list_dir": "[list_dir: PATH]",
    "search_code": "[search_code: KEYWORD]",
    "git_status": "[git_status]",
    "git_diff": "[git_diff]",
    "git_log": "[git_log]",
    "write_file": "[write_file]\npath: PATH\n---content---\nCONTENT\n[/write_file]",
    "edit_file": "[edit_file]\npath: PATH\n---search---\nOLD TEXT\n---replace---\nNEW TEXT\n[/edit_file]",
}
"""How each call is written, by its small name."""
NO_TOOLS: Final = "There are no tools now: answer in plain text."
_RULES: Final = (
    "You work with tools. To call one, write its form exactly as below, each call on a line of its own and outside "
    "code fences. Then stop and wait: the results are sent to you. Never write a result yourself."
)
_SEARCHING: Final = "To search, give one plain keyword, such as a name: no sentence, no pattern."
_LONGEST_MEANING: Final = 120
_LONGEST_SIGNATURE: Final = 600
_LONGEST_VALUE: Final = 60
_DEEPEST: Final = 4
_MOST: Final = 100
"""How many schemas are looked at, in all."""
_TYPES: Final = frozenset({"string", "number", "integer", "boolean", "object", "array", "null"})
_CALLING: Final = re.compile(rf"{ANY_TAG}|{ANY_FRAME}")

Schema = Mapping[str, Any]


def instructions(tools: Sequence[Tool]) -> str:
    """The part of the system prompt that is ours."""
    if not tools:
        return NO_TOOLS
    given = {tool.name: tool for tool in tools}
    small = {name: given[tool] for name, tool in TOOLS.items() if tool in given}
    rest = [tool for tool in tools if tool.name not in TOOLS.values()]
    entries = [_entry(FORMS[name], tool) for name, tool in small.items()]
    entries += [_entry(f"[call: {tool.name}]{signature(tool.input_schema)}[/call]", tool) for tool in rest]
    head = [_RULES, _SEARCHING] if "search_code" in small else [_RULES]
    return "\n".join((*head, "", *entries))


def signature(schema: Schema) -> str:
    """A schema as one short line: `{"command": text, "timeout"?: number}`; a `?` may be left out."""
    shown = _Summary(schema).of(schema, _DEEPEST)
    # Arguments always are an object.
    return shorten(shown if shown.startswith("{") else "{}", _LONGEST_SIGNATURE)


def shorten(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def one_line(text: str) -> str:
    """White space and what cannot be printed become blanks."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())


def _entry(form: str, tool: Tool) -> str:
    sentence = re.split(r"(?<=[.!?]) ", one_line(tool.description), maxsplit=1)[0]
    meaning = shorten(sentence, _LONGEST_MEANING)
    if not meaning:
        return form
    return f"{form}\n(above: {meaning})" if "\n" in form else f"{form} - {meaning}"


class _Summary:
    """A schema in a few words a small model can follow: of bounded length and work, whoever wrote the schema."""

    def __init__(self, root: Schema) -> None:
        self._root = root
        self._left = _MOST

    def of(self, schema: Schema, depth: int) -> str:
        self._left -= 1
        if self._left < 0:
            return "…"
        if "const" in schema:
            return _literal(schema["const"])
        if isinstance(values := schema.get("enum"), list):
            return self._either(_literal(value) for value in cast(list[Any], values) if value is not None)
        choices = self._choices(schema)
        if choices and "properties" not in schema:
            return self._either(self.of(each, depth - 1) for each in choices) if depth > 0 else "any"
        if depth > 0:
            if "allOf" in schema:
                return self.of(self._merged(schema, depth), depth - 1)
            if isinstance(schema.get("properties"), Mapping):
                return self._object(schema, depth)
            if isinstance(others := schema.get("additionalProperties"), Mapping):
                return "{NAME: " + self.of(self._resolved(cast(object, others)), depth - 1) + ", …}"
            if isinstance(items := schema.get("items"), Mapping):
                return f"[{self.of(self._resolved(cast(object, items)), depth - 1)}, …]"
        return self._either("text" if name == "string" else name for name in self._types(schema, depth))

    def _object(self, schema: Schema, depth: int) -> str:
        required = _list(schema, "required")
        written: list[str] = []
        for name, part in cast(Schema, schema["properties"]).items():
            if self._left <= 0:
                written.append("…")
                break
            resolved = self._resolved(part)
            optional = name not in required or "null" in self._types(resolved, depth)
            # Every tool of ours takes a label, and a small model has better things to write.
            if not (optional and name == "label"):
                written.append(f"{_literal(name)}{'?' if optional else ''}: {self.of(resolved, depth - 1)}")
        return "{" + ", ".join(written) + "}"

    def _choices(self, schema: Schema) -> list[Schema]:
        """What it may be, except null; choices among choices are choices."""
        pending, seen = list(_options(schema)), {id(schema)}
        found: list[Schema] = []
        for each in pending:
            resolved = self._resolved(each)
            if id(resolved) in seen or resolved.get("type") == "null":
                continue
            seen.add(id(resolved))
            options = _options(resolved)
            if options and "properties" not in resolved and len(pending) < _MOST:
                pending += options
            else:
                found.append(resolved)
        return found

    def _merged(self, schema: Schema, depth: int) -> Schema:
        """All that must hold, as one schema: what says it first wins."""
        merged: dict[str, Any] = {key: value for key, value in schema.items() if key != "allOf"}
        for part in _list(schema, "allOf")[:_MOST]:
            self._left -= 1
            if self._left < 0:
                break
            resolved = self._resolved(part)
            if depth > 0 and "allOf" in resolved:
                resolved = self._merged(resolved, depth - 1)
            properties = {**_mapping(merged.get("properties")), **_mapping(resolved.get("properties"))}
            required = [*_list(merged, "required"), *_list(resolved, "required")]
            merged = {**resolved, **merged}
            if properties:
                merged |= {"properties": properties, "required": required}
        return merged

    def _types(self, schema: Schema, depth: int) -> list[str]:
        named = schema.get("type")
        if isinstance(named, str | list):
            names = [named] if isinstance(named, str) else cast(list[Any], named)
            return [name for name in names if isinstance(name, str) and name in _TYPES]
        options = _options(schema) if depth > 0 else ()
        return [name for each in options for name in self._types(self._resolved(each), 0)]

    def _either(self, shapes: Iterable[str]) -> str:
        shown: dict[str, None] = {}
        for each in shapes:
            if each != "null":
                shown[each] = None
            if self._left <= 0 or len(shown) > _LONGEST_VALUE:
                shown["…"] = None
                break
        return " or ".join(shown) or "any"

    def _resolved(self, part: object) -> Schema:
        """What a reference inside the schema leads to; anything else that is no object says nothing."""
        for _ in range(_DEEPEST):
            found = _mapping(part)
            reference = found.get("$ref")
            if not isinstance(reference, str):
                return found
            part = self._root if reference.startswith("#/") else None
            for step in reference.removeprefix("#/").split("/"):
                part = _mapping(part).get(unquote(step).replace("~1", "/").replace("~0", "~"))
        return {}


def _options(schema: Schema) -> list[Any]:
    return (_list(schema, "anyOf") or _list(schema, "oneOf"))[:_MOST]


def _mapping(value: object) -> Schema:
    return cast(Schema, value) if isinstance(value, Mapping) else {}


def _list(schema: Schema, key: str) -> list[Any]:
    found = schema.get(key)
    return cast(list[Any], found) if isinstance(found, list) else []


def _literal(value: object) -> str:
    """A name or a value as JSON, in which nothing is a tag, a frame or the end of a line."""
    try:
        shown = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return "any"
    if not shown.isprintable():
        shown = json.dumps(value)
    if _CALLING.search(shown):
        shown = shown.replace("[", "\\u005b").replace("===", "==\\u003d")
    return shorten(shown, _LONGEST_VALUE)

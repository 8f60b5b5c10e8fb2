"""What a model is told: how calls are written, and which tools there are. The same tools give the same bytes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, cast

from holdfast.contract.tool import Tool
from holdfast.models.text_protocol.grammar import TOOLS

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
_LONGEST: Final = 120
_DEEPEST: Final = 4
_NAMES: Final = {"string": "text"}


def instructions(tools: Sequence[Tool]) -> str:
    """The part of the system prompt that is ours."""
    if not tools:
        return NO_TOOLS
    given = {tool.name: tool for tool in tools}
    small = {seed: given[name] for seed, name in TOOLS.items() if name in given}
    rest = [tool for tool in tools if tool.name not in TOOLS.values()]
    entries = [_entry(FORMS[seed], tool) for seed, tool in small.items()]
    entries += [_entry(f"[call: {tool.name}]{signature(tool.input_schema)}[/call]", tool) for tool in rest]
    head = [_RULES, _SEARCHING] if "search_code" in small else [_RULES]
    return "\n".join((*head, "", *entries))


def signature(schema: Mapping[str, Any]) -> str:
    """A schema as one short line: `{"command": text, "timeout"?: number}`; a `?` may be left out."""
    return _object(schema, schema, _DEEPEST)


def _entry(form: str, tool: Tool) -> str:
    meaning = _first_sentence(tool.description)
    if not meaning:
        return form
    return f"{form}\n(above: {meaning})" if "\n" in form else f"{form} - {meaning}"


def _first_sentence(description: str) -> str:
    """White space and what cannot be printed become blanks: a description is one line whoever wrote it."""
    line = " ".join("".join(char if char.isprintable() else " " for char in description).split())
    sentence = re.split(r"(?<=[.!?]) ", line, maxsplit=1)[0]
    return sentence if len(sentence) <= _LONGEST else sentence[: _LONGEST - 1] + "…"


def _object(schema: Mapping[str, Any], root: Mapping[str, Any], depth: int) -> str:
    parts = cast(Mapping[str, Any], schema.get("properties") or {})
    required = cast(Sequence[str], schema.get("required") or ())
    written: list[str] = []
    for name, part in parts.items():
        resolved = _resolved(part, root)
        optional = name not in required or "null" in _types(resolved)
        if optional and name == "label":
            # Every tool of the house takes one, and a small model has better things to write.
            continue
        written.append(f'"{name}"{"?" if optional else ""}: {_type(resolved, root, depth - 1)}')
    return "{" + ", ".join(written) + "}"


def _type(schema: Mapping[str, Any], root: Mapping[str, Any], depth: int) -> str:
    if "const" in schema:
        return _literal(schema["const"])
    if isinstance(schema.get("enum"), list):
        return " or ".join(_literal(value) for value in cast(list[Any], schema["enum"]) if value is not None)
    choices = schema.get("anyOf") or schema.get("oneOf")
    if isinstance(choices, list):
        schemas = (_resolved(choice, root) for choice in cast(list[Any], choices))
        return _either(_type(choice, root, depth) for choice in schemas if _types(choice) != ["null"])
    if depth > 0 and isinstance(schema.get("properties"), Mapping):
        return _object(schema, root, depth)
    if depth > 0 and isinstance(schema.get("items"), Mapping):
        return f"[{_type(_resolved(schema['items'], root), root, depth - 1)}, …]"
    return _either(_NAMES.get(name, name) for name in _types(schema))


def _either(types: Iterable[str]) -> str:
    return " or ".join(dict.fromkeys(name for name in types if name != "null")) or "any"


def _types(schema: Mapping[str, Any]) -> list[str]:
    named = schema.get("type")
    if isinstance(named, str):
        return [named]
    if isinstance(named, list):
        return [str(name) for name in cast(list[Any], named)]
    choices = cast(list[Any], schema.get("anyOf") or schema.get("oneOf") or [])
    schemas = (cast(Mapping[str, Any], choice) for choice in choices if isinstance(choice, Mapping))
    return [name for choice in schemas for name in _types(choice)]


def _resolved(part: object, root: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a reference inside the schema leads to; anything else that is no object says nothing."""
    for _ in range(_DEEPEST):
        if not isinstance(part, Mapping):
            return {}
        found = cast(Mapping[str, Any], part)
        reference = found.get("$ref")
        if not isinstance(reference, str):
            return found
        part = _at(reference, root)
    return {}


def _at(reference: str, root: Mapping[str, Any]) -> object:
    part: object = root if reference.startswith("#/") else None
    for step in reference.removeprefix("#/").split("/"):
        if not isinstance(part, Mapping):
            return None
        inside: Mapping[str, object] = part  # pyright: ignore[reportUnknownVariableType]
        part = inside.get(step)
    return part


def _literal(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value).lower()

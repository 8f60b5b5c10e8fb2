"""Prompts for models without native tool calls: the syntax of calls, the tools, and the conversation as text."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final, cast
from urllib.parse import unquote

from holdfast.contract.message import Message, Part, Text, ToolResult, ToolUse
from holdfast.contract.result import Attachment
from holdfast.contract.tool import Tool
from holdfast.models.call_arguments import parse_arguments
from holdfast.models.text_protocol.parser import ParsedReply, parse
from holdfast.models.text_protocol.syntax import (
    ANY_FRAME,
    ANY_TAG,
    CALL_END,
    CONTENT,
    STATIC,
    TOOLS,
    TextCall,
    short_name,
)
from holdfast.text.attachments import is_text_type

CALL_FORMS: Final = {
    "read_file": "[read_file: PATH]",
    "list_dir": "[list_dir: PATH]",
    "search_code": "[search_code: KEYWORD]",
    "git_status": "[git_status]",
    "git_diff": "[git_diff]",
    "git_log": "[git_log]",
    "write_file": "[write_file]\npath: PATH\n---content---\nCONTENT\n[/write_file]",
    "edit_file": "[edit_file]\npath: PATH\n---search---\nOLD TEXT\n---replace---\nNEW TEXT\n[/edit_file]",
}
"""The form of each call, by short name."""
NO_TOOLS: Final = "There are no tools now: answer in plain text."
_INTRODUCTION: Final = (
    "You work with tools. To call one, write its form exactly as below, each call on a line of its own and outside "
    "code fences. Then stop and wait: the results are sent to you. Never write a result yourself."
)
_SEARCH_HINT: Final = "To search, give one plain keyword, such as a name: no sentence, no pattern."
_MAX_DESCRIPTION: Final = 120
_MAX_SIGNATURE: Final = 600
_MAX_VALUE: Final = 60
_MAX_DEPTH: Final = 4
_MAX_SCHEMAS: Final = 100
"""The maximum number of subschemas to visit."""
_JSON_TYPES: Final = frozenset({"string", "number", "integer", "boolean", "object", "array", "null"})
_TAG_OR_FRAME: Final = re.compile(rf"{ANY_TAG}|{ANY_FRAME}")

Schema = Mapping[str, Any]


def instructions(tools: Sequence[Tool]) -> str:
    """Return the tool section of the system prompt."""
    if not tools:
        return NO_TOOLS
    given = {tool.name: tool for tool in tools}
    small = {name: given[tool] for name, tool in TOOLS.items() if tool in given}
    rest = [tool for tool in tools if tool.name not in TOOLS.values()]
    entries = [_entry(CALL_FORMS[name], tool) for name, tool in small.items()]
    entries += [_entry(f"[call: {tool.name}]{signature(tool.input_schema)}[/call]", tool) for tool in rest]
    head = [_INTRODUCTION, _SEARCH_HINT] if "search_code" in small else [_INTRODUCTION]
    return "\n".join((*head, "", *entries))


def signature(schema: Schema) -> str:
    """Summarise a schema in one line: `{"command": text, "timeout"?: number}`; `?` marks optional properties."""
    shown = _SchemaSummary(schema).of(schema, _MAX_DEPTH)
    # Arguments are always an object.
    return shorten(shown if shown.startswith("{") else "{}", _MAX_SIGNATURE)


def shorten(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def one_line(text: str) -> str:
    """Collapse white space and unprintable characters to single spaces."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())


def _entry(form: str, tool: Tool) -> str:
    sentence = re.split(r"(?<=[.!?]) ", one_line(tool.description), maxsplit=1)[0]
    meaning = shorten(sentence, _MAX_DESCRIPTION)
    if not meaning:
        return form
    return f"{form}\n(above: {meaning})" if "\n" in form else f"{form} - {meaning}"


class _SchemaSummary:
    """Summarises a JSON schema for a small model; length and work are bounded, since schemas are untrusted."""

    def __init__(self, root: Schema) -> None:
        self._root = root
        self._left = _MAX_SCHEMAS

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
            # Every built-in tool takes an optional label, which would only distract a small model.
            if not (optional and name == "label"):
                written.append(f"{_literal(name)}{'?' if optional else ''}: {self.of(resolved, depth - 1)}")
        return "{" + ", ".join(written) + "}"

    def _choices(self, schema: Schema) -> list[Schema]:
        """Return the alternatives except null, flattening nested ones."""
        pending, seen = list(_options(schema)), {id(schema)}
        found: list[Schema] = []
        for each in pending:
            resolved = self._resolved(each)
            if id(resolved) in seen or resolved.get("type") == "null":
                continue
            seen.add(id(resolved))
            options = _options(resolved)
            if options and "properties" not in resolved and len(pending) < _MAX_SCHEMAS:
                pending += options
            else:
                found.append(resolved)
        return found

    def _merged(self, schema: Schema, depth: int) -> Schema:
        """Merge `allOf` into one schema; the first definition of a key wins."""
        merged: dict[str, Any] = {key: value for key, value in schema.items() if key != "allOf"}
        for part in _list(schema, "allOf")[:_MAX_SCHEMAS]:
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
            return [name for name in names if isinstance(name, str) and name in _JSON_TYPES]
        options = _options(schema) if depth > 0 else ()
        return [name for each in options for name in self._types(self._resolved(each), 0)]

    def _either(self, shapes: Iterable[str]) -> str:
        shown: dict[str, None] = {}
        for each in shapes:
            if each != "null":
                shown[each] = None
            if self._left <= 0 or len(shown) > _MAX_VALUE:
                shown["…"] = None
                break
        return " or ".join(shown) or "any"

    def _resolved(self, part: object) -> Schema:
        """Follow references inside the schema; anything that is not an object becomes `{}`."""
        for _ in range(_MAX_DEPTH):
            found = _mapping(part)
            reference = found.get("$ref")
            if not isinstance(reference, str):
                return found
            part = self._root if reference.startswith("#/") else None
            for step in reference.removeprefix("#/").split("/"):
                part = _mapping(part).get(unquote(step).replace("~1", "/").replace("~0", "~"))
        return {}


def _options(schema: Schema) -> list[Any]:
    return (_list(schema, "anyOf") or _list(schema, "oneOf"))[:_MAX_SCHEMAS]


def _mapping(value: object) -> Schema:
    return cast(Schema, value) if isinstance(value, Mapping) else {}


def _list(schema: Schema, key: str) -> list[Any]:
    found = schema.get(key)
    return cast(list[Any], found) if isinstance(found, list) else []


def _literal(value: object) -> str:
    """Return a name or value as JSON without tags, frames or line breaks."""
    try:
        shown = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return "any"
    if not shown.isprintable():
        shown = json.dumps(value)
    if _TAG_OR_FRAME.search(shown):
        shown = shown.replace("[", "\\u005b").replace("===", "==\\u003d")
    return shorten(shown, _MAX_VALUE)


_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9_.:/-]+")
_FRAME_LIKE: Final = re.compile(r"===(?=[^\S\n]*/?[^\S\n]*tool_(?:result|error))", re.IGNORECASE)
_TAG_LIKE: Final = re.compile(rf"\[(?={ANY_TAG[2:]})|``(?=`)|~~(?=~)|---(?={CONTENT[3:]})")
_MAX_LABEL: Final = 200
_CONTINUE_HINT: Final = re.compile(r" Use offset=[0-9]+ to continue\.(?=\]\Z)")


def to_plain_text(messages: Sequence[Message], tools: Sequence[Tool], *, system_role: bool = True) -> list[Message]:
    """Return the conversation with calls and results written as text."""
    told = [message.text.strip() for message in messages if message.role == "system"]
    system = "\n\n".join(text for text in (*told, instructions(tools)) if text)
    spoken = [_rewrite(each) for each in messages if each.role != "system"]
    if system_role:
        return [Message("system", (Text(system),)), *spoken]
    begins = bool(spoken) and spoken[0].role == "user"
    first = spoken[0].parts if begins else ()
    if first and isinstance(said := first[0], Text):
        first = (Text(f"{system}\n\n{said.text}", said.included), *first[1:])
    else:
        first = (Text(f"{system}\n\n"), *first)
    return [Message("user", first), *spoken[begins:]]


def failed_edit_path(messages: Sequence[Message]) -> str | None:
    """Return the path of an edit that has just failed, or None."""
    before, last = messages[-2:] if len(messages) > 1 else (None, None)
    uses = {use.id: use for use in before.tool_uses} if before else {}
    for part in last.parts if last else ():
        if isinstance(part, ToolResult) and part.error and part.name == "file.edit" and part.id in uses:
            path = parse_arguments(uses[part.id].arguments).get("path")
            return path if isinstance(path, str) and path and path.isprintable() else None
    return None


def write_call(use: ToolUse) -> str:
    """Return a call in a form that parses back to exactly this call.

    Arguments that are not a JSON object are wrapped under a key that says so: they are only history.
    """
    args = parse_arguments(use.arguments)
    for written in _short_forms(short_name(use.name), args):
        if parse(written) == ParsedReply((TextCall(use.name, args, written),), ()):
            return written
    name = use.name
    if not _PLAIN_NAME.fullmatch(name):
        name = json.dumps(name).replace("[", "\\u005b").replace("]", "\\u005d")
    return f"[call: {name}]\n{json.dumps(args, ensure_ascii=False)}\n{CALL_END}"


def _short_forms(name: str, args: dict[str, Any]) -> Iterator[str]:
    """Yield the forms to try; the caller keeps the first that parses back to the same call."""
    path = args.get("path")
    if name in STATIC:
        yield f"[{name}]"
    elif name in ("read_file", "list_dir"):
        yield f"[{name}: {path}]"
    elif name == "search_code":
        yield f"[{name}: {args.get('query')}]"
    elif name == "write_file":
        yield f"[{name}: {path}]"
        yield f"[{name}]\npath: {path}\n---content---\n{args.get('content')}\n[/{name}]"
    elif name == "edit_file":
        search, replace = args.get("search"), args.get("replace")
        yield f"[{name}]\npath: {path}\n---search---\n{search}\n---replace---\n{replace}\n[/{name}]"


def write_result(result: ToolResult) -> str:
    """Return a result and its text attachments in a frame that its content can neither open nor close."""
    kind, name = "tool_error" if result.error else "tool_result", short_name(result.name)
    # `[read_file: PATH]` cannot express an offset.
    output = _CONTINUE_HINT.sub("", result.output) if name == "read_file" else result.output
    lines = [f"=== {kind}: {_label(name)} ===", _escape_frames(output)]
    for attached in result.attachments:
        if _is_text(attached):
            name = _label(attached.name or attached.uri or "a text")
            lines += (f"attached: {name}", _escape_frames(attached.data.decode("utf-8", "replace")))
    return "\n".join((*lines, f"=== /{kind} ==="))


def _label(name: str) -> str:
    return shorten(one_line(_escape_frames(name)), _MAX_LABEL)


def _is_text(attached: Attachment) -> bool:
    """Whether the attachment is text for the model, which becomes part of its result."""
    return bool(attached.data) and attached.audience == "everyone" and is_text_type(attached.mime_type)


def _escape_frames(text: str) -> str:
    """Escape text that looks like a result frame: only the runtime writes frames."""
    return _FRAME_LIKE.sub(r"===\\", text)


def _escape_tags(text: str) -> str:
    """Escape calls, fences and frames, keeping the text legible."""
    return _TAG_LIKE.sub(lambda found: f"{found[0]}\\", _escape_frames(text))


def _rewrite(message: Message) -> Message:
    parts = tuple(_join_text(message, str))
    if message.role == "assistant" and not _round_trips(message, parts):
        # This is only history: escape the prose, so that the calls stay readable.
        parts = tuple(_join_text(message, _escape_tags))
    return Message(message.role, parts)


def _round_trips(message: Message, parts: Iterable[Part]) -> bool:
    """Whether the rewritten reply parses to exactly its calls."""
    read = parse("\n".join(part.text for part in parts if isinstance(part, Text)))
    asked = [(use.name, parse_arguments(use.arguments)) for use in message.tool_uses]
    return [(call.name, call.args) for call in read.calls] == asked and not (asked and read.problems)


def _join_text(message: Message, shown: Callable[[str], str]) -> Iterator[Part]:
    """Merge adjacent text into one part, since some servers accept only one. `shown` transforms the text."""
    for written, parts in groupby(_results_first(message), lambda part: isinstance(part, Text | ToolUse | ToolResult)):
        if not written:
            yield from parts
        elif text := _text(tuple(parts), shown):
            yield text


def _results_first(message: Message) -> Iterator[Part]:
    """Yield results first, as providers require, each followed by its non-text attachments."""
    for result in message.parts:
        if isinstance(result, ToolResult):
            yield result
            yield from (attached for attached in result.attachments if not _is_text(attached))
    yield from (part for part in message.parts if not isinstance(part, ToolResult))


def _text(parts: Sequence[Part], shown: Callable[[str], str]) -> Text | None:
    """Join parts so that calls and results start and end on their own line."""
    included = any(isinstance(part, Text) and part.included for part in parts)
    lines: list[str] = []
    for kind, group in groupby(parts, type):
        if kind is Text:
            text = shown("".join(part.text for part in group if isinstance(part, Text)))
            lines.append(_escape_frames(text) if included else text)
        else:
            written = cast(Callable[[Part], str], write_call if kind is ToolUse else write_result)
            lines += map(written, group)
    *before, last = [line for line in lines if line] or [""]
    text = "".join(line if line.endswith("\n") else f"{line}\n" for line in before) + last
    return Text(text, included) if text else None

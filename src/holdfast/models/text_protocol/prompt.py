"""Prompts for models without native tool calls: the syntax of calls, the tools, and the conversation as text."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, Final, cast

from holdfast.contract.message import Message, Part, Text, ToolResult, ToolUse
from holdfast.contract.result import Attachment
from holdfast.contract.tool import Tool
from holdfast.models.call_arguments import parse_arguments
from holdfast.models.schema_outline import first_sentence, one_line, shorten, signature
from holdfast.models.text_protocol.parser import ParsedReply, parse
from holdfast.models.text_protocol.syntax import (
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
    "call": '[call: NAME]\n{"ARGUMENT": VALUE}\n[/call]',
}
"""The form of each call, by short name."""
NO_TOOLS: Final = "There are no tools now: answer in plain text."
_INTRODUCTION: Final = (
    "You work with tools. To call one, write its form exactly as below, each call on a line of its own and outside "
    "code fences. Then stop and wait: the results are sent to you. Never write a result yourself."
)
_SEARCH_HINT: Final = "To search, give one plain keyword, such as a name: no sentence, no pattern."


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


def _entry(form: str, tool: Tool) -> str:
    meaning = first_sentence(tool.description)
    if not meaning:
        return form
    return f"{form}\n(above: {meaning})" if "\n" in form else f"{form} - {meaning}"


_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9_.:/-]+")
_FRAME_LIKE: Final = re.compile(r"===(?=[^\S\n]*/?[^\S\n]*tool_(?:result|error))", re.IGNORECASE)
_TAG_LIKE: Final = re.compile(rf"\[(?={ANY_TAG[2:]})|``(?=`)|~~(?=~)|---(?={CONTENT[3:]})")
_MAX_LABEL: Final = 200
_CONTINUE_HINT: Final = re.compile(r" Use offset=[0-9]+ to continue\.(?=\]\Z)")


def to_plain_text(messages: Sequence[Message], tools: Sequence[Tool], *, system_role: bool = True) -> list[Message]:
    """Return the conversation with calls and results written as text."""
    spoken = messages if tools else _without_calls(messages)
    return as_text(spoken, instructions(tools), _rewrite, system_role=system_role)


def _without_calls(messages: Sequence[Message]) -> list[Message]:
    """Return the conversation without its calls, results in one message with what was asked.

    A model that has no tools now would go on as its replies began: with calls.
    """
    kept: list[Message] = []
    for message in messages:
        parts = tuple(part for part in message.parts if not isinstance(part, ToolUse))
        if message.tool_uses and not message.text.strip():
            continue
        if kept and message.role == kept[-1].role == "user":
            kept[-1] = Message("user", (*kept[-1].parts, Text("\n\n"), *parts))
        else:
            kept.append(Message(message.role, parts))
    return kept


def as_text(
    messages: Sequence[Message], told: str, rewrite: Callable[[Message], Message], *, system_role: bool
) -> list[Message]:
    """Return the rewritten conversation after one system message that ends with `told`."""
    texts = [message.text.strip() for message in messages if message.role == "system"]
    system = "\n\n".join(text for text in (*texts, told) if text)
    spoken = [rewrite(each) for each in messages if each.role != "system"]
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
    joined = join_text(message)
    if message.role == "assistant" and not _round_trips(message, joined.parts):
        # This is only history: escape the prose, so that the calls stay readable.
        return Message(message.role, tuple(_join_text(message, _escape_tags)))
    return joined


def join_text(message: Message) -> Message:
    """Return the message with its calls and results as text."""
    return Message(message.role, tuple(_join_text(message, str)))


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

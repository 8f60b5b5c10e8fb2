"""A conversation for a model that only writes: calls and results as text, and the instructions before all of it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, Final, cast

from holdfast.contract.message import Message, Part, Text, ToolResult, ToolUse
from holdfast.contract.result import Attachment
from holdfast.contract.tool import Tool
from holdfast.models.arguments import as_object
from holdfast.models.text_protocol.grammar import ANY_TAG, CALL_END, CONTENT, STATIC, Asked, small_name
from holdfast.models.text_protocol.instructions import instructions, one_line, shorten
from holdfast.models.text_protocol.parser import Parsed, parse

_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9_.:/-]+")
_LOOKS_FRAMED: Final = re.compile(r"===(?=[^\S\n]*/?[^\S\n]*tool_(?:result|error))", re.IGNORECASE)
_LOOKS_CALLED: Final = re.compile(rf"\[(?={ANY_TAG[2:]})|``(?=`)|~~(?=~)|---(?={CONTENT[3:]})")
_TEXT_TYPE: Final = re.compile(r"text/.*|application/(json|xml|yaml|toml|javascript)|.*\+(json|xml|yaml)", re.DOTALL)
_LONGEST_NAME: Final = 200


def plain(messages: Sequence[Message], tools: Sequence[Tool], *, system_role: bool = True) -> list[Message]:
    """The same conversation without a single call or result in the provider's sense."""
    told = [message.text.strip() for message in messages if message.role == "system"]
    system = "\n\n".join(text for text in (*told, instructions(tools)) if text)
    spoken = [_spoken(each) for each in messages if each.role != "system"]
    if system_role:
        return [Message("system", (Text(system),)), *spoken]
    begins = bool(spoken) and spoken[0].role == "user"
    first = spoken[0].parts if begins else ()
    if first and isinstance(said := first[0], Text):
        first = (Text(f"{system}\n\n{said.text}", said.included), *first[1:])
    else:
        first = (Text(f"{system}\n\n"), *first)
    return [Message("user", first), *spoken[begins:]]


def failed_edit(messages: Sequence[Message]) -> str | None:
    """The path of an edit that has just failed; None if none has."""
    before, last = messages[-2:] if len(messages) > 1 else (None, None)
    uses = {use.id: use for use in before.tool_uses} if before else {}
    for part in last.parts if last else ():
        if isinstance(part, ToolResult) and part.error and part.name == "file.edit" and part.id in uses:
            path = as_object(uses[part.id].arguments).get("path")
            return path if isinstance(path, str) and path and path.isprintable() else None
    return None


def write_call(use: ToolUse) -> str:
    """A call as a model writes it, in a form that reads back as exactly this call.

    Arguments that are no JSON object are shown under a key that says so: they only are history.
    """
    args = as_object(use.arguments)
    for written in _compact(small_name(use.name), args):
        if parse(written) == Parsed((Asked(use.name, args, written),), ()):
            return written
    name = use.name
    if not _PLAIN_NAME.fullmatch(name):
        name = json.dumps(name).replace("[", "\\u005b").replace("]", "\\u005d")
    return f"[call: {name}]\n{json.dumps(args, ensure_ascii=False)}\n{CALL_END}"


def _compact(name: str, args: dict[str, Any]) -> Iterator[str]:
    """The forms to try. Reading one shows whether it says exactly what is meant."""
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
    """What came of a call, with the text that is attached to it, in a frame that nothing in it can open or close."""
    kind = "tool_error" if result.error else "tool_result"
    lines = [f"=== {kind}: {_label(small_name(result.name))} ===", _without_frames(result.output)]
    for attached in result.attachments:
        if _is_text(attached):
            name = _label(attached.name or attached.uri or "a text")
            lines += (f"attached: {name}", _without_frames(attached.data.decode("utf-8", "replace")))
    return "\n".join((*lines, f"=== /{kind} ==="))


def _label(name: str) -> str:
    return shorten(one_line(_without_frames(name)), _LONGEST_NAME)


def _is_text(attached: Attachment) -> bool:
    """Whether what is attached can be read as text; it is part of its result then."""
    kind = attached.mime_type.partition(";")[0].strip().lower()
    return bool(attached.data and _TEXT_TYPE.fullmatch(kind))


def _without_frames(text: str) -> str:
    """What looks like a frame is marked: only the runtime writes them."""
    return _LOOKS_FRAMED.sub(r"===\\", text)


def _without_tags(text: str) -> str:
    """Nothing in it is a call, a quotation or a frame any more, and it still can be seen what was written."""
    return _LOOKS_CALLED.sub(lambda found: f"{found[0]}\\", _without_frames(text))


def _spoken(message: Message) -> Message:
    parts = tuple(_joined(message, str))
    if message.role == "assistant" and not _reads_back(message, parts):
        # It is only history: what was said gives way, so that what was asked for can be read.
        parts = tuple(_joined(message, _without_tags))
    return Message(message.role, parts)


def _reads_back(message: Message, parts: Iterable[Part]) -> bool:
    """Whether exactly its calls are read in what is shown of a reply."""
    read = parse("\n".join(part.text for part in parts if isinstance(part, Text)))
    asked = [(use.name, as_object(use.arguments)) for use in message.tool_uses]
    return [(call.name, call.args) for call in read.calls] == asked and not (asked and read.flaws)


def _joined(message: Message, shown: Callable[[str], str]) -> Iterator[Part]:
    """Neighbouring text as one part: some servers take no more than one. `shown`: what text is shown as."""
    for written, parts in groupby(_ordered(message), lambda part: isinstance(part, Text | ToolUse | ToolResult)):
        if not written:
            yield from parts
        elif text := _text(tuple(parts), shown):
            yield text


def _ordered(message: Message) -> Iterator[Part]:
    """Results come first, as every provider wants them; what is attached to one, and is no text, follows it."""
    for result in message.parts:
        if isinstance(result, ToolResult):
            yield result
            yield from (attached for attached in result.attachments if not _is_text(attached))
    yield from (part for part in message.parts if not isinstance(part, ToolResult))


def _text(parts: Sequence[Part], shown: Callable[[str], str]) -> Text | None:
    """Calls and results begin, and end, on their own line."""
    included = any(isinstance(part, Text) and part.included for part in parts)
    lines: list[str] = []
    for kind, group in groupby(parts, type):
        if kind is Text:
            text = shown("".join(part.text for part in group if isinstance(part, Text)))
            lines.append(_without_frames(text) if included else text)
        else:
            written = cast(Callable[[Part], str], write_call if kind is ToolUse else write_result)
            lines += map(written, group)
    *before, last = [line for line in lines if line] or [""]
    text = "".join(line if line.endswith("\n") else f"{line}\n" for line in before) + last
    return Text(text, included) if text else None

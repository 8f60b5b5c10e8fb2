"""A conversation for a model that only writes: calls and results as text, and the instructions before all of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from holdfast.contract.errors import BadJson
from holdfast.contract.message import Message, Part, Text, ToolResult, ToolUse
from holdfast.contract.tool import Tool
from holdfast.contract.values import parse_json
from holdfast.models.text_protocol.prompt import instructions
from holdfast.models.text_protocol.writing import write_call, write_result

_EDIT: Final = "file.edit"


def plain(messages: Sequence[Message], tools: Sequence[Tool], *, system_role: bool = True) -> list[Message]:
    """The same conversation without a single call or result in the provider's sense."""
    told = [message.text.strip() for message in messages if message.role == "system"]
    system = "\n\n".join(text for text in (*told, instructions(tools)) if text)
    spoken = [Message(each.role, tuple(_joined(_heard(each)))) for each in messages if each.role != "system"]
    if system_role:
        return [Message("system", (Text(system),)), *spoken]
    begins = bool(spoken) and spoken[0].role == "user"
    first = _joined((Text(f"{system}\n\n"), *(spoken[0].parts if begins else ())))
    return [Message("user", tuple(first)), *spoken[begins:]]


def failed_edit(messages: Sequence[Message]) -> str | None:
    """The path of an edit that has just failed; None if none has."""
    if len(messages) < 2:
        return None
    uses = {use.id: use for use in messages[-2].tool_uses}
    for part in messages[-1].parts:
        if isinstance(part, ToolResult) and part.error and part.name == _EDIT and part.id in uses:
            return _path(uses[part.id])
    return None


def _heard(message: Message) -> Iterable[Part]:
    """Results come first, as every provider wants them; what is attached to one follows it."""
    results = [part for part in message.parts if isinstance(part, ToolResult)]
    for result in results:
        yield result
        yield from result.attachments
    yield from (part for part in message.parts if not isinstance(part, ToolResult))


def _joined(parts: Iterable[Part]) -> Iterable[Part]:
    """Neighbouring text as one part: some servers take no more than one. Frames and calls begin on their own line."""
    held, included, framed = "", False, False
    for part in parts:
        match part:
            case Text(text):
                held = _on_own_line(held) + text if framed and text else held + text
                included, framed = included or part.included, framed and not text
                continue
            case ToolUse():
                held = _on_own_line(held) + write_call(part)
                framed = True
                continue
            case ToolResult():
                held = _on_own_line(held) + write_result(part)
                framed = True
                continue
            case _:
                pass
        if held:
            yield Text(held, included)
        held, included, framed = "", False, False
        yield part
    if held:
        yield Text(held, included)


def _on_own_line(text: str) -> str:
    return text if not text or text.endswith("\n") else text + "\n"


def _path(use: ToolUse) -> str | None:
    try:
        arguments = parse_json(use.arguments)
    except BadJson:
        return None
    path = arguments.get("path") if isinstance(arguments, dict) else None
    return path if isinstance(path, str) and path and path.isprintable() else None

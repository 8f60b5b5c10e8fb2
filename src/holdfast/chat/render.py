"""Writes the blocks of a `.chat` document, so that they are read as exactly what was written and as nothing else.

A block has no line break at its end, a message has one; a blank line stands between blocks and between messages.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from holdfast.chat import escape
from holdfast.chat.grammar import ASSISTANT, reader_of
from holdfast.contract.message import Aborted, Part, Text, Thinking, ToolUse

_TICKS: Final = re.compile("`+")


def text(text: str, role: str) -> str:
    """Text as this role says it; its own line breaks stay as they are."""
    return escape.escape_edges(escape.escape_lines(escape.storable(text), reader_of(role)))


def thinking(part: Thinking, newline: str) -> str:
    tag = "<thinking redacted" if part.redacted else "<thinking"
    if part.signature is not None:
        whose = "" if part.provider is None else f"{escape.encode_attribute(part.provider)}:"
        tag += f' {whose}signature="{escape.encode_field(part.signature)}"'
    elif part.provider is not None:
        tag += f' provider="{escape.encode_field(part.provider)}"'
    inner = escape.escape_lines(escape.storable(part.text), ASSISTANT)
    return f"{tag}>{newline}{inner}{newline if inner else ''}</thinking>"


def tool_use(use: ToolUse, newline: str) -> str:
    header = f"**Tool Use:** `{escape.encode_field(use.name)}` (`{escape.encode_field(use.id)}`)"
    return f"{header}{newline}{newline}{_fenced(use.arguments, 'json', newline)}"


def tool_result(use_id: str, text: str, *, error: bool, newline: str) -> str:
    return f"{_result_header(use_id)}{' (error)' if error else ''}{newline}{newline}{_fenced(text, '', newline)}"


def placeholder(use_id: str, status: str, newline: str, content: str = "") -> str:
    return f"{_result_header(use_id)}{newline}{newline}{_fenced(content, f'flemma:tool status={status}', newline)}"


def aborted(message: str) -> str:
    return f"<!-- flemma:aborted: {escape.encode_message(message)} -->"


def message(role: str, body: str, newline: str) -> str:
    """A message with these blocks. A tool block that comes first has a blank line before it."""
    apart = newline if body.startswith("**Tool ") else ""
    return f"@{role}:{newline}{apart}{body}{newline if body else ''}"


def reply(parts: Sequence[Part], aborted: str | None, newline: str) -> str:
    """A whole message of the assistant: text and calls in their order, then thinking, then why it was stopped.

    Texts with no call between them become one, and an empty text is not written.
    """
    said = [part for part in parts if not isinstance(part, Thinking | Aborted)]
    thought = [part for part in parts if isinstance(part, Thinking)]
    why = [part for part in parts if isinstance(part, Aborted)]
    if aborted is not None:
        why.append(Aborted(aborted))
    blocks = [_block(part, newline) for part in (*_merged(said), *thought, *why)]
    return message("Assistant", (newline * 2).join(blocks), newline)


def _merged(parts: Sequence[Part]) -> Iterator[Part]:
    texts: list[str] = []
    for part in (*parts, None):
        if isinstance(part, Text):
            texts.append(part.text)
            continue
        if said := "".join(texts):
            yield Text(said)
        texts.clear()
        if part is not None:
            yield part


def _block(part: Part, newline: str) -> str:
    match part:
        case Text():
            return text(part.text, "Assistant")
        case Thinking():
            return thinking(part, newline)
        case ToolUse():
            return tool_use(part, newline)
        case Aborted():
            return aborted(part.message)
        case _:
            raise TypeError(f"A reply holds text, thinking and calls, but not {type(part).__name__}.")


def _result_header(use_id: str) -> str:
    return f"**Tool Result:** `{escape.encode_field(use_id)}`"


def _fenced(content: str, info: str, newline: str) -> str:
    content = escape.storable(content)
    longest = max(map(len, _TICKS.findall(content)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{info}{newline}{content}{newline if content else ''}{fence}"

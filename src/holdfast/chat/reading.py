"""A document as a model is sent it, and what a person should look at before that."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, Protocol

import msgspec

from holdfast.agent.conversation import NOT_RECORDED, Diagnostic
from holdfast.chat.document import Document
from holdfast.chat.nodes import (
    AbortedSegment,
    Segment,
    TextSegment,
    ThinkingSegment,
    ToolResultSegment,
    ToolUseSegment,
)
from holdfast.chat.nodes import Message as DocumentMessage
from holdfast.chat.remembering import Key, key_of
from holdfast.chat.turns import ASSISTANT, SYSTEM, YOU, Asked, Turn, last_turn, lines, placed, starts, turns
from holdfast.contract.message import Aborted, Message, Part, Role, Text, Thinking, ToolResult, ToolUse
from holdfast.contract.result import Attachment

_ROLES: Final[dict[str, Role]] = {YOU: "user", SYSTEM: "system"}


class Expanded(Protocol):
    """A person's text with its templates and file references filled in. Lines of diagnostics count from its first."""

    @property
    def parts(self) -> Sequence[Part]: ...
    @property
    def diagnostics(self) -> Sequence[Diagnostic]: ...


Expand = Callable[[str, Role], Expanded]
_Warning = tuple[int, str]
"""Where in the text something is wrong, and what."""


class Reading:
    """One state of a document. What people wrote is expanded once, for the messages and the diagnostics alike."""

    def __init__(self, document: Document, expand: Expand | None) -> None:
        self._document = document
        self._expand = expand
        self._expanded: dict[int, tuple[Part, ...]] = {}
        self._found: list[tuple[int, Diagnostic]] = []
        """What expanding has found, with the place where the text begins."""
        self._diagnostics: list[Diagnostic] | None = None

    def messages(self, attachments: Mapping[Key, tuple[Attachment, ...]]) -> list[Message]:
        document, made = self._document, list[Message]()
        _add(made, "system", self._system())
        replies = starts(document)
        _add(made, "user", self._words(0, replies[0] if replies else len(document.messages)))
        for turn in turns(document):
            _add(made, "assistant", tuple(_parts(document, turn)))
            results = tuple(_result(turn.number, asked, attachments) for asked in turn.asked)
            _add(made, "user", (*results, *self._words(turn.message + 1, turn.end)))
        return made

    def diagnostics(self) -> list[Diagnostic]:
        if self._diagnostics is None:
            self._system()
            self._words(0, len(self._document.messages))
            strange = list(self._strange())
            line = lines(self._document, [start for start, _ in (*strange, *self._found)])
            own = [Diagnostic("warning", message, line[start], 1) for start, message in strange]
            own += [_moved(one, line[start]) for start, one in self._found]
            found = [*self._document.diagnostics, *own]
            self._diagnostics = sorted(found, key=lambda one: (one.line or 0, one.column or 0))
        return self._diagnostics

    def _system(self) -> tuple[Part, ...]:
        """The last one is the one that counts."""
        for index in range(len(self._document.messages) - 1, -1, -1):
            if self._document.messages[index].role == SYSTEM:
                return self._message(index)
        return ()

    def _words(self, first: int, end: int) -> tuple[Part, ...]:
        """What a person wrote from one message to another, without the results."""
        messages = self._document.messages
        return tuple(
            part for index in range(first, end) if messages[index].role == YOU for part in self._message(index)
        )

    def _message(self, index: int) -> tuple[Part, ...]:
        known = self._expanded.get(index)
        if known is None:
            found = (self._text(index, start, segment) for start, segment in placed(self._document, index))
            known = self._expanded[index] = tuple(part for parts in found for part in parts)
        return known

    def _text(self, index: int, start: int, segment: Segment) -> Sequence[Part]:
        if not isinstance(segment, TextSegment) or not segment.text.strip():
            return ()
        if self._expand is None:
            return (Text(segment.text),)
        expanded = self._expand(segment.text, _ROLES[self._document.messages[index].role])
        self._found += [(start, one) for one in expanded.diagnostics]
        return expanded.parts

    def _strange(self) -> Iterator[_Warning]:
        document = self._document
        for index, message in enumerate(document.messages):
            if message.role not in (YOU, ASSISTANT, SYSTEM):
                told = f"Nobody is called @{message.role}, so this is not sent; use @You:, @Assistant: or @System:."
                yield document.offset(index), told
        replies = starts(document)
        yield from self._strays({}, 0, replies[0] if replies else len(document.messages))
        for turn in turns(document):
            yield from self._calls(turn)
            yield from self._strays({asked.use.id: asked for asked in turn.asked}, turn.message + 1, turn.end)

    def _calls(self, turn: Turn) -> Iterator[_Warning]:
        """Calls of a reply that are not what they should be."""
        first = {asked.use.id: asked.segment for asked in turn.asked}
        for place, (start, segment) in enumerate(placed(self._document, turn.message)):
            if not isinstance(segment, ToolUseSegment):
                continue
            if first[segment.id] != place:
                yield start, (
                    f"Another call of this reply has the id '{segment.id}' already; this one is neither run nor sent, "
                    "give it an id of its own."
                )
            elif segment.problem is None and not _is_json(segment.body):
                yield start, f"The arguments of '{segment.id}' are not JSON."

    def _strays(self, asked: Mapping[str, Asked], first: int, end: int) -> Iterator[_Warning]:
        """Results that belong to no call, or to one that has a result."""
        for index in range(first, end):
            for start, segment in placed(self._document, index):
                if not isinstance(segment, ToolResultSegment) or segment.problem is not None:
                    continue
                call = asked.get(segment.id)
                if call is None:
                    yield start, f"No call of the reply before has the id '{segment.id}'; this result is not sent."
                elif call.answer is not None and call.answer.start != start:
                    yield start, f"Call '{segment.id}' has a result already; this one is not sent."


def awaits_reply(document: Document) -> bool:
    """Whether the last word is a person's or a tool's, and no call of the last reply is open."""
    last = last_turn(document)
    asked = () if last is None else last.asked
    if any(one.is_open for one in asked):
        return False
    after = document.messages[last.message + 1 if last else 0 :]
    return bool(asked) or any(message.role == YOU and _has_words(message) for message in after)


def turns_since_user(document: Document) -> int:
    count = 0
    for message in reversed(document.messages):
        if message.role == YOU and _has_words(message):
            break
        count += message.role == ASSISTANT
    return count


def _has_words(message: DocumentMessage) -> bool:
    return any(isinstance(segment, TextSegment) and segment.text.strip() for segment in message.segments)


def _parts(document: Document, turn: Turn) -> Iterator[Part]:
    calls = {asked.segment: asked.use for asked in turn.asked}
    for place, segment in enumerate(document.messages[turn.message].segments):
        match segment:
            case TextSegment():
                if segment.text.strip():
                    yield Text(segment.text)
            case ThinkingSegment():
                yield Thinking(segment.text, segment.provider, segment.signature, segment.redacted)
            case ToolUseSegment():
                if use := calls.get(place):
                    yield ToolUse(use.id, use.name, use.arguments)
            case AbortedSegment():
                yield Aborted(segment.message)
            case _:
                continue


def _result(number: int, asked: Asked, attachments: Mapping[Key, tuple[Attachment, ...]]) -> ToolResult:
    """What is in a placeholder is never sent."""
    use, answer = asked.use, asked.answer
    if answer is None or answer.status is not None:
        return ToolResult(use.id, use.name, NOT_RECORDED, error=True)
    kept = attachments.get(key_of(number, use), ()) if attachments else ()
    return ToolResult(use.id, use.name, answer.node.content, answer.node.error, kept)


def _add(made: list[Message], role: Role, parts: tuple[Part, ...]) -> None:
    """One message for whatever one side says in a row."""
    if parts and made and made[-1].role == role:
        made[-1] = Message(role, (*made[-1].parts, *parts))
    elif parts:
        made.append(Message(role, parts))


def _moved(one: Diagnostic, line: int) -> Diagnostic:
    return Diagnostic(one.severity, one.message, line + (one.line or 1) - 1, one.column)


def _is_json(body: str) -> bool:
    try:
        msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return False
    return True

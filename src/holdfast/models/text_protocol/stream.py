"""Streams one reply: shows text up to the first possible call, and the rest once the reply is complete."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import count
from typing import Final

from holdfast.contract.message import Message, Part, Text, Thinking, ToolUse
from holdfast.models.call_arguments import encode_arguments
from holdfast.models.port import (
    CallBegun,
    ModelError,
    ModelEvent,
    ModelFault,
    PartEnded,
    ReplyEnded,
    TextDelta,
    ThinkingDelta,
    Usage,
)
from holdfast.models.text_protocol.parser import TOKEN, CodeFence, LineHeads, ParsedReply, parse
from holdfast.models.text_protocol.prompt import write_call
from holdfast.models.text_protocol.syntax import ANY_FRAME, SyntaxProblem, TextCall, TextPiece, incomplete_token_start

_FRAME: Final = re.compile(ANY_FRAME)
_LINE_START: Final = re.compile(r"(?=\n)")


class TextPreview:
    """Emits the part of a reply that is certainly text: up to the first tag outside fences, or the first result frame.

    A line in which a fence may begin or end is buffered whole. Each line starts with the newline before it.
    """

    def __init__(self) -> None:
        self.over = False
        self._fence: CodeFence | None = None
        self._line = ["\n"]
        self._shown = 1
        """How much of the current line has been emitted."""
        self._tail = ""
        """The rest of the line, unless a fence begins in it."""
        self._may_open_fence = False
        """Whether a fence may begin in the line."""

    def feed(self, text: str) -> str:
        """Return the text that can be shown after this delta."""
        if "\n" not in text:
            return self._feed_line(text)
        first, *lines = _LINE_START.split(text)
        shown = [self._feed_line(first)]
        for line in lines:
            shown += (self._end_line(), self._feed_line(line))
        return "".join(shown)

    def _feed_line(self, text: str) -> str:
        if self.over:
            return ""
        self._line.append(text)
        if self._may_open_fence:
            return ""
        tail = self._tail + text
        token = (_FRAME if self._fence else TOKEN).search(tail)
        if token is None:
            end = incomplete_token_start(tail)
        else:
            end = token.start()
            self._may_open_fence = token.lastgroup in ("backticks", "tildes")
            self.over = not self._may_open_fence
        self._shown += end
        self._tail = tail[end:]
        return tail[:end]

    def _end_line(self) -> str:
        """Return the rest of a finished line."""
        if self.over:
            return ""
        line = "".join(self._line)
        end = self._read(line) if self._may_open_fence or self._fence else len(line)
        shown = line[self._shown : end]
        self._line, self._shown, self._tail, self._may_open_fence = [], 0, "", False
        return shown

    def _read(self, line: str) -> int:
        """Return the position up to which the line is certainly text."""
        lines, at = LineHeads(line), 0
        while True:
            if self._fence:
                noted: list[re.Match[str]] = []
                end = self._fence.end(line, at, noted)
                if frame := next((each for each in noted if each[0].startswith("=")), None):
                    self.over = True
                    return frame.start()
                if end is None:
                    return len(line)
                self._fence, at = None, end
            token = TOKEN.search(line, at)
            if token is None:
                return len(line)
            if token.lastgroup not in ("backticks", "tildes"):
                self.over = True
                return token.start()
            self._fence, at = CodeFence.at(token, lines), token.end()


class TextReply:
    def __init__(self, name: str) -> None:
        """`name`: the model's name, for error messages."""
        self._name = name
        self.ended: ReplyEnded | None = None
        self._preview = TextPreview()
        self._written: list[str] = []
        self._size = self._emitted = 0
        """The length of the reply so far, and how much of it has been emitted."""
        self._raw: list[Part] = []
        self._part: list[str] = []
        """Deltas of the current text part."""
        self._others: list[tuple[int, Thinking | ToolUse]] = []
        """Native thinking and calls that are held back, with their position in the text."""
        self._text: list[str] = []
        """Pieces of the text part being assembled."""
        self._white: list[str] = []
        """Trailing white space: part of the text only if more text follows, not before a call."""
        self._after_call = False
        self._ids: set[str] = set()
        """Ids of native calls."""
        self._fresh_ids = (fresh for number in count(1) if (fresh := f"call-{number}") not in self._ids)

    @property
    def raw(self) -> Message:
        """The reply as the model wrote it, for the correction dialogue."""
        return Message("assistant", tuple(self._raw))

    @cached_property
    def _parsed(self) -> ParsedReply:
        return parse(self.text)

    @property
    def text(self) -> str:
        return "".join(self._written)

    @property
    def problems(self) -> tuple[SyntaxProblem, ...]:
        """Valid once the reply is complete, like `has_calls`."""
        return self._parsed.problems

    @property
    def has_calls(self) -> bool:
        return bool(self._parsed.calls or self._ids)

    def feed(self, event: ModelEvent) -> Iterable[ModelEvent]:
        match event:
            case TextDelta(text):
                self._part.append(text)
                yield from self._read(text)
            case PartEnded(Text(text)):
                # The complete part is authoritative; a model need not stream deltas.
                shown = "".join(self._part)
                if not text.startswith(shown):
                    raise self._contradicted()
                self._part = []
                self._raw.append(Text(text))
                yield from self._read(text[len(shown) :])
            case PartEnded(Thinking() as thought):
                self._raw.append(thought)
                if self._preview.over:
                    self._others.append((self._size, thought))
                else:
                    yield from self._emit(thought)
            case PartEnded(ToolUse() as use):
                self._raw.append(Text(f"\n{write_call(use)}\n"))
                self._ids.add(use.id)
                self._preview.over = True
                self._others.append((self._size, use))
            case ThinkingDelta():
                yield event
            case ReplyEnded():
                if self._part:
                    raise self._contradicted(event.usage)
                self.ended = event
            case _:
                # Native `CallBegun` is premature here, and retries are handled by the caller.
                pass

    def finish(self, *, calls: bool) -> Iterable[ModelEvent]:
        """Emit the rest of the reply. Without `calls`, calls are emitted as the text they were written as."""
        for piece in self._remaining(calls=calls):
            yield from self._emit(piece)
        yield from self._end_text(white=True)

    def _contradicted(self, usage: Usage | None = None) -> ModelError:
        message = f"The final text of {self._name} differs from the text it streamed; send again."
        return ModelError(ModelFault.PROTOCOL, message, usage=usage)

    def _read(self, text: str) -> Iterable[ModelEvent]:
        self._written.append(text)
        self._size += len(text)
        shown = self._preview.feed(text)
        self._emitted += len(shown)
        yield from self._add_text(shown)

    def _remaining(self, *, calls: bool) -> Iterator[TextPiece | TextCall | Thinking | ToolUse]:
        text = self.text
        pieces = self._parsed.pieces if calls else (TextPiece(text),)
        others = iter([*self._others, (self._size + 1, None)])
        place, other = next(others)
        end = 0
        for piece in pieces:
            start, end = max(end, self._emitted), end + len(piece.text)
            while other and place < end:
                if isinstance(piece, TextPiece):
                    yield TextPiece(text[start:place])
                    start = place
                yield other if calls else _as_text(other)
                place, other = next(others)
            yield TextPiece(text[start:end]) if isinstance(piece, TextPiece) else piece
        while other:
            yield other if calls else _as_text(other)
            _, other = next(others)

    def _emit(self, piece: TextPiece | TextCall | Thinking | ToolUse) -> Iterable[ModelEvent]:
        if isinstance(piece, TextPiece):
            yield from self._add_text(piece.text)
            return
        yield from self._end_text(white=isinstance(piece, Thinking))
        self._after_call = not isinstance(piece, Thinking)
        if isinstance(piece, TextCall):
            piece = ToolUse(next(self._fresh_ids), piece.name, encode_arguments(piece.args))
        if isinstance(piece, ToolUse):
            yield CallBegun(piece.id, piece.name)
        yield PartEnded(piece)

    def _add_text(self, text: str) -> Iterable[ModelEvent]:
        """White space around calls only separates them and is dropped."""
        said = text.rstrip()
        if not said:
            self._white.append(text)
            return
        shown = "".join((*self._white, said))
        if self._after_call and not self._text:
            shown = _without_blank_lines(shown)
        self._white = [text[len(said) :]]
        yield from self._show(shown)

    def _show(self, text: str) -> Iterable[ModelEvent]:
        if text:
            self._text.append(text)
            yield TextDelta(text)

    def _end_text(self, *, white: bool) -> Iterable[ModelEvent]:
        if self._text:
            yield from self._show("".join(self._white) if white else "")
            yield PartEnded(Text("".join(self._text)))
        self._text, self._white = [], []


def _as_text(other: Thinking | ToolUse) -> TextPiece | Thinking:
    return TextPiece(f"\n{write_call(other)}\n") if isinstance(other, ToolUse) else other


def _without_blank_lines(text: str) -> str:
    """Remove leading blank lines but keep the indentation of the first line."""
    start = len(text) - len(text.lstrip())
    return text[text.rfind("\n", 0, start) + 1 :]

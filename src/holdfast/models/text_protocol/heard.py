"""One reply as it comes: text is given out while it is only text; from the first call on all is held to the end."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from holdfast.contract.message import Message, Part, Text, Thinking, ToolUse
from holdfast.contract.values import Args, encode_json
from holdfast.models.port import (
    CallBegun,
    Ended,
    ModelError,
    ModelEvent,
    ModelFault,
    PartEnded,
    TextDelta,
    ThinkingDelta,
    Usage,
)
from holdfast.models.text_protocol.reading import Asked, Flaw, Reader, Said
from holdfast.models.text_protocol.writing import write_call

Piece = Said | Asked | ToolUse | Thinking


class Heard:
    def __init__(self, name: str) -> None:
        """`name`: whose reply it is."""
        self._name = name
        self.ended: Ended | None = None
        self._reader = Reader()
        self._raw: list[Part] = []
        self._fed: list[str] = []
        """Of the part that is being written."""
        self._held: list[Piece] = []
        self._open = True
        """Nothing but text and thinking has come: no call, and nothing that is wrong."""
        self._text: list[str] = []
        """What was shown of the text that is being put together."""
        self._white: list[str] = []
        """The white space after it: part of it only if more text follows, and no call."""
        self._after_call = False
        self._numbers = 0
        self._ids: set[str] = set()
        """Of the calls that came by the provider's own means."""

    @property
    def flaws(self) -> Sequence[Flaw]:
        return self._reader.flaws

    @property
    def raw(self) -> Message:
        """The reply as the model wrote it, to be shown to it again."""
        return Message("assistant", tuple(self._raw))

    def take(self, event: ModelEvent) -> Iterable[ModelEvent]:
        match event:
            case TextDelta(text):
                self._fed.append(text)
                yield from self._read(text)
            case PartEnded(Text(text)):
                # The part is what counts; a model need not show it piece by piece.
                shown = "".join(self._fed)
                if not text.startswith(shown):
                    raise self._contradicted()
                rest = text[len(shown) :]
                self._fed = []
                self._raw.append(Text(text))
                yield from self._read(rest)
            case PartEnded(Thinking() as thought):
                self._raw.append(thought)
                yield from self._go_on([thought])
            case PartEnded(ToolUse() as use):
                self._raw.append(Text(f"\n{write_call(use)}\n"))
                self._ids.add(use.id)
                yield from self._go_on([use])
            case ThinkingDelta():
                yield event
            case Ended():
                if self._fed:
                    raise self._contradicted(event.usage)
                self.ended = event
            case _:
                # Calls are begun when they are certain, and retries are the caller's.
                pass

    def close(self) -> Iterable[ModelEvent]:
        yield from self._go_on(self._reader.close())

    def rest(self, *, calls: bool) -> Iterable[ModelEvent]:
        """What was held. Without `calls`, they are only what they were written as."""
        for piece in self._held:
            yield from self._give(piece if calls else _as_text(piece))
        yield from self._end_text(white=True)

    @property
    def calls(self) -> bool:
        return any(isinstance(piece, Asked | ToolUse) for piece in self._held)

    def _contradicted(self, usage: Usage | None = None) -> ModelError:
        message = f"The text {self._name} sent is not the text it had shown while it wrote; send again."
        return ModelError(ModelFault.PROTOCOL, message, usage=usage)

    def _read(self, text: str) -> Iterable[ModelEvent]:
        if text:
            yield from self._go_on(self._reader.feed(text))

    def _go_on(self, pieces: Sequence[Piece]) -> Iterable[ModelEvent]:
        for piece in pieces:
            self._open = self._open and not self._reader.flaws and not isinstance(piece, Asked | ToolUse)
            if self._open:
                yield from self._give(piece)
            else:
                self._held.append(piece)

    def _give(self, piece: Piece) -> Iterable[ModelEvent]:
        if isinstance(piece, Said):
            yield from self._say(piece.text)
            return
        yield from self._end_text(white=isinstance(piece, Thinking))
        self._after_call = not isinstance(piece, Thinking)
        match piece:
            case Asked():
                use = ToolUse(self._fresh_id(), piece.name, _json(piece.args))
                yield CallBegun(use.id, use.name)
                yield PartEnded(use)
            case ToolUse():
                yield CallBegun(piece.id, piece.name)
                yield PartEnded(piece)
            case Thinking():
                yield PartEnded(piece)

    def _say(self, text: str) -> Iterable[ModelEvent]:
        """White space around calls only keeps them apart: it is no text."""
        said = text.rstrip()
        if not said:
            self._white.append(text)
            return
        before = "".join(self._white)
        if self._after_call and not self._text:
            before, said = "", _without_blank_lines(before + said)
        self._white = [text[len(text.rstrip()) :]]
        yield from self._show(before + said)

    def _show(self, text: str) -> Iterable[ModelEvent]:
        if text:
            self._text.append(text)
            yield TextDelta(text)

    def _end_text(self, *, white: bool) -> Iterable[ModelEvent]:
        if self._text:
            yield from self._show("".join(self._white) if white else "")
            yield PartEnded(Text("".join(self._text)))
        self._text, self._white = [], []

    def _fresh_id(self) -> str:
        self._numbers += 1
        while f"call-{self._numbers}" in self._ids:
            self._numbers += 1
        return f"call-{self._numbers}"


def _json(args: Args) -> str:
    try:
        return encode_json(args).decode()
    except UnicodeEncodeError:
        # Half a character cannot be in a call: escaped like this, the path says so.
        return json.dumps(args)


def _as_text(piece: Piece) -> Piece:
    match piece:
        case Asked():
            return Said(piece.text)
        case ToolUse():
            return Said(f"\n{write_call(piece)}\n")
        case _:
            return piece


def _without_blank_lines(text: str) -> str:
    """Without those it begins with; the first line keeps what it is indented by."""
    start = len(text) - len(text.lstrip())
    return text[text.rfind("\n", 0, start) + 1 :]

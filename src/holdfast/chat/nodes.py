"""What a `.chat` document is made of. Every node keeps its source; all sources in order are the document."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct


class Frontmatter(Struct, frozen=True, gc=False):
    source: str
    language: str
    code: str


class Preamble(Struct, frozen=True, gc=False):
    """What stands before the first role marker. Nobody is sent it."""

    source: str


class TextSegment(Struct, frozen=True, gc=False):
    source: str
    text: str
    """Without escapes and without the blank lines after it."""


class ThinkingSegment(Struct, frozen=True, gc=False):
    source: str
    text: str
    provider: str | None = None
    signature: str | None = None
    redacted: bool = False


class ToolUseSegment(Struct, frozen=True, gc=False):
    source: str
    name: str
    id: str
    body: str
    """What stands in the fence, as the model wrote it."""
    problem: str | None = None
    """Why there is no whole body, if there is none."""


class ToolResultSegment(Struct, frozen=True, gc=False):
    source: str
    id: str
    error: bool
    status: str | None
    """What a placeholder says; None for a result."""
    content: str
    form: Literal["fence", "header"] | None
    """Where the status is written."""
    problem: str | None = None


class AbortedSegment(Struct, frozen=True, gc=False):
    source: str
    message: str


Segment = TextSegment | ThinkingSegment | ToolUseSegment | ToolResultSegment | AbortedSegment


class Message(Struct, frozen=True, gc=False):
    role: str
    """As it is written: `You`, `Assistant`, `System` or a name holdfast does not know."""
    segments: tuple[Segment, ...]
    marker: str
    """The line with the role, and the blank lines after it."""

    @property
    def source(self) -> str:
        return self.marker + "".join([segment.source for segment in self.segments])


Block = Frontmatter | Preamble | Message

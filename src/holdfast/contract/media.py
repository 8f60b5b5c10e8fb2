"""Services that look at images and listen to speech elsewhere: the protocols for the media tools."""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct


class VisionReply(Struct, frozen=True, kw_only=True):
    text: str
    model: str
    """The model that answered, by the provider's name for it."""
    complete: bool = True
    """False if the reply was cut at the model's maximum length."""


class Vision(Protocol):
    """A model that can see images. Raises `HoldfastError`."""

    async def describe(self, image: bytes, mime_type: str, prompt: str) -> VisionReply: ...


class Segment(Struct, frozen=True, kw_only=True):
    """A part of a recording, in seconds from its beginning."""

    start: float
    end: float
    text: str


class Transcript(Struct, frozen=True, kw_only=True):
    text: str
    language: str | None = None
    """As the service names it: `en`, or `english`."""
    seconds: float | None = None
    segments: tuple[Segment, ...] = ()


class Transcriber(Protocol):
    """A service that transcribes speech. Raises `HoldfastError`."""

    async def transcribe(
        self, audio: bytes, mime_type: str, *, language: str | None, seconds: float, by: str
    ) -> Transcript:
        """Return the transcript, at the latest after `seconds`. `by` names the call in the network log."""
        ...

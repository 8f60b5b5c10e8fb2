"""What the media processes reply, checked: a file that takes over its decoder chooses the reply, too.

Numbers have bounds, names and colours have patterns, so that no reply breaks a result or imitates our own lines. Free
text (`value`, `text`) is quoted by the tools.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypedDict, TypeVar

from msgspec import Meta, ValidationError, convert

from holdfast.tools.worker_process import DAMAGED_REPLY, Answer, WorkerFailed

MAX_SIDE: Final = 2048
"""The longest side of a picture for recognition and for a provider. Models reduce larger ones themselves."""
Reply = TypeVar("Reply")
_Pixels = Annotated[int, Meta(ge=1, le=2**31)]
_Side = Annotated[int, Meta(ge=1, le=MAX_SIDE)]
_Count = Annotated[int, Meta(ge=0, le=2**31)]
_Seconds = Annotated[float, Meta(ge=0, le=1e9)]


class Colour(TypedDict):
    name: Annotated[str, Meta(pattern=r"^[a-z ]{1,20}\Z")]
    hex: Annotated[str, Meta(pattern=r"^#[0-9a-f]{6}\Z")]
    share: Annotated[float, Meta(ge=0, le=1)]


class Entry(TypedDict):
    name: str
    value: str


class Location(TypedDict):
    latitude: Annotated[float, Meta(ge=-90, le=90)]
    longitude: Annotated[float, Meta(ge=-180, le=180)]


class ImageFacts(TypedDict):
    width: _Pixels
    height: _Pixels
    mode: Annotated[str, Meta(pattern=r"^[A-Za-z0-9;]{1,10}\Z")]
    frames: Annotated[int, Meta(ge=1, le=2**31)]
    colours: Annotated[list[Colour], Meta(max_length=20)]
    metadata: Annotated[list[Entry], Meta(max_length=100)]
    has_location: bool
    location: Location | None
    sent_width: _Side
    sent_height: _Side
    sent_type: Literal["image/png", "image/jpeg"]
    """Of the new file, if one is asked for."""


class AudioFacts(TypedDict):
    codec: Annotated[str, Meta(pattern=r"^[a-z0-9_]{1,40}\Z")]
    sample_rate: _Count
    channels: _Count
    seconds: _Seconds
    cut: bool
    damaged: bool


class TextLine(TypedDict):
    text: str
    score: float


class TextFound(TypedDict):
    lines: list[TextLine]
    left_out: _Count


class SpeechSegment(TypedDict):
    start: _Seconds
    end: _Seconds
    text: str


class SpeechFound(TypedDict):
    language: Annotated[str, Meta(pattern=r"^[a-z]{2,3}\Z")] | None
    segments: list[SpeechSegment]


def checked(answer: Answer, shape: type[Reply]) -> Reply:
    """Return the reply with the keys of `shape` and no others. Raises `WorkerFailed`."""
    try:
        return convert(answer, shape)
    except ValidationError:
        raise WorkerFailed(DAMAGED_REPLY) from None

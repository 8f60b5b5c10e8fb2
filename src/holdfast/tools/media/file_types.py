"""What a media file is, by its content: its MIME type, whether it is complete, and what follows its end.

Only headers and block lengths are read, in linear time and without decompressing anything, so this is safe in the
process of the runtime. What the file shows is decoded elsewhere (`decoder_process`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import repeat
from typing import Final

from msgspec import Struct

from holdfast.tools.files.pages import SNIFFED_BYTES, UNKNOWN_MIME, mime_type

IMAGES: Final = ("image/jpeg", "image/png", "image/gif", "image/webp")
AUDIO: Final = ("audio/ogg", "audio/wav", "audio/mpeg", "audio/webm")
MAX_FRAMES: Final = 10_000
"""Frames of an animation are counted up to this number."""
_MAX_BLOCKS: Final = 50_000
_USUAL_BLOCK: Final = 200
"""A file may have one more block for each of so many bytes. Those of a GIF have at most 256."""
_WINDOW: Final = 1 << 20
_ALIASES: Final = {
    "image/jpg": "image/jpeg", "image/pjpeg": "image/jpeg", "image/x-png": "image/png", "audio/x-wav": "audio/wav",
    "audio/wave": "audio/wav", "audio/vnd.wave": "audio/wav", "audio/mp3": "audio/mpeg", "application/ogg": "audio/ogg",
    "audio/opus": "audio/ogg",
}  # fmt: skip
_TYPE: Final = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,62}/[a-z0-9][a-z0-9!#$&^_.+-]{0,62}")
_MARKUP: Final = re.compile(
    rb"\s*(?:<!--.{0,500}?-->\s*)?<(?:!doctype\s+(html|svg)|(html|svg|script|head|body)\b)", re.I | re.S
)
_XML: Final = re.compile(rb"\s*<\?xml[^>]{0,200}>(.{0,2000})", re.I | re.S)
_JPEG_MARKER: Final = re.compile(rb"\xff[^\x00\xd0-\xd7\xff]")
_VIDEO_TRACK: Final = b"\x83\x81\x01"
"""The element TrackType of Matroska, with the value for video."""
_BRANDS: Final = {b"avif": "image/avif", b"heic": "image/heic", b"mif1": "image/heif", b"m4a ": "audio/mp4"}
_RUNS: Final = re.compile(
    r"html|svg|javascript|ecmascript|x-sh|x-python|x-msdownload|x-dosexec|x-executable|x-elf|java"
)
"""Types whose files can run code when they are opened."""


class Structure(Struct, frozen=True, kw_only=True):
    """The outline of a file of a known type."""

    end: int | None
    """Where its content ends; None if it ends too early or is damaged."""
    frames: int | None = None
    """Frames of a GIF, at most `MAX_FRAMES`."""
    gave_up: bool = False
    """Whether it has so many blocks that the end was not searched further."""


class _TooManyBlocks(Exception):
    pass


def parse_type(given: str) -> str | None:
    """Return a MIME type in lower case and without parameters; None if it is not one."""
    name = given.partition(";")[0].strip().lower()
    return _ALIASES.get(name, name) if _TYPE.fullmatch(name) else None


def content_type(data: bytes) -> str | None:
    """Return the MIME type that the content shows; None if it shows none, as text and unknown formats do."""
    head = data[:SNIFFED_BYTES]
    if _is_mp3(data):
        return "audio/mpeg"
    if head.startswith(b"\x1aE\xdf\xa3"):
        if b"webm" not in head[:64]:
            return "video/x-matroska"
        return "video/webm" if _VIDEO_TRACK in head else "audio/webm"
    if head[4:8] == b"ftyp":
        return _BRANDS.get(head[8:12].lower(), "video/mp4")
    if head.startswith((b"II*\0", b"MM\0*")):
        return "image/tiff"
    if head.startswith(b"OggS"):
        return "audio/ogg"
    if head.startswith(b"RIFF") and head[8:12] in (b"WAVE", b"WEBP"):
        return "audio/wav" if head[8:12] == b"WAVE" else "image/webp"
    if head.startswith(b"\x7fELF"):
        return "application/x-elf"
    if head.startswith(b"MZ") and b"\0" in head:
        return "application/x-msdownload"
    if (markup := _MARKUP.match(head)) or ((xml := _XML.match(head)) and (markup := _MARKUP.search(xml[1]))):
        return "image/svg+xml" if (markup[1] or markup[2]).lower() == b"svg" else "text/html"
    found = mime_type(head, "")
    return None if found == UNKNOWN_MIME else found


def can_run(mime: str) -> bool:
    """Whether a file of this type can run code when it is opened."""
    return _RUNS.search(mime) is not None


def structure(data: bytes, mime: str) -> Structure | None:
    """Return the outline of a file; None for types whose end is not known."""
    reader = _READERS.get(mime)
    if reader is None:
        return None
    try:
        return reader(data)
    except _TooManyBlocks:
        return Structure(end=None, gave_up=True)
    except (IndexError, ValueError):
        return Structure(end=None)


def trailing_note(data: bytes, mime: str) -> str | None:
    """Return a sentence about a file that is cut off, or about what follows its end."""
    found = structure(data, mime)
    if found is None:
        return None
    if found.gave_up:
        return f"The {name_of(mime)} file has more parts than any usual one, so its end was not looked for."
    if found.end is None:
        return f"The {name_of(mime)} file is damaged or cut off: programs may show a part of it or nothing."
    rest = data[found.end :]
    if not rest.strip(b"\0\r\n\t "):
        return None
    kind = "a ZIP archive" if b"PK\x03\x04" in rest or b"PK\x05\x06" in rest else content_type(rest) or "unknown data"
    return f"After the end of the {name_of(mime)} content follow {len(rest):,} bytes of other data ({kind})."


def name_of(mime: str) -> str:
    """Return the usual name of a format: `JPEG` for `image/jpeg`."""
    return {
        "audio/mpeg": "MP3",
        "image/webp": "WebP",
        "audio/webm": "WebM",
        "video/webm": "WebM",
        "audio/ogg": "Ogg",
    }.get(mime, mime.partition("/")[2].upper())


def _is_mp3(data: bytes) -> bool:
    """Whether the data begins with an ID3 tag or an MPEG audio frame of layer III."""
    if data.startswith(b"ID3"):
        return len(data) > 10 and data[3] < 5 and max(data[6:10]) < 128
    return (
        len(data) > 4
        and data[0] == 0xFF
        and data[1] & 0xE6 == 0xE2  # sync, and layer III
        and data[1] & 0x18 != 0x08  # a known version
        and 0 < data[2] >> 4 < 15  # a known bit rate
        and data[2] & 0x0C != 0x0C  # a known sample rate
    )


def _png(data: bytes) -> Structure:
    at = 8
    for _ in _blocks(data):
        size, kind = _number(data, at, 4, "big"), data[at + 4 : at + 8]
        at += 12 + size
        if at > len(data):
            break
        if kind == b"IEND":
            return Structure(end=at)
    return Structure(end=None)


def _jpeg(data: bytes) -> Structure:
    at = 2
    for _ in _blocks(data):
        # Fill bytes and entropy-coded data come before a marker; the search runs at the speed of a regular expression,
        # in windows that overlap by one byte, since it keeps other threads waiting.
        marker = _JPEG_MARKER.search(data, at, at + _WINDOW)
        while marker is None and at + _WINDOW < len(data):
            at += _WINDOW - 1
            marker = _JPEG_MARKER.search(data, at, at + _WINDOW)
        if marker is None:
            break
        at, kind = marker.end(), data[marker.end() - 1]
        if kind == 0xD9:
            return Structure(end=at)
        if kind != 0x01:
            at += max(2, _number(data, at, 2, "big"))
    return Structure(end=None)


def _gif(data: bytes) -> Structure:
    def after_table(at: int, flags: int) -> int:
        return at + (3 << ((flags & 7) + 1) if flags & 0x80 else 0)

    def after_blocks(at: int) -> int:
        while data[at]:
            next(blocks)
            at += data[at] + 1
        return at + 1

    at, frames, blocks = after_table(13, data[10]), 0, _blocks(data)
    try:
        for _ in blocks:
            kind = data[at]
            if kind == 0x3B:
                return Structure(end=at + 1 if frames else None, frames=min(frames, MAX_FRAMES))
            if kind == 0x21:
                at = after_blocks(at + 2)
            elif kind == 0x2C:
                at, frames = after_blocks(after_table(at + 10, data[at + 9]) + 1), frames + 1
            else:
                break
    except _TooManyBlocks:
        return Structure(end=None, frames=min(frames, MAX_FRAMES), gave_up=True)
    return Structure(end=None, frames=min(frames, MAX_FRAMES))


def _riff(data: bytes) -> Structure:
    size = _number(data, 4, 4, "little")
    end = 8 + size + size % 2
    # A recorder that writes to a pipe cannot know the size, and writes the largest number.
    return Structure(end=min(end, len(data)) if end <= len(data) + 1 or size >= 0xFFFFFF00 else None)


def _blocks(data: bytes) -> Iterator[None]:
    """Yield for each block that a file of this length may have, then raise `_TooManyBlocks`."""
    yield from repeat(None, _MAX_BLOCKS + len(data) // _USUAL_BLOCK)
    raise _TooManyBlocks


def _number(data: bytes, at: int, size: int, order: str) -> int:
    if at + size > len(data):
        raise IndexError(at)
    return int.from_bytes(data[at : at + size], "big" if order == "big" else "little")


_READERS: Final[dict[str, Callable[[bytes], Structure]]] = {
    "image/png": _png, "image/jpeg": _jpeg, "image/gif": _gif, "image/webp": _riff, "audio/wav": _riff,
}  # fmt: skip

"""What a file is, judged by its first bytes; the name is asked only about what is certainly not text."""

from __future__ import annotations

from typing import Final, Literal

SNIFFED_BYTES: Final = 8192
UNKNOWN: Final = "application/octet-stream"
_CERTAIN: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"\x1f\x8b", "application/gzip"),
)
_IF_BINARY: Final = (
    (b"BM", "image/bmp"),
    (b"ID3", "audio/mpeg"),
    (b"OggS", "audio/ogg"),
    (b"fLaC", "audio/flac"),
    (b"PK\x03\x04", "application/zip"),
)
_RIFF: Final = {b"WEBP": "image/webp", b"WAVE": "audio/wav"}


def mime_type(head: bytes, name: str) -> str | None:
    """The kind of a binary file; None for text. A NUL byte near the beginning tells them apart, as it does for git."""
    for magic, kind in _CERTAIN:
        if head.startswith(magic):
            return kind
    if b"\0" not in head:
        return None
    if head.startswith(b"RIFF") and head[8:12] in _RIFF:
        return _RIFF[head[8:12]]
    for magic, kind in _IF_BINARY:
        if head.startswith(magic):
            return kind
    return _by_name(name)


def attachment_kind(mime: str) -> Literal["image", "audio", "file"]:
    family = mime.partition("/")[0]
    return family if family in ("image", "audio") else "file"


def _by_name(name: str) -> str:
    import mimetypes

    guess = mimetypes.guess_type(name)[0] or UNKNOWN
    return UNKNOWN if guess.startswith("text/") else guess

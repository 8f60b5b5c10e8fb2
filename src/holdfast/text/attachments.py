"""Attachments in words: one line for people and models, the pixels of an image, and safe file names.

Names, types and headers come from servers and files, so nothing here trusts or decodes them.
"""

from __future__ import annotations

import re
from struct import unpack_from
from typing import Final
from unicodedata import category, normalize

from holdfast.contract.result import Attachment
from holdfast.text.escape import clip, escape
from holdfast.text.truncate import format_size

DIGEST_CHARS: Final = 16
"""The characters of a digest at the start of a file name."""
_MAX_NAME_BYTES: Final = 120
"""With digest, dash and number well below the 255 bytes of a file system."""
_MAX_SHOWN: Final = 80
_MAX_ADDRESS: Final = 200
_MAX_JPEG_STEPS: Final = 20_000
"""Segments and fill bytes before the frame header; metadata and colour profiles are a few dozen."""
_EXTENSIONS: Final[dict[str, tuple[str, ...]]] = {
    "image/png": ("png",), "image/jpeg": ("jpg", "jpeg"), "image/gif": ("gif",), "image/webp": ("webp",),
    "image/svg+xml": ("svg",), "audio/mpeg": ("mp3",), "audio/wav": ("wav",), "audio/x-wav": ("wav",),
    "audio/ogg": ("ogg", "oga", "opus"), "audio/webm": ("webm", "weba"), "audio/flac": ("flac",),
    "audio/mp4": ("m4a", "mp4"), "video/mp4": ("mp4", "m4v"), "application/pdf": ("pdf",),
    "application/json": ("json",), "application/zip": ("zip",), "text/plain": ("txt",), "text/html": ("html", "htm"),
    "text/csv": ("csv",), "text/markdown": ("md",),
}  # fmt: skip
"""The extensions of a type, the usual one first."""
_MEDIA: Final = frozenset(
    ending for mime, endings in _EXTENSIONS.items() if not mime.startswith("text/") for ending in endings
) - {"json", "zip"}
"""Extensions by which systems choose a viewer: only a file of the type has one."""
_ENDS: Final = str.maketrans({'"': "'", "[": "(", "]": ")"})
_INVISIBLE: Final = re.compile("[\u034f\u17b4\u17b5\u180b-\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef]")
"""Marks without a shape: joiners and variation selectors."""
_EXTENSION: Final = re.compile(r"\.[A-Za-z0-9]{1,8}\Z", re.ASCII)
_RESERVED: Final = re.compile(r"(?:con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³])(?:\.|\Z)", re.IGNORECASE)
"""Names of devices on Windows, with any extension."""
_TEXT_TYPE: Final = re.compile(
    r"text/.*|application/(?:json|xml|yaml|x-yaml|toml|javascript|x-ndjson|sql)|[^;]*\+(?:json|xml|yaml)", re.DOTALL
)


def essence(mime_type: str) -> str:
    """The type without parameters, in lower case."""
    return mime_type.partition(";")[0].strip().lower()


def is_text_type(mime_type: str) -> bool:
    """Whether content of this type can be read as text."""
    return _TEXT_TYPE.fullmatch(essence(mime_type)) is not None


def describe(item: Attachment) -> str:
    """One line of visible characters: `image "shot.png" (image/png, 1280 × 720 pixels, 45.0KB)`."""
    kind = item.kind if item.kind in ("image", "audio", "file") else "file"
    given = item.name or item.uri
    name = f' "{shown(given, _MAX_SHOWN)}"' if given else ""
    facts = [shown(item.mime_type, _MAX_SHOWN) or "unknown type"]
    if kind == "image" and (size := pixels(item.data)) is not None:
        facts.append(f"{size[0]} × {size[1]} pixels")
    if item.digest:
        facts.append(format_size(item.size))
    if item.uri and item.name:
        facts.append(f"from {shown(item.uri, _MAX_ADDRESS)}")
    return f"{kind}{name} ({', '.join(facts)})"


def shown(text: str, width: int) -> str:
    """Hostile text on one line, without quotes and brackets that would end it or a note around it early."""
    return clip(escape(text.encode("utf-8", "replace").decode()).translate(_ENDS), width)


def pixels(data: bytes) -> tuple[int, int] | None:
    """Width and height from the header of a PNG, JPEG, GIF or WebP file; None for anything else. Decodes nothing."""
    if data.startswith(b"\x89PNG\r\n\x1a\n") and data[12:16] == b"IHDR" and len(data) >= 24:
        width, height = unpack_from(">II", data, 16)
    elif data.startswith((b"GIF87a", b"GIF89a")) and len(data) >= 10:
        width, height = unpack_from("<HH", data, 6)
    elif data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        width, height = _webp_pixels(data)
    elif data.startswith(b"\xff\xd8"):
        width, height = _jpeg_pixels(data)
    else:
        return None
    return (width, height) if width and height else None


def _webp_pixels(data: bytes) -> tuple[int, int]:
    form = data[12:16]
    if form == b"VP8X" and len(data) >= 30:
        return int.from_bytes(data[24:27], "little") + 1, int.from_bytes(data[27:30], "little") + 1
    if form == b"VP8L" and len(data) >= 25:
        bits = int.from_bytes(data[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if form == b"VP8 " and len(data) >= 30:
        width, height = unpack_from("<HH", data, 26)
        return width & 0x3FFF, height & 0x3FFF
    return 0, 0


def _jpeg_pixels(data: bytes) -> tuple[int, int]:
    """The size in the frame header (SOF), which is near the start unless the file is hostile."""
    at = 2
    for _ in range(_MAX_JPEG_STEPS):
        if at + 9 > len(data) or data[at] != 0xFF:
            break
        marker = data[at + 1]
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = unpack_from(">HH", data, at + 5)
            return width, height
        alone = marker == 0xFF or 0xD0 <= marker <= 0xD8 or marker == 0x01
        step = 1 if marker == 0xFF else 2 if alone else 2 + unpack_from(">H", data, at + 2)[0]
        at += step
    return 0, 0


def file_name(item: Attachment) -> str:
    """A name for the content that is safe in every folder, terminal and Markdown link, with an extension of its type.

    Letters with their marks, digits, `.`, `_` and `-` of any script; never a path, a hidden file or the name of a
    device. An extension of another type stays in the name, but not at its end: `photo.exe` of the type `image/png` is
    `photo.exe.png`. If the type is not known, a given extension stays.
    """
    given = normalize("NFC", (item.name or "").encode("utf-8", "replace").decode())
    last = re.split(r"[/\\]", given)[-1]
    plain = re.sub(r"-{2,}", "-", re.sub(r"\.{2,}", ".", _without_signs(last))).strip(".-")
    found = _EXTENSION.search(plain)
    stem, extension = (plain[: found.start()], found[0]) if found else (plain, "")
    known = _EXTENSIONS.get(essence(item.mime_type))
    ending = extension[1:].lower()
    if not extension or (known and ending not in known and ({ending, *known} & _MEDIA)):
        stem, extension = plain, f".{(known or ('bin',))[0]}"
    name = f"{_cut(stem, _MAX_NAME_BYTES - len(extension)).rstrip('.-') or item.kind}{extension}"
    return f"_{name}" if _RESERVED.match(name) else name


def _without_signs(text: str) -> str:
    """The text with `-` for whatever is no letter, digit or visible mark of a letter, as many scripts need them."""
    kept: list[str] = []
    for char in text:
        kind = category(char)[0]
        is_mark = kind == "M" and bool(kept) and category(kept[-1])[0] in "LM" and not _INVISIBLE.match(char)
        kept.append(char if char in "._-" or kind in "LN" or is_mark else "-")
    return "".join(kept)


def stored_name(item: Attachment, number: int = 1) -> str:
    """The file name with the digest in front, so that equal names do not collide and a changed file is noticed."""
    more = "" if number == 1 else f"{number}-"
    return f"{item.digest[:DIGEST_CHARS]}-{more}{file_name(item)}"


def _cut(text: str, length: int) -> str:
    return text.encode()[:length].decode("utf-8", "ignore")

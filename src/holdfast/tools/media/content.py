"""The media file of a call, from base64 or from a path: decoded, bounded and named by what it is."""

from __future__ import annotations

import asyncio
import os
import re
from base64 import b64decode
from collections.abc import Collection
from hashlib import sha256
from typing import Final, cast

from msgspec import Struct

from holdfast.contract.context import Context
from holdfast.contract.errors import HoldfastError
from holdfast.contract.json import Args
from holdfast.fs.beneath import NotRegular, open_file_beneath
from holdfast.text.escape import clip_middle, escape
from holdfast.text.preview import with_label
from holdfast.text.quote import GUTTER, escape_line
from holdfast.text.truncate import format_size
from holdfast.tools.files.file_state import os_error_reason, path_to_read
from holdfast.tools.media.file_types import content_type, name_of, parse_type, trailing_note
from holdfast.tools.schemas import Schema, nullable

_SPACE: Final = re.compile(r"[ \t\r\n]+")
_NOT_BASE64: Final = re.compile(r"[^A-Za-z0-9+/]")
_DATA_URL: Final = re.compile(r"data:([^,]{0,200}),", re.I)
_SHOWN: Final = 40


class MediaRefused(HoldfastError):
    """The file of a call cannot be used; the message is a sentence with the next step."""


class Media(Struct, frozen=True, kw_only=True):
    """A file as it was given."""

    data: bytes
    mime_type: str
    """By its content if that shows a type, else as declared."""
    name: str | None
    """The name of the file, or None for data."""
    notes: tuple[str, ...]
    """What differs from the declaration, and what else is in the file."""
    digest: str
    """The SHA-256 of the data."""

    @property
    def shown(self) -> str:
        """How a summary names it."""
        return f"{escape(self.name) if self.name else 'the data'} ({self.mime_type}, {format_size(len(self.data))})"


PATH: Final[Schema] = nullable("string", "A file to use instead of data, relative to the project root.")


def touched(args: Args) -> list[str]:
    """`Tool.touches` of a tool that takes a file."""
    path = args.get("path")
    return [path] if isinstance(path, str) else []


def file_preview(args: Args, width: int) -> str:
    """`Tool.format_preview` of a tool that takes a file: its path, or the size of the data."""
    given, path = args.get("data"), args.get("path")
    if isinstance(path, str):
        body = path
    else:
        size = format_size(len(given) * 3 // 4) if isinstance(given, str) else "no data"
        body = f"{args.get('filename') or args.get('mimeType') or 'data'}  ({size})"
    return with_label(body, args)


async def read_media(args: Args, ctx: Context, max_bytes: int, accepted: Collection[str] | None = None) -> Media:
    """Return the file of a call. Raises `MediaRefused` or `PathRefused`.

    With `accepted`, its content must show one of these types. A wrong `mimeType` is corrected, and noted.
    """
    # In a thread: decoding, hashing and outlining a large file take longer than the event loop may wait.
    return await asyncio.to_thread(_read, args, ctx, max_bytes, accepted)


def _read(args: Args, ctx: Context, max_bytes: int, accepted: Collection[str] | None) -> Media:
    given, path = cast("str | None", args.get("data")), cast("str | None", args.get("path"))
    if (given is None) == (path is None):
        raise MediaRefused("Give exactly one of data (base64) and path (a file of the project).")
    name: str | None = None
    declared = _declared(cast("str | None", args.get("mimeType")))
    if given is not None:
        data = decode_base64(given, max_bytes)
    else:
        assert path is not None
        data, name = _read_file(path, ctx, max_bytes)
    return _identified(data, name, declared, accepted)


def _declared(given: str | None) -> str | None:
    if given is None:
        return None
    declared = parse_type(given)
    if declared is None:
        raise MediaRefused(f"{_quoted(given)} is not a MIME type. Use one such as image/png.")
    return declared


def _identified(data: bytes, name: str | None, declared: str | None, accepted: Collection[str] | None) -> Media:
    if not data:
        raise MediaRefused(f"{'The data' if name is None else escape(name)} is empty.")
    found, notes = content_type(data), list[str]()
    if accepted is not None and found not in accepted:
        names = ", ".join(dict.fromkeys(map(name_of, accepted)))
        raise MediaRefused(f"This is {_what(found, data)}, and only {names} can be read. Convert it first.")
    if found is None and declared is not None and declared.startswith(("image/", "audio/", "video/")):
        raise MediaRefused(
            f"It is declared as {declared}, but it is {_what(found, data)}. Check the data, or give its real type."
        )
    mime = found or declared or _fallback(data)
    if declared is not None and declared != mime:
        notes.append(f"It was declared as {declared}, but its content is {mime}, and it is treated as that.")
    if note := trailing_note(data, mime):
        notes.append(note)
    return Media(data=data, mime_type=mime, name=name, notes=tuple(notes), digest=sha256(data).hexdigest())


def _what(found: str | None, data: bytes) -> str:
    if found is not None:
        return found
    return f"no known image or audio format (it starts with {data[:8].hex(' ')})"


def _fallback(data: bytes) -> str:
    try:
        data.decode()
    except UnicodeDecodeError:
        return "application/octet-stream"
    return "application/octet-stream" if b"\0" in data else "text/plain"


def decode_base64(given: str, max_bytes: int) -> bytes:
    """Decode base64, also of a data URL. Raises `MediaRefused`, before decoding if it is too long."""
    if (url := _DATA_URL.match(given)) is not None:
        if not url[1].lower().endswith(";base64"):
            raise MediaRefused("The data is a data URL without base64. Give the bytes in base64.")
        given = given[url.end() :]
    text = _SPACE.sub("", given)
    if len(text) // 4 * 3 > max_bytes + 2:
        raise MediaRefused(too_large("The data", len(text) // 4 * 3, max_bytes))
    body = text.rstrip("=")
    if (wrong := _NOT_BASE64.search(body)) is not None:
        at = wrong.start()
        raise MediaRefused(
            f"The data is not base64: character {at + 1:,} is {_quoted(body[at])}. Give a file of the project as path."
        )
    if len(text) % 4 or len(text) - len(body) > 2:
        raise MediaRefused(
            f"The base64 data is cut off: its length, {len(text):,} characters, is not a multiple of four. "
            "Give a file of the project as path."
        )
    data = b64decode(text)
    if len(data) > max_bytes:
        raise MediaRefused(too_large("The data", len(data), max_bytes))
    return data


def _read_file(given: str, ctx: Context, max_bytes: int) -> tuple[bytes, str]:
    try:
        target = path_to_read(ctx, given)
        with open_file_beneath(target.root, target.path) as opened:
            size = os.fstat(opened).st_size
            if size > max_bytes:
                raise MediaRefused(too_large(escape(given), size, max_bytes))
            with os.fdopen(os.dup(opened), "rb") as file:
                data = file.read(max_bytes + 1)
    except NotRegular as error:
        raise MediaRefused(f"{escape(given)} {error}.") from None
    except (FileNotFoundError, NotADirectoryError):
        raise MediaRefused(f"File not found: {escape(given)}") from None
    except OSError as error:
        raise MediaRefused(f"{escape(given)} cannot be read: {os_error_reason(error)}.") from None
    if len(data) > max_bytes:  # it grew meanwhile
        raise MediaRefused(too_large(escape(given), len(data), max_bytes))
    return data, target.path.name


def too_large(what: str, size: int, max_bytes: int) -> str:
    return f"{what} has {format_size(size)}; at most {format_size(max_bytes)} are accepted (media.max_bytes)."


def quoted_block(text: str) -> str:
    """Return text of a file or of a model behind a gutter, so that no line of it looks like one of ours."""
    return "\n".join(GUTTER + escape_line(line) for line in text.split("\n"))


def clean(text: str, limit: int) -> str:
    """Return text that a file or a server contains, bounded and well-formed."""
    return text.encode(errors="replace").decode()[:limit]


def _quoted(text: str) -> str:
    return f"'{escape(clip_middle(text, _SHOWN))}'"

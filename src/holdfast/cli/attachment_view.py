"""Attachments of a result on the command line: saved as files, named with their path, and shown where a terminal can.

The names and bytes come from tools and servers. Names are escaped, and an image reaches the terminal only as base64
inside the escape sequence of its protocol.
"""

from __future__ import annotations

import os
import sys
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal, TextIO

from msgspec.structs import replace

from holdfast.cli import console
from holdfast.contract.result import Attachment, Result
from holdfast.fs.beneath import USER_FOLDER_FLAGS, open_descriptor
from holdfast.fs.replace import new_file
from holdfast.store.saved_attachments import save_private
from holdfast.text.attachments import describe, file_name, pixels
from holdfast.text.escape import clip, escape, escape_name
from holdfast.text.truncate import format_size

MAX_IMAGE_BYTES: Final = 4 * 1024 * 1024
MAX_PIXELS: Final = 8000
"""Of each side of an image that is shown in a terminal."""
_MAX_NAMES: Final = 1000
_MAX_SHOWN: Final = 80
_KITTY_CHUNK: Final = 4096
_PNG: Final = b"\x89PNG\r\n\x1a\n"
_JPEG: Final = b"\xff\xd8\xff"
ImageProtocol = Literal["kitty", "iterm2"]


def save_attachments(result: Result, state: Path | None, folder: str | None = None) -> Result:
    """Save the attachments in a folder that the user named, else in the private one; return them with their paths.

    What may hold secrets is saved only in a folder that the user named: tools can read the private one.
    """
    if result.withheld and folder is None:
        if any(item.data for item in result.attachments):
            console.print_err("Not saved: the call read a file that may hold secrets. `--save DIR` saves it anyway.")
        return result
    return replace(result, attachments=tuple(_saved(item, state, folder) for item in result.attachments))


def _saved(item: Attachment, state: Path | None, folder: str | None) -> Attachment:
    if not item.data:
        return item
    try:
        if folder is not None:
            return replace(item, path=str(_save_into(Path(folder), item)))
        return item if state is None else replace(item, path=str(save_private(state, item)))
    except OSError as error:
        where = "" if folder is None else f" in {escape_name(folder)}"
        known = isinstance(error, FileExistsError | NotADirectoryError) and error.errno is not None
        why = "it is not a folder" if known else escape(error.strerror or str(error))
        console.print_err(f"Could not save {describe(item)}{where}: {why}.")
        return replace(item, path=None)


def is_missing(items: Sequence[Attachment]) -> bool:
    """Whether any content was not saved."""
    return any(item.data and item.path is None for item in items)


def _save_into(folder: Path, item: Attachment) -> Path:
    """Save under the item's own name, or a numbered one: a file that is there is never replaced."""
    folder.mkdir(parents=True, exist_ok=True)
    name = file_name(item)
    stem, dot, extension = name.rpartition(".")
    with open_descriptor(folder, USER_FOLDER_FLAGS) as opened:
        for number in range(1, _MAX_NAMES):
            wanted = name if number == 1 else f"{stem}-{number}{dot}{extension}"
            with suppress(FileExistsError), new_file(opened, item.data, mode=0o600) as new:
                new.claim(wanted)
                return Path(os.path.abspath(folder), wanted)  # noqa: PTH100 - links in it stay as the user wrote them
    raise FileExistsError(f"{folder} has too many files named {name}")


def attachment_line(item: Attachment, path: str | None = None) -> str:
    """One line: what it is and where, such as `Saved shot.png (image/png, 45.0KB): /home/ada/shot.png`."""
    place = path or item.path
    if place is None:
        gone = " Its content is no longer stored." if item.digest and not item.data else ""
        return f"Attached: {describe(item)}.{gone}"
    name, kind = clip(escape_name(item.name or file_name(item)), _MAX_SHOWN), clip(escape(item.mime_type), _MAX_SHOWN)
    return f"Saved {name} ({kind}, {format_size(item.size)}): {escape_name(place)}"


def print_attachments(items: Sequence[Attachment]) -> None:
    """Print a line per attachment on standard error, and the images themselves if the terminal shows images."""
    protocol = image_protocol(os.environ, sys.stderr)
    for item in items:
        console.print_err(attachment_line(item))
        if protocol is not None and item.kind == "image" and is_showable(item.data, protocol):
            console.write_chunk("".join((*image_sequence(item.data, protocol), "\n")), sys.stderr)


def image_protocol(variables: Mapping[str, str], stream: TextIO) -> ImageProtocol | None:
    """The protocol by which the terminal shows images; None for a pipe, without colour, or if it is not known."""
    term, program = variables.get("TERM", ""), variables.get("TERM_PROGRAM", "")
    if not console.is_terminal(stream) or variables.get("NO_COLOR") or term in ("", "dumb"):
        return None
    if "TMUX" in variables or term.startswith(("screen", "tmux")):
        return None  # a multiplexer passes the sequences on as text, or loses them
    if term in ("xterm-kitty", "xterm-ghostty") or "KITTY_WINDOW_ID" in variables or program in ("ghostty", "WezTerm"):
        return "kitty"
    return "iterm2" if program == "iTerm.app" or variables.get("LC_TERMINAL") == "iTerm2" else None


def is_showable(data: bytes, protocol: ImageProtocol) -> bool:
    """Whether the bytes are an image of a moderate size that the protocol takes, judged by the content."""
    known = data.startswith(_PNG) or (protocol == "iterm2" and data.startswith(_JPEG))
    size = pixels(data) if known and len(data) <= MAX_IMAGE_BYTES else None
    return size is not None and max(size) <= MAX_PIXELS


def image_sequence(data: bytes, protocol: ImageProtocol) -> Iterator[str]:
    """The escape sequences that show an image; the data in them is base64."""
    coded = b64encode(data).decode()
    if protocol == "iterm2":
        yield f"\x1b]1337;File=inline=1;size={len(data)};preserveAspectRatio=1:{coded}\x07"
        return
    for start in range(0, len(coded), _KITTY_CHUNK):
        more = 1 if start + _KITTY_CHUNK < len(coded) else 0
        keys = f"a=T,f=100,q=2,m={more}" if start == 0 else f"m={more}"
        yield f"\x1b_G{keys};{coded[start : start + _KITTY_CHUNK]}\x1b\\"

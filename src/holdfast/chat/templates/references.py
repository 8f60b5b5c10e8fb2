"""File references in a text: `@./notes.md`, `@../a.png`, `@~/b.pdf`, `@//abs/c`, each with `;type=mime` if wanted."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote_to_bytes

from msgspec import Struct

_REFERENCE: Final = re.compile(r"(?<![\w@])@((?:\.\.?/|~/|//)\S+)")
_TYPE: Final = re.compile(r";type=([A-Za-z0-9.+-]+/[A-Za-z0-9.+*-]+)")
_PUNCTUATION: Final = ".,;:!?'\"`()[]{}<>*|"


class Reference(Struct, frozen=True):
    source: str
    """As it stands in the text."""
    path: str
    mime: str | None = None


def references_in(text: str) -> list[str | Reference]:
    """The text in order, with its references taken apart. Punctuation after one belongs to the sentence."""
    found: list[str | Reference] = []
    start = 0
    for match in _REFERENCE.finditer(text):
        reference = _reference(match[1])
        if reference is None:
            continue
        if match.start() > start:
            found.append(text[start : match.start()])
        found.append(reference)
        start = match.start() + len(reference.source)
    if start < len(text):
        found.append(text[start:])
    return found


def _reference(word: str) -> Reference | None:
    typed = _TYPE.search(word)
    if typed is not None:
        mime = typed[1].rstrip(_PUNCTUATION)
        path, length = word[: typed.start()], typed.start(1) + len(mime)
    else:
        mime, path = None, word.rstrip(_PUNCTUATION)
        length = len(path)
    if not path.strip("./~"):
        return None
    return Reference("@" + word[:length], decoded(path), mime)


def decoded(path: str) -> str:
    """`+` and `%xx` as in URLs, for names with spaces; `//` at the beginning is the root of the file system."""
    given = path.replace("+", " ").encode("utf-8", "surrogateescape")
    plain = unquote_to_bytes(given).decode("utf-8", "surrogateescape")
    return "/" + plain.lstrip("/") if plain.startswith("//") else plain

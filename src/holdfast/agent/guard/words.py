"""A message cut into pieces: plain words, quoted ones, and what looks like a path. Takes time in proportion to it."""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct

from holdfast.agent.guard.file_names import LONGEST, Kind, kind_of

_PIECE: Final = re.compile(
    r"""
      (?P<fence> (?<!`) `{2,}+ (?:[^`]|`(?!`))*+ `{2,}+ )
    | ` (?P<ticks> [^`\n]+ ) `
    | " (?P<double> [^"\n]+ ) "
    | “ (?P<curly> [^“”\n]+ ) ”
    | (?<!\w) ' (?P<single> (?: [^'\n] | (?<=\w)'(?=\w) )++ ) ' (?!\w)
    | (?<!\w) ‘ (?P<bent> (?: [^‘’\n] | (?<=\w)’(?=\w) )++ ) ’ (?!\w)
    | [(\[{<*,;:.!?]+ (?=["'`“‘])
    | ["`“”]
    | (?P<plain> [^\s"`“”—–]+ )
    """,
    re.VERBOSE,
)
_QUOTES: Final = ("ticks", "double", "curly", "single", "bent")
_BEFORE: Final = "([{<'‘*,;:!?"
_AFTER: Final = ".,;:!?)]}>'’*…"
_PLACE_IN_FILE: Final = re.compile(r"(?::\d+(?:[:-]\d+)?|\#L\d+(?:-L?\d+)?):?$")
_APOSTROPHES: Final = str.maketrans(dict.fromkeys("’´ʼ′", "'"))
_DOTS: Final = re.compile(r"(?:.*[/\\])?\.\.?")


class Piece(Struct, frozen=True):
    text: str
    """Without quotes and the punctuation around it."""
    kind: Kind
    word: str = ""
    """How a plain word is compared; empty for anything else."""
    quoted: bool = False
    place: str = ""
    """The line that was named after a path: `:12`, `:3-9`, `#L3-L9`."""


_FENCED: Final = Piece("", Kind.WORD, quoted=True)


def pieces_of(text: str) -> list[Piece]:
    """In the order of the text. Fenced code is one piece without text; an unclosed quote quotes nothing."""
    pieces: list[Piece] = []
    known: dict[str, Piece] = {}
    for match in _PIECE.finditer(text):
        group = match.lastgroup
        if group == "plain":
            chunk = match[0]
            if (piece := known.get(chunk)) is None:
                piece = known[chunk] = plain_piece(chunk)
            if piece.text:
                pieces.append(piece)
        elif group == "fence":
            pieces.append(_FENCED)
        elif group in _QUOTES:
            whole = match[group].strip()
            inner = without_place(whole)
            pieces.append(Piece(inner, kind_of(inner, quoted=True), quoted=True, place=whole[len(inner) :]))
    return pieces


def unquoted(text: str) -> str:
    """The text with every quoted or fenced part as one sign that is no word."""
    return _PIECE.sub(lambda match: match[0] if match.lastgroup in (None, "plain") else " · ", text)


def plain_piece(chunk: str) -> Piece:
    """A chunk without white space, outside quotes."""
    whole = _trimmed(chunk)
    text = without_place(whole)
    kind = kind_of(text)
    word = text.lower().translate(_APOSTROPHES) if kind is Kind.WORD else ""
    return Piece(text, kind, word, place=whole[len(text) :])


def without_punctuation(chunk: str) -> str:
    """`(see` → `see`, `a.py:12,` → `a.py`, `a.py's` → `a.py`; `..` and `src/..` stay, and so does the `(` of a call."""
    return without_place(_trimmed(chunk))


def _trimmed(chunk: str) -> str:
    plain = chunk.lstrip(_BEFORE)
    if len(plain) <= LONGEST and _DOTS.fullmatch(plain):
        return plain
    plain = plain.rstrip(_AFTER)
    for ending in ("'s", "’s"):
        if "." in plain:
            plain = plain.removesuffix(ending)
    return plain


def without_place(plain: str) -> str:
    """Without the line that is named after a path: `a.py:12`, `a.py#L3-L9`."""
    return _PLACE_IN_FILE.sub("", plain) if len(plain) <= LONGEST else plain

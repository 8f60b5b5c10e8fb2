"""The places in a phrase that a person fills: what may stand there, and what is made of it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from holdfast.models.operator import arithmetic
from holdfast.models.operator.commands import bare_command, is_said
from holdfast.models.operator.literals import BLOCK, END, INLINE, IT, Masked
from holdfast.models.operator.words import ENGLISH, EXTENSIONLESS, FOLDERS, NO_FOLDERS

Value = str | int | tuple[int, int] | list[str]

_LITERAL: Final = f"{INLINE}\\d+{END}"
_BLOCK: Final = f"{BLOCK}\\d+{END}"
_WORD: Final = f"[^\\s{INLINE}{BLOCK}{END}{IT},;:\"'`“”‘’«»„()<>|&$!?\\\\]+"
_GLOB_WORD: Final = f"[^\\s{INLINE}{BLOCK}{END}{IT};:\"'`“”‘’«»„()<>|&$!\\\\]+"
_IT: Final = "(?:it|that file|this file|the same file|that|this)"
_AND: Final = "(?:, and |, | and )"
_ONE: Final = f"(?:{_LITERAL}|{_WORD})"
_FILE: Final = f"(?:{_LITERAL}|{_IT}|{_WORD})"
_QUOTED: Final = f"(?:{_LITERAL}|{_BLOCK})"

PATTERNS: Final[dict[str, str]] = {
    "FILE": _FILE,
    "FILES": f"{_FILE}(?:{_AND}{_FILE})*",
    "NAME": _ONE,
    "FOLDER": _ONE,
    "FOLDERS": f"{_ONE}(?:{_AND}{_ONE})*",
    "DIR": _ONE,
    "DIRS": f"{_ONE}(?:{_AND}{_ONE})*",
    "PLACE": f"(?:{_LITERAL}|{_GLOB_WORD})",
    "GLOB": f"(?:{_LITERAL}|{_GLOB_WORD})",
    "TEXT": _ONE,
    "QUOTED": _QUOTED,
    "CONTENT": _QUOTED,
    "OLD": _QUOTED,
    "NEW": f"(?:{_QUOTED}|nothing)",
    "QUOTES": f"{_LITERAL}(?:(?:, or |, and |, | and | or ){_LITERAL})*",
    "BLOCK": _BLOCK,
    "COMMAND": f"(?:{_LITERAL}|{_BLOCK}|[^{BLOCK}{IT}]+?)",
    "EXPRESSION": f"(?:{_LITERAL}|[^{INLINE}{BLOCK}{END}{IT}]+?)",
    "N": r"[0-9]{1,9}",
    "RANGE": r"[0-9]{1,9}(?: ?(?:-|–|\.\.) ?| to | through )[0-9]{1,9}",
    "ID": f"(?:{_LITERAL}|[A-Za-z0-9][A-Za-z0-9_-]*)",
}

_GLOB: Final = re.compile(r"[*?\[{]")
_NUMBER: Final = re.compile(r"[0-9.]+")
_SPLIT: Final = re.compile(_AND)
_MARKED: Final = re.compile(_LITERAL)
_NAMED_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


def value_of(slot: str, found: str, masked: Masked) -> Value | None:
    """What a slot holds; None if what stands there cannot be meant for it."""
    return _READERS[slot](found, masked)


def _file(found: str, masked: Masked) -> str | None:
    if (piece := masked.piece(found)) is not None:
        return piece.text if _is_name(piece.text) else None
    if re.fullmatch(_IT, found, re.IGNORECASE):
        return IT
    return found if found in EXTENSIONLESS or _looks_like_a_file(found) else None


def _looks_like_a_file(word: str) -> bool:
    if "://" in word or _GLOB.search(word) or _NUMBER.fullmatch(word) or word[0] == "-":
        return False
    return ("." in word or "/" in word) and word[-1] not in "./" and word.strip("./~") != "" and not _in_words(word)


def _in_words(word: str) -> bool:
    """Such as "and/or"."""
    return "/" in word and "." not in word and is_said(word)


def _name(found: str, masked: Masked) -> str | None:
    """Any word, where the phrase has said that it is a file."""
    piece = masked.piece(found)
    word = found if piece is None else piece.text
    if piece is None and (_GLOB.search(word) or is_said(word)):
        return None
    return word if _is_name(word) and word[0] != "-" else None


def _is_name(text: str) -> bool:
    return bool(text.strip()) and "\n" not in text


def _dir(found: str, masked: Masked) -> str | None:
    """Any word, where the phrase has said that it is a folder."""
    if (piece := masked.piece(found)) is not None:
        return piece.text if _is_name(piece.text) else None
    if found[0] == "-" or "://" in found or _GLOB.search(found) or found.lower() in NO_FOLDERS or is_said(found):
        return None
    return found


def _folder(found: str, masked: Masked) -> str | None:
    """A name that can only be a folder's."""
    known = masked.piece(found) is not None or "/" in found or found[0] == "." or found in FOLDERS
    return _dir(found, masked) if known else None


def _several(one: Callable[[str, Masked], str | None]) -> Callable[[str, Masked], list[str] | None]:
    def read(found: str, masked: Masked) -> list[str] | None:
        values = [one(item, masked) for item in _SPLIT.split(found)]
        known = [value for value in values if value is not None]
        return known if len(known) == len(values) else None

    return read


def _place(found: str, masked: Masked) -> str | None:
    if masked.piece(found) is None and _GLOB.search(found):
        return found
    return found if masked.piece(found) is None and _looks_like_a_file(found) else _folder(found, masked)


def _glob(found: str, masked: Masked) -> str | None:
    piece = masked.piece(found)
    word = found if piece is None else piece.text
    if not _is_name(word):
        return None
    named = piece is None and word[0] != "." and _looks_like_a_file(word)
    return word if named or _GLOB.search(word) else None


def _text(found: str, masked: Masked) -> str | None:
    if (piece := masked.piece(found)) is not None:
        return piece.text if _is_name(piece.text) else None
    return None if found.lower() in ENGLISH else found


def _quoted(found: str, masked: Masked) -> str | None:
    if (piece := masked.piece(found)) is not None:
        return piece.text
    return ""


def _content(found: str, masked: Masked) -> str | None:
    """A block is whole lines of a file, so that it ends with a newline."""
    piece = masked.piece(found)
    if piece is None:
        return None
    return f"{piece.text}\n" if piece.kind == "block" and piece.text else piece.text


def _quotes(found: str, masked: Masked) -> list[str]:
    return [piece.text for mark in _MARKED.findall(found) if (piece := masked.piece(mark)) is not None]


def _command(found: str, masked: Masked) -> str | None:
    if (piece := masked.piece(found)) is not None:
        return piece.text if piece.text.strip() else None
    return bare_command(found, masked)


def _expression(found: str, masked: Masked) -> str | None:
    piece = masked.piece(found)
    return arithmetic.expression(found if piece is None else piece.text)


def _number(found: str, masked: Masked) -> int | None:
    return int(found) or None


def _range(found: str, masked: Masked) -> tuple[int, int] | None:
    first, last = (int(number) for number in re.findall("[0-9]+", found))
    return (first, last) if 1 <= first <= last else None


def _id(found: str, masked: Masked) -> str | None:
    """Ids that are made here have a number in them; others are quoted."""
    if (piece := masked.piece(found)) is not None:
        return piece.text if _NAMED_ID.fullmatch(piece.text) else None
    return found if re.search("[0-9]", found) and not is_said(found) else None


_READERS: Final[dict[str, Callable[[str, Masked], Value | None]]] = {
    "FILE": _file,
    "FILES": _several(_file),
    "NAME": _name,
    "FOLDER": _folder,
    "FOLDERS": _several(_folder),
    "DIR": _dir,
    "DIRS": _several(_dir),
    "PLACE": _place,
    "GLOB": _glob,
    "TEXT": _text,
    "QUOTED": _quoted,
    "CONTENT": _content,
    "OLD": _quoted,
    "NEW": _quoted,
    "QUOTES": _quotes,
    "BLOCK": _content,
    "COMMAND": _command,
    "EXPRESSION": _expression,
    "N": _number,
    "RANGE": _range,
    "ID": _id,
}

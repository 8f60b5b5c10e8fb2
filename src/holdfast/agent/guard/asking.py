"""What a message asks for: the tools it needs, whether something must be found out, and what it names outright."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum
from itertools import pairwise
from typing import Final

from msgspec import Struct

from holdfast.agent.guard import vocabulary
from holdfast.agent.guard.edits import edit_in
from holdfast.agent.guard.file_names import LONGEST, Kind, is_code, is_settings
from holdfast.agent.guard.phrases import Shape, file_to_read, folder_to_list, is_git_question, is_path, wants_to_read
from holdfast.agent.guard.vocabulary import (
    ALL_OF_THEM,
    CHANGES,
    CODE_TERMS,
    FOLDER_TERMS,
    LISTING,
    LOOKS_UP,
    PROPER_NAMES,
)
from holdfast.agent.guard.words import Piece, pieces_of
from holdfast.agent.surfaces import ANSWER_ONLY, GIT_READ_ONLY, MUTATION_ENABLED, RETRIEVAL_FIRST, Surface

_THAT_FILE: Final = ("read that file", "read that file again")
_THAT_SEARCH: Final = ("search that again", "search that again in the same folder")
_ANCHOR_ROOM: Final = 100
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SNAKE: Final = re.compile(r"_*[A-Za-z][A-Za-z0-9]+(?:_[A-Za-z0-9]{2,})+_*|__[a-z][a-z0-9]+__")
_CAMEL: Final = re.compile(r"[a-z]{2,}[0-9]*[A-Z][a-z]")
_SHORTEST_HUMPED: Final = 5


class Mode(StrEnum):
    """What an answer has to show. The first that fits a message counts."""

    USAGE = "usage"
    CONFIG = "config"
    INIT = "initialisation"
    CREATE = "creation"
    REGISTER = "registration"
    LOAD = "loading"
    SAVE = "saving"
    DEFINITION = "definition"
    GENERAL = "general"


class ReadFile(Struct, frozen=True):
    """The message names a file to read."""

    path: str
    raw: bool
    """The content itself is the answer, not words about it."""


class ListFolder(Struct, frozen=True):
    path: str


class Search(Struct, frozen=True):
    """The message repeats an earlier search."""

    query: str


class EditFile(Struct, frozen=True):
    """The message says which text of which file becomes which."""

    path: str
    search: str
    replace: str


Direct = ReadFile | ListFolder | Search | EditFile


class Earlier(Struct, frozen=True):
    """What calls before this message were about, for words like "that file again"."""

    read: str | None = None
    """The file that was read last."""
    query: str | None = None
    """What was searched for last."""
    folder: str | None = None
    """Where the last search, listing or read was."""


class Asking(Struct, frozen=True, kw_only=True):
    surface: Surface
    investigates: bool = False
    """Something must be found in the code before it can be answered."""
    mode: Mode = Mode.GENERAL
    broad: bool = False
    """All places are asked for, so that one of them is not enough."""
    scope: str | None = None
    """The folder the message keeps to."""
    direct: Direct | None = None


_MODES: Final = (
    (Mode.USAGE, vocabulary.USAGE),
    (Mode.CONFIG, vocabulary.CONFIG),
    (Mode.INIT, vocabulary.INIT),
    (Mode.CREATE, vocabulary.CREATE),
    (Mode.REGISTER, vocabulary.REGISTER),
    (Mode.LOAD, vocabulary.LOAD),
    (Mode.SAVE, vocabulary.SAVE),
    (Mode.DEFINITION, vocabulary.DEFINITION),
)


def read_message(text: str, earlier: Earlier) -> Asking:
    """Pure: the same words and the same past give the same reading.

    | surface | when, the first that fits |
    |---|---|
    | git-read-only | it begins with a git question (`phrases.is_git_question`) |
    | mutation-enabled | one of `vocabulary.CHANGES` as a plain word: not quoted, not part of a name |
    | retrieval-first | something to find out, to read or to list; a path |
    | answer-only | anything else |

    Something is to be found out if the message names an identifier (`snake_case`, `PascalCase`, `camelCase`) or a
    file of code, says `search`, or joins a word of looking up with a term of code; not if it names a file to read or a
    folder to list. Paths are given as they are written; where two readings are possible there is none.
    """
    if is_git_question(text):
        return Asking(surface=GIT_READ_ONLY)
    pieces = pieces_of(text)
    words = [piece.word for piece in pieces]
    if any(_is_change(piece) for piece in pieces):
        edit = edit_in(text)
        direct = None if edit is None else EditFile(*edit)
        return Asking(surface=MUTATION_ENABLED, scope=None if direct else _scope(pieces, earlier), direct=direct)
    said = frozenset(words)
    shape = Shape(pieces)
    direct, settled = _direct(shape, text, earlier)
    if settled:
        return Asking(surface=RETRIEVAL_FIRST, direct=direct)
    scope = _scope(pieces, earlier)
    if direct is not None or _is_lookup(said, words) or any(map(_names_code, pieces)):
        return Asking(
            surface=RETRIEVAL_FIRST,
            investigates=True,
            mode=next((mode for mode, terms in _MODES if said & terms), Mode.GENERAL),
            broad=_is_broad(said, words),
            scope=scope,
            direct=direct,
        )
    looks = any(map(is_path, pieces)) or bool(said & LISTING and said & FOLDER_TERMS) or wants_to_read(shape)
    return Asking(surface=RETRIEVAL_FIRST if looks or scope is not None else ANSWER_ONLY, scope=scope)


def _is_change(piece: Piece) -> bool:
    """A word of change, or several with slashes between them."""
    if piece.quoted:
        return False
    parts = piece.text.lower().split("/") if "/" in piece.text else [piece.word]
    return all(part in CHANGES for part in parts)


def _direct(shape: Shape, text: str, earlier: Earlier) -> tuple[Direct | None, bool]:
    """What is asked for outright, and whether the message names what to look at, so that nothing has to be found.

    Two files at once, or "that file" where there was none, are named as well, but not asked for here.
    """
    phrase = " ".join(text.lower().split()).rstrip(".!? ") if len(text) < _ANCHOR_ROOM else ""
    if phrase in _THAT_FILE:
        return (None if earlier.read is None else ReadFile(earlier.read, raw=True)), True
    if phrase in _THAT_SEARCH:
        return (None if earlier.query is None else Search(earlier.query)), False
    found = file_to_read(shape)
    if found is not None:
        path, raw, rest = found
        if any(piece.word in LOOKS_UP for piece in rest):
            return None, False
        return (None if any(map(is_path, rest)) else ReadFile(path, raw)), True
    folder = folder_to_list(shape)
    return (None, False) if folder is None else (ListFolder(folder), True)


def _scope(pieces: Sequence[Piece], earlier: Earlier) -> str | None:
    """`in` or `within`, perhaps `the`, and a path with a slash; or `in the same folder`. Two of them are none."""
    found: set[str] = set()
    for at, piece in enumerate(pieces):
        if piece.word not in ("in", "within"):
            continue
        after = pieces[at + 1 : at + 4]
        if [one.word for one in after] == ["the", "same", "folder"]:
            found |= {earlier.folder} if earlier.folder is not None else set()
            continue
        named = after[1] if len(after) > 1 and after[0].word == "the" else after[0] if after else None
        if named is not None and is_path(named) and ("/" in named.text or "\\" in named.text):
            found.add(named.text.rstrip("/\\"))
    return found.pop() if len(found) == 1 else None


def _is_lookup(said: frozenset[str], words: Sequence[str]) -> bool:
    if "search" in said or (said & LOOKS_UP and said & CODE_TERMS):
        return True
    return any(one == "which" and other in ("file", "files", "module", "modules") for one, other in pairwise(words))


def _names_code(piece: Piece) -> bool:
    """An identifier, perhaps inside `obj.name(…)`, or a file of code. The folders of a path say nothing."""
    if piece.kind is Kind.FILE and " " not in piece.text and (is_code(piece.text) or is_settings(piece.text)):
        return True
    if piece.kind.is_path or len(piece.text) > LONGEST:
        return False
    return any(map(is_identifier, _NAME.findall(piece.text)))


def is_identifier(name: str) -> bool:
    """`snake_case` with parts of two or more, `PascalCase` and `camelCase` of five or more with a capital inside."""
    if "_" in name:
        return _SNAKE.fullmatch(name) is not None
    if len(name) < _SHORTEST_HUMPED or name in PROPER_NAMES:
        return False
    humps = any(map(str.isupper, name[1:])) and sum(map(str.islower, name)) >= 2
    return humps and (name[0].isupper() or _CAMEL.match(name) is not None)


def _is_broad(said: frozenset[str], words: Sequence[str]) -> bool:
    if said & (ALL_OF_THEM - {"all"}):
        return True
    return any(word == "all" and before not in ("at", "after") for before, word in pairwise(["", *words]))

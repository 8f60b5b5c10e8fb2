"""What a message asks for: the tools it needs, whether something must be found out, and what it names outright."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from enum import StrEnum
from itertools import pairwise
from typing import Final

from msgspec import Struct

from holdfast.agent.guard import vocabulary
from holdfast.agent.guard.changing import asks_for_change
from holdfast.agent.guard.edits import edit_in
from holdfast.agent.guard.file_names import LONGEST, Kind, is_code, is_settings
from holdfast.agent.guard.pasted import without_pasted
from holdfast.agent.guard.phrases import (
    Shape,
    file_to_read,
    folder_to_list,
    is_git_question,
    is_path,
    lines_of,
    wants_to_read,
)
from holdfast.agent.guard.vocabulary import (
    ALL_OF_THEM,
    CHANGES,
    CODE_TERMS,
    FOLDER_TERMS,
    FOLDERS,
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
    lines: tuple[int, int] | None = None
    """The first and the last line that are asked for; None for all of it."""


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
    names: frozenset[str] = frozenset()
    """The identifiers it names."""


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
    | mutation-enabled | it asks for a change (`changing.asks_for_change`) |
    | retrieval-first | something to find, to read or to list; a path, in a pasted traceback too |
    | answer-only | anything else |

    Something is to be found out if the message names an identifier (`snake_case`, `PascalCase`, `camelCase`) or a
    file of code, says `search`, or joins a word of looking up with a term of code; not if it names a file to read or a
    folder to list. Paths are given as they are written; where two readings are possible there is none. Of pasted code
    and tracebacks nothing is read but that a traceback is about files.
    """
    if is_git_question(text):
        return Asking(surface=GIT_READ_ONLY)
    own, trace = without_pasted(text)
    pieces = pieces_of(own)
    words = [piece.word for piece in pieces]
    if asks_for_change(own):
        edit = edit_in(text)
        direct = None if edit is None else EditFile(*edit)
        return Asking(surface=MUTATION_ENABLED, scope=None if direct else _scope(pieces, earlier), direct=direct)
    said = frozenset(words)
    shape = Shape(pieces)
    direct, settled = _direct(shape, own, earlier)
    if settled:
        return Asking(surface=RETRIEVAL_FIRST, direct=direct)
    scope = _scope(pieces, earlier)
    if direct is not None or _is_lookup(said, words) or any(map(_names_code, pieces)):
        return Asking(
            surface=RETRIEVAL_FIRST,
            investigates=True,
            mode=_mode(pieces),
            broad=_is_broad(said, words),
            scope=scope,
            direct=direct,
            names=frozenset(name for piece in pieces for name in _identifiers(piece)),
        )
    looks = any(map(is_path, [*pieces, *pieces_of(trace.replace('"', " "))]))
    looks = looks or bool(said & LISTING and said & FOLDER_TERMS) or wants_to_read(shape) or bool(said & LOOKS_UP)
    return Asking(surface=RETRIEVAL_FIRST if looks or scope is not None else ANSWER_ONLY, scope=scope)


def _mode(pieces: Sequence[Piece]) -> Mode:
    """`What does parse_line call?` asks what it does, not where it is used."""
    before = [None, *pieces]
    said = frozenset(
        piece.word
        for one, piece in zip(before, pieces, strict=False)
        if not (piece.word in vocabulary.DOES and one is not None and any(_identifiers(one)))
    )
    return next((mode for mode, terms in _MODES if said & terms), Mode.GENERAL)


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
        piece, raw, rest = found
        if any(after.word in LOOKS_UP for after in rest):
            return None, False
        return (None if any(map(is_path, rest)) else _reading(piece, raw)), True
    folder = folder_to_list(shape)
    return (None, False) if folder is None else (ListFolder(folder), True)


def _reading(piece: Piece, raw: bool) -> ReadFile | None:
    """The file, or the lines of it that are to be shown. Which lines help to explain some is for the model to say."""
    if not piece.place:
        return ReadFile(piece.text, raw)
    lines = lines_of(piece.place)
    return ReadFile(piece.text, raw, lines) if raw and lines is not None else None


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
        place = at + 2 if after and after[0].word == "the" else at + 1
        named = pieces[place] if place < len(pieces) else None
        if named is not None and is_path(named) and ("/" in named.text or "\\" in named.text):
            found.add(named.text.rstrip("/\\"))
            found |= {other.text.rstrip("/\\") for other in _joined(pieces[place + 1 : place + 4])}
    return found.pop() if len(found) == 1 else None


def _joined(after: Sequence[Piece]) -> Sequence[Piece]:
    """The folder that is named together with the one before: `and lib/x`, `, lib/x`, `or the tests`."""
    rest = list(after)
    joint = bool(rest) and rest[0].word in ("and", "or", "&", "plus")
    rest = rest[1:] if joint else rest
    rest = rest[1:] if rest and rest[0].word in ("the", "in", "within") else rest
    return rest[:1] if rest and (is_path(rest[0]) or (joint and rest[0].word in FOLDERS)) else []


def _is_lookup(said: frozenset[str], words: Sequence[str]) -> bool:
    if "search" in said or (said & LOOKS_UP and said & (CODE_TERMS | CHANGES)):
        return True
    return any(one == "which" and other in ("file", "files", "module", "modules") for one, other in pairwise(words))


def _names_code(piece: Piece) -> bool:
    """An identifier, perhaps inside `obj.name(…)`, or a file of code. The folders of a path say nothing."""
    if piece.kind is Kind.FILE and " " not in piece.text and (is_code(piece.text) or is_settings(piece.text)):
        return True
    return any(_identifiers(piece))


def _identifiers(piece: Piece) -> Iterator[str]:
    if not piece.kind.is_path and len(piece.text) <= LONGEST:
        yield from filter(is_identifier, _NAME.findall(piece.text))


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

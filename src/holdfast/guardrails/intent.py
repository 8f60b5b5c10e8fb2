"""What a message asks for: the tools it needs, whether something must be found out, and what it names outright."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from enum import StrEnum
from itertools import pairwise
from typing import Final

from msgspec import Struct

from holdfast.agent.loading import ANSWER_ONLY, GIT_READ_ONLY, MUTATION_ENABLED, RETRIEVAL_FIRST, Surface
from holdfast.guardrails.negation import CHANGES, asks_for_change
from holdfast.guardrails.phrases import Shape, edit_in, is_git_question, lines_of
from holdfast.models.requests.literals import mask
from holdfast.models.requests.words import (
    FOLDERS,
    LONGEST,
    Kind,
    Word,
    is_code,
    is_settings,
    plain_word,
    words_in,
    words_of,
)

READ: Final = "file.read"
LIST: Final = "file.list"
SEARCH: Final = "code.search"
EDIT: Final = "file.edit"


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


class Direct(Struct, frozen=True):
    """A call the message spells out."""

    tool: str
    args: dict[str, str | int]
    raw: bool = False
    """The content that is read is the answer itself, not words about it."""


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


_MODES: Final = {
    Mode.USAGE: words_of(
        "use uses used using usage usages call calls called caller callers invoke invokes invoked reference references "
        "referenced occur occurs occurrence occurrences appear appears"
    ),
    Mode.CONFIG: words_of("config configs configure configures configured configuring configuration setting settings"),
    Mode.INIT: words_of(
        "init initialise initialises initialised initialising initialisation initialize initializes initialized "
        "initializing initialization"
    ),
    Mode.CREATE: words_of("create creates created creating creation instantiate instantiates instantiated"),
    Mode.REGISTER: words_of("register registers registered registering registration"),
    Mode.LOAD: words_of("load loads loaded loading"),
    Mode.SAVE: words_of("save saves saved saving store stored stores persist persists persisted"),
    Mode.DEFINITION: words_of(
        "define defines defined definition definitions declare declares declared declaration implement implements "
        "implemented implementation"
    ),
}
"""The words that say what an answer has to show. Whole words only: `created` is not `create`."""
_LOOKS_UP: Final = words_of("find where where's locate search")
_DOES: Final = words_of("use call invoke reference")
"""After a name these say what it does itself."""
_CODE_TERMS: Final = CHANGES.union(*_MODES.values()) | words_of(
    "class classes code codebase command constant endpoint enum exception file files function functions handler "
    "interface method methods module modules package parser repo repository route source struct test tests tool trait "
    "type variable exported handled imported logged parsed raised rendered tested thrown validated"
)
"""Beside a word of looking up, these say that the looking is in the code."""
_ALL_OF_THEM: Final = words_of("every everywhere usages occurrences callers references places")
_LISTING: Final = words_of("list ls show display explore browse tree what which")
_FOLDER_TERMS: Final = words_of("files folder folders directory directories dir dirs structure layout contents")
_PROPER_NAMES: Final = words_of(
    "JavaScript TypeScript GitHub GitLab BitBucket PostgreSQL MongoDB MySQL MariaDB OpenAI ChatGPT YouTube LinkedIn "
    "GraphQL WhatsApp WordPress PowerShell CoffeeScript OpenSSL FreeBSD CentOS MacBook MacOS DevOps LaTeX "
    "PyTorch TensorFlow FastAPI SQLite JetBrains NodeJS"
)
"""Written like a class, and known to be none."""
_THAT_FILE: Final = ("read that file", "read that file again")
_THAT_SEARCH: Final = ("search that again", "search that again in the same folder")
_IN_TRACE: Final = re.compile(r"\(most recent call (?:last|first)\)", re.IGNORECASE)
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SNAKE: Final = re.compile(r"_*[A-Za-z][A-Za-z0-9]+(?:_[A-Za-z0-9]{2,})+_*|__[a-z][a-z0-9]+__")
_CAMEL: Final = re.compile(r"[a-z]{2,}[0-9]*[A-Z][a-z]")
_SHORTEST_HUMPED: Final = 5


def read_message(text: str, earlier: Earlier) -> Asking:
    """Pure: the same words and the same past give the same reading.

    | surface | when, the first that fits |
    |---|---|
    | git-read-only | it begins with a git question (`phrases.is_git_question`) |
    | mutation-enabled | it asks for a change (`negation.asks_for_change`) |
    | retrieval-first | something to find, to read or to list; a path, in a pasted traceback too |
    | answer-only | anything else |

    Something is to be found out if the message names an identifier (`snake_case`, `PascalCase`, `camelCase`) or a
    file of code, says `search`, or joins a word of looking up with a term of code; not if it names a file to read or a
    folder to list. Paths are given as they are written; where two readings are possible there is none. Of pasted code
    and tracebacks nothing is read but that a traceback is about files.
    """
    if is_git_question(text):
        return Asking(surface=GIT_READ_ONLY)
    masked = mask(text)
    masked = masked._replace(text=_IN_TRACE.sub(" ", masked.text))
    words = words_in(masked)
    if asks_for_change(masked):
        edit = edit_in(masked)
        direct = None if edit is None else Direct(EDIT, dict(zip(("path", "search", "replace"), edit, strict=True)))
        return Asking(surface=MUTATION_ENABLED, scope=None if direct else _scope(words, earlier), direct=direct)
    plain = [word.plain for word in words]
    said = frozenset(plain)
    shape = Shape(words)
    direct, settled = _direct(shape, masked.text, earlier)
    if settled:
        return Asking(surface=RETRIEVAL_FIRST, direct=direct)
    scope = _scope(words, earlier)
    if direct is not None or _is_lookup(said, plain) or any(map(_names_code, words)):
        return Asking(
            surface=RETRIEVAL_FIRST,
            investigates=True,
            mode=_mode(words),
            broad=_is_broad(said, plain),
            scope=scope,
            direct=direct,
            names=frozenset(name for word in words for name in _identifiers(word)),
        )
    traced = map(plain_word, masked.traces.replace('"', " ").split())
    looks = any(word.is_path for word in (*words, *traced))
    looks = looks or bool(said & _LISTING and said & _FOLDER_TERMS) or shape.wants_to_read() or bool(said & _LOOKS_UP)
    return Asking(surface=RETRIEVAL_FIRST if looks or scope is not None else ANSWER_ONLY, scope=scope)


def _mode(words: Sequence[Word]) -> Mode:
    """`What does parse_line call?` asks what it does, not where it is used."""
    said = frozenset(
        word.plain
        for before, word in zip([None, *words], words, strict=False)
        if not (word.plain in _DOES and before is not None and any(_identifiers(before)))
    )
    return next((mode for mode, terms in _MODES.items() if said & terms), Mode.GENERAL)


def _direct(shape: Shape, text: str, earlier: Earlier) -> tuple[Direct | None, bool]:
    """What is asked for outright, and whether the message names what to look at, so that nothing has to be found.

    Two files at once, or "that file" where there was none, are named as well, but not asked for here.
    """
    phrase = " ".join(text.lower().split()).rstrip(".!? ")
    if phrase in _THAT_FILE:
        return (None if earlier.read is None else Direct(READ, {"path": earlier.read}, raw=True)), True
    if phrase in _THAT_SEARCH:
        return (None if earlier.query is None else Direct(SEARCH, {"query": earlier.query})), False
    found = shape.file_to_read()
    if found is not None:
        word, raw, rest = found
        if any(after.plain in _LOOKS_UP for after in rest):
            return None, False
        return (None if any(after.is_path for after in rest) else _reading(word, raw)), True
    folder = shape.folder_to_list()
    return (None, False) if folder is None else (Direct(LIST, {"path": folder}), True)


def _reading(word: Word, raw: bool) -> Direct | None:
    """The file, or the lines of it that are to be shown. Which lines help to explain some is for the model to say."""
    if not word.place:
        return Direct(READ, {"path": word.text}, raw)
    lines = lines_of(word.place) if raw else None
    if lines is None:
        return None
    return Direct(READ, {"path": word.text, "offset": lines[0], "limit": lines[1] - lines[0] + 1}, raw)


def _scope(words: Sequence[Word], earlier: Earlier) -> str | None:
    """`in` or `within`, perhaps `the`, and a path with a slash; or `in the same folder`. Two of them are none."""
    found: set[str] = set()
    for at, word in enumerate(words):
        if word.plain not in ("in", "within"):
            continue
        after = words[at + 1 : at + 6]
        if [one.plain for one in after[:3]] == ["the", "same", "folder"]:
            found |= {earlier.folder} if earlier.folder is not None else set()
            continue
        after = after[1:] if after and after[0].plain == "the" else after
        if after and after[0].is_path and ("/" in after[0].text or "\\" in after[0].text):
            found |= {named.text.rstrip("/\\") for named in (after[0], *_joined(after[1:4]))}
    return found.pop() if len(found) == 1 else None


def _joined(after: Sequence[Word]) -> Sequence[Word]:
    """The folder that is named together with the one before: `and lib/x`, `, lib/x`, `or the tests`."""
    rest = list(after)
    joint = bool(rest) and rest[0].plain in ("and", "or", "&", "plus")
    rest = rest[1:] if joint else rest
    rest = rest[1:] if rest and rest[0].plain in ("the", "in", "within") else rest
    return rest[:1] if rest and (rest[0].is_path or (joint and rest[0].plain in FOLDERS)) else []


def _is_lookup(said: frozenset[str], plain: Sequence[str]) -> bool:
    if "search" in said or (said & _LOOKS_UP and said & _CODE_TERMS):
        return True
    return any(one == "which" and other in ("file", "files", "module", "modules") for one, other in pairwise(plain))


def _names_code(word: Word) -> bool:
    """An identifier, perhaps inside `obj.name(…)`, or a file of code. The folders of a path say nothing."""
    if word.kind is Kind.FILE and " " not in word.text and (is_code(word.text) or is_settings(word.text)):
        return True
    return any(_identifiers(word))


def _identifiers(word: Word) -> Iterator[str]:
    if not word.kind.is_path and len(word.text) <= LONGEST:
        yield from filter(is_identifier, _NAME.findall(word.text))


def is_identifier(name: str) -> bool:
    """`snake_case` with parts of two or more, `PascalCase` and `camelCase` of five or more with a capital inside."""
    if "_" in name:
        return _SNAKE.fullmatch(name) is not None
    if len(name) < _SHORTEST_HUMPED or name in _PROPER_NAMES:
        return False
    humps = any(map(str.isupper, name[1:])) and sum(map(str.islower, name)) >= 2
    return humps and (name[0].isupper() or _CAMEL.match(name) is not None)


def _is_broad(said: frozenset[str], plain: Sequence[str]) -> bool:
    return bool(said & _ALL_OF_THEM) or any(
        word == "all" and before not in ("at", "after") for before, word in pairwise(["", *plain])
    )

"""What counts as having seen the answer: files a search found, and why reading one of them may not be enough."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from enum import Enum, StrEnum
from typing import Final

from msgspec import Struct

from holdfast.contract.json import Json
from holdfast.contract.result import Result
from holdfast.guardrails.intent import Mode
from holdfast.models.requests.words import is_code, is_config_file, is_config_format, is_lockfile, is_prose
from holdfast.tools.search.ranking import defined_name

_TERMS: Final = {
    Mode.INIT: ("init",),
    Mode.CREATE: ("creat", "instantiat", "construct"),
    Mode.REGISTER: ("regist",),
    Mode.LOAD: ("load",),
    Mode.SAVE: ("save", "saving", "store", "persist"),
}
"""The beginnings of the words one of which a file must hold to show where something is initialised, created, …"""
_ASIDE: Final = re.compile(
    r"(?:^|/)(?:tests?|specs?|__tests__|examples?|vendor|third_party|node_modules|generated)/"
    r"|(?:^|/)test_[^/]*$|[._](?:test|spec|min|generated)\.\w+$|_test\.\w+$"
)
"""Tests, examples, and what others wrote or a program made."""


class Candidate(Struct, frozen=True, kw_only=True):
    """A file a search found."""

    path: str
    matches: int
    lines: tuple[str, ...]
    """The matching lines that were shown."""
    exact_definition: bool = False


class Rejection(StrEnum):
    """Why a file that was read is not evidence."""

    DEFINITION_ONLY = "only defines it"
    NOT_CONFIG = "is no configuration file"
    LACKS_TERM = "does not speak of it"
    NOT_DEFINITION = "does not define it"
    LOCKFILE = "is a lock file"
    IMPORT_ONLY = "only imports it"


def candidates_of(result: Result) -> tuple[Candidate, ...]:
    """The files of a typed `code.search` result, in its order, each once; none for anything else."""
    found: dict[str, Candidate] = {}
    match result.structured if result.success else None:
        case {"query": str(), "files": list(files)}:
            for candidate in filter(None, map(_candidate, files)):
                found.setdefault(plain_path(candidate.path), candidate)
        case _:
            pass
    return tuple(found.values())


def _candidate(file: Json) -> Candidate | None:
    match file:
        case {"path": str(path), "matches": int(matches), "lines": list(lines)} if path:
            texts = (line.get("text") for line in lines if isinstance(line, dict))
            shown = tuple(text for text in texts if isinstance(text, str))
            exact = file.get("exact_definition") is True
            return Candidate(path=path, matches=matches, lines=shown, exact_definition=exact)
        case _:
            return None


# Paths, by their spelling alone


def plain_path(path: str) -> str:
    """One spelling for all: `/` between parts, none of them empty or `.`. A `..` stays: links decide about it."""
    slashed = path.replace("\\", "/")
    parts = [part for part in slashed.split("/") if part not in ("", ".")]
    return ("/" if slashed.startswith("/") else "") + "/".join(parts)


def same_path(one: str, other: str) -> bool:
    """Whether two spellings (`./a`, `a`, `a\\b`) mean the same file."""
    return plain_path(one) == plain_path(other)


def is_plain(path: str) -> bool:
    """Whether it leads straight down from the project's folder, so that another such path means another file."""
    if not path or path.startswith(("/", "~", "\\")) or ":" in path:
        return False
    return ".." not in plain_path(path).split("/")


def is_inside(path: str, folder: str) -> bool:
    """A path that leads up again is not taken for inside."""
    inner, outer = plain_path(path), plain_path(folder)
    return ".." not in inner.split("/") and (not outer or inner == outer or inner.startswith(f"{outer}/"))


def refers_to(written: str, path: str) -> bool:
    """Whether a path as an answer writes it can mean this file: the whole of it, or its last parts (`rails.py`)."""
    short, full = plain_path(written), plain_path(path)
    return bool(short) and (full == short or full.endswith(f"/{short}"))


# Lines of code

_MODIFIERS: Final = re.compile(
    r"\s*(?:(?:export|default|declare|public|private|protected|internal|static|final|abstract|sealed|open|override"
    r"|virtual|inline|data|async|unsafe|pub\([a-z :]{1,60}\)|pub(?=\s+(?:async|unsafe|extern)\b))\s+)++"
)
_IMPORT: Final = re.compile(
    r"""\s*(?:
        from\s+\S+\s+import\b
      | (?:@|\#\s*)?import\b(?!\s*[(:=.])
      | export\s+(?:type\s+)?(?:\*|\{)[^'"]{0,300}\bfrom\s*['"]
      | \#\s*include\b
      | (?:pub(?:\([a-z\s:]{1,60}\))?\s+)?use\s+[\w:\\{@]
      | @(?:use|forward)\s+['"]
      | extern\s+crate\b
      | (?:global\s+)?using\s+(?:static\s+|namespace\s+)?[\w.:]+\s*;
      | (?:(?:const|let|var|local)\s+[^=]{1,200}=\s*)?require(?:_once|_relative)?\s*(?:\(\s*)?['"]
      | include(?:_once)?\s*(?:\(\s*)?['"]
      | source\s+\S
    )""",
    re.VERBOSE,
)
_GIVES_VALUE: Final = re.compile(r"(?:const|static|type)\b[^=]{1,200}=(?!=)")
_LONGEST: Final = 600


class LineRole(Enum):
    """What a line of code does with a name it holds."""

    DEFINE = "define"
    IMPORT = "import"
    USE = "use"


def line_role(line: str, *, exact: bool) -> LineRole:
    """`exact`: some line of the file defines exactly what was searched for.

    Where none does, the name on the right of `const x = name()` is used there, although the line defines something.
    """
    if _IMPORT.match(line[:_LONGEST]):
        return LineRole.IMPORT
    bare = _bare(line)
    if defined_name(bare) is None:
        return LineRole.USE
    return LineRole.USE if not exact and _GIVES_VALUE.search(bare[:_LONGEST]) else LineRole.DEFINE


def _bare(line: str) -> str:
    """Without the modifiers before a definition."""
    modifiers = _MODIFIERS.match(line[:_LONGEST])
    return line[modifiers.end() :] if modifiers else line


# Gates


class _CandidateSummary:
    """A candidate, and what its lines say about it."""

    def __init__(self, found: Candidate, place: int) -> None:
        self.path, self.lines, self.place = found.path, found.lines, place
        self.source, self.lockfile = is_code(found.path), is_lockfile(found.path)
        does = Counter(line_role(line, exact=found.exact_definition) for line in found.lines if self.source)
        hidden = max(found.matches - len(found.lines), 0)
        self.uses = len(found.lines) - does[LineRole.DEFINE] - does[LineRole.IMPORT] + hidden
        """Lines that neither define nor import; those not shown count as such."""
        self.import_only = 0 < does[LineRole.IMPORT] == does.total() and not hidden
        self.definition_only = does[LineRole.DEFINE] > 0 == self.uses
        exact = found.exact_definition and not self.import_only
        self.definition = 2 if exact else min(does[LineRole.DEFINE], 1)
        """2: it defines exactly what was searched for; 1: a line reads like a definition; 0: none does."""
        self.is_usage = self.source and self.uses > 0
        self.configures = is_config_file(found.path) and not self.import_only
        self.shows_something = not self.lockfile and not self.import_only and not is_prose(found.path)
        """More than imports, in something other than prose or a lock file."""


def rejection_of(mode: Mode, path: str, content: str, candidates: Sequence[Candidate]) -> Rejection | None:
    """Why reading `path`, one of the candidates, does not answer a message of this mode; None if it does.

    A file is only ever turned down for a better one: where no other candidate could pass the same gate, it counts.
    """
    seen = [_CandidateSummary(candidate, place) for place, candidate in enumerate(candidates)]
    others = [one for one in seen if not one.lockfile and not same_path(one.path, path)]
    this = next((one for one in seen if same_path(one.path, path)), None)
    shown = any(one.shows_something for one in others)
    if is_lockfile(path) and others:
        return Rejection.LOCKFILE
    if mode is Mode.USAGE and this is not None and this.definition_only and any(one.is_usage for one in others):
        return Rejection.DEFINITION_ONLY
    if mode is Mode.CONFIG and not is_config_file(path) and any(one.configures for one in others):
        return Rejection.NOT_CONFIG
    if mode is Mode.DEFINITION and this is not None and any(one.definition > this.definition for one in others):
        return Rejection.NOT_DEFINITION
    if mode in _TERMS and shown and not _holds(content, _TERMS[mode]):
        return Rejection.LACKS_TERM
    return Rejection.IMPORT_ONLY if this is not None and this.import_only and shown else None


def is_evidence_alone(mode: Mode, path: str, content: str, names: Collection[str]) -> bool:
    """Whether a file no search found shows what a message asks that names these identifiers.

    There is nothing to compare it with, so that it counts only where its own lines pass the gates of the mode.
    """
    if not names or is_lockfile(path) or not any(name in content for name in names):
        return False
    wanted = re.compile(r"(?<!\w)(?:" + "|".join(map(re.escape, sorted(names))) + r")(?!\w)")
    lines = tuple(line for line in content.splitlines() if wanted.search(line))
    exact = any(defined_name(_bare(line)) in names for line in lines)
    seen = _CandidateSummary(Candidate(path=path, matches=len(lines), lines=lines, exact_definition=exact), 0)
    if not lines or seen.import_only:
        return False
    if mode is Mode.USAGE:
        return not seen.definition_only
    if mode is Mode.CONFIG:
        return is_config_file(path)
    if mode is Mode.DEFINITION:
        return seen.definition > 0
    return mode not in _TERMS or _holds(content, _TERMS[mode])


def _holds(text: str, terms: Sequence[str]) -> bool:
    lowered = text.lower()
    return any(term in lowered for term in terms)


def best_candidate(mode: Mode, candidates: Sequence[Candidate], read: Collection[str]) -> str | None:
    """The candidate to read next, of those not read; None if there is none left worth it.

    Usage: files that use it, source before the rest, tests and vendored code later, most uses first. Configuration:
    configuration formats, then code that is configuration by name. Definition: where exactly it is defined, then where
    something is. Initialisation and its like: where a matching line says the word. General: the order of the search.
    Nothing but imports comes late in every mode, and a lock file never, unless there is nothing else at all.
    """
    seen = [_CandidateSummary(candidate, place) for place, candidate in enumerate(candidates)]
    seen = [one for one in seen if not one.lockfile] or seen
    done = {plain_path(path) for path in read}
    left = [one for one in seen if plain_path(one.path) not in done]
    return min(left, key=lambda one: _rank(mode, one)).path if left else None


def _rank(mode: Mode, one: _CandidateSummary) -> tuple[int, ...]:
    aside = _ASIDE.search(plain_path(one.path)) is not None
    if mode is Mode.USAGE:
        said = (not one.is_usage, one.import_only, one.definition_only)
        return (*said, not one.source, aside, -one.uses, one.place)
    if mode is Mode.CONFIG:
        return (not one.configures, not is_config_format(one.path), not one.shows_something, one.place)
    if mode is Mode.DEFINITION:
        return (-one.definition, not one.shows_something, aside, one.place)
    if mode in _TERMS:
        said = any(_holds(line, _TERMS[mode]) for line in one.lines)
        return (not one.shows_something, not said, not one.source, aside, one.place)
    return (not one.shows_something, one.place)

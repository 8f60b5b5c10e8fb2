"""Evidence rules: decides which files answer a message, why a file that was read does not, and which to read next."""

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
"""Word stems: a file must contain one of them to show where something is initialised, created, and so on."""
_ASIDE: Final = re.compile(
    r"(?:^|/)(?:tests?|specs?|__tests__|examples?|vendor|third_party|node_modules|generated)/"
    r"|(?:^|/)test_[^/]*$|[._](?:test|spec|min|generated)\.\w+$|_test\.\w+$"
)
"""Tests, examples, and vendored or generated code."""


class Candidate(Struct, frozen=True, kw_only=True):
    """A file that a search found."""

    path: str
    matches: int
    lines: tuple[str, ...]
    """The matching lines in the search result."""
    exact_definition: bool = False


class Rejection(StrEnum):
    """The reason why a file that was read is not evidence."""

    DEFINITION_ONLY = "only defines it"
    NOT_CONFIG = "is no configuration file"
    LACKS_TERM = "does not speak of it"
    NOT_DEFINITION = "does not define it"
    LOCKFILE = "is a lock file"
    IMPORT_ONLY = "only imports it"


def candidates_of(result: Result) -> tuple[Candidate, ...]:
    """Return the files of a typed `code.search` result in order, without duplicates; empty for any other result."""
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


# Paths, compared by spelling only


def plain_path(path: str) -> str:
    """Normalise a path: `/` as separator, no empty or `.` parts. A `..` stays, because symlinks decide its target."""
    slashed = path.replace("\\", "/")
    parts = [part for part in slashed.split("/") if part not in ("", ".")]
    return ("/" if slashed.startswith("/") else "") + "/".join(parts)


def same_path(one: str, other: str) -> bool:
    """Whether two spellings (`./a`, `a`, `a\\b`) name the same file."""
    return plain_path(one) == plain_path(other)


def is_plain(path: str) -> bool:
    """Whether the path is relative and without `..`, so that a different such path is a different file."""
    if not path or path.startswith(("/", "~", "\\")) or ":" in path:
        return False
    return ".." not in plain_path(path).split("/")


def is_inside(path: str, folder: str) -> bool:
    """Whether a path is in a folder; never for a path with `..`."""
    inner, outer = plain_path(path), plain_path(folder)
    return ".." not in inner.split("/") and (not outer or inner == outer or inner.startswith(f"{outer}/"))


def refers_to(written: str, path: str) -> bool:
    """Whether a path in an answer can mean this file: the full path, or its last parts (`rails.py`)."""
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
    """What a line of code does with a name in it."""

    DEFINE = "define"
    IMPORT = "import"
    USE = "use"


def line_role(line: str, *, exact: bool) -> LineRole:
    """Classify a line. `exact`: some line of the file defines exactly the searched name.

    If none does, the name on the right of `const x = name()` is a use, although the line defines something.
    """
    if _IMPORT.match(line[:_LONGEST]):
        return LineRole.IMPORT
    bare = _bare(line)
    if defined_name(bare) is None:
        return LineRole.USE
    return LineRole.USE if not exact and _GIVES_VALUE.search(bare[:_LONGEST]) else LineRole.DEFINE


def _bare(line: str) -> str:
    """Strip the modifiers before a definition."""
    modifiers = _MODIFIERS.match(line[:_LONGEST])
    return line[modifiers.end() :] if modifiers else line


# Rejections


class _CandidateSummary:
    """A candidate and what its matching lines say about it."""

    def __init__(self, found: Candidate, place: int) -> None:
        self.path, self.lines, self.place = found.path, found.lines, place
        self.source, self.lockfile = is_code(found.path), is_lockfile(found.path)
        does = Counter(line_role(line, exact=found.exact_definition) for line in found.lines if self.source)
        hidden = max(found.matches - len(found.lines), 0)
        self.uses = len(found.lines) - does[LineRole.DEFINE] - does[LineRole.IMPORT] + hidden
        """Lines that neither define nor import, including those that the search did not show."""
        self.import_only = 0 < does[LineRole.IMPORT] == does.total() and not hidden
        self.definition_only = does[LineRole.DEFINE] > 0 == self.uses
        exact = found.exact_definition and not self.import_only
        self.definition = 2 if exact else min(does[LineRole.DEFINE], 1)
        """2: defines exactly the searched name; 1: a line looks like a definition; 0: neither."""
        self.is_usage = self.source and self.uses > 0
        self.configures = is_config_file(found.path) and not self.import_only
        self.shows_something = not self.lockfile and not self.import_only and not is_prose(found.path)
        """Holds more than imports, and is neither prose nor a lock file."""


def rejection_of(mode: Mode, path: str, content: str, candidates: Sequence[Candidate]) -> Rejection | None:
    """Return why reading `path`, one of the candidates, does not answer a message of this mode; None if it does.

    A file is rejected only for a better one: if no other candidate could pass the same check, it counts.
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
    """Whether a file that no search found answers a message with these identifiers.

    There are no candidates to compare it with, so its own lines must pass the checks of the mode.
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
    """Return the best candidate that was not read; None if there is none.

    Usage: files with uses, source first, tests and vendored code later, most uses first. Configuration: configuration
    formats, then code that is configuration by name. Definition: the exact definition, then any definition.
    Initialisation and similar: files with a matching line that contains the term. General: the order of the search.
    Files with only imports come late in every mode, and lock files are used only if there is nothing else.
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

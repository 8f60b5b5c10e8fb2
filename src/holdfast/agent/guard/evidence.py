"""What counts as having seen the answer: files a search found, and why reading one of them may not be enough."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from enum import StrEnum
from typing import Final, cast

from msgspec import Struct

from holdfast.agent.guard.asking import Mode
from holdfast.agent.guard.code_lines import Does, name_defined, what_it_does
from holdfast.agent.guard.file_names import is_code, is_configuration, is_lockfile, is_prose, is_settings
from holdfast.agent.guard.mentions import paths_in
from holdfast.contract.result import Result

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


class Candidate(Struct, frozen=True, kw_only=True):
    """A file a search found."""

    path: str
    matches: int
    lines: tuple[str, ...]
    """The matching lines that were shown."""
    exact_definition: bool = False


class Gate(StrEnum):
    """Why a file that was read is not evidence."""

    DEFINITION_ONLY = "definition-only"
    NOT_CONFIG = "not-config"
    LACKS_TERM = "lacks-term"
    NOT_DEFINITION = "not-definition"
    LOCKFILE = "lockfile"
    IMPORT_ONLY = "import-only"


def candidates_of(result: Result) -> tuple[Candidate, ...]:
    """The files of a typed `code.search` result, in its order, each once; none for anything else."""
    output = result.structured
    if not result.success or not isinstance(output, dict) or not isinstance(output.get("query"), str):
        return ()
    files = output.get("files")
    found: dict[str, Candidate] = {}
    for file in files if isinstance(files, list) else []:
        candidate = _candidate(file)
        if candidate is not None:
            found.setdefault(plain_path(candidate.path), candidate)
    return tuple(found.values())


def _candidate(file: object) -> Candidate | None:
    if not isinstance(file, dict):
        return None
    fields = cast("dict[str, object]", file)
    path, matches, lines = fields.get("path"), fields.get("matches"), fields.get("lines")
    if not isinstance(path, str) or not path or not isinstance(matches, int) or not isinstance(lines, list):
        return None
    shown = [cast("dict[str, object]", line) for line in cast("list[object]", lines) if isinstance(line, dict)]
    texts = [line.get("text") for line in shown]
    return Candidate(
        path=path,
        matches=matches,
        lines=tuple(text for text in texts if isinstance(text, str)),
        exact_definition=fields.get("exact_definition") is True,
    )


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


def refers_to(written: str, path: str) -> bool:
    """Whether a path as an answer writes it can mean this file: the whole of it, or its last parts (`rails.py`)."""
    short, full = plain_path(written), plain_path(path)
    return bool(short) and (full == short or full.endswith(f"/{short}"))


class _Seen(Struct, frozen=True, kw_only=True):
    """A candidate, and what its lines say about it."""

    path: str
    place: int
    """In the search's own order."""
    source: bool
    lockfile: bool
    definition: int
    """2: it defines exactly what was searched for; 1: a line reads like a definition; 0: none does."""
    definition_only: bool
    import_only: bool
    uses: int
    """Lines that neither define nor import; those not shown count as such."""
    lines: tuple[str, ...]

    @property
    def is_usage(self) -> bool:
        return self.source and self.uses > 0

    @property
    def configures(self) -> bool:
        return is_configuration(self.path) and not self.import_only

    @property
    def shows_something(self) -> bool:
        """More than imports, in something other than prose or a lock file."""
        return not self.lockfile and not self.import_only and not is_prose(self.path)


def _see(candidate: Candidate, place: int) -> _Seen:
    source = is_code(candidate.path)
    done = [what_it_does(line, exact=candidate.exact_definition) for line in candidate.lines] if source else []
    defining, importing = done.count(Does.DEFINE), done.count(Does.IMPORT)
    hidden = max(candidate.matches - len(candidate.lines), 0)
    import_only = importing > 0 and importing == len(done) and not hidden
    exact = candidate.exact_definition and not import_only
    return _Seen(
        path=candidate.path,
        place=place,
        source=source,
        lockfile=is_lockfile(candidate.path),
        definition=2 if exact else min(defining, 1),
        definition_only=defining > 0 and defining + importing == len(done) and not hidden,
        import_only=import_only,
        uses=len(candidate.lines) - defining - importing + hidden,
        lines=candidate.lines,
    )


def rejecting(mode: Mode, path: str, content: str, candidates: Sequence[Candidate]) -> Gate | None:
    """Why reading `path`, one of the candidates, does not answer a message of this mode; None if it does.

    A file is only ever turned down for a better one: where no other candidate could pass the same gate, it counts.
    """
    seen = [_see(candidate, place) for place, candidate in enumerate(candidates)]
    others = [one for one in seen if not one.lockfile and not same_path(one.path, path)]
    this = next((one for one in seen if same_path(one.path, path)), None)
    if is_lockfile(path) and others:
        return Gate.LOCKFILE
    gate = _rejecting_mode(mode, path, content, this, others)
    if gate is None and this is not None and this.import_only and any(one.shows_something for one in others):
        return Gate.IMPORT_ONLY
    return gate


def _rejecting_mode(mode: Mode, path: str, content: str, this: _Seen | None, others: Sequence[_Seen]) -> Gate | None:
    if mode is Mode.USAGE and this is not None and this.definition_only and any(one.is_usage for one in others):
        return Gate.DEFINITION_ONLY
    if mode is Mode.CONFIG and not is_configuration(path) and any(one.configures for one in others):
        return Gate.NOT_CONFIG
    if mode is Mode.DEFINITION and this is not None and any(one.definition > this.definition for one in others):
        return Gate.NOT_DEFINITION
    terms = _TERMS.get(mode)
    if terms and not _holds(content, terms) and any(one.shows_something for one in others):
        return Gate.LACKS_TERM
    return None


def shows_alone(mode: Mode, path: str, content: str, names: Collection[str]) -> bool:
    """Whether a file no search found shows what a message asks that names these identifiers.

    There is nothing to compare it with, so that it counts only where its own lines pass the gates of the mode.
    """
    wanted = re.compile(r"(?<!\w)(?:" + "|".join(map(re.escape, sorted(names))) + r")(?!\w)")
    if not names or is_lockfile(path) or not any(name in content for name in names):
        return False
    lines = tuple(line for line in content.splitlines() if wanted.search(line))
    exact = any(name_defined(line) in names for line in lines)
    seen = _see(Candidate(path=path, matches=len(lines), lines=lines, exact_definition=exact), 0)
    if not lines or seen.import_only:
        return False
    if mode is Mode.USAGE:
        return not seen.definition_only
    if mode is Mode.CONFIG:
        return is_configuration(path)
    if mode is Mode.DEFINITION:
        return seen.definition > 0
    return mode not in _TERMS or _holds(content, _TERMS[mode])


def _holds(text: str, terms: Sequence[str]) -> bool:
    lowered = text.lower()
    return any(term in lowered for term in terms)


def best(mode: Mode, candidates: Sequence[Candidate], read: Collection[str]) -> str | None:
    """The candidate to read next, of those not read; None if there is none left worth it.

    Usage: files that use it, source before the rest, tests and vendored code later, most uses first. Configuration:
    configuration formats, then code that is configuration by name. Definition: where exactly it is defined, then where
    something is. Initialisation and its like: where a matching line says the word. General: the order of the search.
    Nothing but imports comes late in every mode, and a lock file never, unless there is nothing else at all.
    """
    seen = [_see(candidate, place) for place, candidate in enumerate(candidates)]
    if any(not one.lockfile for one in seen):
        seen = [one for one in seen if not one.lockfile]
    done = {plain_path(path) for path in read}
    left = [one for one in seen if plain_path(one.path) not in done]
    return min(left, key=_order(mode)).path if left else None


def _order(mode: Mode) -> Callable[[_Seen], tuple[int, ...]]:
    def usage(one: _Seen) -> tuple[int, ...]:
        said = (not one.is_usage, one.import_only, one.definition_only)
        return (*said, not one.source, _aside(one), -one.uses, one.place)

    def config(one: _Seen) -> tuple[int, ...]:
        return (not one.configures, not is_settings(one.path), not one.shows_something, one.place)

    def definition(one: _Seen) -> tuple[int, ...]:
        return (-one.definition, not one.shows_something, _aside(one), one.place)

    def term(one: _Seen) -> tuple[int, ...]:
        said = any(_holds(line, _TERMS[mode]) for line in one.lines)
        return (not one.shows_something, not said, not one.source, _aside(one), one.place)

    def general(one: _Seen) -> tuple[int, ...]:
        return (not one.shows_something, one.place)

    orders = {Mode.USAGE: usage, Mode.CONFIG: config, Mode.DEFINITION: definition, Mode.GENERAL: general}
    return orders.get(mode, term)


def _aside(one: _Seen) -> bool:
    """Tests, examples, and what others wrote or a program made."""
    return _ASIDE.search(plain_path(one.path)) is not None


def cited(answer: str) -> list[str]:
    """Paths of files an answer names: relative, with an extension, as they are written, each once."""
    return paths_in(answer)

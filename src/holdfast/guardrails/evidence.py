"""What searches found: the role of each matching line, the file to read, and the places in words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Final

from msgspec import Struct

from holdfast.contract.json import Json
from holdfast.contract.result import Result
from holdfast.guardrails.intent import Intent, Mode, Term
from holdfast.models.requests.masked_text import quoted, quoted_list
from holdfast.models.requests.words import is_code, is_config_file, is_config_format, is_lockfile, is_prose
from holdfast.tools.search.ranking import defined_name

_STEMS: Final = {
    Mode.INIT: ("init",),
    Mode.CREATE: ("creat", "instantiat", "construct"),
    Mode.REGISTER: ("regist",),
    Mode.LOAD: ("load",),
    Mode.SAVE: ("save", "saving", "store", "persist"),
}
"""Word stems: a matching line contains one of them if it shows where something is initialised, created, and so on."""
_ASIDE: Final = re.compile(
    r"(?:^|/)(?:tests?|specs?|__tests__|examples?|vendor|third_party|node_modules|generated)/"
    r"|(?:^|/)test_[^/]*$|[._](?:test|spec|min|generated)\.\w+$|_test\.\w+$"
)
"""Tests, examples, and vendored or generated code."""


class FoundLine(Struct, frozen=True):
    number: int
    text: str


class Candidate(Struct, frozen=True, kw_only=True):
    """A file that a search found."""

    path: str
    matches: int
    lines: tuple[FoundLine, ...]
    """The matching lines in the search result."""
    exact_definition: bool = False


class Search(Struct, frozen=True, kw_only=True):
    """A search that ran."""

    query: str
    files: tuple[Candidate, ...]
    total_files: int
    """All files with a match, including those that the result does not show."""
    within: str = ""
    """The folder or pattern that it was limited to."""
    skipped: int = 0
    """Files that could not be read."""


def search_of(result: Result) -> Search | None:
    """Return the typed result of `code.search`; None for any other result."""
    match result.structured if result.success else None:
        case {"query": str(query), "files": list(files), "total_files": int(total), **rest}:
            found: dict[str, Candidate] = {}
            for one in filter(None, map(_candidate, files)):
                found.setdefault(plain_path(one.path), one)
            skipped = rest.get("unreadable_files")
            return Search(
                query=query,
                files=tuple(found.values()),
                total_files=total,
                skipped=skipped if isinstance(skipped, int) else 0,
            )
        case _:
            return None


def _candidate(file: Json) -> Candidate | None:
    match file:
        case {"path": str(path), "matches": int(matches), "lines": list(lines)} if path:
            shown = tuple(found for line in lines if (found := _line(line)) is not None)
            exact = file.get("exact_definition") is True
            return Candidate(path=path, matches=matches, lines=shown, exact_definition=exact)
        case _:
            return None


def _line(line: Json) -> FoundLine | None:
    match line:
        case {"line": int(number), "text": str(text)}:
            return FoundLine(number, text)
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
_DECLARES: Final = re.compile(r"\A(?:(?:const|let|var|val|local|final|static)\s+)+")
_VALUE: Final = re.compile(r"\s*(?::[^=]{1,200})?(?::=|=(?![=>]))")
_SETTING: Final = re.compile(
    r"""["']?(?P<key>[\w.-]+)["']?\s*(?::\s*\w+\s*=|[:=])\s*(?:["'\d-]|true\b|false\b|[\w./:-]+,?$)""", re.IGNORECASE
)
_LONGEST: Final = 600
"""Characters of a line that are examined."""
LONGEST_EDITED: Final = 300
"""Longer lines are not proposed to a model as the text to replace."""


class LineRole(Enum):
    """What a line of code does with a name in it."""

    DEFINE = "define"
    IMPORT = "import"
    USE = "use"


def line_role(line: str, name: str) -> LineRole:
    """Classify a line with a name in it. A definition declares or assigns this name; `const x = name()` uses it."""
    if _IMPORT.match(line[:_LONGEST]):
        return LineRole.IMPORT
    bare = _bare(line)
    defined = defined_name(bare)
    if defined == name or (defined is None and _assigns(bare, name)):
        return LineRole.DEFINE
    return LineRole.USE


def _assigns(line: str, name: str) -> bool:
    """Whether a line gives the name its value: `NAME = 3`, `let name: T = …`."""
    rest = _DECLARES.sub("", line[:_LONGEST].strip(), count=1)
    return rest.startswith(name) and _VALUE.match(rest, len(name)) is not None


def _bare(line: str) -> str:
    """Strip the modifiers before a definition."""
    modifiers = _MODIFIERS.match(line[:_LONGEST])
    return line[modifiers.end() :] if modifiers else line


class Places(Struct, frozen=True, kw_only=True):
    """Where a name is, by the lines that a search found: `src/app.py:4, 9` each, with `…` if it has more."""

    defined: tuple[str, ...]
    used: tuple[str, ...]
    """A file that only defines or imports the name is not among them."""
    tested: tuple[str, ...]
    """Uses in tests and examples."""
    imported: tuple[str, ...]
    """Files that only import it."""
    mentioned: tuple[str, ...]
    """Documents and configuration that mention it."""


def places_of(name: str, files: Iterable[Candidate]) -> Places:
    found: dict[str, list[str]] = {field: [] for field in Places.__struct_fields__}
    for file in files:
        if not is_code(file.path):
            found["mentioned"].append(file.path)
            continue
        roles = [(line.number, line_role(line.text, name)) for line in file.lines]
        uses = [number for number, role in roles if role is LineRole.USE]
        definitions = [number for number, role in roles if role is LineRole.DEFINE]
        if definitions:
            found["defined"].append(f"{file.path}:{_numbers(definitions)}")
        if uses or (file.matches > len(file.lines) and not definitions):
            used = f"{file.path}:{_numbers(uses)}{', …' * (file.matches > len(file.lines))}" if uses else file.path
            found["tested" if _ASIDE.search(plain_path(file.path)) else "used"].append(used)
        elif not definitions:
            found["imported"].append(file.path)
    return Places(**{field: tuple(paths) for field, paths in found.items()})


def _numbers(lines: Sequence[int]) -> str:
    return ", ".join(map(str, lines))


def describe(name: str, search: Search, mode: Mode = Mode.GENERAL, words: Sequence[Term] = ()) -> str:
    """Say in one sentence where a name is defined and used; for a question about uses, those first.

    Paths with other words of the message come first.
    """
    named = sorted(search.files, key=lambda file: -sum(word.is_in(file.path.lower()) for word in words))
    found = places_of(name, named)
    more = search.total_files - len(search.files)
    defined = ("defined in", found.defined)
    used = (("used in", found.used), ("used in tests in", found.tested), ("only imported in", found.imported))
    both = (*used, defined) if mode is Mode.USAGE else (defined, *used)
    said = [f"{what} {quoted_list(list(paths))}" for what, paths in (*both, ("mentioned in", found.mentioned)) if paths]
    if found.defined and not found.used and not found.imported and _shows_everything(search):
        said.append("not used anywhere outside of tests" if found.tested else "not used anywhere")
    return f"{quoted(name)} is {'; '.join(said)}" + (f"; and in {more} more files." if more > 0 else ".")


def _shows_everything(search: Search) -> bool:
    """Whether no use can be missing: every match is shown, and only prose mentions the name outside of code."""
    whole = not search.within and not search.skipped and search.total_files <= len(search.files)
    return whole and all(
        is_prose(file.path) or (is_code(file.path) and file.matches <= len(file.lines)) for file in search.files
    )


def likely_line(content: str, intent: Intent) -> str:
    """Return the line that a request for a change probably means; empty if no line has two of its words (one, next to
    which something is to be added), or several lines are equally likely.

    A line that defines an identifier of the message is likelier than one that only has it.
    """
    names = [term.text for term in intent.terms if term.is_identifier]
    forms = [term.forms for term in dict.fromkeys((*intent.terms, *intent.words))]
    best: list[str] = []
    most = 1 if intent.adds else 2
    for line in content.splitlines():
        if len(line) > LONGEST_EDITED or (intent.adds and line.rstrip().endswith((":", "{", "(", "[", ","))):
            continue
        lowered = line.lower()
        defines = any(name in line and line_role(line, name) is LineRole.DEFINE for name in names)
        score = 2 * defines + sum(any(form in lowered for form in each) for each in forms)
        if intent.adds and score and not line[:1].isspace():
            score += 1  # something new is rather added beside a line of the top level
        if score > most:
            best, most = [], score
        if score == most:
            best.append(line.strip())
    if intent.adds and best:
        best = best[-1:]  # after the last line of its kind
    return best[0] if len(best) == 1 and content.count(best[0]) == 1 else ""


# The file to read


def best_file(mode: Mode, searches: Sequence[Search], terms: Sequence[Term]) -> str:
    """Return the best file that the searches found.

    A file that has more of the terms, and rarer ones, is better; a term in its path counts too. Then the mode decides.
    Usage: files with uses. Configuration: files that give a term a value, configuration formats, then code that is
    configuration by name. Definition: the definition. Initialisation and similar: files with a matching line that
    contains the stem. Tests, prose and lock files come late.
    """
    found: dict[str, Candidate] = {}
    matched: dict[str, set[str]] = {}
    rarity: dict[str, float] = {}
    for search in searches:
        for file in search.files:
            path = plain_path(file.path)
            found.setdefault(path, file)
            matched.setdefault(path, set()).add(search.query)
            rarity[path] = rarity.get(path, 0.0) + 1 / max(search.total_files, 1)
    weights: dict[str, float] = {}
    for path, queries in matched.items():
        named = {str(term.search["query"]) for term in terms if term.is_in(path.lower())}
        weight = len(queries | named) + rarity[path] / (len(searches) + 1)
        aside = _ASIDE.search(path) is not None or is_prose(path) or is_lockfile(path)
        valued = mode is Mode.CONFIG and any(_gives_value(line.text, terms) for line in found[path].lines)
        weights[path] = round(weight * (0.25 if aside else 1.0) * (2.0 if valued else 1.0), 6)
    names = [term.text for term in terms]
    best = min(found, key=lambda path: (-weights[path], _rank(mode, found[path], names), -found[path].matches))
    return found[best].path


def _gives_value(line: str, terms: Sequence[Term]) -> bool:
    """Whether a line gives one of the terms a literal value: `timeout_seconds = 12`, `"port": 8417`."""
    match = _SETTING.match(line[:_LONGEST].strip())
    return match is not None and any(term.is_in(match["key"].lower()) for term in terms)


def _rank(mode: Mode, file: Candidate, names: Sequence[str]) -> tuple[bool, ...]:
    roles = {line_role(line.text, name) for line in file.lines for name in names if is_code(file.path)}
    only_imports = roles == {LineRole.IMPORT} and file.matches <= len(file.lines)
    poor = is_lockfile(file.path) or is_prose(file.path) or only_imports
    aside = _ASIDE.search(plain_path(file.path)) is not None
    if mode is Mode.USAGE:
        return (LineRole.USE not in roles, poor, not is_code(file.path), aside)
    if mode is Mode.CONFIG:
        return (poor, not is_config_file(file.path), not is_config_format(file.path), aside)
    stems = _STEMS.get(mode)
    if stems is not None:
        said = any(stem in line.text.lower() for line in file.lines for stem in stems)
        return (poor, not said, not is_code(file.path), aside)
    defines = file.exact_definition or LineRole.DEFINE in roles
    return (not defines, poor, aside)

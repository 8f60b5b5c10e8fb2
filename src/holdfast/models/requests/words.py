"""The words of a request: plain ones, quoted ones, and what a name says about a file by its look alone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum
from typing import Final

from msgspec import Struct

from holdfast.models.requests.masked_text import INLINE, LITERAL, Masked, fences
from holdfast.tools.search.scope import CONFIG, SOURCE, extension


def words_of(text: str) -> frozenset[str]:
    return frozenset(text.split())


FOLDERS: Final = words_of("src lib docs doc tests test bin app cmd pkg include internal scripts")
"""Folders by their name alone."""
EXTENSIONLESS: Final = words_of(
    "Makefile GNUmakefile Dockerfile Containerfile Gemfile Rakefile Procfile Justfile justfile Jenkinsfile Vagrantfile "
    "Brewfile Podfile Pipfile Tiltfile"
)
"""Files by their name alone."""
_CODE: Final = SOURCE | words_of(
    "java kt kts rb php cs swift scala lua pl ex exs erl hs clj dart jl vue svelte cc cxx hh hxx mm zig nim proto "
    "graphql sol elm fs vb ps1 bat mjs cjs mts cts pyi pyx sass less gradle tf cmake mk ipynb"
)
_SETTINGS: Final = CONFIG | words_of("ini cfg conf properties editorconfig")
_PROSE: Final = words_of("md mdx rst txt adoc")
_KNOWN: Final = _CODE | _SETTINGS | _PROSE | words_of("lock csv tsv")
_PRODUCTS: Final = words_of(
    "node.js next.js vue.js nuxt.js react.js express.js three.js d3.js angular.js ember.js backbone.js moment.js "
    "discord.js alpine.js p5.js chart.js socket.io asp.net .net process.env import.meta.env"
)
_OBJECTS: Final = words_of("self this cls super request response req res resp obj args event ctx")
"""Before a dot these are things of a program: `request.json` is no file."""
_SLASHED_WORDS: Final = words_of(
    "and/or either/or i/o n/a w/o w/ yes/no on/off true/false he/she his/her client/server request/response "
    "input/output read/write reader/writer producer/consumer tcp/ip ci/cd pub/sub key/value get/set http/1 http/2 "
    "http/3 http/1.1 before/after success/failure pass/fail start/stop push/pull front/back os/2"
)
_LOCKFILES: Final = words_of(
    "package-lock.json npm-shrinkwrap.json pnpm-lock.yaml bun.lockb go.sum go.work.sum packages.lock.json "
    "conda-lock.yml package.resolved gradle.lockfile .terraform.lock.hcl"
)
_CONFIG_NAMES: Final = words_of("config conf configuration settings")
_PATH: Final = re.compile(r"[\w.@+~\-/\\]+")
_PATH_WITH_SPACES: Final = re.compile(r"[\w.@+~\-/\\ ]+")
_DRIVE: Final = re.compile(r"[A-Za-z]:[\\/]")
_EXTENSION: Final = re.compile(r"[A-Za-z][A-Za-z0-9]{0,9}")
_DOT_FILE: Final = re.compile(r"\.(?:env(?:\.[\w-]+)*|[a-z][a-z-]*(?:ignore|rc|attributes|config|keep|version))")
_DOT_NAME: Final = re.compile(r"\.[a-z][a-z0-9_-]{2,}")
_WORD: Final = re.compile(rf"{LITERAL.pattern}|[^\s\"`“”—–\ue000-\ue004]+")
_BEFORE: Final = "([{<'‘*,;:!?"
_AFTER: Final = ".,;:!?)]}>'’*…"
_PLACE: Final = re.compile(r"(?::\d+(?:[:-]\d+)?|\#L\d+(?:-L?\d+)?):?$")
_APOSTROPHES: Final = str.maketrans(dict.fromkeys("’´ʼ′`", "'"))
_DOTS: Final = re.compile(r"(?:.*[/\\])?\.\.?")
_PART: Final = re.compile(r"""[^"'`“”‘’<>()\[\]{},;:|*?!=$%&…]+""")
_BEFORE_ADDRESS: Final = re.compile(r"""["'`<>()\[\]{},;|]""")
_PATTERN_BEFORE: Final = frozenset("*?}]>$%&")
"""After one of these a name is the rest of a pattern: `*.py`, `<name>.py`."""
_DOMAIN: Final = re.compile(r"(?:www\.)?[\w.-]+\.(?:com|org|net|io|dev|ai|edu|gov|co|app)", re.IGNORECASE)
LONGEST: Final = 300
"""Nothing longer is a path or an identifier somebody wrote."""


class Kind(Enum):
    """What a word looks like. The values are how phrases write them: no plain word is upper case."""

    WORD = "W"
    FILE = "F"
    FOLDER = "D"
    EITHER = "E"
    """A path that could be a file or a folder."""

    @property
    def is_path(self) -> bool:
        return self is not Kind.WORD


def kind_of(name: str, *, quoted: bool = False) -> Kind:
    """By its look alone: a slash, or a name that ends like a file. Spaces only where quotes hold it together.

    Addresses, versions, `and/or`, `Node.js` and `self.c` are words. Nothing here asks the disk.
    """
    if name.isalnum():
        return Kind.FILE if name in EXTENSIONLESS else Kind.WORD
    if not name or len(name) > LONGEST or name.lower() in _SLASHED_WORDS or name.startswith(("@", "-")):
        return Kind.WORD
    drive = _DRIVE.match(name)
    rest = name[drive.end() - 1 :] if drive else name
    if not (_PATH_WITH_SPACES if quoted else _PATH).fullmatch(rest):
        return Kind.WORD
    path = rest.replace("\\", "/")
    if path.strip("./") == "" and path != "/" * len(path):
        return Kind.FOLDER if path.rstrip("/").split("/")[-1] in (".", "..") else Kind.WORD
    if not any(character.isalpha() for character in path):
        return Kind.FOLDER if path == "/" else Kind.WORD
    return _kind_with_folders(path) if "/" in path else _kind_of_name(path)


def _kind_with_folders(path: str) -> Kind:
    if " " in path and extension(path) not in _KNOWN:
        return Kind.WORD
    if path.endswith("/"):
        return Kind.FOLDER
    name = path[path.rfind("/") + 1 :]
    stem, dot, ending = name.rpartition(".")
    if name in EXTENSIONLESS or _DOT_FILE.fullmatch(name) or (dot and stem and _EXTENSION.fullmatch(ending)):
        return Kind.FILE
    return Kind.EITHER


def _kind_of_name(name: str) -> Kind:
    if name in EXTENSIONLESS or _DOT_FILE.fullmatch(name):
        return Kind.FILE
    if name.lower() in _PRODUCTS:
        return Kind.WORD
    if _DOT_NAME.fullmatch(name) and name[1:] not in _KNOWN:
        return Kind.EITHER
    stem, dot, ending = name.rpartition(".")
    if not dot or not stem.strip(".") or ending.lower() not in _KNOWN or stem.lower() in _OBJECTS:
        return Kind.WORD
    return Kind.WORD if len(ending) == 1 and len(stem) < 3 else Kind.FILE


class Word(Struct, frozen=True):
    text: str
    """Without quotes and the punctuation around it; empty for a block."""
    kind: Kind
    plain: str = ""
    """How a plain word is compared; empty for anything else."""
    quoted: bool = False
    place: str = ""
    """The line that was named after a path: `:12`, `:3-9`, `#L3-L9`."""

    @property
    def is_path(self) -> bool:
        """Whether it names something in the project: `.` and a command such as `/help` do not."""
        command = self.kind is Kind.EITHER and self.text.startswith("/") and self.text.count("/") == 1
        return self.kind.is_path and self.text.strip("./\\") != "" and not command


def words_in(masked: Masked) -> list[Word]:
    """In the order of the text, each literal as one."""
    words: list[Word] = []
    for match in _WORD.finditer(masked.text):
        piece = masked.piece(match[0])
        if piece is not None:
            whole = piece.text.strip() if match[0][0] == INLINE else ""
            inner = without_place(whole)
            words.append(Word(inner, kind_of(inner, quoted=True), quoted=True, place=whole[len(inner) :]))
        elif (word := plain_word(match[0])).text:
            words.append(word)
    return words


def plain_word(chunk: str) -> Word:
    """A chunk without white space, outside quotes."""
    whole = _trimmed(chunk)
    text = without_place(whole)
    kind = kind_of(text)
    plain = text.lower().translate(_APOSTROPHES) if kind is Kind.WORD else ""
    return Word(text, kind, plain, place=whole[len(text) :])


def _trimmed(chunk: str) -> str:
    """`(see` → `see`, `a.py,` → `a.py`, `a.py's` → `a.py`; `..` and `src/..` stay, and so does the `(` of a call."""
    plain = chunk.lstrip(_BEFORE)
    if len(plain) <= LONGEST and _DOTS.fullmatch(plain):
        return plain
    plain = plain.rstrip(_AFTER)
    return plain.removesuffix("'s").removesuffix("’s") if "." in plain else plain


def without_place(plain: str) -> str:
    """Without the line that is named after a path: `a.py:12`, `a.py#L3-L9`."""
    return _PLACE.sub("", plain) if len(plain) <= LONGEST else plain


def base_name(path: str) -> str:
    return path.replace("\\", "/").rstrip("/").rpartition("/")[2]


def is_code(path: str) -> bool:
    return extension(path) in _CODE or base_name(path) in EXTENSIONLESS


def is_prose(path: str) -> bool:
    return extension(path) in _PROSE


def is_settings(path: str) -> bool:
    """A format for configuration; a lock file is none."""
    name = base_name(path)
    return not is_lockfile(path) and (extension(path) in _SETTINGS or name.startswith(".env"))


def is_configuration(path: str) -> bool:
    """A configuration file, or code that is one by its name: `settings.py`, `vite.config.ts`."""
    name = base_name(path).lower()
    named = name.split(".")[0] in _CONFIG_NAMES or ".config." in name
    return not is_lockfile(path) and (is_settings(path) or (named and not is_prose(path)))


def is_lockfile(path: str) -> bool:
    """What a package manager wrote: names everything and explains nothing."""
    name = base_name(path).lower()
    return name in _LOCKFILES or name.endswith(".lock")


def paths_in(answer: str) -> list[str]:
    """Paths of files with a known ending, in backticks or not, each once, in order, as written but for a line number.

    Not: addresses, absolute paths, patterns, calls (`response.json()`), products (`Node.js`), versions. In fenced
    code a path counts only where nothing else is on the line: code names files that nobody claims to have read.
    """
    lines = answer.splitlines()
    fenced = {place for start, end in fences(lines).items() for place in range(start + 1, end + 1)}
    found: dict[str, None] = {}
    for place, line in enumerate(lines):
        paths = list(_paths_of(line))
        if place not in fenced or (paths and line.strip() == paths[0]):
            found.update(dict.fromkeys(paths))
    return list(found)


def _paths_of(line: str) -> Iterator[str]:
    for chunk in line.split():
        text = _without_address(chunk) if "." in chunk else ""
        for part in _PART.finditer(text):
            path = without_place(_trimmed(part[0].removeprefix(".../")))
            before, after = text[part.start() - 1 : part.start()], text[part.end() : part.end() + 1]
            if before not in _PATTERN_BEFORE and after != "(" and _is_file_of_project(path):
                yield path


def _without_address(chunk: str) -> str:
    """What stands before a URL: `[a.py](https://…)` still names a.py."""
    at = chunk.find("://")
    if at < 0:
        return chunk
    return chunk[: max((match.end() for match in _BEFORE_ADDRESS.finditer(chunk, 0, at)), default=0)]


def _is_file_of_project(path: str) -> bool:
    if path.startswith(("/", "\\", "~", "@")) or kind_of(path) is not Kind.FILE or extension(path) not in _KNOWN:
        return False
    first, slash, _ = path.partition("/")
    return not (slash and _DOMAIN.fullmatch(first))

"""Words of a request, classified as plain words, files or folders by their spelling alone."""

from __future__ import annotations

import re
from enum import Enum
from typing import Final

from msgspec import Struct

from holdfast.models.requests.masked_text import INLINE, LITERAL, MaskedText
from holdfast.tools.search.scope import CONFIG, SOURCE, extension


def word_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


FOLDERS: Final = word_set("src lib docs doc tests test bin app cmd pkg include internal scripts")
"""Folders recognised by name."""
EXTENSIONLESS: Final = word_set(
    "Makefile GNUmakefile Dockerfile Containerfile Gemfile Rakefile Procfile Justfile justfile Jenkinsfile Vagrantfile "
    "Brewfile Podfile Pipfile Tiltfile"
)
"""Files recognised by name."""
_CODE_EXTENSIONS: Final = SOURCE | word_set(
    "java kt kts rb php cs swift scala lua pl ex exs erl hs clj dart jl vue svelte cc cxx hh hxx mm zig nim proto "
    "graphql sol elm fs vb ps1 bat mjs cjs mts cts pyi pyx sass less gradle tf cmake mk ipynb"
)
_CONFIG_EXTENSIONS: Final = CONFIG | word_set("ini cfg conf properties editorconfig")
_PROSE_EXTENSIONS: Final = word_set("md mdx rst txt adoc")
_KNOWN_EXTENSIONS: Final = _CODE_EXTENSIONS | _CONFIG_EXTENSIONS | _PROSE_EXTENSIONS | word_set("lock csv tsv")
_PRODUCTS: Final = word_set(
    "node.js next.js vue.js nuxt.js react.js express.js three.js d3.js angular.js ember.js backbone.js moment.js "
    "discord.js alpine.js p5.js chart.js socket.io asp.net .net process.env import.meta.env"
)
_VARIABLES: Final = word_set("self this cls super request response req res resp obj args event ctx")
"""Variables: `request.json` is an attribute, not a file."""
_SLASHED_WORDS: Final = word_set(
    "and/or either/or i/o n/a w/o w/ yes/no on/off true/false he/she his/her client/server request/response "
    "input/output read/write reader/writer producer/consumer tcp/ip ci/cd pub/sub key/value get/set http/1 http/2 "
    "http/3 http/1.1 before/after success/failure pass/fail start/stop push/pull front/back os/2"
)
_LOCKFILES: Final = word_set(
    "package-lock.json npm-shrinkwrap.json pnpm-lock.yaml bun.lockb go.sum go.work.sum packages.lock.json "
    "conda-lock.yml package.resolved gradle.lockfile .terraform.lock.hcl"
)
_CONFIG_NAMES: Final = word_set("config conf configuration settings")
_PATH: Final = re.compile(r"[\w.@+~\-/\\]+")
_PATH_WITH_SPACES: Final = re.compile(r"[\w.@+~\-/\\ ]+")
_DRIVE: Final = re.compile(r"[A-Za-z]:[\\/]")
_EXTENSION: Final = re.compile(r"[A-Za-z][A-Za-z0-9]{0,9}")
_DOT_FILE: Final = re.compile(r"\.(?:env(?:\.[\w-]+)*|[a-z][a-z-]*(?:ignore|rc|attributes|config|keep|version))")
_DOT_NAME: Final = re.compile(r"\.[a-z][a-z0-9_-]{2,}")
_WORD: Final = re.compile(rf"{LITERAL.pattern}|[^\s\"`“”—–\ue000-\ue004]+")
_LEADING_PUNCTUATION: Final = "([{<'‘*,;:!?"
_TRAILING_PUNCTUATION: Final = ".,;:!?)]}>'’*…"
_LINE_NUMBER: Final = re.compile(r"(?::\d+(?:[:-]\d+)?|\#L\d+(?:-L?\d+)?):?$")
_APOSTROPHES: Final = str.maketrans(dict.fromkeys("’´ʼ′`", "'"))
_DOTS: Final = re.compile(r"(?:.*[/\\])?\.\.?")
MAX_NAME_CHARS: Final = 300
"""Longer text is neither a path nor an identifier."""


class WordKind(Enum):
    """What a word looks like. The values are the placeholders used in phrases, which are otherwise lower case."""

    WORD = "W"
    FILE = "F"
    FOLDER = "D"
    EITHER = "E"
    """A path that may be a file or a folder."""

    @property
    def is_path(self) -> bool:
        return self is not WordKind.WORD


def kind_of(name: str, *, quoted: bool = False) -> WordKind:
    """Classify by spelling: a slash, or a known file name or extension. Spaces count only inside quotes.

    URLs, versions, `and/or`, `Node.js` and `self.c` are plain words. Does not access the file system.
    """
    if name.isalnum():
        return WordKind.FILE if name in EXTENSIONLESS else WordKind.WORD
    if not name or len(name) > MAX_NAME_CHARS or name.lower() in _SLASHED_WORDS or name.startswith(("@", "-")):
        return WordKind.WORD
    drive = _DRIVE.match(name)
    rest = name[drive.end() - 1 :] if drive else name
    if not (_PATH_WITH_SPACES if quoted else _PATH).fullmatch(rest):
        return WordKind.WORD
    path = rest.replace("\\", "/")
    if path.strip("./") == "" and path != "/" * len(path):
        return WordKind.FOLDER if path.rstrip("/").split("/")[-1] in (".", "..") else WordKind.WORD
    if not any(character.isalpha() for character in path):
        return WordKind.FOLDER if path == "/" else WordKind.WORD
    return _kind_with_folders(path) if "/" in path else _kind_of_name(path)


def _kind_with_folders(path: str) -> WordKind:
    if " " in path and extension(path) not in _KNOWN_EXTENSIONS:
        return WordKind.WORD
    if path.endswith("/"):
        return WordKind.FOLDER
    name = path[path.rfind("/") + 1 :]
    stem, dot, ending = name.rpartition(".")
    if name in EXTENSIONLESS or _DOT_FILE.fullmatch(name) or (dot and stem and _EXTENSION.fullmatch(ending)):
        return WordKind.FILE
    return WordKind.EITHER


def _kind_of_name(name: str) -> WordKind:
    if name in EXTENSIONLESS or _DOT_FILE.fullmatch(name):
        return WordKind.FILE
    if name.lower() in _PRODUCTS:
        return WordKind.WORD
    if _DOT_NAME.fullmatch(name) and name[1:] not in _KNOWN_EXTENSIONS:
        return WordKind.EITHER
    stem, dot, ending = name.rpartition(".")
    if not dot or not stem.strip(".") or ending.lower() not in _KNOWN_EXTENSIONS or stem.lower() in _VARIABLES:
        return WordKind.WORD
    return WordKind.WORD if len(ending) == 1 and len(stem) < 3 else WordKind.FILE


class RequestWord(Struct, frozen=True):
    text: str
    """Without quotes and surrounding punctuation; empty for a block."""
    kind: WordKind
    plain: str = ""
    """The normalised form of a plain word, for comparison; empty for other kinds."""
    quoted: bool = False
    line_suffix: str = ""
    """The line reference after a path: `:12`, `:3-9`, `#L3-L9`."""

    @property
    def is_path(self) -> bool:
        """Whether it names something in the project; `.` and commands such as `/help` do not."""
        command = self.kind is WordKind.EITHER and self.text.startswith("/") and self.text.count("/") == 1
        return self.kind.is_path and self.text.strip("./\\") != "" and not command


def words_in(masked: MaskedText) -> list[RequestWord]:
    """Return the words in order; each literal is one word."""
    words: list[RequestWord] = []
    for match in _WORD.finditer(masked.text):
        literal = masked.literal(match[0])
        if literal is not None:
            whole = literal.text.strip() if match[0][0] == INLINE else ""
            inner = strip_line_number(whole)
            words.append(RequestWord(inner, kind_of(inner, quoted=True), quoted=True, line_suffix=whole[len(inner) :]))
        elif (word := plain_word(match[0])).text:
            words.append(word)
    return words


def plain_word(chunk: str) -> RequestWord:
    """Classify a chunk without white space, outside quotes."""
    whole = _trimmed(chunk)
    text = strip_line_number(whole)
    kind = kind_of(text)
    plain = text.lower().translate(_APOSTROPHES) if kind is WordKind.WORD else ""
    return RequestWord(text, kind, plain, line_suffix=whole[len(text) :])


def _trimmed(chunk: str) -> str:
    """`(see` → `see`, `a.py,` → `a.py`, `a.py's` → `a.py`; keeps `..`, `src/..` and the `(` of a call."""
    plain = chunk.lstrip(_LEADING_PUNCTUATION)
    if len(plain) <= MAX_NAME_CHARS and _DOTS.fullmatch(plain):
        return plain
    plain = plain.rstrip(_TRAILING_PUNCTUATION)
    return plain.removesuffix("'s").removesuffix("’s") if "." in plain else plain


def strip_line_number(plain: str) -> str:
    """Remove a line reference after a path: `a.py:12`, `a.py#L3-L9`."""
    return _LINE_NUMBER.sub("", plain) if len(plain) <= MAX_NAME_CHARS else plain


def base_name(path: str) -> str:
    return path.replace("\\", "/").rstrip("/").rpartition("/")[2]


def is_code(path: str) -> bool:
    return extension(path) in _CODE_EXTENSIONS or base_name(path) in EXTENSIONLESS


def is_prose(path: str) -> bool:
    return extension(path) in _PROSE_EXTENSIONS


def is_config_format(path: str) -> bool:
    """Whether the file has a configuration format; lock files do not count."""
    name = base_name(path)
    return not is_lockfile(path) and (extension(path) in _CONFIG_EXTENSIONS or name.startswith(".env"))


def is_config_file(path: str) -> bool:
    """Whether it is a configuration file, or code named like one: `settings.py`, `vite.config.ts`."""
    name = base_name(path).lower()
    named = name.split(".")[0] in _CONFIG_NAMES or ".config." in name
    return not is_lockfile(path) and (is_config_format(path) or (named and not is_prose(path)))


def is_lockfile(path: str) -> bool:
    """Whether a package manager generated it: it mentions every name and explains none."""
    name = base_name(path).lower()
    return name in _LOCKFILES or name.endswith(".lock")

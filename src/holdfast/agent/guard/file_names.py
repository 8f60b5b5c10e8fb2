"""What a name says about a file: whether it is a path at all, source, configuration, text, or a lock file."""

from __future__ import annotations

import re
from enum import Enum
from typing import Final

from holdfast.agent.guard.vocabulary import words_of
from holdfast.tools.search.scope import CONFIG, SOURCE, extension

_CODE: Final = SOURCE | words_of(
    "java kt kts rb php cs swift scala lua pl ex exs erl hs clj dart jl vue svelte cc cxx hh hxx mm zig nim proto "
    "graphql sol elm fs vb ps1 bat mjs cjs mts cts pyi pyx sass less gradle tf cmake mk ipynb"
)
_SETTINGS: Final = CONFIG | words_of("ini cfg conf properties editorconfig")
_PROSE: Final = words_of("md mdx rst txt adoc")
_KNOWN: Final = _CODE | _SETTINGS | _PROSE | words_of("lock csv tsv")
_WITHOUT_EXTENSION: Final = words_of(
    "Makefile GNUmakefile Dockerfile Containerfile Gemfile Rakefile Procfile Justfile justfile Jenkinsfile Vagrantfile "
    "Brewfile Podfile Pipfile Tiltfile"
)
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
LONGEST: Final = 300
"""Nothing longer is a path or an identifier somebody wrote."""


class Kind(Enum):
    """What a piece of a message looks like. The values are how `phrases` writes them: no plain word is upper case."""

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
        return Kind.FILE if name in _WITHOUT_EXTENSION else Kind.WORD
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
    if "/" in path:
        return _kind_with_folders(path)
    return _kind_of_name(path)


def _kind_with_folders(path: str) -> Kind:
    if " " in path and extension(path) not in _KNOWN:
        return Kind.WORD
    if path.endswith("/"):
        return Kind.FOLDER
    name = path[path.rfind("/") + 1 :]
    stem, dot, ending = name.rpartition(".")
    if name in _WITHOUT_EXTENSION or _DOT_FILE.fullmatch(name) or (dot and stem and _EXTENSION.fullmatch(ending)):
        return Kind.FILE
    return Kind.EITHER


def _kind_of_name(name: str) -> Kind:
    if name in _WITHOUT_EXTENSION or _DOT_FILE.fullmatch(name):
        return Kind.FILE
    if name.lower() in _PRODUCTS:
        return Kind.WORD
    if _DOT_NAME.fullmatch(name) and name[1:] not in _KNOWN:
        return Kind.EITHER
    stem, dot, ending = name.rpartition(".")
    if not dot or not stem.strip(".") or ending.lower() not in _KNOWN or stem.lower() in _OBJECTS:
        return Kind.WORD
    if len(ending) == 1 and len(stem) < 3:
        return Kind.WORD
    return Kind.FILE


def base_name(path: str) -> str:
    return path.replace("\\", "/").rstrip("/").rpartition("/")[2]


def is_code(path: str) -> bool:
    return extension(path) in _CODE or base_name(path) in _WITHOUT_EXTENSION


def is_prose(path: str) -> bool:
    return extension(path) in _PROSE


def is_known(path: str) -> bool:
    """Whether it ends like a file of a project."""
    return extension(path) in _KNOWN


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

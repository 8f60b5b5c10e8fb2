"""Files that something already in a project includes or runs by itself: a folder named by `core.hooksPath`, a script
of an install hook, what `.envrc` sources.

The sources belong to the project, so nothing of them is believed but names: all they can do is protect one path more.
Read are the first 64 KB of a few files, without running or expanding anything. What a program finds by itself, or by
variables, is not found here.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from holdfast.config.patterns import fold_path

_BYTES: Final = 64 * 1024
_MOST: Final = 200
"""Names that are taken from one file."""
_YOUNG: Final = 50_000_000
"""A file changed this short (ns) before it was looked at may change again without its times telling."""

Reader = Callable[[str], Iterator[str]]
"""The names in the text of a file."""


class Included(NamedTuple):
    paths: Mapping[str, str]
    """By folded path, which file names it."""

    def reason(self, folded: str) -> str | None:
        """Why a path is protected, or a folder it lies in."""
        while self.paths and folded and folded != "/":
            if (source := self.paths.get(folded)) is not None:
                return f"{source} includes or runs it"
            folded = folded.rpartition("/")[0]
        return None


def included(root: Path) -> Included:
    """What the files of a project name now."""
    found: dict[str, str] = {}
    top = str(root)
    for source in _there(top, _stamp(top)):
        path = _git_config(top) if source == _GIT_CONFIG else f"{top}/{source}"
        found |= _named(top, source, path, _stamp(path))
    home = os.path.expanduser("~")  # noqa: PTH111
    for path in (f"{home}/.gitconfig", f"{home}/.config/git/config"):  # a relative hooksPath is one in every project
        found |= _named(top, _GIT_CONFIG, path, _stamp(path))
    return Included(found)


def _stamp(path: str) -> tuple[int, ...]:
    """The same as long as the file is surely the same; something new each time while it is young."""
    try:
        about = os.stat(path)  # noqa: PTH116
    except OSError:
        return ()
    now = time.time_ns()
    age = now - max(about.st_mtime_ns, about.st_ctime_ns)
    return (about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns, *((now,) if age < _YOUNG else ()))


@lru_cache(maxsize=8)
def _there(root: str, stamp: tuple[int, ...]) -> tuple[str, ...]:
    """The sources whose first name is there, so that the others are not looked for each time."""
    return tuple(source for source in _SOURCES if os.path.lexists(f"{root}/{source.partition('/')[0]}"))


@lru_cache(maxsize=64)
def _named(root: str, source: str, path: str, stamp: tuple[int, ...]) -> dict[str, str]:
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            text = file.read(_BYTES).decode("utf-8", "replace")
    except OSError:
        return {}
    names: dict[str, str] = {}
    for name in _SOURCES[source](text):
        if len(names) >= _MOST:
            break
        place = os.path.normpath(os.path.join(root, name.replace("\0", "")))  # noqa: PTH118
        if place != root and place.startswith(f"{root.rstrip('/')}/"):
            names[fold_path(place)] = source
    return names


def _git_config(root: str) -> str:
    """Where the configuration of the repository is; a worktree has a file that leads there."""
    if os.path.isdir(f"{root}/.git"):  # noqa: PTH112
        return f"{root}/{_GIT_CONFIG}"
    try:
        pointer = Path(root, ".git").read_text("utf-8", "replace")[:_BYTES]
        folder = os.path.join(root, pointer.partition("gitdir:")[2].strip())  # noqa: PTH118
        common = Path(folder, "commondir").read_text("utf-8", "replace").strip()
        return os.path.join(folder, common, "config")  # noqa: PTH118
    except (OSError, ValueError):
        return f"{root}/{_GIT_CONFIG}"


_GIT_CONFIG: Final = ".git/config"
_ENTRY: Final = r"(?m)^[ \t]*([A-Za-z][\w-]*)[ \t]*=[ \t]*(.*)$"
_PATHS: Final = frozenset({"hookspath", "attributesfile"})


def _in_git_config(text: str) -> Iterator[str]:
    for key, value in re.findall(_ENTRY, text):
        plain = value.strip().strip('"')
        if key.lower() == "path":
            yield f".git/{plain}"
        elif key.lower() in _PATHS:
            yield plain
        else:
            yield from _scripts(plain.lstrip("!"))


_INSTALLING: Final = ("preinstall", "install", "postinstall", "dependencies")
_PREPARING: Final = ("prepublish", "preprepare", "prepare", "postprepare")


def _in_package(text: str) -> Iterator[str]:
    try:
        package = msgspec.json.decode(text, type=_Package)
    except (msgspec.MsgspecError, RecursionError):
        return
    for hook in (*_INSTALLING, *_PREPARING):
        script = package.scripts.get(hook)
        if isinstance(script, str):
            yield from _scripts(script)


class _Package(msgspec.Struct):
    scripts: dict[str, object] = msgspec.field(default_factory=dict[str, object])


def _commands(pattern: str) -> Reader:
    """Every group of the pattern is a command."""

    def read(text: str) -> Iterator[str]:
        for found in re.finditer(pattern, text):
            command = " ".join(filter(None, found.groups()))
            yield from _scripts(command.replace('\\"', '"').replace(",", " ").strip(" \t\r'\""))

    return read


def _names(pattern: str) -> Reader:
    """Every group of the pattern is a list of names."""

    def read(text: str) -> Iterator[str]:
        for found in re.finditer(pattern, text):
            for words in filter(None, found.groups()):
                for word in re.split(r"[\s,\"'\[\]]+", words):
                    if word and not re.search(_DYNAMIC, word):
                        yield word

    return read


_DYNAMIC: Final = r"[$*?{}()<>`~]|://"
_SEPARATORS: Final = r"&&|\|\||[;|&\n]"
_SCRIPT: Final = r"(?i)\.(?:[cm]?[jt]s|sh|bash|zsh|fish|py|rb|pl|php|lua|r|ps1|bat|cmd)$"
_RUNNERS: Final = (
    r"(?:ba|z|da|k|fi)?sh|source(?:_env(?:_if_exists)?)?|dotenv(?:_if_exists)?|\.|exec|env|command|time|run|cross-env"
    r"|python[\d.]*|py|uvx?|poetry|node(?:js)?|deno|bun|tsx|ts-node|npx|npm|pnpm|yarn|ruby|bundle|perl|php|lua|rscript"
)
"""Programs that run what comes after them."""


def _scripts(command: str) -> Iterator[str]:
    """The files of the project a command line runs: its program, or what it hands to an interpreter."""
    import shlex

    for part in re.split(_SEPARATORS, command):
        try:
            words = shlex.split(part)
        except ValueError:
            words = part.split()
        for word in (word.strip("'\"") for word in words):
            name = word.rpartition("/")[2].lower()
            if word.startswith("-") or "=" in word or re.fullmatch(_RUNNERS, name):
                continue
            if ("/" in word or re.search(_SCRIPT, word)) and not re.search(_DYNAMIC, word):
                yield word
            break


_COMMAND: Final = r'"\w*[cC]ommand"\s*:\s*"((?:[^"\\]|\\.)*+)"(?:\s*,\s*"args"\s*:\s*\[([^\]]*+)\])?'
_SOURCES: Final[Mapping[str, Reader]] = {
    _GIT_CONFIG: _in_git_config,
    "package.json": _in_package,
    ".envrc": lambda text: iter([*_ENVRC_PATHS(text), *_scripts(text)]),
    ".pre-commit-config.yaml": _commands(r"(?m)^[ \t-]*entry:[ \t]*(.+)$"),
    ".pre-commit-config.yml": _commands(r"(?m)^[ \t-]*entry:[ \t]*(.+)$"),
    "lefthook.yml": _commands(r"(?m)^[ \t-]*run:[ \t]*(.+)$"),
    "Makefile": _names(r"(?m)^[-s]?include[ \t]+(.+)$"),
    "GNUmakefile": _names(r"(?m)^[-s]?include[ \t]+(.+)$"),
    ".Rprofile": _names(r"""source\(\s*["']([^"']+)["']"""),
    ".gitlab-ci.yml": _names(r"""(?m)(?:local|include):[ \t]*["']?/?([\w./-]+\.ya?ml)"""),
    ".cargo/config.toml": _commands(
        r"""(?m)^[ \t]*(?:runner|linker|rustc[\w-]*|rustdoc)[ \t]*=[ \t]*\[?([^\]\n]+)"""
    ),
    "bunfig.toml": _names(r"(?m)^[ \t]*preload[ \t]*=[ \t]*(.+)$"),
    ".yarnrc.yml": _names(r"(?m)^[ \t-]*(?:yarnPath|path|spec):[ \t]*(.+)$"),
    ".vscode/tasks.json": _commands(_COMMAND),
    ".devcontainer/devcontainer.json": _commands(_COMMAND),
    ".claude/settings.json": _commands(_COMMAND),
    ".gemini/settings.json": _commands(_COMMAND),
    ".cursor/mcp.json": _commands(_COMMAND),
    ".cursor/hooks.json": _commands(_COMMAND),
    ".mcp.json": _commands(_COMMAND),
}
_ENVRC_PATHS: Final = _names(r"(?m)^[ \t]*(?:PATH_add|path_add(?:[ \t]+PATH)?|MANPATH_add)[ \t]+(.+)$")

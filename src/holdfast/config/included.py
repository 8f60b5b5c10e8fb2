"""Files that something already in a project includes or runs by itself: a folder named by `core.hooksPath`, a script
of an install hook, what `.envrc` sources.

The sources belong to the project, so nothing of them is believed but names: all they can do is protect one path more.
Read are the first 64 KB of a few files, without running or expanding anything but the ways to write "this project". A
name that is too many costs one question about one file, so whatever may be run counts as run.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Final, Literal, NamedTuple

import msgspec

from holdfast.config import commands
from holdfast.config.patterns import fold_path

_BYTES: Final = 64 * 1024
_MOST: Final = 500
"""Names that are taken from one file."""
_HOOKS: Final = 32
"""Hooks that are read in one folder."""
_YOUNG: Final = 50_000_000
"""A file changed this short (ns) before it was looked at may change again without its times telling."""

Kind = Literal["file", "folder", "mention"]
"""A folder counts with all that is in it, a mention only where a file is there."""
Reader = Callable[[str], Iterator[tuple[Kind, str]]]
"""The names in the text of a file."""


class Included(NamedTuple):
    paths: Mapping[str, str]
    """By folded path, which file names it."""
    kinds: Mapping[str, Kind]

    def reason(self, folded: str, place: str) -> str | None:
        """Why a path is protected, or a folder it lies in. `place`: the path before it was folded."""
        if not self.paths:
            return None
        kind = self.kinds.get(folded)
        if kind in ("file", "folder") or (kind == "mention" and os.path.isfile(place)):  # noqa: PTH113
            return f"{self.paths[folded]} includes or runs it"
        while (folded := folded.rpartition("/")[0]) and folded != "/":
            if self.kinds.get(folded) == "folder":
                return f"{self.paths[folded]} includes or runs it"
        return None


def included(root: Path) -> Included:
    """What the files of a project name now."""
    top, now = str(root), time.time_ns()
    home = os.path.expanduser("~")  # noqa: PTH111
    sources = [
        *_sources(top, now),
        (_GIT_CONFIG, f"{home}/.gitconfig"),  # a relative hooksPath is one in every project
        (_GIT_CONFIG, f"{home}/.config/git/config"),
    ]
    return _merged(top, tuple((source, path, _stamp(path, now)) for source, path in sources))


@lru_cache(maxsize=16)
def _merged(root: str, sources: tuple[tuple[str, str, tuple[int, ...]], ...]) -> Included:
    found: dict[str, tuple[str, Kind]] = {}
    for source, path, stamp in sources:
        for folded, kind in _named(root, source, path, stamp).items():
            if folded not in found or _WEIGHT[kind] > _WEIGHT[found[folded][1]]:
                found[folded] = (source, kind)
    return Included(
        {folded: source for folded, (source, _) in found.items()}, {folded: kind for folded, (_, kind) in found.items()}
    )


_WEIGHT: Final[Mapping[Kind, int]] = {"mention": 0, "file": 1, "folder": 2}


def _sources(root: str, now: int) -> Iterator[tuple[str, str]]:
    top = _stamp(root, now)
    yield from _listed(root, "", top)
    for folder in _folders(root, top):
        stamp = _stamp(f"{root}/{folder}", now)
        if folder == ".git" and stamp and not stat.S_ISDIR(stamp[0]):
            yield _GIT_CONFIG, _git_config(root)
        yield from _listed(root, folder, stamp)


@lru_cache(maxsize=8)
def _folders(root: str, stamp: tuple[int, ...]) -> tuple[str, ...]:
    """The folders with sources whose first name is there, so that the others are not looked for each time."""
    wanted = dict.fromkeys((*(source.rpartition("/")[0] for source in _SOURCES), *_HOOK_FOLDERS))
    return tuple(name for name in wanted if name and os.path.lexists(f"{root}/{name.partition('/')[0]}"))


@lru_cache(maxsize=128)
def _listed(root: str, folder: str, stamp: tuple[int, ...]) -> tuple[tuple[str, str], ...]:
    """The sources directly in a folder that are there, and where."""
    try:
        names = sorted(os.listdir(f"{root}/{folder}"))  # noqa: PTH208
    except OSError:
        return ()
    if folder in _HOOK_FOLDERS:
        names = [name for name in names if not name.endswith(".sample")][:_HOOKS]
        return tuple((f"{folder}/{name}", f"{root}/{folder}/{name}") for name in names)
    sources = (f"{folder}/{name}" if folder else name for name in names)
    return tuple((source, f"{root}/{source}") for source in sources if source in _SOURCES)


def _stamp(path: str, now: int) -> tuple[int, ...]:
    """The same as long as the file is surely the same; something new each time while it is young."""
    try:
        about = os.stat(path)  # noqa: PTH116
    except OSError:
        return ()
    same = (about.st_mode, about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns)
    return same if now - max(same[3], same[4]) >= _YOUNG else (*same, time.time_ns())


@lru_cache(maxsize=256)
def _named(root: str, source: str, path: str, stamp: tuple[int, ...]) -> dict[str, Kind]:
    if not stamp or not stat.S_ISREG(stamp[0]):
        return {}
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            text = file.read(_BYTES).decode("utf-8", "replace")
    except OSError:
        return {}
    names: dict[str, Kind] = {}
    above = f"{root.rstrip('/')}/"
    for kind, name in islice(_SOURCES.get(source, _in_script)(text), 8 * _MOST):  # some of them again and again
        if len(names) >= _MOST:
            break
        place = os.path.normpath(os.path.join(root, name.replace("\0", "")))  # noqa: PTH118
        if place != root and place.startswith(above):
            folded = fold_path(place)
            if folded not in names or _WEIGHT[kind] > _WEIGHT[names[folded]]:
                names[folded] = kind
    return names


def _git_config(root: str) -> str:
    """Where the configuration of a worktree is: its `.git` is a file that leads there."""
    try:
        pointer = Path(root, ".git").read_text("utf-8", "replace")[:_BYTES]
        folder = os.path.join(root, pointer.partition("gitdir:")[2].strip())  # noqa: PTH118
        common = Path(folder, "commondir").read_text("utf-8", "replace").strip()
        return os.path.join(folder, common, "config")  # noqa: PTH118
    except (OSError, ValueError):
        return f"{root}/{_GIT_CONFIG}"


_GIT_CONFIG: Final = ".git/config"
_HOOK_FOLDERS: Final = (".git/hooks", ".husky", ".githooks", ".git-hooks")
_ENTRY: Final = r'(?m)^[ \t]*(?:\[[^\]\n]*\][ \t]*)?([A-Za-z][\w-]*)[ \t]*=[ \t]*((?:[^"#;\n]|"(?:[^"\\\n]|\\.)*+")*+)'
_PATHS: Final = frozenset({"hookspath", "attributesfile"})


def _in_git_config(text: str) -> Iterator[tuple[Kind, str]]:
    for key, value in re.findall(_ENTRY, re.sub(r"\\\r?\n", "", text)):
        plain = value.strip().replace('"', "")
        if key.lower() == "path":
            yield "file", f".git/{plain}"
        elif key.lower() in _PATHS:
            yield "folder", plain
        else:
            yield from _in_command(value.strip().strip('"').lstrip("!"))


_INSTALLING: Final = ("preinstall", "install", "postinstall", "dependencies")
_PREPARING: Final = ("prepublish", "preprepare", "prepare", "postprepare")
_HOOKED: Final = ("husky", "simple-git-hooks", "lint-staged", "pre-commit", "pre-push", "gitHooks")
"""Keys of a manifest that tools for hooks read."""
_SCRIPT_RUNNERS: Final = r"\b(?:npm|pnpm|yarn|bun|nr|run-[sp]|npm-run-all2?|concurrently|turbo|nx|lerna)\b"


def _in_package(text: str) -> Iterator[tuple[Kind, str]]:
    try:
        package = msgspec.json.decode(text, type=dict[str, object])
        scripts = msgspec.convert(package.get("scripts", {}), dict[str, object])
    except (msgspec.MsgspecError, RecursionError):
        return
    pending = [*_INSTALLING, *_PREPARING]
    seen = set(pending)
    while pending:
        script = scripts.get(pending.pop(0))
        if isinstance(script, str):
            yield from _in_command(script)
            if re.search(_SCRIPT_RUNNERS, script):
                called = {f"{when}{word}" for word in re.split(r"[\s\"']+", script) for when in ("pre", "", "post")}
                pending += sorted((called & scripts.keys()) - seen)
                seen |= called
    for key in _HOOKED:
        if key in package:
            yield from _in_strings(msgspec.json.encode(package[key]).decode())


def _in_command(text: str) -> Iterator[tuple[Kind, str]]:
    yield from _as("file", commands.run_by(text))
    yield from _as("mention", commands.mentioned_in(text))


def _as(kind: Kind, names: Iterable[str]) -> Iterator[tuple[Kind, str]]:
    return ((kind, name) for name in names)


def _in_script(text: str) -> Iterator[tuple[Kind, str]]:
    for words in re.findall(_PATH, commands.without_root(text)):
        yield from _as("folder", filter(commands.is_plain, filter(None, re.split(r"[\s:\"']+", words))))
    yield from _in_command(text)


_PATH: Final = r"(?m)\b(?:PATH=|(?:MAN)?PATH_add[ \t]+|path_add[ \t]+(?:PATH[ \t]+)?)([^;&|\n]+)"


def _in_strings(text: str) -> Iterator[tuple[Kind, str]]:
    """The names in the strings of a file with settings, JSON with comments or TOML, whatever their keys."""
    folders = ["", *(one or other for one, other in re.findall(_FOLDER, text))][:_FOLDERS]
    for found in re.finditer(_STRING, text):
        string = commands.without_root(re.sub(r"\\(.)", r"\1", found[1] or found[2] or ""))
        if re.search(r"\s", string):
            yield from _in_command(string)
        elif commands.is_script(string):
            yield from _as("file", (os.path.join(folder, string) for folder in folders))  # noqa: PTH118
    for module in re.findall(r"""["']-m["']\s*,\s*["']([\w.]+)["']""", text):
        yield from _as("file", commands.files_of(module))


_FOLDERS: Final = 8
_STRING: Final = r""""((?:[^"\\\n]|\\.){0,500}+)"|'([^'\n]{0,500}+)'"""
_FOLDER: Final = (
    r'"(?:--directory|--cwd|--prefix|--project|-C)"\s*,\s*"([^"\n]+)"'
    r'|"?\b(?:cwd|workingDirectory)"?\s*[:=]\s*"([^"\n]+)"'
)
"""Where a server is started."""


def _in_keys(keys: str) -> Reader:
    """The commands that are the values of some keys of a YAML file, in one line, as a block or in flow style."""

    def read(text: str) -> Iterator[tuple[Kind, str]]:
        lines: list[str] = []
        counts = False
        for piece in re.split(r"\n|[{}]|,[ \t]", commands.without_root(text)):
            found = re.match(r"[ \t-]*[\"']?([\w.-]+)[\"']?:(?:[ \t]+|$)", piece)
            if found is not None:
                counts = re.fullmatch(keys, found[1]) is not None
            if counts:
                lines.append(piece[found.end() if found is not None else 0 :].strip(" \t\r-'\"[]"))
        yield from _in_command("\n".join(lines))

    return read


def _in_values(pattern: str) -> Reader:
    """Every group of the pattern is a command."""

    def read(text: str) -> Iterator[tuple[Kind, str]]:
        for found in re.findall(pattern, text):
            yield from _in_command(found.replace(",", " ").strip(" \t\r'\""))

    return read


def _names(pattern: str, kind: Kind = "file") -> Reader:
    """Every group of the pattern is a list of names."""

    def read(text: str) -> Iterator[tuple[Kind, str]]:
        for words in re.findall(pattern, commands.without_root(text)):
            for word in re.split(r"[\s,\"'\[\]]+", words):
                if word and commands.is_plain(word):
                    yield kind, word

    return read


def _both(*readers: Reader) -> Reader:
    return lambda text: (name for reader in readers for name in reader(text))


_MAKE: Final = _names(r"(?m)^[ \t]*[-s]?include[ \t]+(.+)$")
_JUST: Final = _names(r"(?m)^[ \t]*(?:import|mod)\??[ \t]+(?:\w+[ \t]+)?(['\"].+)$")
_PRE_COMMIT: Final = _in_keys("entry|args")
_LEFTHOOK: Final = _in_keys("run|runner|scripts")
_MISE: Final = _both(_names(r"(?m)^[ \t]*_\.path[ \t]*=[ \t]*(.+)$", "folder"), _in_strings)
_SETTINGS: Final = (
    ".amazonq/mcp.json",
    ".claude/settings.json",
    ".claude/settings.local.json",
    ".codex/config.toml",
    ".codex/hooks.json",
    ".copilot/mcp-config.json",
    ".cursor/hooks.json",
    ".cursor/mcp.json",
    ".devcontainer.json",
    ".devcontainer/devcontainer.json",
    ".gemini/settings.json",
    ".kiro/settings/mcp.json",
    ".mcp.json",
    ".qwen/settings.json",
    ".roo/mcp.json",
    ".vscode/launch.json",
    ".vscode/mcp.json",
    ".vscode/settings.json",
    ".vscode/tasks.json",
    ".zed/settings.json",
    ".zed/tasks.json",
    "conductor.json",
    "devbox.json",
    "lefthook.json",
    "lefthook.toml",
    "mcp.json",
    "opencode.json",
    "opencode.jsonc",
)
_SOURCES: Final[Mapping[str, Reader]] = {
    _GIT_CONFIG: _in_git_config,
    "package.json": _in_package,
    ".envrc": _in_script,
    ".envrc.local": _in_script,
    ".pre-commit-config.yaml": _PRE_COMMIT,
    ".pre-commit-config.yml": _PRE_COMMIT,
    **{
        f"{dot}lefthook{local}.{ending}": _LEFTHOOK
        for dot in ("", ".")
        for local in ("", "-local")
        for ending in ("yml", "yaml")
    },
    "Makefile": _MAKE,
    "makefile": _MAKE,
    "GNUmakefile": _MAKE,
    "BSDmakefile": _MAKE,
    "justfile": _JUST,
    "Justfile": _JUST,
    ".justfile": _JUST,
    "mise.toml": _MISE,
    ".mise.toml": _MISE,
    ".Rprofile": _names(r"""source\(\s*["']([^"']+)["']"""),
    ".gitlab-ci.yml": _names(r"""(?m)(?:local|include):[ \t]*["']?/?([\w./-]+\.ya?ml)"""),
    ".cargo/config.toml": _in_values(r"(?m)^[ \t]*(?:runner|linker|rustc[\w-]*|rustdoc)[ \t]*=[ \t]*\[?([^\]\n]+)"),
    "bunfig.toml": _names(r"(?m)^[ \t]*preload[ \t]*=[ \t]*(.+)$"),
    ".yarnrc.yml": _names(r"(?m)^[ \t-]*(?:yarnPath|path|spec):[ \t]*(.+)$"),
    **dict.fromkeys(_SETTINGS, _in_strings),
}

"""Finds files that project files include or run automatically: a folder in `core.hooksPath`, the script of an install
hook, a file sourced by `.envrc`.

The sources are untrusted, so they can only add protected paths. Only the first 64 KB of a few known files are read, and
nothing is executed or expanded except the usual ways to write the project root. A false positive costs one approval, so
in doubt a name counts as run.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import IntEnum
from functools import lru_cache, partial
from itertools import islice
from pathlib import Path
from typing import Any, Final

from holdfast.fs.paths import fold_path

_MAX_BYTES: Final = 64 * 1024
_MAX_NAMES: Final = 500
"""Maximum names taken from one file."""
_MAX_HOOKS: Final = 32
"""Maximum hooks read in one folder."""
_RECENT_NS: Final = 50_000_000
"""A file modified less than this ago (ns) may change again without a different timestamp, so it is not cached."""


class ReferenceKind(IntEnum):
    """A folder includes everything below it; a mention counts only if the file exists."""

    MENTION = 0
    FILE = 1
    FOLDER = 2


References = Iterator[tuple[ReferenceKind, str]]
"""The references in the text of a file."""
Stamp = tuple[int, ...]


def find_references(root: Path) -> Mapping[str, tuple[ReferenceKind, str]]:
    """Return the references in the project's files: folded path to kind and source file."""
    top, now = str(root), time.time_ns()
    home = os.path.expanduser("~")  # noqa: PTH111
    sources = [
        *_sources(top, now),
        (_GIT_CONFIG, f"{home}/.gitconfig"),  # a relative hooksPath applies to every project
        (_GIT_CONFIG, f"{home}/.config/git/config"),
    ]
    return _merge_references(top, tuple((source, path, _stamp(path, now)) for source, path in sources))


def reference_reason(root: Path, subjects: Iterable[tuple[str, str]]) -> str | None:
    """Return why one of some paths, given as (folded, original), or a folder above it is referenced, or None."""
    found = find_references(root)
    for folded, place in subjects if found else ():
        kind, source = found.get(folded, (None, ""))
        if kind == ReferenceKind.MENTION and not os.path.isfile(place):  # noqa: PTH113
            kind = None
        above = folded
        while kind is None and (above := above.rpartition("/")[0]):
            kind, source = found.get(above, (None, ""))
            kind = kind if kind == ReferenceKind.FOLDER else None
        if kind is not None:
            return f"{source} includes or runs it"
    return None


def _sources(root: str, now: int) -> Iterator[tuple[str, str]]:
    top = _stamp(root, now)
    yield from _sources_in(root, "", top)
    for folder in _folders(root, top):
        stamp = _stamp(f"{root}/{folder}", now)
        if folder == ".git" and stamp and not stat.S_ISDIR(stamp[0]):
            yield _GIT_CONFIG, _git_config(root)
        yield from _sources_in(root, folder, stamp)


@lru_cache(maxsize=8)
def _folders(root: str, stamp: Stamp) -> tuple[str, ...]:
    """Return the folders that can contain sources and whose first component exists. Cached by the root's stamp."""
    wanted = dict.fromkeys((*(source.rpartition("/")[0] for source in _SOURCES), *_HOOK_FOLDERS))
    return tuple(name for name in wanted if name and os.path.lexists(f"{root}/{name.partition('/')[0]}"))


@lru_cache(maxsize=128)
def _sources_in(root: str, folder: str, stamp: Stamp) -> tuple[tuple[str, str], ...]:
    """Return the existing sources in a folder, as name and path."""
    try:
        names = sorted(os.listdir(f"{root}/{folder}"))  # noqa: PTH208
    except OSError:
        return ()
    sources = [f"{folder}/{name}" if folder else name for name in names]
    if folder in _HOOK_FOLDERS:
        sources = [source for source in sources if not source.endswith(".sample")][:_MAX_HOOKS]
    else:
        sources = [source for source in sources if source in _SOURCES]
    return tuple((source, f"{root}/{source}") for source in sources)


def _stamp(path: str, now: int) -> Stamp:
    """Return a cache key that is stable while the file is unchanged, and unique while it was modified recently."""
    try:
        about = os.stat(path)  # noqa: PTH116
    except OSError:
        return ()
    same = (about.st_mode, about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns)
    return same if now - max(same[3], same[4]) >= _RECENT_NS else (*same, time.time_ns())


@lru_cache(maxsize=16)
def _merge_references(root: str, sources: tuple[tuple[str, str, Stamp], ...]) -> dict[str, tuple[ReferenceKind, str]]:
    found: dict[str, tuple[ReferenceKind, str]] = {}
    for source, path, stamp in sources:
        for folded, kind in _references_of(root, source, path, stamp).items():
            if folded not in found or kind > found[folded][0]:
                found[folded] = (kind, source)
    return found


@lru_cache(maxsize=256)
def _references_of(root: str, source: str, path: str, stamp: Stamp) -> dict[str, ReferenceKind]:
    if not stamp or not stat.S_ISREG(stamp[0]):
        return {}
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            text = file.read(_MAX_BYTES).decode("utf-8", "replace")
    except OSError:
        return {}
    names: dict[str, ReferenceKind] = {}
    above = f"{root.rstrip('/')}/"
    readers = _SOURCES.get(source) or [_HOOK_FOLDERS[source.rpartition("/")[0]]]
    every = (name for reader in readers for name in reader(text))
    for kind, name in islice(every, 8 * _MAX_NAMES):  # names can repeat
        if len(names) >= _MAX_NAMES:
            break
        place = os.path.normpath(os.path.join(root, name.replace("\0", "")))  # noqa: PTH118
        if place != root and place.startswith(above):
            folded = fold_path(place)
            names[folded] = max(kind, names.get(folded, kind))
    return names


def _git_config(root: str) -> str:
    """Return the configuration of a worktree, whose `.git` is a file with the location."""
    try:
        pointer = Path(root, ".git").read_text("utf-8", "replace")[:_MAX_BYTES]
        folder = os.path.join(root, pointer.partition("gitdir:")[2].strip())  # noqa: PTH118
        common = Path(folder, "commondir").read_text("utf-8", "replace").strip()
        return os.path.join(folder, common, "config")  # noqa: PTH118
    except (OSError, ValueError):
        return f"{root}/{_GIT_CONFIG}"


# Programs in command lines. Nothing is expanded or executed.

_DYNAMIC: Final = r"[$*?{}()<>`~]|://"
_SEPARATORS: Final = r"&&|\|\||[;|&\n()`]"
_SCRIPT: Final = r"(?i)\.(?:[cm]?[jt]sx?|sh|bash|zsh|fish|py|rb|pl|php|lua|r|exs|ps1|bat|cmd)$"
_WORD: Final = r"(?<![\w$~}./@+-])[\w.@+-][\w./@+-]*"
_ROOT_VARIABLE: Final = r"(?i:[\w.]*(?:pwd|cwd|workspace|project|root|repo|dir|here|top|base)\w*)"
_ROOT_PREFIX: Final = re.compile(
    rf"(?P<quote>\"?)\$(?:\{{(?:env:)?{_ROOT_VARIABLE}(?::[^}}\n]{{0,80}})?\}}|{_ROOT_VARIABLE}"
    r"|\((?:pwd|git rev-parse --show-toplevel|dirname [^()\n]{0,80})\))(?P=quote)/"
)
"""Ways to write the project root, or the folder of the file that is read."""
_STARTERS: Final = (
    r"exec|eval|env|command|builtin|time|timeout|nice|nohup|setsid|stdbuf|sudo|xargs|run|cross-env|direnv|uvx?|poetry|pipenv"
    r"|npx|bunx|npm|pnpm|yarn|dlx|bundle|then|do|else|elif|if|while|until|!|\{|\d+[smh]?"
)
"""Words that can precede the program."""
_INTERPRETERS: Final = (
    r"(?:ba|z|da|k|fi)?sh|source(?:_env(?:_if_exists)?)?|dotenv(?:_if_exists)?|\.|python[\d.]*|py"
    r"|ruby|perl|php|lua|rscript"
)
_JAVASCRIPT_RUNTIMES: Final = r"node(?:js)?|deno|bun|tsx|ts-node"
_FOLDER_OPTIONS: Final = r"cd|pushd|--directory|--cwd|--prefix|--dir|--project|-C"
_MAX_FOLDERS: Final = 8
_MAX_DEPTH: Final = 3
_MAX_SHLEX_CHARS: Final = 4096
"""Longer commands are split at white space: `shlex` would be too slow."""


def _without_root(text: str) -> str:
    """Replace variables for the project root, which makes the names relative."""
    return re.sub(_ROOT_PREFIX, "", text)


def _is_literal(name: str) -> bool:
    """Whether a name contains no shell expansion."""
    return name != "" and re.search(_DYNAMIC, name) is None


def _is_script(name: str) -> bool:
    """Whether a word looks like the name of an executable file."""
    return ("/" in name or re.search(_SCRIPT, name) is not None) and _is_literal(name)


def _module_files(module: str) -> tuple[str, str]:
    """Return the files that `python -m` looks for."""
    path = module.replace(".", "/")
    return f"{path}.py", f"{path}/__main__.py"


def _read_command(text: str) -> References:
    """Yield the files that a script or command line runs, and every other word that can be a path."""
    yield from ((ReferenceKind.FILE, name) for name in _programs_run(text))
    for word in re.findall(_WORD, _without_root(text)):
        if "/" in word or "." in word[1:]:
            yield ReferenceKind.MENTION, word


def _programs_run(text: str, depth: int = 0) -> Iterator[str]:
    """Yield the programs in a command line and the scripts passed to interpreters."""
    folders = [""]
    plain = _without_root(re.sub(r"\\\r?\n", " ", text))
    for part in re.split(_SEPARATORS, plain):
        for name in _programs_in_words(_split_words(part), folders, depth):
            yield from (os.path.join(folder, name) for folder in folders)  # noqa: PTH118


def _split_words(part: str) -> list[str]:
    if len(part) <= _MAX_SHLEX_CHARS:
        import shlex  # most projects need neither this nor `json`

        try:
            return shlex.split(part)
        except ValueError:
            pass
    return part.split()


def _programs_in_words(words: list[str], folders: list[str], depth: int) -> Iterator[str]:
    interpreter = option = ""
    started = False
    for written in words:
        word = written.strip("'\"")
        last, option = option, word if word.startswith("-") or word in ("cd", "pushd") else ""
        name = word.lower() if word[:1] != "/" else word.rpartition("/")[2].lower()
        if re.fullmatch(_FOLDER_OPTIONS, last):
            if len(folders) < _MAX_FOLDERS and _is_literal(word):
                folders.append(word)
        elif last == "-m" and interpreter.startswith("py"):
            yield from _module_files(word)
            return
        elif re.search(r"\s", word):
            if depth < _MAX_DEPTH:
                yield from _programs_run(word, depth + 1)
        elif option or re.match(r"[\w-]+=", word):
            continue
        elif not started and re.fullmatch(f"{_INTERPRETERS}|{_JAVASCRIPT_RUNTIMES}", name):
            interpreter = name
        elif not started and re.fullmatch(_STARTERS, name):
            continue
        elif started:
            if re.search(_SCRIPT, word) and _is_literal(word):
                yield word
        elif interpreter or _is_script(word):
            started = True
            if _is_literal(word):
                yield word
                if re.fullmatch(_JAVASCRIPT_RUNTIMES, interpreter) and "." not in word.rpartition("/")[2]:
                    yield from (f"{word}{ending}" for ending in (".js", ".cjs", ".mjs", ".ts", "/index.js"))
        else:
            return


# Readers for each kind of file.

_GIT_CONFIG: Final = ".git/config"
_ENTRY: Final = r'(?m)^[ \t]*(?:\[[^\]\n]*\][ \t]*)?([A-Za-z][\w-]*)[ \t]*=[ \t]*((?:[^"#;\n]|"(?:[^"\\\n]|\\.)*+")*+)'


def _read_git_config(text: str) -> References:
    for key, value in re.findall(_ENTRY, re.sub(r"\\\r?\n", "", text)):
        plain = value.strip().replace('"', "")
        if key.lower() == "path":
            yield ReferenceKind.FILE, f".git/{plain}"
        elif key.lower() in ("hookspath", "attributesfile"):
            yield ReferenceKind.FOLDER, plain
        else:
            yield from _read_command(value.strip().strip('"').lstrip("!"))


_INSTALL_SCRIPTS: Final = "preinstall install postinstall dependencies prepublish preprepare prepare postprepare"
_HOOK_KEYS: Final = ("husky", "simple-git-hooks", "lint-staged", "pre-commit", "pre-push", "gitHooks")
"""Keys of package.json that hook managers read."""
_SCRIPT_RUNNERS: Final = r"\b(?:npm|pnpm|yarn|bun|nr|run-[sp]|npm-run-all2?|concurrently|turbo|nx|lerna)\b"


def _read_package(text: str) -> References:
    import json

    try:
        package: Any = json.loads(text, parse_int=float)  # `int` rejects more than 4,300 digits
        scripts: dict[str, Any] = dict(package.get("scripts", {}))
        hooks = json.dumps([package[key] for key in _HOOK_KEYS if key in package], ensure_ascii=False)
    except (ValueError, TypeError, AttributeError, RecursionError):
        return
    pending = _INSTALL_SCRIPTS.split()
    seen = set(pending)
    while pending:
        script = scripts.get(pending.pop(0))
        if isinstance(script, str):
            yield from _read_command(script)
            if re.search(_SCRIPT_RUNNERS, script):
                called = {f"{when}{word}" for word in re.split(r"[\s\"']+", script) for when in ("pre", "", "post")}
                pending += sorted((called & scripts.keys()) - seen)
                seen |= called
    yield from _read_strings(hooks)


_PATH_ADDITION: Final = r"(?m)\b(?:PATH=|(?:MAN)?PATH_add[ \t]+|path_add[ \t]+(?:PATH[ \t]+)?)([^;&|\n]+)"


def _read_script(text: str) -> References:
    for words in re.findall(_PATH_ADDITION, _without_root(text)):
        yield from ((ReferenceKind.FOLDER, word) for word in re.split(r"[\s:\"']+", words) if _is_literal(word))
    yield from _read_command(text)


_STRING: Final = r""""((?:[^"\\\n]|\\.){0,500}+)"|'([^'\n]{0,500}+)'"""
_WORKING_FOLDER: Final = (
    r'"(?:--directory|--cwd|--prefix|--project|-C)"\s*,\s*"([^"\n]+)"'
    r'|"?\b(?:cwd|workingDirectory)"?\s*[:=]\s*"([^"\n]+)"'
)
"""The working directory of a server."""


def _read_strings(text: str) -> References:
    """Yield the references in all strings of a settings file (JSON with comments, or TOML), under any key."""
    folders = ["", *(one or other for one, other in re.findall(_WORKING_FOLDER, text))][:_MAX_FOLDERS]
    for written in filter(None, (found[1] or found[2] for found in re.finditer(_STRING, text))):
        string = _without_root(re.sub(r"\\(.)", r"\1", written))
        if re.search(r"\s", string):
            yield from _read_command(string)
        elif _is_script(string):
            yield from ((ReferenceKind.FILE, os.path.join(folder, string)) for folder in folders)  # noqa: PTH118
    for module in re.findall(r"""["']-m["']\s*,\s*["']([\w.]+)["']""", text):
        yield from ((ReferenceKind.FILE, name) for name in _module_files(module))


def _read_yaml_keys(keys: str, text: str) -> References:
    """Yield the references in commands that are values of some YAML keys, in one line, as a block or in flow style."""
    lines: list[str] = []
    counts = False
    for piece in re.split(r"\n|[{}]|,[ \t]", _without_root(text)):
        found = re.match(r"[ \t-]*[\"']?([\w.-]+)[\"']?:(?:[ \t]+|$)", piece)
        if found is not None:
            counts = re.fullmatch(keys, found[1]) is not None
        if counts:
            lines.append(piece[found.end() if found is not None else 0 :].strip(" \t\r-'\"[]"))
    yield from _read_command("\n".join(lines))


def _read_commands(pattern: str, text: str) -> References:
    """Yield the references in commands; each group of the pattern is a command."""
    for found in re.findall(pattern, text):
        yield from _read_command(found.replace(",", " ").strip(" \t\r'\""))


def _read_lists(pattern: str, text: str, kind: ReferenceKind = ReferenceKind.FILE) -> References:
    """Yield the names in lists; each group of the pattern is a list of names."""
    for words in re.findall(pattern, _without_root(text)):
        yield from ((kind, word) for word in re.split(r"[\s,\"'\[\]]+", words) if _is_literal(word))


Reader = Callable[[str], References]
_READERS: Final[tuple[tuple[Reader, str], ...]] = (
    (_read_git_config, _GIT_CONFIG),
    (_read_package, "package.json"),
    (_read_script, ".envrc .envrc.local"),
    (partial(_read_yaml_keys, "entry|args"), ".pre-commit-config.yaml .pre-commit-config.yml"),
    (
        partial(_read_yaml_keys, "run|runner|scripts"),
        """
        lefthook.yml lefthook.yaml lefthook-local.yml lefthook-local.yaml
        .lefthook.yml .lefthook.yaml .lefthook-local.yml .lefthook-local.yaml
        """,
    ),
    (partial(_read_lists, r"(?m)^[ \t]*[-s]?include[ \t]+(.+)$"), "Makefile makefile GNUmakefile BSDmakefile"),
    (
        partial(_read_lists, r"(?m)^[ \t]*(?:import|mod)\??[ \t]+(?:\w+[ \t]+)?(['\"].+)$"),
        "justfile Justfile .justfile",
    ),
    (partial(_read_lists, r"(?m)^[ \t]*_\.path[ \t]*=[ \t]*(.+)$", kind=ReferenceKind.FOLDER), "mise.toml .mise.toml"),
    (partial(_read_lists, r"""source\(\s*["']([^"']+)["']"""), ".Rprofile"),
    (partial(_read_lists, r"""(?m)(?:local|include):[ \t]*["']?/?([\w./-]+\.ya?ml)"""), ".gitlab-ci.yml"),
    (
        partial(_read_commands, r"(?m)^[ \t]*(?:runner|linker|rustc[\w-]*|rustdoc)[ \t]*=[ \t]*\[?([^\]\n]+)"),
        ".cargo/config.toml",
    ),
    (partial(_read_lists, r"(?m)^[ \t]*preload[ \t]*=[ \t]*(.+)$"), "bunfig.toml"),
    (partial(_read_lists, r"(?m)^[ \t-]*(?:yarnPath|path|spec):[ \t]*(.+)$"), ".yarnrc.yml"),
    (
        _read_strings,
        """
        .amazonq/mcp.json .claude/settings.json .claude/settings.local.json .codex/config.toml .codex/hooks.json
        .copilot/mcp-config.json .cursor/hooks.json .cursor/mcp.json .devcontainer.json
        .devcontainer/devcontainer.json .gemini/settings.json .kiro/settings/mcp.json .mcp.json .mise.toml
        .opencode/opencode.json .opencode/opencode.jsonc .qwen/settings.json .roo/mcp.json .vscode/launch.json
        .vscode/mcp.json .vscode/settings.json .vscode/tasks.json .zed/settings.json .zed/tasks.json conductor.json
        devbox.json lefthook.json lefthook.toml mcp.json mise.toml opencode.json opencode.jsonc
        """,
    ),
)
_SOURCES: Final[Mapping[str, list[Reader]]] = {
    source: [reader for reader, sources in _READERS if source in sources.split()]
    for _, names in _READERS
    for source in names.split()
}
_HOOK_FOLDERS: Final[Mapping[str, Reader]] = {
    **dict.fromkeys((".git/hooks", ".husky", ".githooks", ".git-hooks"), _read_script),
    ".github/hooks": _read_strings,
}
"""Folders in which every file is a source."""

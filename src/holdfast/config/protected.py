"""Protected paths: files that something obeys or runs later, which no general "may write" covers.

A pattern is one or more names joined by `/`. It matches wherever those names stand next to each other in a path,
and everything beneath; `~/`, `$root/` and `/` pin it to a place. `*` and `?` stand for characters of one name;
`[*]`, `[?]` and `[[]` stand for those characters themselves.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from glob import escape
from pathlib import Path
from typing import Final

from holdfast.config.roots import user_config_file, user_state_dir

_OWN: Final = "holdfast obeys it"
_DOCUMENTS: Final = "*.chat"
_BY_GIT: Final = "git obeys or runs it"
PROTECTED: Final[Mapping[str, tuple[str, ...]]] = {
    _BY_GIT: (
        ".git",
        ".gitattributes",
        ".gitmodules",
        ".gitconfig",
        "~/.config/git",
        ".githooks",
        ".husky",
        "lefthook.y*ml",
        ".lefthook.y*ml",
        ".pre-commit-config.y*ml",
    ),
    _OWN: ("holdfast.toml", _DOCUMENTS, "~/.config/holdfast", "~/.local/state/holdfast"),
    "a shell runs it": (
        ".bashrc",
        ".bash_profile",
        ".bash_login",
        ".bash_logout",
        ".bash_aliases",
        ".profile",
        ".zshrc",
        ".zshenv",
        ".zprofile",
        ".zlogin",
        ".zlogout",
        ".cshrc",
        ".tcshrc",
        ".kshrc",
        ".login",
        ".logout",
        ".inputrc",
        ".xinitrc",
        ".xprofile",
        ".pam_environment",
        "~/.config/fish",
        "~/.config/environment.d",
        "~/bin",
        "~/.local/bin",
    ),
    "it sets the environment of what runs here": (
        ".env",
        ".env.*",
        ".envrc",
        ".mise.toml",
        "mise.toml",
        ".tool-versions",
    ),
    "an editor obeys or runs it": (
        ".vscode",
        "*.code-workspace",
        ".idea",
        ".zed",
        ".devcontainer",
        ".devcontainer.json",
        ".exrc",
        ".vimrc",
        ".nvimrc",
        ".nvim.lua",
        "~/.vim",
        "~/.config/nvim",
        "~/.config/Code",
        ".emacs",
        ".emacs.d",
        ".dir-locals.el",
    ),
    "agents and their servers obey it": (
        ".mcp.json",
        "mcp.json",
        ".claude",
        ".codex",
        ".cursor",
        ".cursorrules",
        ".gemini",
        ".windsurf",
        ".windsurfrules",
        ".clinerules",
        ".roo",
        ".kiro",
        ".continue",
        ".aider.conf.yml",
        "AGENTS.md",
        "CLAUDE.md",
        "GEMINI.md",
        ".github/copilot-instructions.md",
    ),
    "build and test tools run it": (
        "Makefile",
        "GNUmakefile",
        "BSDmakefile",
        "package.json",
        ".npmrc",
        ".yarnrc",
        ".yarnrc.yml",
        ".pnpmfile.cjs",
        ".pnp.cjs",
        ".bazelrc",
        ".cargo/config",
        ".cargo/config.toml",
        ".mvn",
        "gradle-wrapper.properties",
        "pip.conf",
        ".pydistutils.cfg",
        "conftest.py",
        "sitecustomize.py",
        "usercustomize.py",
        "*.pth",
    ),
    "it runs in continuous integration": (
        ".github/workflows",
        ".github/actions",
        ".gitlab-ci.y*ml",
        ".circleci",
        ".buildkite",
        ".travis.y*ml",
        ".drone.y*ml",
        ".woodpecker",
        ".woodpecker.y*ml",
        "azure-pipelines.y*ml",
        "bitbucket-pipelines.y*ml",
        "Jenkinsfile",
        "CODEOWNERS",
    ),
    "it holds keys or logins": (
        ".ssh",
        "authorized_keys",
        ".gnupg",
        ".aws",
        ".azure",
        ".kube",
        ".docker/config.json",
        "~/.config/gcloud",
        "~/.config/gh",
        ".netrc",
        ".git-credentials",
        ".pypirc",
    ),
    "the system runs it": (
        "crontab",
        "/var/spool/cron",
        "/etc",
        "/boot",
        "/bin",
        "/sbin",
        "/lib",
        "/usr/bin",
        "/usr/sbin",
        "/usr/lib",
        "/usr/local/bin",
        "~/.config/systemd",
        "~/.local/share/systemd",
        "~/.config/autostart",
        "~/Library/LaunchAgents",
    ),
}
_PARTS: Final = re.compile(r"\[[*?[]\]|[*?[]|[^*?[]+")
_SHORT_NAMES: Final = {"git~1": ".git"}
GENERATED: Final = frozenset({"Makefile", "GNUmakefile", "BSDmakefile", "package.json", "conftest.py"})
"""Files that builds make by the dozen: for commands only those at the top of the project are protected."""
GIT_PARTS: Final = ("hooks", "config", "config.worktree", "info/attributes", "commondir", "gitdir")
"""What git obeys or runs inside a git folder, and in those of submodules and worktrees below it."""
_GIT: Final = re.compile(
    rf"(?:^|/)\.git/(?:(?:modules|worktrees)/(?:.*/)?)?(?:{'|'.join(map(re.escape, GIT_PARTS))})(?:/|$)"
)
_WAYS_IN_GIT: Final = re.compile(r"(?:^|/)\.git/(?:info|(?:modules|worktrees)(?:/.*)?)$")


def is_protected(
    path: Path,
    *,
    root: Path | None,
    extra: Iterable[str] = (),
    for_commands: bool = False,
    as_document: bool = True,
) -> str | None:
    """Why a path is protected, or None. Both the path as written and where its symlinks lead are looked at.

    `for_commands`: inside `.git` only what git obeys or runs counts, so that a command can commit, and below the top
    of the project build files do not count, so that it can build. `as_document`: being a document is a reason.
    """
    full = (root or Path.cwd()) / path
    subjects = {_fold_path(os.path.normpath(full)), _fold_path(_real(full))}
    if for_commands and any(_GIT.search(subject) for subject in subjects):
        return _BY_GIT
    for reason, pattern in _patterns(root, tuple(extra), for_commands, as_document):
        if any(pattern.search(subject) for subject in subjects):
            return reason
    return None


def leads_to_protected(
    path: Path, *, root: Path | None, extra: Iterable[str] = (), for_commands: bool = False
) -> str | None:
    """Why a path may not be a symlink, or None: through it something else would stand where a protected path does."""
    subject = _fold_path(os.path.normpath((root or Path.cwd()) / path))
    if _WAYS_IN_GIT.search(subject):
        return _BY_GIT
    for reason, pattern in _ways(root, tuple(extra), for_commands):
        if pattern.search(subject):
            return reason
    return None


def could_be_protected(name: str, extra: Iterable[str] = ()) -> bool:
    """Whether a name alone is that of a protected path, wherever it stands: a quick look before `is_protected`."""
    return _last_names(tuple(extra)).fullmatch(_fold(name)) is not None


def is_document(name: str) -> bool:
    """Whether it is the name of a conversation."""
    return _fold(name).endswith(_DOCUMENTS[1:])


def exact(path: str | Path) -> str:
    """The pattern of one path, whatever characters are in it."""
    return escape(_fold_path(os.path.abspath(path)))  # noqa: PTH100 - its symlinks are not followed


def is_git_folder(name: str) -> bool:
    return _fold(name) == ".git"


@lru_cache(maxsize=16)
def _last_names(extra: tuple[str, ...]) -> re.Pattern[str]:
    own = (user_config_file().name, user_config_file().parent.name, user_state_dir().name)
    every = (*(pattern for patterns in PROTECTED.values() for pattern in patterns), *extra, *GIT_PARTS, *own)
    return re.compile("|".join(sorted({_name_regex(_fold_path(pattern).rpartition("/")[2]) for pattern in every})))


def _patterns(
    root: Path | None, extra: tuple[str, ...], for_commands: bool, as_document: bool
) -> tuple[tuple[str, re.Pattern[str]], ...]:
    return _compiled(*_surroundings(), "" if root is None else str(root), extra, for_commands, as_document)


def _ways(
    root: Path | None, extra: tuple[str, ...], for_commands: bool
) -> tuple[tuple[str, re.Pattern[str]], ...]:
    return _compiled_ways(*_surroundings(), "" if root is None else str(root), extra, for_commands)


def _surroundings() -> tuple[str, tuple[str | None, ...]]:
    return str(Path.home()), (os.environ.get("XDG_CONFIG_HOME"), os.environ.get("XDG_STATE_HOME"))


@lru_cache(maxsize=16)
def _compiled(
    home: str, given: tuple[str | None, ...], root: str, extra: tuple[str, ...], for_commands: bool, as_document: bool
) -> tuple[tuple[str, re.Pattern[str]], ...]:
    found: list[tuple[str, re.Pattern[str]]] = []
    for reason, places in _grouped(home, root, extra, for_commands, as_document):
        found += _matching(reason, [(_names(folded), pinned) for folded, pinned in places], "(?:/|$)")
    return tuple(found)


@lru_cache(maxsize=16)
def _compiled_ways(
    home: str, given: tuple[str | None, ...], root: str, extra: tuple[str, ...], for_commands: bool
) -> tuple[tuple[str, re.Pattern[str]], ...]:
    found: list[tuple[str, re.Pattern[str]]] = []
    for reason, places in _grouped(home, root, extra, for_commands):
        split = [(_names(folded), pinned) for folded, pinned in places]
        ways = [(names[:count], pinned) for names, pinned in split for count in range(1, len(names))]
        found += _matching(reason, ways, "$")
    return tuple(found)


def _grouped(
    home: str, root: str, extra: tuple[str, ...], for_commands: bool, as_document: bool = True
) -> list[tuple[str, list[tuple[str, bool]]]]:
    own = (str(user_config_file().parent), _real(user_config_file()), str(user_state_dir()))
    own += tuple(pattern for pattern in PROTECTED[_OWN] if as_document or pattern != _DOCUMENTS)
    groups = {**PROTECTED, _OWN: own, "the configuration protects it": extra}
    meant = {key: _for_commands(patterns) if for_commands else patterns for key, patterns in groups.items()}
    return [(key, [place for one in patterns for place in _places(one, home, root)]) for key, patterns in meant.items()]


def _matching(reason: str, ways: list[tuple[list[str], bool]], end: str) -> list[tuple[str, re.Pattern[str]]]:
    found: list[tuple[str, re.Pattern[str]]] = []
    for start, wanted in (("(?:^|/)", False), ("^/", True)):
        bodies = {"/".join(map(_name_regex, names)) for names, pinned in ways if pinned is wanted}
        if bodies:
            found.append((reason, re.compile(f"{start}(?:{'|'.join(sorted(bodies))}){end}")))
    return found


def _for_commands(patterns: Iterable[str]) -> list[str]:
    return [f"$root/{pattern}" if pattern in GENERATED else pattern for pattern in patterns if pattern != ".git"]


def _places(pattern: str, home: str, root: str) -> list[tuple[str, bool]]:
    """The pattern folded, with its pin filled in, as written and with symlinks followed; and whether it is pinned."""
    for pin, folder in (("~/", home), ("$root/", root)):
        if pattern.startswith(pin):
            rest = pattern.removeprefix(pin)
            places = {folder, _real(folder)} if folder else set[str]()
            return [(_fold_path(f"{place}/{rest}"), True) for place in places]
    return [(_fold_path(pattern), pattern.startswith("/"))]


def _names(folded: str) -> list[str]:
    return folded.strip("/").split("/")


def _real(path: Path | str) -> str:
    """Where a path leads; the path itself where that changes too quickly to be seen."""
    for _ in range(8):
        try:
            return os.path.realpath(path)
        except OSError:
            continue
    return os.path.normpath(path)


def _name_regex(name: str) -> str:
    """A glob as a regex whose stars do not backtrack: an untrusted file's pattern must not take for ever."""
    first, *rest = _pieces(name)
    if not rest:
        return first
    middle = "".join(f"(?>[^/]*?{piece})" for piece in rest[:-1] if piece)
    return f"{first}{middle}[^/]*{rest[-1]}"


def _pieces(name: str) -> list[str]:
    """What stands between the stars, as regexes."""
    pieces = [""]
    for part in _PARTS.findall(name):
        if part == "*":
            pieces.append("")
        else:
            pieces[-1] += "[^/]" if part == "?" else re.escape(part[1] if part[0] == "[" != part else part)
    return pieces


def _fold_path(path: str) -> str:
    return "/".join(_fold(part) for part in path.split("/"))


def _fold(name: str) -> str:
    """What a file system that is careless about case, accents, dots or streams may take the name for."""
    text = name.lower() if name.isascii() else _fold_unicode(name)
    text = text.partition(":")[0] or text
    text = text.rstrip(". ") or text
    return _SHORT_NAMES.get(text, text)


def _fold_unicode(name: str) -> str:
    import unicodedata

    text = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", name).casefold())
    kept = (char for char in text if unicodedata.category(char) not in ("Mn", "Cf", "Cc"))
    return "".join(kept).replace("ı", "i")

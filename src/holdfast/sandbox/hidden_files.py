"""The patterns of `sandbox.read_deny`: how they are parsed, what they match, and which files they hide now.

File tools, search and commands all use `HiddenFilePatterns`. Patterns are gitignore patterns relative to the project
root: without a slash they match at any depth, `!` makes an exception, the last match wins, and everything in a hidden
folder stays hidden.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from time import monotonic
from typing import Final, Literal, NamedTuple

from holdfast.fs.git_folder import is_git_folder
from holdfast.fs.protected_list import PACKAGE_FOLDERS

SECRETS: Final = "$secrets"
"""The entry of `sandbox.read_deny` that stands for `SECRET_FILES`."""
SECRET_FILES: Final = (
    ".env*", "*.env", "!.env/", "!*.env/",
    *(f"!.env*[._-]{word}" for word in ("example", "sample", "template", "dist")),
    *(f"!*{word}.env" for word in ("example", "sample", "template", "dist")),
    "id_rsa", "id_dsa", "id_ecdsa", "id_ecdsa_sk", "id_ed25519", "id_ed25519_sk", "ssh_host_*_key",
    "*.key", "!public.key", "!*[._-]public.key", "!*[._-]pub.key", "*.ppk", "*.p8", "*.p12", "*.pfx", "*.kdbx",
    "*.jks", "*.keystore", "!debug.keystore", "!*truststore*",
    # A `.pem` file holds either kind: one named like a certificate or a public key stays readable.
    "*.pem", "!*cert*.pem", "!*chain*.pem", "!*ca.pem", "!*bundle*.pem", "!roots.pem", "!dh*.pem", "!*pub.pem",
    "!*public.pem", "*key.pem", "*priv*.pem", "!*pubkey.pem", "!*pub[._-]key.pem", "!*public[._-]key.pem",
    "!*publickey.pem",
    "credentials.json", "application_default_credentials.json", "client_secret*.json", "service[-_]account*.json",
    "**/.aws/credentials", "**/.docker/config.json", ".netrc", "_netrc", ".git-credentials", ".pypirc", ".pgpass",
    ".my.cnf", ".htpasswd", ".vault-token", ".dockercfg", "kubeconfig", "*.kubeconfig", "*.ovpn",
)  # fmt: skip
"""Environment files, private keys and credentials; not the public files beside them (templates, certificates, public
keys)."""
MAX_ENTRIES: Final = 250_000
"""Directory entries examined before a command starts."""
MAX_HIDDEN: Final = 256
"""Files hidden from one command: each one is a mount."""
MAX_SECONDS: Final = 10.0

ReadRestriction = Literal["ask", "deny"]
"""File tools ask before reading a built-in secret and are denied what the configuration names. Commands see neither."""
AnchoredPattern = tuple[str, str]
"""A folder, and a pattern relative to it."""
_KERNEL: Final = frozenset({"/proc", "/sys", "/dev"})
_SPECIAL: Final = re.compile(r"[*?\[]")
_LITERALS: Final = re.compile(r"\[[^]]*\]?|[*?/!]+")


def is_path(entry: str) -> bool:
    """Whether an entry names a single path, possibly with a variable."""
    return entry != SECRETS and not entry.startswith(("!", "#", "\\")) and _SPECIAL.search(entry) is None


def is_pattern(entry: str) -> bool:
    """Whether an entry may match several paths; a bare name does so at any depth."""
    bare = not entry.startswith(("/", "~", "$", "urn:")) and "/" not in entry.rstrip("/")
    return bare or not is_path(entry)


def anchor_pattern(entry: str, root: str, home: str) -> AnchoredPattern:
    """Return the anchor folder and the pattern. An absolute pattern is anchored at the folder before its first
    wildcard."""
    exception, text = ("!", entry[1:]) if entry.startswith("!") else ("", entry)
    if text.startswith("~/"):
        text = f"{home}/{text[2:]}"
    if text.startswith("/"):
        plain = text[: wild.start()] if (wild := _SPECIAL.search(text)) else text
        base = plain.rpartition("/")[0]
        return os.path.realpath(base or "/"), f"{exception}/{text[len(base) + 1 :]}"
    if text.startswith("./"):
        text = text[1:]
    return root, exception + text


def pattern_problem(entry: str) -> str | None:
    """Return why an entry can match nothing and how to fix it, or None."""
    if not is_pattern(entry) or entry == SECRETS:
        return None
    _, text = anchor_pattern(entry, "/", "/")
    names = text.lstrip("!").split("/")
    if entry.startswith("#"):
        return f"{entry!a} is a comment in gitignore syntax. Use '\\{entry}' for a name that begins with '#'."
    if ".." in names or "." in names or "" in names[1:-1]:
        return f"{entry!a} matches nothing: patterns have no '.', '..' or empty names. Use the path from the root."
    if _regex(text) is None:
        return f"{entry!a} matches nothing: it is empty, or has an unclosed bracket or a trailing backslash."
    return None


def pattern_problems(entries: Iterable[str]) -> list[str]:
    """Return one sentence for each entry of `sandbox.read_deny` that can match nothing."""
    return [f"sandbox.read_deny: {problem}" for entry in entries if (problem := pattern_problem(entry)) is not None]


def _regex(text: str) -> tuple[re.Pattern[str], bool] | None:
    """Compile a gitignore line; return the regex and whether it includes or excludes, or None if it matches nothing."""
    # Takes 50 ms to import, and most paths resemble no pattern.
    from pathspec.patterns.gitignore.base import GitIgnorePatternError
    from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

    try:
        regex, includes = GitIgnoreSpecPattern.pattern_to_regex(text)
    except GitIgnorePatternError:
        return None
    if regex is None or includes is None:
        return None
    # Case-insensitive file systems open `.env` under the name `.ENV`, too.
    return re.compile(regex if regex.startswith("^") else f".*{regex}", re.IGNORECASE | re.DOTALL), includes


class _Rule(NamedTuple):
    base: str
    matches: Callable[[str], object]
    """Takes a path relative to the base; folders end in a slash."""
    restriction: ReadRestriction | None
    """None: an exception."""


class HiddenFiles(NamedTuple):
    """The files and folders that are hidden now."""

    paths: tuple[str, ...]
    incomplete: str = ""
    """Why the list may be incomplete; empty if it is complete."""


class HiddenFilePatterns:
    """The patterns of one policy."""

    def __init__(self, patterns: Sequence[AnchoredPattern]) -> None:
        self._patterns = patterns
        depths: dict[str, float] = {}
        for base, text in patterns:
            if not text.startswith("!"):
                depths[base] = max(depths.get(base, 0), _depth(text))
        self._depths = depths
        """How many levels deep the patterns of a folder can match."""
        self._bases = _outermost(depths)
        self._prefilter = _prefilter_regex(text for _, text in patterns)

    def restriction(self, path: str) -> ReadRestriction | None:
        """Return the restriction of a real path: that of the outermost hidden folder above it, or else its own."""
        if not self._patterns or self._prefilter.search(path) is None:
            return None
        for base in self._bases:
            if not path.startswith(f"{base.rstrip('/')}/"):
                continue
            names = path[len(base.rstrip("/")) + 1 :].split("/")
            here = base.rstrip("/")
            for name in names[:-1]:
                if _is_skipped(name):
                    return None
                here = f"{here}/{name}"
                if (found := self._match(f"{here}/")) is not None:
                    return found
            return self._match(f"{path}/" if os.path.isdir(path) else path)  # noqa: PTH112
        return None

    def find(self) -> HiddenFiles:
        """Return every file and folder that is hidden now, but nothing below a hidden folder."""
        found: dict[str, None] = {}
        deadline = monotonic() + MAX_SECONDS
        examined, unlisted = 0, ""
        pending = [(base, False, depth) for base, depth in self._depths.items()]
        while pending:
            here, near, depth = pending.pop()
            try:
                entries = list(os.scandir(here))
            except OSError:
                unlisted = unlisted or (f"{here} cannot be listed" if _is_own(here) else "")
                continue
            examined += len(entries)
            if examined > MAX_ENTRIES:
                return HiddenFiles(tuple(found), f"there are more than {MAX_ENTRIES:,} files to search")
            if monotonic() > deadline:
                return HiddenFiles(tuple(found), f"searching for them takes more than {MAX_SECONDS:g} seconds")
            above = here.rstrip("/")
            for entry in entries:
                path, is_folder = f"{above}/{entry.name}", entry.is_dir(follow_symlinks=False)
                if is_folder and (_is_skipped(entry.name) or path in _KERNEL):
                    continue
                likely = near or self._prefilter.search(entry.name) is not None
                if likely and self._match(f"{path}/" if is_folder else path) is not None:
                    found |= dict.fromkeys(self._hidden(path, entry))
                    if len(found) > MAX_HIDDEN:
                        return HiddenFiles(tuple(found)[:MAX_HIDDEN], f"more than {MAX_HIDDEN} files match")
                elif is_folder and depth > 1:
                    pending.append((path, likely, depth - 1))
        return HiddenFiles(tuple(found), unlisted)

    def _hidden(self, path: str, entry: os.DirEntry[str]) -> Iterator[str]:
        """Yield the path itself, or the target of a symlink: any file, or a folder that patterns apply to."""
        if not entry.is_symlink():
            if entry.is_dir(follow_symlinks=False) or entry.is_file(follow_symlinks=False):
                yield path
            return
        real = os.path.realpath(path)
        inside = any(real.startswith(f"{base.rstrip('/')}/") for base in self._bases)
        if os.path.isfile(real) or (inside and os.path.isdir(real)):  # noqa: PTH112, PTH113
            yield real

    def _match(self, path: str) -> ReadRestriction | None:
        """Match one path against the rules; folders end in a slash."""
        found: ReadRestriction | None = None
        for base, matches, restriction in self._rules:
            if path.startswith(f"{base.rstrip('/')}/") and matches(path[len(base.rstrip("/")) + 1 :]):
                # A built-in pattern does not weaken what the configuration denies.
                found = "deny" if (found, restriction) == ("deny", "ask") else restriction
        return found

    @cached_property
    def _rules(self) -> list[_Rule]:
        rules: list[_Rule] = []
        for base, text in self._patterns:
            if text == SECRETS:
                rules.append(_Rule(base, _is_secret, "ask"))
            elif (compiled := _regex(text)) is not None:
                rules.append(_Rule(base, compiled[0].match, "deny" if compiled[1] else None))
        return rules


@lru_cache(maxsize=64)
def compile_patterns(patterns: tuple[AnchoredPattern, ...]) -> HiddenFilePatterns:
    return HiddenFilePatterns(patterns)


@lru_cache(maxsize=1)
def _secret_rules() -> list[tuple[re.Pattern[str], bool]]:
    return [compiled for text in SECRET_FILES if (compiled := _regex(text)) is not None]


def _is_secret(path: str) -> bool:
    last = (includes for regex, includes in reversed(_secret_rules()) if regex.match(path))
    return next(last, False)


def _prefilter_regex(texts: Iterable[str]) -> re.Pattern[str]:
    """A regex for the longest literal part of each pattern: a quick check before any pattern is compiled."""
    parts: set[str] = set()
    for text in texts:
        for one in SECRET_FILES if text == SECRETS else (text,):
            if not one.startswith("!"):
                parts.add("" if "\\" in one else max(_LITERALS.split(one), key=len))
    return re.compile("" if "" in parts else "|".join(map(re.escape, sorted(parts))) or "(?!)", re.IGNORECASE)


def _depth(text: str) -> float:
    names = text.strip("/").split("/")
    return float("inf") if "**" in text or ("/" not in text.rstrip("/")) else len(names)


def _is_skipped(name: str) -> bool:
    """Whether a folder is skipped: installed packages, and git folders, where a branch may be named like a key."""
    return name in PACKAGE_FOLDERS or is_git_folder(name)


def _outermost(folders: Iterable[str]) -> tuple[str, ...]:
    kept: list[str] = []
    for folder in sorted(set(folders)):
        if not any(folder == one or folder.startswith(f"{one.rstrip('/')}/") for one in kept):
            kept.append(folder)
    return tuple(kept)


def _is_own(folder: str) -> bool:
    """Whether this user owns the folder, so that a command could open it with chmod."""
    try:
        about = os.lstat(folder)
    except OSError:
        return False
    return stat.S_ISDIR(about.st_mode) and about.st_uid == os.geteuid()

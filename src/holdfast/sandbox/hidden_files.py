"""Files that patterns of `sandbox.read_deny` hide: how patterns are read, what they match, which files there are now.
File tools, search and commands ask the same `Patterns`.

Patterns are those of a `.gitignore`, from the project root: without a slash they match at any depth, `!` makes an
exception, the last one that matches counts, and what lies in a hidden folder stays hidden.
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
"""The entry of `sandbox.read_deny` that stands for the patterns below."""
SECRET_FILES: Final = (
    ".env*", "*.env", "!.env/", "!*.env/",
    *(f"!.env*[._-]{word}" for word in ("example", "sample", "template", "dist")),
    *(f"!*{word}.env" for word in ("example", "sample", "template", "dist")),
    "id_rsa", "id_dsa", "id_ecdsa", "id_ecdsa_sk", "id_ed25519", "id_ed25519_sk", "ssh_host_*_key",
    "*.key", "!public.key", "!*[._-]public.key", "!*[._-]pub.key", "*.ppk", "*.p8", "*.p12", "*.pfx", "*.kdbx",
    "*.jks", "*.keystore", "!debug.keystore", "!*truststore*",
    # A `.pem` holds either kind: what is named like a certificate or a public key stays readable.
    "*.pem", "!*cert*.pem", "!*chain*.pem", "!*ca.pem", "!*bundle*.pem", "!roots.pem", "!dh*.pem", "!*pub.pem",
    "!*public.pem", "*key.pem", "*priv*.pem", "!*pubkey.pem", "!*pub[._-]key.pem", "!*public[._-]key.pem",
    "!*publickey.pem",
    "credentials.json", "application_default_credentials.json", "client_secret*.json", "service[-_]account*.json",
    "**/.aws/credentials", "**/.docker/config.json", ".netrc", "_netrc", ".git-credentials", ".pypirc", ".pgpass",
    ".my.cnf", ".htpasswd", ".vault-token", ".dockercfg", "kubeconfig", "*.kubeconfig", "*.ovpn",
)  # fmt: skip
"""What is built in: environment files, private keys and credentials, and not what stands beside them in public
(templates, certificates, public keys)."""
MAX_ENTRIES: Final = 250_000
"""Names that are looked at before a command starts."""
MAX_HIDDEN: Final = 256
"""Files that are hidden from one command: each is a mount."""
MAX_SECONDS: Final = 10.0

ReadRestriction = Literal["ask", "deny"]
"""What a file tool meets: it is asked about what is built in, and denied what the configuration names. Commands see
neither."""
AnchoredPattern = tuple[str, str]
"""A pattern with the folder it is about."""
_KERNEL: Final = frozenset({"/proc", "/sys", "/dev"})
_SPECIAL: Final = re.compile(r"[*?\[]")
_LITERALS: Final = re.compile(r"\[[^]]*\]?|[*?/!]+")


def is_path(entry: str) -> bool:
    """Whether an entry names one path, which a variable in it may say."""
    return entry != SECRETS and not entry.startswith(("!", "#", "\\")) and _SPECIAL.search(entry) is None


def is_pattern(entry: str) -> bool:
    """Whether an entry may match more than one path; a bare name does so at any depth."""
    bare = not entry.startswith(("/", "~", "$", "urn:")) and "/" not in entry.rstrip("/")
    return bare or not is_path(entry)


def anchor_pattern(entry: str, root: str, home: str) -> AnchoredPattern:
    """The pattern, and the folder it begins at: the root, or for an absolute one what stands before its wildcards."""
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
    """Why an entry can match nothing, and what to write instead; None if it can match."""
    if not is_pattern(entry) or entry == SECRETS:
        return None
    _, text = anchor_pattern(entry, "/", "/")
    names = text.lstrip("!").split("/")
    if entry.startswith("#"):
        return f"{entry!a} is a comment in a list of patterns; write '\\{entry}' for a name that begins with '#'."
    if ".." in names or "." in names or "" in names[1:-1]:
        return f"{entry!a} matches nothing: a pattern holds no '.', '..' or empty name; write the path from the root."
    if _regex(text) is None:
        return f"{entry!a} matches nothing: it is empty, or a bracket or backslash in it is not closed."
    return None


def pattern_problems(entries: Iterable[str]) -> list[str]:
    """What is wrong with entries of `sandbox.read_deny`, in sentences."""
    return [f"sandbox.read_deny: {said}" for entry in entries if (said := pattern_problem(entry)) is not None]


def _regex(text: str) -> tuple[re.Pattern[str], bool] | None:
    """What a line of a `.gitignore` matches, and whether it includes; None if it matches nothing."""
    # Takes 50 ms to import, and most paths resemble no pattern.
    from pathspec.patterns.gitignore.base import GitIgnorePatternError
    from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

    try:
        regex, includes = GitIgnoreSpecPattern.pattern_to_regex(text)
    except GitIgnorePatternError:
        return None
    if regex is None or includes is None:
        return None
    # Careless file systems open `.env` under the name `.ENV`, too.
    return re.compile(regex if regex.startswith("^") else f".*{regex}", re.IGNORECASE | re.DOTALL), includes


class _Rule(NamedTuple):
    base: str
    matches: Callable[[str], object]
    """Of a path below the base; folders end in a slash."""
    effect: ReadRestriction | None
    """None: an exception."""


class HiddenFiles(NamedTuple):
    """The hidden files there are."""

    paths: tuple[str, ...]
    incomplete: str = ""
    """Why there may be more; empty if these are all."""


class HiddenFilePatterns:
    """The patterns of one policy."""

    def __init__(self, patterns: Sequence[AnchoredPattern]) -> None:
        self._patterns = patterns
        depths: dict[str, float] = {}
        for base, text in patterns:
            if not text.startswith("!"):
                depths[base] = max(depths.get(base, 0), _depth(text))
        self._depths = depths
        """How many names deep the patterns of a folder can match."""
        self._bases = _outermost(depths)
        self._resembles = _resembling(text for _, text in patterns)

    def effect(self, path: str) -> ReadRestriction | None:
        """What holds for a real path: the first folder above it that is hidden decides, else the path itself."""
        if not self._patterns or self._resembles.search(path) is None:
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
                if (found := self._of(f"{here}/")) is not None:
                    return found
            return self._of(f"{path}/" if os.path.isdir(path) else path)  # noqa: PTH112
        return None

    def find(self) -> HiddenFiles:
        """Every file and folder that is hidden now; nothing below a hidden folder."""
        found: dict[str, None] = {}
        until = monotonic() + MAX_SECONDS
        looked, unseen = 0, ""
        waiting = [(base, False, depth) for base, depth in self._depths.items()]
        while waiting:
            here, near, depth = waiting.pop()
            try:
                entries = list(os.scandir(here))
            except OSError:
                unseen = unseen or (f"{here} cannot be looked into" if _is_own(here) else "")
                continue
            looked += len(entries)
            if looked > MAX_ENTRIES:
                return HiddenFiles(tuple(found), f"there are more than {MAX_ENTRIES:,} files to look through")
            if monotonic() > until:
                return HiddenFiles(tuple(found), f"to look through the files takes more than {MAX_SECONDS:g} seconds")
            above = here.rstrip("/")
            for entry in entries:
                path, is_folder = f"{above}/{entry.name}", entry.is_dir(follow_symlinks=False)
                if is_folder and (_is_skipped(entry.name) or path in _KERNEL):
                    continue
                likely = near or self._resembles.search(entry.name) is not None
                if likely and self._of(f"{path}/" if is_folder else path) is not None:
                    found |= dict.fromkeys(self._hidden(path, entry))
                    if len(found) > MAX_HIDDEN:
                        return HiddenFiles(tuple(found)[:MAX_HIDDEN], f"more than {MAX_HIDDEN} files match")
                elif is_folder and depth > 1:
                    waiting.append((path, likely, depth - 1))
        return HiddenFiles(tuple(found), unseen)

    def _hidden(self, path: str, entry: os.DirEntry[str]) -> Iterator[str]:
        """The path itself, or where a link leads: to a file anywhere, or to a folder that patterns are about."""
        if not entry.is_symlink():
            if entry.is_dir(follow_symlinks=False) or entry.is_file(follow_symlinks=False):
                yield path
            return
        real = os.path.realpath(path)
        inside = any(real.startswith(f"{base.rstrip('/')}/") for base in self._bases)
        if os.path.isfile(real) or (inside and os.path.isdir(real)):  # noqa: PTH112, PTH113
            yield real

    def _of(self, path: str) -> ReadRestriction | None:
        """What the rules say of one path alone, folders with a slash at the end."""
        found: ReadRestriction | None = None
        for base, matches, effect in self._rules:
            if path.startswith(f"{base.rstrip('/')}/") and matches(path[len(base.rstrip("/")) + 1 :]):
                found = "deny" if (found, effect) == ("deny", "ask") else effect
        return found

    @cached_property
    def _rules(self) -> list[_Rule]:
        rules: list[_Rule] = []
        for base, text in self._patterns:
            if text == SECRETS:
                rules.append(_Rule(base, _is_secret, "ask"))
            elif (read := _regex(text)) is not None:
                rules.append(_Rule(base, read[0].match, "deny" if read[1] else None))
        return rules


@lru_cache(maxsize=64)
def compile_patterns(given: tuple[AnchoredPattern, ...]) -> HiddenFilePatterns:
    return HiddenFilePatterns(given)


@lru_cache(maxsize=1)
def _secret_rules() -> list[tuple[re.Pattern[str], bool]]:
    return [read for text in SECRET_FILES if (read := _regex(text)) is not None]


def _is_secret(path: str) -> bool:
    last = (includes for regex, includes in reversed(_secret_rules()) if regex.match(path))
    return next(last, False)


def _resembling(texts: Iterable[str]) -> re.Pattern[str]:
    """Finds the longest plain part of one of the patterns: a quick look before any is read."""
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
    """Installed packages, and what git keeps: a branch may be called like a key."""
    return name in PACKAGE_FOLDERS or is_git_folder(name)


def _outermost(folders: Iterable[str]) -> tuple[str, ...]:
    kept: list[str] = []
    for folder in sorted(set(folders)):
        if not any(folder == one or folder.startswith(f"{one.rstrip('/')}/") for one in kept):
            kept.append(folder)
    return tuple(kept)


def _is_own(folder: str) -> bool:
    """Whether a command could open a folder that is shut: it runs as this user."""
    try:
        about = os.lstat(folder)
    except OSError:
        return False
    return stat.S_ISDIR(about.st_mode) and about.st_uid == os.geteuid()

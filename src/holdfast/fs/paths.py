"""Path checks before a file is opened: resolution, confinement to the root, name folding and glob patterns.

Changes between this check and the open (TOCTOU) are caught in `beneath`.
"""

from __future__ import annotations

import os
import re
import stat
import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

from holdfast.contract.errors import PathRefused

MAX_PATH_BYTES: Final = 4096
_MAX_SHOWN_CHARS: Final = 120
_SEPARATORS: Final = re.compile(r"[/\\]")


def resolve(path: str | Path, base: Path) -> Path:
    """Return the real path: absolute, with `~` and `base` applied, symlinks and `..` resolved like the system does."""
    return Path(os.path.realpath(absolute(str(path), base)))


def confine(path: str | Path, *, root: Path, base: Path, mutating: bool) -> Path:
    """Return the real path. Raises `PathRefused` if it is outside the root.

    With `mutating`, a path with `..` or with a symlink below the root is refused. Otherwise symlinks are resolved.
    """
    bounds = Path(os.path.realpath(root))
    if mutating:
        return _confine_mutating(str(path), absolute(str(path), base), bounds)
    real = resolve(path, base)
    if not real.is_relative_to(bounds):
        raise _outside_root(str(path), bounds)
    return real


def _confine_mutating(text: str, full: Path, bounds: Path) -> Path:
    if ".." in _SEPARATORS.split(text) or ".." in full.parts:
        raise PathRefused(f"{_quote_path(text)} contains '..'; write the path from the root {bounds} without it.")
    below = _relative_to_root(full, bounds)
    if below is None:
        raise _outside_root(text, bounds)
    here = bounds
    for part in below.parts:
        here = here / part
        try:
            mode = here.lstat().st_mode
        except FileNotFoundError:
            break
        except OSError as error:
            raise PathRefused(f"{_quote_path(text)} cannot be used: {error.strerror}; choose another path.") from None
        if stat.S_ISLNK(mode):
            raise PathRefused(
                f"{_quote_path(text)} goes through the symlink {_quote_path(str(here.relative_to(bounds)))}; "
                "name the real path instead."
            )
    return bounds / below


def _relative_to_root(full: Path, bounds: Path) -> Path | None:
    """Return `full` relative to the root. Symlinks above the root are resolved, those below stay for the caller."""
    if full.is_relative_to(bounds):
        return full.relative_to(bounds)
    for folder in (*reversed(full.parents), full):
        if os.path.realpath(folder) == str(bounds):
            return full.relative_to(folder)
    return None


def absolute(text: str, base: Path) -> Path:
    """Return the absolute path from the resolved `base`, with `~` expanded. Its symlinks and `..` are not resolved."""
    _check_path_text(text)
    if text == "~" or text.startswith("~/"):
        return Path.home() / text[1:].lstrip("/")
    return Path(os.path.realpath(base)) / text


def _check_path_text(text: str) -> None:
    if not text:
        raise PathRefused("The path is empty; name a file or a folder.")
    if "\0" in text:
        raise PathRefused(f"{_quote_path(text)} contains a NUL character; leave it out.")
    try:
        size = len(os.fsencode(text))
    except UnicodeEncodeError:
        raise PathRefused(f"{_quote_path(text)} contains invalid Unicode; send the name as it is on disk.") from None
    if size > MAX_PATH_BYTES:
        raise PathRefused(f"The path is {size:,} bytes long; at most {MAX_PATH_BYTES:,} are accepted.")
    if text.startswith("~") and text != "~" and not text.startswith("~/"):
        raise PathRefused(
            f"{_quote_path(text)} names another user's home; write the path out, or './' before a real '~'."
        )
    if "%" in text and ".." in _SEPARATORS.split(_percent_decoded(text)) and ".." not in _SEPARATORS.split(text):
        raise PathRefused(f"{_quote_path(text)} contains a percent-encoded '..'; paths are not URLs, decode it.")


def _percent_decoded(text: str) -> str:
    lowered = text.lower()
    for code, character in (("%25", "%"), ("%2e", "."), ("%2f", "/"), ("%5c", "\\")):
        lowered = lowered.replace(code, character)
    return lowered


def _outside_root(text: str, bounds: Path) -> PathRefused:
    return PathRefused(f"{_quote_path(text)} is outside the project root {bounds}; use a path inside it.")


def _quote_path(text: str) -> str:
    return ascii(text if len(text) <= _MAX_SHOWN_CHARS else f"{text[:_MAX_SHOWN_CHARS]}…")


_GLOB_PARTS: Final = re.compile(r"\[[*?[]\]|[*?[]|[^*?[]+")
_STAR: Final = "[^/]*"
_SHORT_NAMES: Final = {"git~1": ".git"}
_SHORT_NAME: Final = r"[^.~]{1,6}~[0-9]{1,6}(?:\.[^.~]{0,3})?"
_LOCAL_MARKER: Final = re.compile(r"[-._](?:local|overrides?)(?=\.|$)")
"""Marks a local variant of a file (`x.local.json`, `x-override.yml`), which the same program reads."""
_CACHE_SIZE: Final = 4096
"""Cache size for names: most components of a path are folders that occur again."""


class PathPattern(NamedTuple):
    """A pattern of consecutive folded names; an `anchored` one starts at the file-system root."""

    names: tuple[str, ...]
    anchored: bool
    reason: str


_Candidate = tuple[PathPattern, list[re.Pattern[str]]]
"""A pattern, and the regexes of its names before the last one."""


class PathMatcher:
    """Matches a path against many patterns. Indexed by the last name, so that most names cost one look-up."""

    def __init__(self, patterns: Iterable[PathPattern]) -> None:
        self._exact: dict[str, list[_Candidate]] = {}
        self._wild: list[tuple[re.Pattern[str], _Candidate]] = []
        for pattern in dict.fromkeys(patterns):
            *above, last = pattern.names
            before = [re.compile(_name_regex(name)) for name in above]
            if re.search(r"[*?[]", last):
                self._wild.append((re.compile(_name_regex(last)), (pattern, before)))
            else:
                self._exact.setdefault(last, []).append((pattern, before))
        every = {last.pattern for last, _ in self._wild}
        ends = {regex for regex in every if regex.startswith(_STAR)}  # combined, they scan the name only once
        tails = "|".join(sorted(regex.removeprefix(_STAR) for regex in ends)) if ends else "(?!)"
        self._any_wild = re.compile("|".join((*sorted(every - ends), f"{_STAR}(?:{tails})")))
        self._ending = lru_cache(maxsize=_CACHE_SIZE)(self._find_ending)

    def may_match_last(self, name: str) -> bool:
        """Whether a folded name matches the last name of a pattern."""
        return name in self._exact or self._any_wild.fullmatch(name) is not None

    def reason(self, names: Sequence[str], *, whole: bool = False) -> str | None:
        """Return the reason of the deepest match of a path, given as folded names from the root, or None. With `whole`,
        the path itself must match, not one of its parents."""
        for end in range(len(names) - 1, len(names) - 2 if whole else -1, -1):
            for pattern, before in self._ending(names[end]):
                start = end - len(before)
                begins = start == 0 or (start > 0 and not pattern.anchored)
                if begins and all(
                    wanted.fullmatch(name) for wanted, name in zip(before, names[start:end], strict=True)
                ):
                    return pattern.reason
        return None

    def _find_ending(self, name: str) -> tuple[_Candidate, ...]:
        wild = self._wild if self._any_wild.fullmatch(name) else ()
        return (*self._exact.get(name, ()), *(ends for last, ends in wild if last.fullmatch(name)))


def fold_path(path: str) -> str:
    return "/".join(map(fold, path.split("/")))


@lru_cache(maxsize=_CACHE_SIZE)
def fold(name: str) -> str:
    """Fold a name as case-insensitive and normalizing file systems do: case, accents, trailing dots, NTFS streams."""
    text = name.lower() if name.isascii() and name.isprintable() else _fold_unicode(name)
    text = text.partition(":")[0] or text
    text = text.rstrip(". ") or text
    return _SHORT_NAMES.get(text, text)


def _fold_unicode(name: str) -> str:
    text = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", name).casefold())
    kept = (char for char in text if unicodedata.category(char) not in ("Mn", "Cf", "Cc"))
    return "".join(kept).replace("ı", "i")


def without_local_markers(names: Sequence[str]) -> Sequence[str] | None:
    """Return the names without markers of local variants; None if there are none."""
    if not any("local" in name or "override" in name for name in names):
        return None
    shared = [_LOCAL_MARKER.sub("", name) or name for name in names]
    return None if shared == list(names) else shared


def may_be_short_name(name: str) -> bool:
    """Whether a folded name looks like an 8.3 short name of NTFS or FAT, which can stand for any longer name."""
    return "~" in name and re.fullmatch(_SHORT_NAME, name) is not None


def split_path(folded: str) -> list[str]:
    return folded.strip("/").split("/")


def _name_regex(name: str) -> str:
    """Convert a glob to a regex whose stars do not backtrack: the pattern may come from an untrusted file (ReDoS)."""
    pieces = [""]  # the literals between the stars
    for part in _GLOB_PARTS.findall(name):
        if part == "*":
            pieces.append("")
        else:
            pieces[-1] += "[^/]" if part == "?" else re.escape(part[1] if part[0] == "[" != part else part)
    first, *rest = pieces
    if not rest:
        return first
    middle = "".join(f"(?>[^/]*?{piece})" for piece in rest[:-1] if piece)
    return f"{first}{middle}{_STAR}{rest[-1]}"

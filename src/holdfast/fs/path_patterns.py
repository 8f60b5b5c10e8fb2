"""Patterns of paths, matched name by name on what a careless file system may take each name for.

A pattern is one or more names joined by `/`. It matches wherever those names stand next to each other in a path,
and everything beneath; `~/`, `$root/` and `/` pin it to a place. `*` and `?` stand for characters of one name;
`[*]`, `[?]` and `[[]` stand for those characters themselves.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

_PARTS: Final = re.compile(r"\[[*?[]\]|[*?[]|[^*?[]+")
_STAR: Final = "[^/]*"
_SHORT_NAMES: Final = {"git~1": ".git"}
_SHORT: Final = r"[^.~]{1,6}~[0-9]{1,6}(?:\.[^.~]{0,3})?"
_LOCAL: Final = re.compile(r"[-._](?:local|overrides?)(?=\.|$)")
"""What people put into a name for a variant that is not shared: the program that obeys the one obeys the other."""
_KNOWN: Final = 4096
"""Names that are remembered: most names of a path are those of folders, which come again."""


class Pattern(NamedTuple):
    """Names that stand next to each other, folded; `pinned` ones begin at the top of the file system."""

    names: tuple[str, ...]
    pinned: bool
    reason: str


_Ends = tuple[Pattern, list[re.Pattern[str]]]
"""A pattern, and its names before the last one."""


class Matcher:
    """Which of many patterns match a path. Looks up the last name of each, so that most names cost one look-up."""

    def __init__(self, patterns: Iterable[Pattern]) -> None:
        self._exact: dict[str, list[_Ends]] = {}
        self._wild: list[tuple[re.Pattern[str], _Ends]] = []
        for pattern in dict.fromkeys(patterns):
            *above, last = pattern.names
            before = [re.compile(_name_regex(name)) for name in above]
            if re.search(r"[*?[]", last):
                self._wild.append((re.compile(_name_regex(last)), (pattern, before)))
            else:
                self._exact.setdefault(last, []).append((pattern, before))
        every = {last.pattern for last, _ in self._wild}
        ends = {regex for regex in every if regex.startswith(_STAR)}  # each alone looks through the whole name
        tails = "|".join(sorted(regex.removeprefix(_STAR) for regex in ends)) if ends else "(?!)"
        self._any_wild = re.compile("|".join((*sorted(every - ends), f"{_STAR}(?:{tails})")))
        self._ending = lru_cache(maxsize=_KNOWN)(self._find_ending)

    def may_end(self, name: str) -> bool:
        """Whether a folded name is the last one of a pattern."""
        return name in self._exact or self._any_wild.fullmatch(name) is not None

    def reason(self, names: Sequence[str], *, whole: bool = False) -> str | None:
        """Why a path matches, given as folded names from the top: the deepest match counts, as it says most. With
        `whole` the path must not lie beneath a match."""
        for end in range(len(names) - 1, len(names) - 2 if whole else -1, -1):
            for pattern, before in self._ending(names[end]):
                start = end - len(before)
                begins = start == 0 or (start > 0 and not pattern.pinned)
                if begins and all(
                    wanted.fullmatch(name) for wanted, name in zip(before, names[start:end], strict=True)
                ):
                    return pattern.reason
        return None

    def _find_ending(self, name: str) -> tuple[_Ends, ...]:
        wild = self._wild if self._any_wild.fullmatch(name) else ()
        return (*self._exact.get(name, ()), *(ends for last, ends in wild if last.fullmatch(name)))


def fold_path(path: str) -> str:
    return "/".join(map(fold, path.split("/")))


@lru_cache(maxsize=_KNOWN)
def fold(name: str) -> str:
    """What a file system that is careless about case, accents, dots or streams may take the name for."""
    text = name.lower() if name.isascii() and name.isprintable() else _fold_unicode(name)
    text = text.partition(":")[0] or text
    text = text.rstrip(". ") or text
    return _SHORT_NAMES.get(text, text)


def _fold_unicode(name: str) -> str:
    text = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", name).casefold())
    kept = (char for char in text if unicodedata.category(char) not in ("Mn", "Cf", "Cc"))
    return "".join(kept).replace("ı", "i")


def shared_names(names: Sequence[str]) -> Sequence[str] | None:
    """The names without what marks a local variant; None if none of them is one."""
    if not any("local" in name or "override" in name for name in names):
        return None
    shared = [_LOCAL.sub("", name) or name for name in names]
    return None if shared == list(names) else shared


def may_be_short(name: str) -> bool:
    """Whether a folded name looks like one that NTFS or FAT gives to a longer name: nobody can tell which."""
    return "~" in name and re.fullmatch(_SHORT, name) is not None


def names_of(folded: str) -> list[str]:
    return folded.strip("/").split("/")


def _name_regex(name: str) -> str:
    """A glob as a regex whose stars do not backtrack: an untrusted file's pattern must not take for ever."""
    pieces = [""]  # what stands between the stars
    for part in _PARTS.findall(name):
        if part == "*":
            pieces.append("")
        else:
            pieces[-1] += "[^/]" if part == "?" else re.escape(part[1] if part[0] == "[" != part else part)
    first, *rest = pieces
    if not rest:
        return first
    middle = "".join(f"(?>[^/]*?{piece})" for piece in rest[:-1] if piece)
    return f"{first}{middle}{_STAR}{rest[-1]}"

"""Patterns of paths, matched name by name on what a careless file system may take each name for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

_PARTS: Final = re.compile(r"\[[*?[]\]|[*?[]|[^*?[]+")
_WILD: Final = re.compile(r"[*?[]")
_SHORT_NAMES: Final = {"git~1": ".git"}
_SHORT: Final = r"[^.~]{1,6}~[0-9]{1,6}(?:\.[^.~]{0,3})?"
_LOCAL: Final = re.compile(r"[-._](?:local|overrides?)(?=\.|$)")
"""What people put into a name for a variant that is not shared: the program that obeys the one obeys the other."""


class Pattern(NamedTuple):
    """Names that stand next to each other, folded; `pinned` ones begin at the top of the file system."""

    names: tuple[str, ...]
    pinned: bool
    reason: str


_Ends = tuple[Pattern, list[re.Pattern[str] | str]]
"""A pattern, and its names before the last one."""


class _Bucket(NamedTuple):
    """Patterns with a wild last name that begins, or ends, with the same character."""

    any: re.Pattern[str]
    each: list[tuple[re.Pattern[str], _Ends]]


class Matcher:
    """Which of many patterns match a path. Looks up the last name of each, so that most names cost one look-up; wild
    ones are sorted by a character that a name must begin or end with."""

    def __init__(self, patterns: Iterable[Pattern]) -> None:
        self._exact: dict[str, list[_Ends]] = {}
        wild: dict[tuple[int, str], list[tuple[re.Pattern[str], _Ends]]] = {}
        for pattern in dict.fromkeys(patterns):
            *before, last = map(_compiled, pattern.names)
            if isinstance(last, str):
                self._exact.setdefault(last, []).append((pattern, before))
            else:
                wild.setdefault(_anchor(pattern.names[-1]), []).append((last, (pattern, before)))
        self._wild = {
            anchor: _Bucket(re.compile("|".join(sorted({last.pattern for last, _ in each}))), each)
            for anchor, each in wild.items()
        }
        self._known: dict[str, tuple[_Ends, ...]] = {}

    def may_end(self, name: str) -> bool:
        """Whether a folded name is the last one of a pattern."""
        return name in self._exact or bool(self._buckets(name))

    def reason(self, names: Sequence[str], *, whole: bool = False) -> str | None:
        """Why a path matches, given as folded names from the top: the deepest match counts, as it says most. With
        `whole` the path must not lie beneath a match."""
        for end in range(len(names) - 1, len(names) - 2 if whole else -1, -1):
            for pattern, before in self._ending(names[end]):
                start = end - len(before)
                begins = start == 0 or (start > 0 and not pattern.pinned)
                if begins and all(map(_fits, before, names[start:end])):
                    return pattern.reason
        return None

    def _ending(self, name: str) -> tuple[_Ends, ...]:
        known = self._known.get(name)
        if known is None:
            if len(self._known) >= _KNOWN:
                self._known.clear()
            wild = (ends for bucket in self._buckets(name) for last, ends in bucket.each if last.fullmatch(name))
            known = self._known[name] = (*self._exact.get(name, ()), *wild)
        return known

    def _buckets(self, name: str) -> list[_Bucket]:
        found: list[_Bucket] = []
        for anchor in ((0, name[:1]), (-1, name[-1:]), _ANYWHERE):
            bucket = self._wild.get(anchor)
            if bucket is not None and bucket.any.fullmatch(name):
                found.append(bucket)
        return found


_KNOWN: Final = 4096
"""Names whose patterns a matcher remembers: most names of a path are those of folders, which come again."""
_ANYWHERE: Final = (0, "")


def _anchor(name: str) -> tuple[int, str]:
    """Where a name that fits a glob has which character: at its beginning (0), or at its end (-1)."""
    if name[0] not in "*?[":
        return 0, name[0]
    return (-1, name[-1]) if name[-1] not in "*?]" else _ANYWHERE


def fold_path(path: str) -> str:
    return "/".join(map(fold, path.split("/")))


def fold(name: str) -> str:
    """What a file system that is careless about case, accents, dots or streams may take the name for."""
    return _fold_once(name) if len(name) <= _LONGEST else _fold(name)


def _fold(name: str) -> str:
    text = name.lower() if name.isascii() and name.isprintable() else _fold_unicode(name)
    text = text.partition(":")[0] or text
    text = text.rstrip(". ") or text
    return _SHORT_NAMES.get(text, text)


_LONGEST: Final = 255
"""Most file systems have no longer names; longer ones are not remembered."""
_fold_once: Final = lru_cache(maxsize=_KNOWN)(_fold)


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


def _fits(wanted: re.Pattern[str] | str, name: str) -> bool:
    return wanted == name if isinstance(wanted, str) else wanted.fullmatch(name) is not None


def _compiled(name: str) -> re.Pattern[str] | str:
    return re.compile(_name_regex(name)) if _WILD.search(name) else name


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


def _fold_unicode(name: str) -> str:
    import unicodedata

    text = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", name).casefold())
    kept = (char for char in text if unicodedata.category(char) not in ("Mn", "Cf", "Cc"))
    return "".join(kept).replace("ı", "i")

"""Which of the matching files and lines are shown, and in which order. The same for both engines."""

from __future__ import annotations

import mmap
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from holdfast.text.truncate import cut_line
from holdfast.tools.search.pattern import Pattern
from holdfast.tools.search.scan import lines_for
from holdfast.tools.search.scope import CONFIG, SOURCE, Scope, extension
from holdfast.tools.search.walk import Folders

LOOKED_AT: Final = 500
"""Files looked at for the definition of an identifier; other queries need no more than are collected."""
LINES_LOOKED_AT: Final = 500
LINE_BYTES: Final = 500
_IDENTIFIER: Final = re.compile(rb"[A-Za-z_][A-Za-z0-9_]*")
_DEFINITION: Final = re.compile(
    rb"(?:\xef\xbb\xbf)?[ \t]*(?:pub (?:enum|struct|fn|type|trait|const|static)"
    rb"|enum|struct|fn|type|const|trait|impl|class|def|func|function|interface) +([A-Za-z0-9_]*)"
)


Hit = tuple[str, int]
"""The path of a file below the root (bytes that are not UTF-8 as lone surrogates), and how many of its lines match."""


class Line(Struct, frozen=True):
    number: int
    text: str


class FileHits(Struct, frozen=True, kw_only=True):
    """A file that is shown: where, how much, and which lines."""

    path: str
    tier: int
    count: int
    lines: tuple[Line, ...]
    exact: bool
    """One of its lines defines exactly what was asked for."""
    all_definitions: bool


def tier_of(path: str) -> int:
    """0 source, 1 configuration, 2 anything else."""
    found = extension(path)
    return 0 if found in SOURCE else 1 if found in CONFIG else 2


def in_order(hits: Iterable[Hit], wanted: int) -> list[Hit]:
    """The first of them: source before configuration before the rest, each by the characters of its path."""
    tiers: tuple[list[Hit], list[Hit], list[Hit]] = ([], [], [])
    known: dict[str, int] = {}
    for hit in hits:
        path = hit[0]
        end = path[path.rfind(".") :]
        tier = known.get(end)
        if tier is None:
            tier = known[end] = tier_of(path)
        tiers[tier].append(hit)
    ordered: list[Hit] = []
    for some in tiers:
        if len(ordered) < wanted:
            some.sort()
            ordered += some
    return ordered[:wanted]


def files_to_look_at(pattern: Pattern, collected: int) -> int:
    return max(collected, LOOKED_AT) if names_something(pattern) else collected


def names_something(pattern: Pattern) -> bool:
    return not pattern.regex and _IDENTIFIER.fullmatch(pattern.text) is not None


def look_at(
    hits: Sequence[Hit],
    pattern: Pattern,
    scope: Scope,
    *,
    per_file: int,
    places: Mapping[str, Sequence[int]] | None = None,
) -> list[FileHits]:
    """Read the files and rank them. `places`: where lines match, for patterns that are not tried in this process."""
    looked: list[FileHits] = []
    with Folders(str(scope.root)) as folders:
        for hit in hits:
            try:
                seen = _look(folders, hit, pattern, per_file, None if places is None else places.get(hit[0], ()))
            except (OSError, ValueError):
                continue
            if seen is not None:
                looked.append(seen)
    looked.sort(key=lambda file: (file.tier, not file.exact, not file.all_definitions))
    return looked


def _look(
    folders: Folders, hit: Hit, pattern: Pattern, per_file: int, places: Sequence[int] | None
) -> FileHits | None:
    opened = folders.open_file(os.fsencode(hit[0]))
    try:
        size = os.fstat(opened).st_size
        if size <= 1 << 20:
            return _choose(os.read(opened, size), hit, pattern, per_file, places)
        with mmap.mmap(opened, size, prot=mmap.PROT_READ) as data:
            return _choose(data, hit, pattern, per_file, places)
    finally:
        os.close(opened)


def _choose(
    data: bytes | mmap.mmap, hit: Hit, pattern: Pattern, per_file: int, places: Sequence[int] | None
) -> FileHits | None:
    """The lines that define what was asked for, then the first ones; in the order of the file."""
    named = names_something(pattern)
    wanted = pattern.text.lower() if pattern.fold else pattern.text
    first: list[int] = []
    exact: list[int] = []
    if places is None:
        places_found = lines_for(pattern.text, regex=pattern.regex, fold=pattern.fold)(data, len(data))
    else:
        places_found = iter(places)
    for number, at in enumerate(places_found):
        if number >= LINES_LOOKED_AT or (number >= per_file and not named) or len(exact) >= per_file:
            break
        start = data.rfind(b"\n", 0, min(at, len(data))) + 1
        if number < per_file:
            first.append(start)
        if named and (found := _DEFINITION.match(data, start)) is not None:
            name = found[1].lower() if pattern.fold else found[1]
            if name == wanted:
                exact.append(start)
    chosen = sorted((exact + [start for start in first if start not in exact])[:per_file])
    if not chosen:
        return None
    return FileHits(
        path=hit[0],
        tier=tier_of(hit[0]),
        count=hit[1],
        lines=_lines(data, chosen),
        exact=bool(exact),
        all_definitions=all(_DEFINITION.match(data, start) is not None for start in chosen),
    )


def _lines(data: bytes | mmap.mmap, starts: Sequence[int]) -> tuple[Line, ...]:
    lines: list[Line] = []
    number, counted = 1, 0
    for start in starts:
        number += _newlines(data, counted, start)
        counted = start
        end = data.find(b"\n", start)
        whole = end if end >= 0 else len(data)
        raw = data[start : min(whole, start + LINE_BYTES + 4)]
        text = raw.removesuffix(b"\r") if whole <= start + LINE_BYTES + 4 else raw
        lines.append(Line(number, cut_line(text.decode(errors="replace").removeprefix("\ufeff"), LINE_BYTES)))
    return tuple(lines)


def _newlines(data: bytes | mmap.mmap, start: int, end: int) -> int:
    step = 1 << 20
    return sum(data[at : min(at + step, end)].count(b"\n") for at in range(start, end, step))



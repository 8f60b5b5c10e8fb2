"""Which of the matching files and lines are shown, and in which order. The same for both engines."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
BLOCK: Final = 1 << 20
LONGEST: Final = 8 << 20
"""A longer line is looked at in pieces."""
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


def defined_name(line: str) -> str | None:
    """The name a line defines, if it reads like a definition; empty where something nameless is defined."""
    found = _DEFINITION.match(line[:LINE_BYTES].encode(errors="replace"))
    return None if found is None else found[1].decode()


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
        return _choose(matching(opened, pattern, places, per_file), hit, pattern, per_file)
    finally:
        os.close(opened)


class _Match(Struct, frozen=True):
    """A line that matches, not yet made readable: most are only looked at."""

    number: int
    raw: bytes
    """Its beginning, a little more than is shown."""
    whole: bool
    defines: bytes | None
    """The name it defines, if it reads like a definition."""

    @property
    def line(self) -> Line:
        text = (self.raw.removesuffix(b"\r") if self.whole else self.raw).decode(errors="replace")
        return Line(self.number, cut_line(text.removeprefix("\ufeff"), LINE_BYTES))


def _choose(matches: Iterable[_Match], hit: Hit, pattern: Pattern, per_file: int) -> FileHits | None:
    """The lines that define what was asked for, then the first ones; in the order of the file."""
    named = names_something(pattern)
    wanted = pattern.text.lower() if pattern.fold else pattern.text
    first: list[_Match] = []
    exact: list[_Match] = []
    for number, match in enumerate(matches):
        if (number >= per_file and not named) or len(exact) >= per_file:
            break
        if number < per_file:
            first.append(match)
        if named and match.defines is not None:
            name = match.defines.lower() if pattern.fold else match.defines
            if name == wanted:
                exact.append(match)
    chosen = sorted((exact + [match for match in first if match not in exact])[:per_file], key=_number)
    if not chosen:
        return None
    return FileHits(
        path=hit[0],
        tier=tier_of(hit[0]),
        count=hit[1],
        lines=tuple(match.line for match in chosen),
        exact=bool(exact),
        all_definitions=all(match.defines is not None for match in chosen),
    )


def _number(match: _Match) -> int:
    return match.number


def matching(
    opened: int, pattern: Pattern, places: Sequence[int] | None, first: int = LINES_LOOKED_AT
) -> Iterator[_Match]:
    """The first lines that match, as they come, and of those after them the ones that read like a definition.

    The file is read, not mapped: what is cut short meanwhile cannot hurt us.
    """
    looked_at = 0
    lines = lines_for(pattern.text, regex=pattern.regex, fold=pattern.fold) if places is None else None
    for base, beginning, block in _blocks(opened):
        if lines is not None:
            found = lines(block, len(block))
        else:
            assert places is not None
            found = iter([at - base for at in places if base <= at < base + len(block)])
        number, counted = beginning, 0
        for at in found:
            if looked_at == LINES_LOOKED_AT:
                return
            looked_at += 1
            start = block.rfind(b"\n", 0, at) + 1
            definition = _DEFINITION.match(block, start)
            if looked_at > first and definition is None:
                continue
            number += block.count(b"\n", counted, start)
            counted = start
            end = block.find(b"\n", start)
            last = end if end >= 0 else len(block)
            shown = min(last, start + LINE_BYTES + 4)
            yield _Match(number, block[start:shown], shown == last, None if definition is None else definition[1])


def _blocks(opened: int) -> Iterator[tuple[int, int, bytes]]:
    """Where a block begins, the number of its first line, and whole lines (but for one that is too long)."""
    base, number, rest = 0, 1, b""
    while piece := os.read(opened, BLOCK):
        data = rest + piece
        end = data.rfind(b"\n") + 1
        if not end and len(data) < LONGEST:
            rest = data
            continue
        whole = data[: end or len(data)]
        yield base, number, whole
        base, number, rest = base + len(whole), number + whole.count(b"\n"), data[len(whole) :]
    if rest:
        yield base, number, rest

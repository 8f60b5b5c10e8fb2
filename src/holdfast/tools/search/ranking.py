"""Which of the matching files and lines are shown, and in which order. The same for both engines."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import nsmallest
from typing import Final

from msgspec import Struct

from holdfast.text.truncate import truncate_line
from holdfast.tools.search.plain_scan import blocks, line_matcher, open_file
from holdfast.tools.search.scope import CONFIG, SOURCE, Query, SearchScope, extension

MAX_FILES_READ: Final = 500
"""Files looked at for the definition of an identifier; other queries need no more than are collected."""
MAX_LINES_READ: Final = 500
LINE_BYTES: Final = 500
_DEFINITION: Final = re.compile(
    rb"(?:\xef\xbb\xbf)?[ \t]*(?:pub (?:enum|struct|fn|type|trait|const|static)"
    rb"|enum|struct|fn|type|const|trait|impl|class|def|func|function|interface) +([A-Za-z0-9_]*)"
)

Hit = tuple[str, int]
"""The path of a file below the root (bytes that are not UTF-8 as lone surrogates), and how many of its lines match."""


class MatchedLine(Struct, frozen=True):
    number: int
    text: str
    defines: bytes | None = None
    """The name it defines, if it reads like a definition."""


class FileHits(Struct, frozen=True, kw_only=True):
    """A file that is shown: where, how much, and which lines."""

    path: str
    tier: int
    count: int
    lines: tuple[MatchedLine, ...]
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


def top_hits(hits: Iterable[Hit], wanted: int) -> list[Hit]:
    """The first of them: source before configuration before the rest, each by the characters of its path."""
    return nsmallest(wanted, hits, key=lambda hit: (tier_of(hit[0]), hit))


def read_hits(
    hits: Sequence[Hit],
    query: Query,
    scope: SearchScope,
    *,
    per_file: int,
    places: Mapping[str, Sequence[int]] | None = None,
) -> list[FileHits]:
    """Read the files and rank them. `places`: where lines match, for a pattern that is not tried in this process."""
    looked: list[FileHits] = []
    root = os.open(scope.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for hit in hits:
            try:
                opened = open_file(root, hit[0])
            except (OSError, ValueError):
                continue
            try:
                lines = matching_lines(opened, query, None if places is None else places.get(hit[0], ()), per_file)
                seen = _choose(lines, hit, query, per_file)
            except OSError:
                continue
            finally:
                os.close(opened)
            if seen is not None:
                looked.append(seen)
    finally:
        os.close(root)
    looked.sort(key=lambda file: (file.tier, not file.exact, not file.all_definitions))
    return looked


def _choose(lines: Iterable[MatchedLine], hit: Hit, query: Query, per_file: int) -> FileHits | None:
    """The lines that define what was asked for, then the first ones; in the order of the file."""
    wanted = query.text.encode()
    first: list[MatchedLine] = []
    exact: list[MatchedLine] = []
    for line in lines:
        if (len(first) >= per_file and not query.is_identifier) or len(exact) >= per_file:
            break
        if len(first) < per_file:
            first.append(line)
        if query.is_identifier and (line.defines or b"").lower() == wanted.lower():
            exact += [line] if query.fold or line.defines == wanted else []
    chosen = sorted((exact + [line for line in first if line not in exact])[:per_file], key=lambda line: line.number)
    if not chosen:
        return None
    return FileHits(
        path=hit[0],
        tier=tier_of(hit[0]),
        count=hit[1],
        lines=tuple(chosen),
        exact=bool(exact),
        all_definitions=all(line.defines is not None for line in chosen),
    )


def matching_lines(
    opened: int, query: Query, places: Sequence[int] | None, first: int = MAX_LINES_READ
) -> Iterator[MatchedLine]:
    """The first lines that match, as they come, and of those after them the ones that read like a definition."""
    looked_at, number = 0, 1
    lines = line_matcher(query.text, fold=query.fold) if places is None else None
    for base, block in blocks(opened):
        found = lines(block) if lines else (at - base for at in places or () if base <= at < base + len(block))
        counted = 0
        for at in found:
            if looked_at == MAX_LINES_READ:
                return
            looked_at += 1
            start = block.rfind(b"\n", 0, at) + 1
            definition = _DEFINITION.match(block, start)
            if looked_at > first and definition is None:
                continue
            number += block.count(b"\n", counted, start)
            counted = start
            yield MatchedLine(number, _text(block, start), None if definition is None else definition[1])
        number += block.count(b"\n", counted)


def _text(block: bytes, start: int) -> str:
    """A line of a block, cut to what is shown of it."""
    end = block.find(b"\n", start)
    last = end if end >= 0 else len(block)
    shown = min(last, start + LINE_BYTES + 4)
    raw = block[start:shown]
    text = (raw.removesuffix(b"\r") if shown == last else raw).decode(errors="replace")
    return truncate_line(text.removeprefix("\ufeff"), LINE_BYTES)

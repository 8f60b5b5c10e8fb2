"""Ranks matching files and chooses the lines to show, identically for both engines."""

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
"""Files read to find the definition of an identifier; other queries read only those shown."""
MAX_LINES_READ: Final = 500
LINE_BYTES: Final = 500
_DEFINITION: Final = re.compile(
    rb"(?:\xef\xbb\xbf)?[ \t]*(?:pub (?:enum|struct|fn|type|trait|const|static)"
    rb"|enum|struct|fn|type|const|trait|impl|class|def|func|function|interface) +([A-Za-z0-9_]*)"
)

Hit = tuple[str, int]
"""A path below the root (invalid UTF-8 as lone surrogates), and its number of matching lines."""


class MatchedLine(Struct, frozen=True):
    number: int
    text: str
    defines: bytes | None = None
    """The defined name, if the line looks like a definition."""


class FileHits(Struct, frozen=True, kw_only=True):
    """A file in the result, with its chosen lines."""

    path: str
    tier: int
    count: int
    lines: tuple[MatchedLine, ...]
    exact: bool
    """One of its lines defines exactly the queried name."""
    all_definitions: bool


def tier_of(path: str) -> int:
    """Return 0 for source, 1 for configuration, 2 for anything else."""
    found = extension(path)
    return 0 if found in SOURCE else 1 if found in CONFIG else 2


def defined_name(line: str) -> str | None:
    """Return the name that a line defines, or None if it does not look like a definition; empty for an unnamed one."""
    found = _DEFINITION.match(line[:LINE_BYTES].encode(errors="replace"))
    return None if found is None else found[1].decode()


def top_hits(hits: Iterable[Hit], wanted: int) -> list[Hit]:
    """Return the best hits: source before configuration before the rest, each sorted by path."""
    return nsmallest(wanted, hits, key=lambda hit: (tier_of(hit[0]), hit))


def read_hits(
    hits: Sequence[Hit],
    query: Query,
    scope: SearchScope,
    *,
    per_file: int,
    offsets: Mapping[str, Sequence[int]] | None = None,
) -> list[FileHits]:
    """Read the files and rank them. `offsets` locates the matches of a pattern, which is not matched in this
    process."""
    files: list[FileHits] = []
    root = os.open(scope.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for hit in hits:
            try:
                opened = open_file(root, hit[0])
            except (OSError, ValueError):
                continue
            try:
                lines = matching_lines(opened, query, None if offsets is None else offsets.get(hit[0], ()), per_file)
                seen = _choose(lines, hit, query, per_file)
            except OSError:
                continue
            finally:
                os.close(opened)
            if seen is not None:
                files.append(seen)
    finally:
        os.close(root)
    files.sort(key=lambda file: (file.tier, not file.exact, not file.all_definitions))
    return files


def _choose(lines: Iterable[MatchedLine], hit: Hit, query: Query, per_file: int) -> FileHits | None:
    """Choose the defining lines, then the first ones, in file order."""
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
    opened: int, query: Query, offsets: Sequence[int] | None, first: int = MAX_LINES_READ
) -> Iterator[MatchedLine]:
    """Yield the first matching lines, and after those only lines that look like definitions."""
    examined, number = 0, 1
    lines = line_matcher(query.text, fold=query.fold) if offsets is None else None
    for base, block in blocks(opened):
        found = lines(block) if lines else (at - base for at in offsets or () if base <= at < base + len(block))
        counted = 0
        for at in found:
            if examined == MAX_LINES_READ:
                return
            examined += 1
            start = block.rfind(b"\n", 0, at) + 1
            definition = _DEFINITION.match(block, start)
            if examined > first and definition is None:
                continue
            number += block.count(b"\n", counted, start)
            counted = start
            yield MatchedLine(number, _text(block, start), None if definition is None else definition[1])
        number += block.count(b"\n", counted)


def _text(block: bytes, start: int) -> str:
    """Return a line of a block, cut to the displayed length."""
    end = block.find(b"\n", start)
    last = end if end >= 0 else len(block)
    shown = min(last, start + LINE_BYTES + 4)
    raw = block[start:shown]
    text = (raw.removesuffix(b"\r") if shown == last else raw).decode(errors="replace")
    return truncate_line(text.removeprefix("\ufeff"), LINE_BYTES)

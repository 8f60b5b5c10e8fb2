"""The files an answer names, found by their look."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from holdfast.agent.guard.file_names import Kind, is_known, kind_of
from holdfast.agent.guard.words import without_punctuation

_FENCE: Final = re.compile(r"[ \t]{0,3}(`{3,}|~{3,})")
_CHUNK: Final = re.compile(r"\S+")
_PART: Final = re.compile(r"""[^"'`“”‘’<>()\[\]{},;:|*?!=$%&…]+""")
_BEFORE_ADDRESS: Final = re.compile(r"""["'`<>()\[\]{},;|]""")
_PATTERN_BEFORE: Final = frozenset("*?}]>$%&")
"""After one of these a name is the rest of a pattern: `*.py`, `<name>.py`."""
_DOMAIN: Final = re.compile(r"(?:www\.)?[\w.-]+\.(?:com|org|net|io|dev|ai|edu|gov|co|app)", re.IGNORECASE)


def paths_in(answer: str) -> list[str]:
    """Paths with a known ending, in backticks or not, each once, in order, as written but for a line number.

    Not: addresses, absolute paths, patterns, calls (`response.json()`), products (`Node.js`), versions. In fenced
    code a path counts only where nothing else is on the line: code names files that nobody claims to have read.
    """
    found: dict[str, None] = {}
    for line, fenced in _lines(answer):
        paths = list(_paths_of(line))
        if not fenced or (paths and line.strip() == paths[0]):
            found.update(dict.fromkeys(paths))
    return list(found)


def _lines(answer: str) -> Iterator[tuple[str, bool]]:
    """Each line, and whether it is inside a fence. A fence that is never closed is none."""
    lines = answer.splitlines()
    marks = [match[1] if (match := _FENCE.match(line)) else "" for line in lines]
    closes = [bool(mark) and line.strip() == mark for line, mark in zip(lines, marks, strict=True)]
    closed = _closed(marks, closes)
    fence = ""
    for number, line in enumerate(lines):
        if fence:
            yield line, True
            if closes[number] and marks[number].startswith(fence):
                fence = ""
        else:
            yield line, False
            fence = marks[number] if closed[number] else ""


def _closed(marks: Sequence[str], closes: Sequence[bool]) -> list[bool]:
    """For each mark, whether one that is as long and alone on its line comes after it."""
    longest = {"`": 0, "~": 0}
    closed: list[bool] = []
    for mark, alone in zip(reversed(marks), reversed(closes), strict=True):
        closed.append(bool(mark) and longest[mark[0]] >= len(mark))
        if alone:
            longest[mark[0]] = max(longest[mark[0]], len(mark))
    return closed[::-1]


def _paths_of(line: str) -> Iterator[str]:
    for chunk in _CHUNK.findall(line):
        if "." not in chunk:
            continue
        text = _without_address(chunk)
        for part in _PART.finditer(text):
            path = without_punctuation(part[0].removeprefix(".../"))
            before, after = text[part.start() - 1 : part.start()], text[part.end() : part.end() + 1]
            if before not in _PATTERN_BEFORE and after != "(" and _is_file_of_project(path):
                yield path


def _without_address(chunk: str) -> str:
    """What stands before a URL: `[a.py](https://…)` still names a.py."""
    at = chunk.find("://")
    if at < 0:
        return chunk
    start = max((match.end() for match in _BEFORE_ADDRESS.finditer(chunk, 0, at)), default=0)
    return chunk[:start]


def _is_file_of_project(path: str) -> bool:
    if path.startswith(("/", "\\", "~", "@")) or kind_of(path) is not Kind.FILE or not is_known(path):
        return False
    first, slash, _ = path.partition("/")
    return not (slash and _DOMAIN.fullmatch(first))

"""Finds the files that a free-text answer names, and whether it calls them the place or only a use."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Final

import msgspec

_PATH: Final = re.compile(
    r"[\w.\-/]*[\w\-]\.(?:py|tsx?|go|toml|ya?ml|json|ini|cfg|conf|md|txt|sh|mod|sql|rs|java)\b|\b(?:[\w.\-]+/)*Makefile\b"
)
_MODULE: Final = re.compile(r"(?<![\w/.])[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+")
_BOUNDARY: Final = re.compile(r"[;,\n]|[.!?](?=\s|$)|\b(?:and|but|which|while|whereas)\b")
_USE: Final = re.compile(
    r"\b(?:uses?|used|using|calls?|callers?|called (?:by|from|in)|imports?|imported|importing|re-exports?|tests?|tested"
    r"|documented|mentions?|mentioned|references?|referenced|referring|depends|not|another|other|different|separate)\b"
    r"|n't\b",
    re.IGNORECASE,
)
_PLACE: Final = re.compile(
    r"\b(?:defined|defines|definition|declared|declares|declaration|implemented|implements|implementation|located"
    r"|lives|resides|found|def|class|func|function|const)\b",
    re.IGNORECASE,
)
_NEGATION: Final = re.compile(r"\b(?:not|no|neither|nor|never|except|excluding)\b|n't\b", re.IGNORECASE)
_USED_IN: Final = re.compile(r"\b(?:used|called|referenced|tested|imported (?:in|by))(?: (?:in|by|from|at))?\W*$", re.I)


class Mention(msgspec.Struct, frozen=True):
    text: str
    files: tuple[str, ...]
    """The project files the text can mean: none for an invented path, several for an ambiguous name."""
    is_use: bool
    """The clause speaks of a use, a test or another thing, not of the place that was asked for."""
    follows_use: bool
    """The clause says "used in FILE"."""
    negated: bool


def mentions(answer: str, paths: Collection[str]) -> Iterator[Mention]:
    """Yield every file that an answer names, in order."""
    found = sorted(_spans(answer, paths))
    masked = answer
    for start, end, _ in found:
        masked = masked[:start] + "\0" * (end - start) + masked[end:]
    is_use = False
    position = 0
    for boundary in [*_BOUNDARY.finditer(masked), None]:
        end = boundary.start() if boundary else len(masked)
        clause = masked[position:end]
        uses, places = _USE.search(clause), _PLACE.search(clause)
        if uses or places:
            is_use = bool(uses)
        for start, stop, files in found:
            if position <= start < end:
                yield Mention(
                    text=answer[start:stop],
                    files=files,
                    is_use=is_use,
                    follows_use=_USED_IN.search(masked[position:start]) is not None,
                    negated=_NEGATION.search(clause) is not None,
                )
        if boundary:
            position = boundary.end()
            if boundary.group() in (".", "!", "?"):
                is_use = False  # a list such as "used in a.py, b.py" carries on; a new sentence does not


def _spans(answer: str, paths: Collection[str]) -> Iterator[tuple[int, int, tuple[str, ...]]]:
    taken: list[tuple[int, int]] = []
    for match in _PATH.finditer(answer):
        taken.append(match.span())
        yield match.start(), match.end(), _files_of(match.group(), paths)
    modules = {path.removesuffix(".py").removeprefix("src/").replace("/", "."): path for path in paths}
    for match in _MODULE.finditer(answer):
        if any(start < match.end() and match.start() < end for start, end in taken):
            continue
        names = match.group().split(".")
        while len(names) > 1:
            dotted = ".".join(names)
            files = tuple(path for module, path in modules.items() if f".{module}".endswith(f".{dotted}"))
            if files:
                yield match.start(), match.end(), files
                break
            names.pop()


def _files_of(text: str, paths: Collection[str]) -> tuple[str, ...]:
    name = text.removeprefix("./").lstrip("/")
    if name in paths:
        return (name,)
    inside = tuple(path for path in paths if path.endswith(f"/{name}"))
    return inside or tuple(path for path in paths if "/" in path and name.endswith(f"/{path}"))

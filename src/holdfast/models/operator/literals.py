"""What a person put in quotes, backticks or fences is data: it is taken out of a request before the rest is read."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, Literal, NamedTuple

Kind = Literal["quote", "code", "block"]

INLINE, BLOCK, END, IT = "\ue000", "\ue001", "\ue002", "\ue003"
"""Marks that stand for a literal: where one begins, by its kind, and where it ends. `IT` stands for "it"."""
_MARKS: Final = re.compile(f"[{INLINE}{BLOCK}{END}{IT}]")
_MARK: Final = re.compile(f"[{INLINE}{BLOCK}](\\d+){END}")

_FENCE: Final = re.compile(r" {0,3}(`{3,}(?=[^`]*$)|~{3,})")
_CLOSERS: Final = {'"': '"', "'": "'", "“": "”", "‘": "’", "«": "»", "„": "“”"}
_OPENER: Final = re.compile(r"`+|[\"'“‘«„]")
_BEFORE: Final = frozenset(" \t([{:=,;")


class Piece(NamedTuple):
    """One literal: what it holds, and how it was written."""

    text: str
    raw: str
    kind: Kind


class Masked(NamedTuple):
    """A request whose literals are marks."""

    text: str
    pieces: tuple[Piece, ...]

    def piece(self, mark: str) -> Piece | None:
        found = _MARK.fullmatch(mark)
        return None if found is None else self.pieces[int(found[1])]

    def unmasked(self, text: str) -> str:
        """As the person wrote it."""
        return _MARK.sub(lambda found: self.pieces[int(found[1])].raw, text)


class Unreadable(Exception):
    """Where literals begin and end cannot be told; the message says why."""


def mask(text: str) -> Masked:
    if _MARKS.search(text):
        raise Unreadable("It holds characters of Unicode's private use area.")
    pieces: list[Piece] = []
    lines: list[str] = []
    waiting = iter(text.replace("\r\n", "\n").split("\n"))
    for line in waiting:
        fence = _FENCE.match(line)
        if fence is None:
            lines.append(_inline(line, pieces))
            continue
        body: list[str] = []
        for inner in waiting:
            if _closes(inner, fence[1]):
                break
            body.append(inner)
        else:
            raise Unreadable("A fenced block in it is not closed.")
        pieces.append(Piece("\n".join(body), "the fenced block", "block"))
        lines.append(f"{BLOCK}{len(pieces) - 1}{END}")
    return Masked("\n".join(lines), tuple(pieces))


def _closes(line: str, opener: str) -> bool:
    stripped = line.strip()
    return len(stripped) >= len(opener) and set(stripped) == {opener[0]}


def _inline(line: str, pieces: list[Piece]) -> str:
    made: list[str] = []
    place = 0
    barren: set[str] = set()
    while place < len(line):
        end = None if place and line[place - 1] not in _BEFORE else _end_of_literal(line, place, barren)
        if end is None:
            made.append(line[place])
            place += 1
            continue
        raw = line[place:end]
        pieces.append(Piece(_content(raw), raw, "code" if raw[0] == "`" else "quote"))
        made.append(f"{INLINE}{len(pieces) - 1}{END}")
        place = end
    return "".join(made)


def _content(raw: str) -> str:
    width = len(raw) - len(raw.lstrip("`")) or 1
    if width >= len(raw):
        return ""
    inner = raw[width:-width]
    padded = width > 1 and len(inner) > 2 and inner[0] == inner[-1] == " "
    return inner[1:-1] if padded else inner


def _end_of_literal(line: str, start: int, barren: set[str]) -> int | None:
    """Where the literal that begins at `start` ends, or None. `barren` openers have no closer further on."""
    opener = _OPENER.match(line, start)
    if opener is None or opener[0] in barren:
        return None
    closer = _closer(opener[0]).search(line, opener.end())
    if closer is None:
        barren.add(opener[0])
        return None
    return closer.end()


@lru_cache(maxsize=64)
def _closer(opener: str) -> re.Pattern[str]:
    if opener[0] == "`":
        return re.compile(f"(?<!`){opener}(?!`)")
    return re.compile(rf"[{_CLOSERS[opener]}](?=[\s)\]}}:=,;.!?]|$)")

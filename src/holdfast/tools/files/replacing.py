"""Exact replacement in bytes: what the edit does not name stays as it is, whatever it is."""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct

Mode = Literal["unique", "first", "all"]

_MAX_COUNTED: Final = 1_000_000
_MAX_COMPARED: Final = 100_000_000


class Replaced(Struct, frozen=True):
    content: bytes
    count: int
    """How many places were changed."""
    lines: int
    """How many lines the replaced text had, all places together."""
    crlf: bool
    """Newlines of the edit were written as CRLF, as the file has them."""


class NotFound(Exception):
    pass


class NotUnique(Exception):
    def __init__(self, count: int) -> None:
        self.count = count
        super().__init__(count)


def replaced(content: bytes, search: str, replace: str, mode: Mode = "unique") -> Replaced:
    """The content with `search` replaced. Raises `NotFound`, or `NotUnique` in the mode that wants it to be."""
    old, new = search.encode(), replace.encode()
    crlf = _wants_crlf(content, old, new)
    if crlf:
        old, new = _crlf(old), _crlf(new)
    count = occurrences(content, old) if mode == "unique" else content.count(old)
    if not count:
        raise NotFound
    if mode == "unique" and count > 1:
        raise NotUnique(count)
    done = 1 if mode == "first" else count
    lines = (old.count(b"\n") + (not old.endswith(b"\n"))) * done
    return Replaced(content.replace(old, new, done), done, lines, crlf)


def occurrences(content: bytes, wanted: bytes) -> int:
    """How often `wanted` occurs, overlapping ones included; counting stops where it would take for ever."""
    enough = max(2, min(_MAX_COUNTED, _MAX_COMPARED // len(wanted)))
    count, at = 0, content.find(wanted)
    while at >= 0 and count < enough:
        count, at = count + 1, content.find(wanted, at + 1)
    return count


def _wants_crlf(content: bytes, old: bytes, new: bytes) -> bool:
    """Models write LF. In a file that has only CRLF it means that; in a mixed one, where nothing else is found."""
    if b"\r" in old or b"\r" in new or b"\n" not in old + new:
        return False
    ends = content.count(b"\r\n")
    if ends and ends == content.count(b"\n"):
        return True
    return bool(ends) and b"\n" in old and old not in content


def _crlf(text: bytes) -> bytes:
    return text.replace(b"\n", b"\r\n")

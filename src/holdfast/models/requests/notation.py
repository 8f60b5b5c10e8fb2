"""How phrases are written down, and read.

Words stand for themselves, `a/b` for either, `[x]` may be left out, `(some words / others)` are alternatives of several
words, and what is in capitals is a slot.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any, Final, NamedTuple

from holdfast.models.requests.masked import Masked

_TOKEN: Final = re.compile(r"[()\[\]]|[^\s()\[\]]+")


class Slot(NamedTuple):
    """A place in a phrase that a person fills."""

    pattern: str
    """What may stand there."""
    read: Callable[[str, Masked], Any]
    """What it means; None if what stands there cannot be meant for it."""


def telling(words: Iterable[str]) -> dict[str, Slot]:
    """Slots for words whose presence matters."""
    return {word: Slot(word, _is_there) for word in words}


def _is_there(found: str, masked: Masked) -> bool:
    return True


class _Part(NamedTuple):
    pattern: str
    starts: frozenset[str]
    """The words it can begin with; a slot's name for a slot."""
    optional: bool = False


class Form:
    """One way to say something, with slots."""

    def __init__(self, text: str, slots: Mapping[str, Slot]) -> None:
        self.text = text
        self._slots = slots

    def match(self, text: str, masked: Masked) -> dict[str, Any] | None:
        """What its slots hold; None if the text is not this form."""
        starts = self._part.starts
        if text.split(" ", 1)[0].rstrip(":,").lower() not in starts and starts.isdisjoint(self._slots):
            return None
        found = self._pattern.fullmatch(f" {text}")
        values: dict[str, Any] = {}
        for name, given in found.groupdict().items() if found is not None else ():
            if given is not None:
                values[name] = self._slots[name].read(given, masked)
        return None if found is None or None in values.values() else values

    @cached_property
    def _part(self) -> _Part:
        return self._alternatives(_TOKEN.findall(self.text))

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile(self._part.pattern, re.IGNORECASE)

    def _alternatives(self, tokens: list[str]) -> _Part:
        """Everything up to the bracket that closes what was opened before."""
        sequences: list[list[_Part]] = [[]]
        while tokens:
            mark = tokens.pop(0)
            if mark in ")]":
                break
            if mark == "/":
                sequences.append([])
            elif mark in "([":
                inner = self._alternatives(tokens)
                optional = inner._replace(pattern=f"{inner.pattern}?", optional=True)
                sequences[-1].append(optional if mark == "[" else inner)
            else:
                words = mark.split("/")
                sequences[-1].append(_Part(f"(?:{'|'.join(map(self._word, words))})", frozenset(words)))
        joined = "|".join("".join(part.pattern for part in sequence) for sequence in sequences)
        return _Part(f"(?:{joined})", frozenset[str]().union(*map(_starts, sequences)))

    def _word(self, word: str) -> str:
        if word in self._slots:
            return f" (?P<{word}>{self._slots[word].pattern})"
        return f" ?{word}" if word in ":,;" else f" {re.escape(word)}"


def _starts(sequence: list[_Part]) -> frozenset[str]:
    starts: frozenset[str] = frozenset()
    for part in sequence:
        starts |= part.starts
        if not part.optional:
            break
    return starts

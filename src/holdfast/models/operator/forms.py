"""How the phrases of the grammar are written down, and read.

Words stand for themselves, `a/b` for either, `[x]` may be left out, `(some words / others)` are alternatives of several
words, and what is in capitals is a slot.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, Final, NamedTuple

from holdfast.contract.values import Args
from holdfast.models.operator.literals import Masked
from holdfast.models.operator.slots import PATTERNS, Value, value_of

Slots = Mapping[str, Any]
Build = Callable[[Slots], list[Args] | None]

_TOKEN: Final = re.compile(r"[()\[\]]|[^\s()\[\]]+")


class _Part(NamedTuple):
    pattern: str
    starts: frozenset[str]
    """The words it can begin with; a slot's name for a slot."""
    optional: bool = False


class Phrase:
    """One way to say something, an example of it, and the arguments that the slots give."""

    def __init__(self, form: str, example: str, build: Build) -> None:
        self.form = form
        self.example = example
        self._build = build

    def may_begin(self, text: str) -> bool:
        """Whether it is worth trying: the first word is one of its own, or it begins with a slot."""
        starts = self._part.starts
        return text.split(" ", 1)[0].rstrip(":,").lower() in starts or not starts.isdisjoint(PATTERNS)

    def match(self, text: str, masked: Masked) -> list[Args] | None:
        """The arguments of the calls it asks for; None if the text is not this phrase."""
        found = self._pattern.fullmatch(f" {text}")
        if found is None:
            return None
        slots: dict[str, Value] = {}
        for name, given in found.groupdict().items():
            if given is not None:
                value = value_of(name, given, masked)
                if value is None:
                    return None
                slots[name] = value
        return self._build(slots)

    @cached_property
    def _part(self) -> _Part:
        return _alternatives(_TOKEN.findall(self.form))

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile(self._part.pattern, re.IGNORECASE)


def _alternatives(tokens: list[str]) -> _Part:
    """Everything up to the bracket that closes what was opened before."""
    sequences: list[list[_Part]] = [[]]
    while tokens:
        mark = tokens.pop(0)
        if mark in ")]":
            break
        if mark == "/":
            sequences.append([])
        elif mark in "([":
            inner = _alternatives(tokens)
            sequences[-1].append(inner._replace(pattern=inner.pattern + "?", optional=True) if mark == "[" else inner)
        else:
            sequences[-1].append(_word(mark))
    joined = "|".join("".join(part.pattern for part in sequence) for sequence in sequences)
    return _Part(f"(?:{joined})", frozenset[str]().union(*map(_starts, sequences)))


def _starts(sequence: list[_Part]) -> frozenset[str]:
    starts: frozenset[str] = frozenset()
    for part in sequence:
        starts |= part.starts
        if not part.optional:
            break
    return starts


def _word(token: str) -> _Part:
    words = token.split("/")
    return _Part(f"(?:{'|'.join(map(_one, words))})", frozenset(words))


def _one(word: str) -> str:
    if word in (":", ","):
        return f" ?{word}"
    if word in PATTERNS:
        return f" (?P<{word}>{PATTERNS[word]})"
    return f" {re.escape(word)}"

"""Whether a message asks for a change: a word of change that is neither denied nor part of a question."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct

from holdfast.agent.guard.vocabulary import CHANGES, words_of
from holdfast.agent.guard.words import Piece, plain_piece, unquoted

_BREAK: Final = re.compile(r"(?<=[.!?;:])[\s)\]]+|[\n—–]+|(?<=\s)-(?=\s)")
_BEFORE: Final = (
    r"(?:(?:please|so|and|but|or|ok|okay|now|then|also|just|well|hi|hey|hello|first|i want to|i'd like to|i need to|"
    r"can you|could you|would you|will you|can we|can i|could i) )*"
)
_ASKS: Final = re.compile(
    _BEFORE
    + r"(?P<verb>(?:tell|show|explain|describe|find|know|see|understand|check)(?: me| us| to me| to us| out)? )?"
    r"(?:where|what|how|why|which|who|when|whose|where's|what's|how's|who's)(?= |$)"
)
_ASKS_WHETHER: Final = re.compile(
    _BEFORE + r"(?:do|does|did|is|are|was|were|has|have|should|shall|must|don't|doesn't|isn't|aren't|shouldn't) "
)
_REQUEST: Final = frozenset({("can", "you"), ("could", "you"), ("would", "you"), ("will", "you")})
_NOT: Final = words_of(
    "not no never without don't doesn't didn't cannot can't won't shouldn't mustn't couldn't wouldn't dont nor neither"
)
_REQUESTS_DENIED: Final = words_of("can't won't couldn't wouldn't")
"""Before `you` these ask politely."""
_OVER: Final = words_of(
    "but then instead just only also exist exists there work works pass passes run runs match matches found forget "
    "hesitate sure"
)
"""After these a `not` no longer reaches on."""
_REACH: Final = 6
_HEAD: Final = 24


class _Token(Struct, frozen=True):
    piece: Piece
    comma: bool
    """One follows."""

    @property
    def changes(self) -> bool:
        """A word of change, or several with slashes between them."""
        parts = self.piece.text.lower().split("/") if "/" in self.piece.text else [self.piece.word]
        return all(part in CHANGES for part in parts)


def asks_for_change(text: str) -> bool:
    """Whether one of `vocabulary.CHANGES` stands there as a plain word, and is meant.

    Not in quotes, code or names; not after `don't`, `never`, `without` and their like in the same clause; not in a
    sentence that begins with a question word, or with `do`, `is`, `should`, … and ends with a question mark. `Can you
    change …?` asks for it.
    """
    lowered = text.lower()
    if not any(word in lowered for word in CHANGES):
        return False
    return any(map(_changes, _BREAK.split(unquoted(text))))


def _changes(sentence: str) -> bool:
    tokens = list(_tokens(sentence))
    places = [place for place, token in enumerate(tokens) if token.changes]
    if not places:
        return False
    head = " ".join(token.piece.word or "·" for token in tokens[:_HEAD])
    ends = sentence.rstrip(" )]*\t").endswith("?")
    if ends and _ASKS_WHETHER.match(head):
        return False
    asked = _ASKS.match(head)
    reaches = 0 if asked is None else _end_of_question(tokens, head.count(" ", 0, asked.end()), ends)
    denied: set[int] = set()
    for place in places:
        if _is_denied(tokens, place, denied):
            denied.add(place)
        elif place >= reaches or (asked and asked["verb"] and tokens[place - 1].piece.word in ("and", "then")):
            return True
    return False


def _tokens(sentence: str) -> Iterator[_Token]:
    known: dict[str, _Token] = {}
    for chunk in sentence.split():
        token = known.get(chunk)
        if token is None:
            token = known[chunk] = _Token(plain_piece(chunk), chunk.rstrip(")]*").endswith(","))
        if token.piece.text:
            yield token


def _is_denied(tokens: Sequence[_Token], place: int, denied: set[int]) -> bool:
    for at in range(place - 1, max(place - 1 - _REACH, -1), -1):
        token = tokens[at]
        if at in denied:
            return True
        if token.comma or token.piece.word in _OVER:
            return False
        if token.piece.word == "and" and at - 1 not in denied:
            return False
        if token.piece.word in _NOT:
            return not (token.piece.word in _REQUESTS_DENIED and tokens[at + 1].piece.word == "you")
    return False


def _end_of_question(tokens: Sequence[_Token], start: int, ends: bool) -> int:
    """How far a question word reaches: to `could you …`; without a question mark, to a comma (`When it fails, …`)."""
    for place in range(start + 1, len(tokens)):
        before = tokens[place - 1]
        if (before.comma and not ends) or (before.piece.word, tokens[place].piece.word) in _REQUEST:
            return place
    return len(tokens)

"""Which words of a sentence a `not` denies. Where it is in doubt whether one is denied, it is."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto
from typing import Final

from msgspec import Struct

from holdfast.agent.guard.vocabulary import words_of


class Token(Struct, frozen=True):
    """A word of a sentence."""

    word: str
    """Empty for what is no plain word."""
    changes: bool
    """A word of change, or several with slashes between them."""
    after: str = ""
    """The sign that follows and parts it from the next: `,`, `;`, `:` or `-`."""


class _Denial(Enum):
    NONE = auto()
    SOFT = auto()
    """It says how something is (`it does not work`), and reaches to the end of its clause."""
    HARD = auto()
    """It says what not to do, and reaches to the end of the sentence."""


_NOT: Final = words_of(
    "not never don't dont doesn't didn't isn't wasn't weren't aren't hasn't haven't hadn't cannot cant can't won't "
    "shouldn't mustn't needn't couldn't wouldn't shan't mayn't"
)
_SAYS_HOW_IT_IS: Final = words_of("doesn't didn't isn't wasn't weren't aren't hasn't haven't hadn't")
_IS: Final = words_of("does did is was were has had have are am i'm it's that's there's they're we're")
"""Before `not` these say how something is."""
_ABOUT_THE_WILL: Final = words_of(
    "allowed permitted supposed meant want wanted wants ok okay fine acceptable to allow need needed like"
)
_REQUESTS_DENIED: Final = words_of("can't won't couldn't wouldn't")
"""Before `you` these ask politely."""
_NOT_TO_BE_MISSED: Final = words_of("forget hesitate worry")
_GOES_WRONG: Final = words_of("exist work pass match compile apply fit")
_LACKS: Final = words_of("see find know have get understand")
_ALONE: Final = words_of("without avoid refrain")
_AT_ALL: Final = words_of("circumstances circumstance case means account event condition conditions")
_NO: Final = words_of("no nobody nothing")
_TIES: Final = words_of("to should may must can shall will ever")
"""With one of these between, `no` is about the change: `no need to change it`, `no file may change`."""
_OVER: Final = words_of(
    "but then instead please so just only also exist exists there work works pass passes match matches found sure"
)
"""After these what says how something is reaches no further."""
_ANEW: Final = words_of("but instead however")
_BEFORE_ANEW: Final = words_of(
    "please just only do also rather instead now then you may can should could would go ahead and feel free to"
)
_ROOM: Final = 6


def denied_places(tokens: Sequence[Token]) -> set[int]:
    """The words of change that are denied."""
    denied: set[int] = set()
    hard = soft = False
    no, tied = -1, False
    for place, token in enumerate(tokens):
        if _starts_anew(tokens, place):
            hard = soft = tied = False
            no = -1
        kind = _denial(tokens, place)
        hard = hard or kind is _Denial.HARD
        soft = soft or kind is _Denial.SOFT
        if token.word in _NO:
            no, tied = place, False
        elif token.word in _TIES and no >= 0:
            tied = True
        if token.changes and (hard or soft or tied or no == place - 1 >= 0 or _goes_on(tokens, place, denied)):
            denied.add(place)
        if token.after or token.word in _OVER or (token.word == "and" and place - 1 not in denied):
            soft = tied = False
            no = -1
    return denied


def _starts_anew(tokens: Sequence[Token], place: int) -> bool:
    """`but change …`, `instead update …`, `then please add …`."""
    word = tokens[place].word
    if word not in _ANEW and not (word == "then" and _word(tokens, place + 1) == "please"):
        return False
    for token in tokens[place + 1 : place + 1 + _ROOM]:
        if token.changes:
            return True
        if token.word not in _BEFORE_ANEW:
            return False
    return False


def _goes_on(tokens: Sequence[Token], place: int, denied: set[int]) -> bool:
    """`no edit or update`; and `change nothing`, which denies itself."""
    joined = place - 2 in denied and _word(tokens, place - 1) in ("or", "and", "nor")
    return joined or place - 1 in denied or _word(tokens, place + 1) in ("nothing", "none", "no", "neither")


def _denial(tokens: Sequence[Token], place: int) -> _Denial:
    word, before, then = (_word(tokens, place + step) for step in (0, -1, 1))
    if word in ("nor", "neither") or (word == "no" and then in _AT_ALL):
        return _Denial.HARD
    if word in _ALONE or (before, word) in (("rather", "than"), ("instead", "of")):
        return _Denial.SOFT
    if word not in _NOT or _is_request(word, before, then):
        return _Denial.NONE
    return _Denial.SOFT if _says_how_it_is(tokens, place) else _Denial.HARD


def _is_request(word: str, before: str, then: str) -> bool:
    """`can't you add …`, `why not add …`, `don't forget to add …`."""
    if before == "why" and (word == "not" or (word in ("don't", "dont") and then == "you")):
        return True
    return (word in _REQUESTS_DENIED and then == "you") or then in _NOT_TO_BE_MISSED


def _says_how_it_is(tokens: Sequence[Token], place: int) -> bool:
    word, before, then, later = (_word(tokens, place + step) for step in (0, -1, 1, 2))
    if before == "if" and word == "not":
        return True
    if tokens[place].after:
        return False
    if then in _GOES_WRONG:
        return True
    subject = _word(tokens, place - 2) if word in ("not", "never") else before
    if then in _LACKS and later != "to" and subject in ("i", "we", "you", "they"):
        return True
    describes = word in _SAYS_HOW_IT_IS or (word in ("not", "never") and before in _IS)
    return describes and subject != "you" and not {then, later} & _ABOUT_THE_WILL


def _word(tokens: Sequence[Token], place: int) -> str:
    return tokens[place].word if 0 <= place < len(tokens) else ""

"""Detects whether a message asks for a change: a verb of change that is neither negated nor part of a question."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from holdfast.models.requests.masked_text import LITERAL, MaskedText, split_sentences
from holdfast.models.requests.words import plain_word, word_set

CHANGE_WORDS: Final = word_set(
    "add change create delete edit modify overwrite replace update write "
    "append fix implement insert move refactor remove rename"
)

_IMPERATIVE: Final = re.compile(
    r"\W*(?:(?:please|ok|okay|now|then|also|just|can you|could you|would you|will you) )*"
    r"(?:make|set|bump|increase|decrease|raise|lower|turn|convert|swap|extend|shorten|simplify|disable|enable|let) "
    r"(?!(?:sure|sense|me|us|up|by|of|no|nothing|use of)\b|(?:tests?|run|build|install|clean|all|check|lint)\W*$"
    r"|an? (?:(?:short|brief|quick|detailed) )?(?:list|summary|table|overview|note|plan|guess|suggestion|comparison)\b)"
)
"""Verbs that ask for a change only at the beginning of a sentence."""

_DASH: Final = re.compile(r"[—–]+")
_DASHES: Final = frozenset({"—", "-", "--", "---"})

_BEFORE: Final = (
    r"(?:(?:please|so|and|but|or|ok|okay|now|then|also|just|well|hi|hey|hello|first|i want to|i'd like to|i need to|"
    r"can you|could you|would you|will you|can we|can i|could i) )*"
)
_ASKS: Final = re.compile(
    _BEFORE
    + r"(?P<verb>(?:tell|show|explain|describe|find|know|see|understand|check)(?: me| us| to me| to us| out)? )?"
    r"(?P<word>where|what|how|why|which|who|when|whose|where's|what's|how's|who's)(?= |$)"
)
_ASKS_WHETHER: Final = re.compile(
    _BEFORE + r"(?:do(?! me )|does|did|is|are|was|were|has|have(?! an? )|should|shall|must|don't|doesn't|isn't|aren't"
    r"|shouldn't) "
)
_REQUEST: Final = re.compile(
    _BEFORE + r"(?:why (?:not|don't you|dont you) |how about (?:you|we) |are you able to |is it possible for you to "
    r"|what (?:i|we) (?:need|want|would like)(?: you)?(?: to do)?(?: now)? is )"
)
"""Requests that look like questions."""
_COULD_YOU: Final = frozenset({("can", "you"), ("could", "you"), ("would", "you"), ("will", "you")})
_JOINS: Final = word_set("and so then but or please")
_WHEN_ASKED: Final = word_set(
    "do does did is are was were will would should can could has have had must may might to i'll"
)
_NO_ORDER_AFTER: Final = _WHEN_ASKED | word_set(
    "i we you they he she it who which that and or not the a an this these those my our your their its every each any "
    "to of for with by from users people"
)
"""A verb of change after one of these is not an imperative."""
_HEAD: Final = 24


class Token(Struct, frozen=True):
    word: str
    """Empty if it is not a plain word."""
    changes: bool
    """Whether it is a verb of change, or several separated by slashes."""
    after: str = ""
    """The punctuation mark that separates it from the next word: `,`, `;`, `:` or `-`."""


def asks_for_change(masked: MaskedText) -> bool:
    """Whether the message contains one of `CHANGE_WORDS` as a plain word that is meant as a request.

    Quotes, code and names do not count; nor do words after `don't`, `never` and similar in the same sentence, up to
    `but change …` or `instead change …`; nor clauses that start with a question word, or that start with `do`, `is`,
    `should`, … and end with a question mark. `Can you change …?`, `Why not add …?` and similar are requests.
    """
    text = LITERAL.sub(" · ", masked.text)
    lowered = text.lower()
    if any(_IMPERATIVE.match(sentence.lower()) for sentence in split_sentences(text)):
        return True
    return any(word in lowered for word in CHANGE_WORDS) and any(map(_changes, split_sentences(text)))


def _changes(sentence: str) -> bool:
    tokens = _tokens(sentence)
    if not any(token.changes for token in tokens):
        return False
    denied = denied_places(tokens)
    ends = sentence.rstrip(" )]*\t").endswith("?")
    parting = (":", ";") if ends else (":", ";", "-")
    cuts = [0, *(place + 1 for place, token in enumerate(tokens) if token.after in parting), len(tokens)]
    return any(
        _asks_here(tokens[start:end], {place - start for place in range(start, end) if place in denied}, ends)
        for start, end in pairwise(cuts)
    )


def _asks_here(clause: Sequence[Token], denied: set[int], ends: bool) -> bool:
    places = [place for place, token in enumerate(clause) if token.changes and place not in denied]
    if not places:
        return False
    head = " ".join(token.word or "·" for token in clause[:_HEAD])
    if _REQUEST.match(head):
        return True
    asked = _ASKS.match(head)
    reaches = 0
    if asked is not None:
        start = head.count(" ", 0, asked.end())
        # A condition (`When the tests pass …`), not a question (`when do we …`).
        condition = start + 1 < len(clause) and clause[start + 1].word not in _WHEN_ASKED
        if not ends and asked["word"] == "when" and not asked["verb"] and condition:
            return any(clause[at - 1].after or clause[at - 1].word not in _NO_ORDER_AFTER for at in places)
        reaches = _end_of_question(clause, start, ends)
    elif ends and (whether := _ASKS_WHETHER.match(head)):
        reaches = _end_of_question(clause, head.count(" ", 0, whether.end() - 1), ends)
    joined = asked is not None and asked["verb"]
    return any(place >= reaches or (joined and clause[place - 1].word in ("and", "then", "&")) for place in places)


def _tokens(sentence: str) -> list[Token]:
    tokens: list[Token] = []
    for chunk in _DASH.sub(" — ", sentence).split():
        if chunk not in _DASHES:
            tokens.append(_token(chunk))
        elif tokens:
            tokens[-1] = replace(tokens[-1], after="-")
    return tokens


def _token(chunk: str) -> Token:
    word = plain_word(chunk)
    parts = word.text.lower().split("/") if "/" in word.text else [word.plain]
    last = chunk.rstrip(")]*")[-1:]
    changes = all(part in CHANGE_WORDS for part in parts)
    return Token(word.plain.strip("_~") or ("&" if chunk == "&" else ""), changes, last if last in ",;:" else "")


def _end_of_question(clause: Sequence[Token], start: int, ends: bool) -> int:
    """Return where a question ends: at `…, could you …`, or without a question mark at a comma (`When it fails, …`)."""
    for place in range(start + 1, len(clause)):
        before = clause[place - 1]
        if before.after and not ends:
            return place
        asks = place + 1 < len(clause) and (clause[place].word, clause[place + 1].word) in _COULD_YOU
        if asks and (before.after or before.word in _JOINS):
            return place
    return len(clause)


# Scope of negation. In doubt, a word counts as negated.

_NOT: Final = word_set(
    "not never don't dont doesn't didn't isn't wasn't weren't aren't hasn't haven't hadn't cannot cant can't won't "
    "shouldn't mustn't needn't couldn't wouldn't shan't mayn't"
)
_SAYS_HOW_IT_IS: Final = word_set("doesn't didn't isn't wasn't weren't aren't hasn't haven't hadn't")
_IS: Final = word_set("does did is was were has had have are am i'm it's that's there's they're we're")
"""Before `not`, these describe a state."""
_ABOUT_THE_WILL: Final = word_set(
    "allowed permitted supposed meant want wanted wants ok okay fine acceptable to allow need needed like"
)
_REQUESTS_DENIED: Final = word_set("can't won't couldn't wouldn't")
"""Before `you`, these are polite requests."""
_NOT_TO_BE_MISSED: Final = word_set("forget hesitate worry")
_GOES_WRONG: Final = word_set("exist work pass match compile apply fit")
_LACKS: Final = word_set("see find know have get understand")
_ALONE: Final = word_set("without avoid refrain")
_AT_ALL: Final = word_set("circumstances circumstance case means account event condition conditions")
_NO: Final = word_set("no nobody nothing")
_TIES: Final = word_set("to should may must can shall will ever")
"""Between `no` and a verb of change, these negate the verb: `no need to change it`, `no file may change`."""
_OVER: Final = word_set(
    "but then instead please so just only also exist exists there work works pass passes match matches found sure"
)
"""These end the scope of a negation that describes a state."""
_ANEW: Final = word_set("but instead however")
_BEFORE_ANEW: Final = word_set(
    "please just only do also rather instead now then you may can should could would go ahead and feel free to"
)
_ROOM: Final = 6


def denied_places(tokens: Sequence[Token]) -> set[int]:
    """Return the positions of negated verbs of change."""
    denied: set[int] = set()
    hard = soft = False
    no, tied = -1, False
    for place, token in enumerate(tokens):
        if _starts_anew(tokens, place):
            hard = soft = tied = False
            no = -1
        kind = _denial(tokens, place)
        hard = hard or kind == "hard"
        soft = soft or kind == "soft"
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
    """Whether a new request starts here: `but change …`, `instead update …`, `then please add …`."""
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
    """Whether a negation continues (`no edit or update`), or the verb negates itself (`change nothing`)."""
    joined = place - 2 in denied and _word(tokens, place - 1) in ("or", "and", "nor")
    return joined or place - 1 in denied or _word(tokens, place + 1) in ("nothing", "none", "no", "neither")


def _denial(tokens: Sequence[Token], place: int) -> Literal["", "soft", "hard"]:
    word, before, then = (_word(tokens, place + step) for step in (0, -1, 1))
    if word in ("nor", "neither") or (word == "no" and then in _AT_ALL):
        return "hard"
    if word in _ALONE or (before, word) in (("rather", "than"), ("instead", "of")):
        return "soft"
    if word not in _NOT or _is_request(word, before, then):
        return ""
    return "soft" if _says_how_it_is(tokens, place) else "hard"


def _is_request(word: str, before: str, then: str) -> bool:
    """Whether a negation is a request: `can't you add …`, `why not add …`, `don't forget to add …`."""
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

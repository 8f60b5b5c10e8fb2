"""Whether a message asks for a change: a word of change that is neither denied nor part of a question."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from msgspec.structs import replace

from holdfast.agent.guard.denying import Token, denied_places
from holdfast.agent.guard.vocabulary import CHANGES, words_of
from holdfast.agent.guard.words import plain_piece, unquoted

_END: Final = re.compile(r"(?<=[.!?])(?<!\be\.g\.)(?<!\bi\.e\.)(?<!\.\.\.)[\s)\]]+", re.IGNORECASE)
_ITEM: Final = re.compile(r"[ \t]*(?:[-*+•]|\d{1,3}[.)]|[a-z]\))(?=[ \t])[ \t]*", re.IGNORECASE)
_NOT_THESE: Final = re.compile(r"\b(?:not|never|cannot|avoid)\b|n['’´ʼ′]t\b", re.IGNORECASE)
_TICKED: Final = re.compile(r"(?<=n)[`´](?=t\b)", re.IGNORECASE)
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
"""They begin like a question."""
_COULD_YOU: Final = frozenset({("can", "you"), ("could", "you"), ("would", "you"), ("will", "you")})
_JOINS: Final = words_of("and so then but or please")
_WHEN_ASKED: Final = words_of(
    "do does did is are was were will would should can could has have had must may might to i'll"
)
_NO_ORDER_AFTER: Final = _WHEN_ASKED | words_of(
    "i we you they he she it who which that and or not the a an this these those my our your their its every each any "
    "to of for with by from users people"
)
"""A word of change after one of these is no imperative."""
_HEAD: Final = 24


def asks_for_change(text: str) -> bool:
    """Whether one of `vocabulary.CHANGES` stands there as a plain word, and is meant.

    Not in quotes, code or names; not after `don't`, `never` and their like in the same sentence, up to `but change …`
    or `instead change …` (`denying`); not in a clause that begins with a question word, or with `do`, `is`, `should`, …
    and ends with a question mark. `Can you change …?`, `Why not add …?` and their like ask for it. A sentence ends with
    `.`, `!`, `?` or a blank line; a line break alone is white space.
    """
    lowered = text.lower()
    if not any(word in lowered for word in CHANGES):
        return False
    plain = unquoted(_TICKED.sub("'", text))
    return any(_changes(sentence) for part in _paragraphs(plain) for sentence in _END.split(part))


def _paragraphs(text: str) -> Iterator[str]:
    """What stands between blank lines; a list belongs to what stands before it, and its items follow a dash each."""
    part: list[str] = []
    blank = denies = False
    for line in text.split("\n"):
        item = _ITEM.match(line)
        if not line.strip():
            blank = True
            continue
        if item is None:
            if blank:
                yield " ".join(part)
                part = []
            denies = line.rstrip().endswith(":") and _NOT_THESE.search(line) is not None
            part.append(line)
        else:
            said = line[item.end() :]
            part += ["—", said.rstrip(".! \t\r") if denies else said]
        blank = False
    yield " ".join(part)


def _changes(sentence: str) -> bool:
    tokens = list(_tokens(sentence))
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
        if not ends and asked["word"] == "when" and not asked["verb"] and _is_condition(clause, start):
            return any(_is_order(clause, place) for place in places)
        reaches = _end_of_question(clause, start, ends)
    elif ends and (whether := _ASKS_WHETHER.match(head)):
        reaches = _end_of_question(clause, head.count(" ", 0, whether.end() - 1), ends)
    joined = asked is not None and asked["verb"]
    return any(
        place >= reaches or (joined and clause[place - 1].word in ("and", "then", "&")) for place in places
    )


def _tokens(sentence: str) -> Iterator[Token]:
    known: dict[str, Token] = {}
    held: Token | None = None
    for chunk in _DASH.sub(" — ", sentence).split():
        if chunk in _DASHES:
            held = None if held is None else replace(held, after="-")
            continue
        token = known.get(chunk)
        if token is None:
            token = known[chunk] = _token(chunk)
        if held is not None:
            yield held
        held = token
    if held is not None:
        yield held


def _token(chunk: str) -> Token:
    piece = plain_piece(chunk)
    parts = piece.text.lower().split("/") if "/" in piece.text else [piece.word]
    last = chunk.rstrip(")]*")[-1:]
    changes = all(part in CHANGES for part in parts)
    return Token(piece.word.strip("_~") or ("&" if chunk == "&" else ""), changes, last if last in ",;:" else "")


def _is_condition(clause: Sequence[Token], start: int) -> bool:
    """`When the tests pass …`, and not `when do we …`."""
    return start + 1 < len(clause) and clause[start + 1].word not in _WHEN_ASKED


def _is_order(clause: Sequence[Token], place: int) -> bool:
    before = clause[place - 1]
    return bool(before.after) or before.word not in _NO_ORDER_AFTER


def _end_of_question(clause: Sequence[Token], start: int, ends: bool) -> int:
    """How far a question reaches: to `…, could you …`; without a question mark, to a comma (`When it fails, …`)."""
    for place in range(start + 1, len(clause)):
        before = clause[place - 1]
        if before.after and not ends:
            return place
        asks = place + 1 < len(clause) and (clause[place].word, clause[place + 1].word) in _COULD_YOU
        if asks and (before.after or before.word in _JOINS):
            return place
    return len(clause)

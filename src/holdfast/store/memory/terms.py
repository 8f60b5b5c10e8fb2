"""Keywords: what the index contains of an item, and the terms of a query.

FTS5 (`porter unicode61`) splits at everything that is not a letter or a digit. That leaves out the parts of
`camelCase`, the words of languages without spaces, and dates in another notation, so `expand` adds those to both sides.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

MAX_TERMS: Final = 64
"""Distinct terms of a query that are searched for."""
_WORD: Final = re.compile(r"[^\W_]+")
_IDENTIFIER: Final = re.compile(r"(?<![^\W_])[^\W_]++(?:[_.:/-]++[^\W_]++)++")
"""Starts only where a word starts, so that a long word is looked at once."""
_HUMPS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_UNSPACED: Final = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff]+"
)
"""Runs of scripts without spaces between words: Thai, Lao, Burmese, Khmer, Japanese and Chinese; and Korean, whose
words carry their particles."""
_ISO_DATE: Final = re.compile(r"\b(\d{4})-(\d{2})-(\d{2})(?!\d)")
_ORDINAL: Final = re.compile(r"\b(\d{1,2})(?:st|nd|rd|th)\b", re.IGNORECASE)
_MONTHS: Final = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
    "december",
)  # fmt: skip
_SHORT_MONTHS: Final = {name[:3]: name for name in _MONTHS} | {"sept": "september"}

_STOP_WORDS: Final = """
    a about after all also am an and any are as at be because been before being but by can could did do does doing
    for from had has have having he her here hers him his how i if in into is it its just me mine my no nor not of on
    or our ours out over own she should so some such than that the their theirs them then there these they this those
    to too up us very was we were what when where which while who whom whose why will with would you your yours

    aber als am an auch auf aus bei bin bis da das dass dein dem den der des dich die dir doch du durch ein eine einem
    einen einer eines er es fur für hat habe haben ich ihm ihn ihr im in ist ja kann mein mich mir mit nach nicht noch
    nur oder sich sie sind so über um und uns von vor war was wann weil welche welcher welches wenn wer werden wie wir
    wird wo zu zum zur

    au aux avec c ce ces cette d dans de des du elle en est et eux il ils j je l la le les leur lui ma mais me mes moi
    mon n ne nos notre nous on ou où par pas pour qu quand que quel quelle quelles quels qui s sa se ses son sont sur
    ta te tes toi ton tu un une vos votre vous y à été être

    al como con cual cuando cuál cuándo de del donde dónde el ella ellos en entre era es esta este está esto la las lo
    los mi muy más no nos o para pero por que quien qué quién se ser si sin sobre son su sus también te tiene un una
    uno y ya yo él

    ao aos as até com da das do dos e ela ele eles em foi isso já mais mas me meu minha muito na nas no nos nós não o
    os ou para pela pelo por qual quando quem se sem ser seu são sua são tem um uma você à às é
"""
STOP_WORDS: Final = frozenset(_STOP_WORDS.split())


def expand(text: str) -> str:
    """Return the text for the index: itself, and the words that FTS5 would not find in it."""
    added = " ".join(_additions(text))
    return f"{text}\n{added}" if added else text


def _additions(text: str) -> Iterator[str]:
    for word in _WORD.findall(text):
        humps = _humps(word)
        if len(humps) > 1:
            yield from humps
    for found in _IDENTIFIER.findall(text):
        joined = re.sub(r"[\W_]+", "", found)
        if not joined.isdigit():
            yield joined
    for run in _UNSPACED.findall(text):
        yield from _bigrams(run)
    for year, month, day in _ISO_DATE.findall(text):
        yield from _date_words(year, month, day)
    for day in _ORDINAL.findall(text):
        yield day
    for word in _WORD.findall(text):
        if (name := _SHORT_MONTHS.get(word.lower())) is not None and name != word.lower():
            yield name


def _humps(word: str) -> list[str]:
    """Return the parts of `camelCase`; ordinary words have one."""
    if word.islower() or word.isupper() or word.istitle():
        return [word]
    return _HUMPS.findall(word)


def _bigrams(run: str) -> Iterator[str]:
    yield from (run[at : at + 2] for at in range(max(1, len(run) - 1)))


def _date_words(year: str, month: str, day: str) -> Iterator[str]:
    if 1 <= int(month) <= 12:
        yield from (str(int(day)), _MONTHS[int(month) - 1], year)


def query_terms(query: str) -> list[str]:
    """Return the FTS5 terms of a query, its words and identifiers, without stop words if there are others.

    Every term is quoted, so that nothing in the query is an operator.
    """
    words = [word.lower() for word in (*_WORD.findall(query), *_WORD.findall(" ".join(_additions(query))))]
    words = [word for word in words if not _is_run(word)]
    telling = [word for word in words if word not in STOP_WORDS]
    phrases = [" ".join(_WORD.findall(found)).lower() for found in _IDENTIFIER.findall(query)]
    bigrams = [pair for run in _UNSPACED.findall(query) for pair in _bigrams(run)]
    terms = list(dict.fromkeys((*phrases, *telling, *bigrams))) or list(dict.fromkeys(words))
    return [f'"{term}"' for term in terms[:MAX_TERMS]]


def _is_run(word: str) -> bool:
    """Whether the word is a run of a script without spaces, whose bigrams are searched for instead."""
    return len(word) > 2 and _UNSPACED.fullmatch(word) is not None

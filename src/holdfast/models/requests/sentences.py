"""A masked request cut up: into sentences, or into the steps it asks for without the words that are only manners."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from holdfast.models.requests.literals import BLOCK, END

_ITEM: Final = re.compile(r"\s*(?:\d{1,3}[.)]|[a-z]\)|[-*+•](?=\s+[^\s\d(+-]))\s+", re.IGNORECASE)
_END: Final = re.compile(r"(?<=[.!?])(?<!\be\.g\.)(?<!\bi\.e\.)(?<!\.\.\.)[\s)\]]+", re.IGNORECASE)
_NOT_THESE: Final = re.compile(r"\b(?:not|never|cannot|avoid)\b|n['’´ʼ′]t\b", re.IGNORECASE)
_GOES_ON: Final = re.compile(r"(?:[:,]|\b(?:with|by|to|replace))$", re.IGNORECASE)
_BELONGS: Final = re.compile(f"{BLOCK}|(?:and|with|by|to|into)\\b", re.IGNORECASE)
_AFTER_BLOCK: Final = re.compile(r"(?:in|everywhere)\b", re.IGNORECASE)
_NEXT: Final = re.compile(
    rf"\s*;\s*|(?<=[\w){END}])[.!]\s+|(?<=\?)\s+|,?\s+(?:and\s+)?(?:then|afterwards|after that)\b,?\s+", re.IGNORECASE
)
_AND: Final = re.compile(r",\s+and\s+|,\s+|\s+and\s+", re.IGNORECASE)

_ORDER: Final = (
    r"(?:(?:and\s+)?(?:first(?:ly)?|second(?:ly)?|third(?:ly)?|next|then|finally|lastly|afterwards|after that|and|also"
    r"|now)\b,?\s+)*"
)
_GREETING: Final = r"(?:(?:hi|hello|hey|ok|okay)(?:\s+(?:there|operator))?[,.!]*(?:\s+|$))?"
_PLEASE: Final = r"(?:(?:please|kindly)[,\s]+)?"
_ASKING: Final = r"(?P<asks>(?:can|could|would|will)\s+you\s+)?"
_WISHING: Final = (
    r"(?:(?:i(?:['’]d|\s+would)\s+like\s+you\s+to|i\s+want\s+you\s+to|let['’]s|let\s+us|go\s+ahead\s+and)\s+)?"
)
_LEADING: Final = re.compile(_ORDER + _GREETING + _PLEASE + _ASKING + _WISHING + _PLEASE, re.IGNORECASE)
_MANNERS: Final = re.compile(r"(?:,?\s+(?:please|for me|now|thanks|thank you))+$", re.IGNORECASE)
_ONLY_MANNERS: Final = re.compile(r"(?:thanks|thank you|cheers|please|great|hi|hello|hey|ok|okay)", re.IGNORECASE)
_ENDS_WITH_DOTS: Final = re.compile(r"(?:^|\s)\.+$")
_QUESTION: Final = re.compile(r"(?:what|what['’]s|where|which|how much|is process)\s", re.IGNORECASE)


def sentences_of(text: str) -> Iterator[str]:
    """They end with `.`, `!`, `?` or a blank line; a line break alone is white space."""
    for part in _paragraphs(text):
        yield from _END.split(part)


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


def steps_of(text: str) -> list[str]:
    """The steps of a masked message. Nothing of it is left out but manners, order words and punctuation."""
    steps: list[str] = []
    for line in _lines(text):
        polite = False
        for step in _NEXT.split(line):
            tidy, asks = _tidy(step, polite)
            polite = (polite or asks) and not step.endswith("?")
            steps.append(tidy)
    return [step for step in steps if step and not _ONLY_MANNERS.fullmatch(step)]


def cuts(step: str) -> Iterator[tuple[str, str]]:
    """The ways to cut a step in two at an "and" or a comma, the earliest first."""
    for found in _AND.finditer(step):
        yield step[: found.start()], step[found.end() :]


def _lines(text: str) -> list[str]:
    """Lines that begin something of their own; those that go on with the one before are put to it."""
    lines: list[str] = []
    for raw in text.split("\n"):
        line = raw.strip()
        if (item := _ITEM.match(line)) is not None:
            lines.append(line[item.end() :])
        elif line and lines and _continues(lines[-1], line):
            lines[-1] += f" {line}"
        elif line:
            lines.append(line)
    return lines


def _continues(before: str, line: str) -> bool:
    if before.endswith(END) and _AFTER_BLOCK.match(line):
        return before.rpartition(" ")[2].startswith(BLOCK)
    return bool(_GOES_ON.search(before) or _BELONGS.match(line))


def _tidy(step: str, polite: bool) -> tuple[str, bool]:
    """Without manners; and whether it asks "could you", so that a question mark is one more of them."""
    text = " ".join(step.split())
    leading = _LEADING.match(text)
    assert leading is not None  # it matches nothing as well
    polite = polite or leading["asks"] is not None
    text = text[leading.end() :]
    if not _ENDS_WITH_DOTS.search(text):
        text = text.rstrip(" .!")
    if text.endswith("?") and (polite or _QUESTION.match(text)):
        text = text.rstrip("? ")
    return _MANNERS.sub("", text).strip(" ,"), polite

"""`edit P replace X with Y`: an edit a message spells out so that there is only one way to read it."""

from __future__ import annotations

import re
from typing import Final

from holdfast.agent.guard.file_names import Kind, kind_of
from holdfast.agent.guard.words import without_place

_QUOTES: Final = {'"': '"', "`": "`", "'": "'", "“": "”", "‘": "’"}
_LEAD: Final = re.compile(r"(?:please )?(?:edit|in|modify|update|change) (?:the )?(?:file )?", re.IGNORECASE)
_REPLACE: Final = re.compile(
    r"[,:;]? (?:and |by |to |then )?replac(?:e|ing) (?P<whole>the (?:content|text|word|string|line) )?", re.IGNORECASE
)
_WITH: Final = re.compile(r" with ", re.IGNORECASE)
_IN: Final = re.compile(r" in (?:the )?(?:file )?", re.IGNORECASE)
_OVER: Final = re.compile(r"[.!]?(?:,? (?:please|thanks|thank you))?[.!]?", re.IGNORECASE)
_LIKE_CODE: Final = re.compile(r"[_(=\d]|[a-z][A-Z]")
_SHORTEST: Final = 4
"""Shorter ones stand inside other words too often."""
_LONGEST: Final = 4000


def edit_in(text: str) -> tuple[str, str, str] | None:
    """Path, text and new text. Also read: `in P replace …`, `replace X with Y in P`, on one line.

    Quotes of any kind around X and Y say exactly where they begin and end. Without quotes each is one word that looks
    like code and is not too short (`old_name`, `retries=3`), not `the line …` or `the word …`, which may mean more or
    less than that text; and nothing but a full stop or a courtesy follows: in more words there may be a condition, or a
    change of mind.
    """
    line = text.strip()
    if len(line) > _LONGEST or "\n" in line:
        return None
    found = _path_first(line) or _path_last(line)
    return found if found is not None and found[1] and found[1] != found[2] else None


def _path_first(line: str) -> tuple[str, str, str] | None:
    lead = _LEAD.match(line)
    if lead is None:
        return None
    path, at = _path(line, lead.end())
    verb = _REPLACE.match(line, at) if path else None
    parts = None if verb is None else _parts(line[verb.end() :], verb["whole"] is not None)
    return None if parts is None else (path, *parts)


def _path_last(line: str) -> tuple[str, str, str] | None:
    verb = _REPLACE.match(f" {line}")
    ends = list(_IN.finditer(line))
    if verb is None or not ends:
        return None
    path, at = _path(line, ends[-1].end())
    if not path or not _OVER.fullmatch(line, at):
        return None
    parts = _parts(line[verb.end() - 1 : ends[-1].start()], verb["whole"] is not None)
    return None if parts is None else (path, *parts)


def _path(line: str, at: int) -> tuple[str, int]:
    """The path that begins there, and where it ends; empty if there is none, or only a line of it is meant."""
    closing = _QUOTES.get(line[at : at + 1])
    end = line.find(closing, at + 1) if closing else line.find(" ", at)
    if closing:
        name, end = line[at + 1 : end], end + 1
        path, quoted = (name, True) if end else ("", True)
    else:
        end = len(line) if end < 0 else end
        name = line[at:end]
        path, quoted = name.rstrip(",;:.!"), False
    is_path = without_place(path) == path and kind_of(path, quoted=quoted) in (Kind.FILE, Kind.EITHER)
    return (path, end) if is_path else ("", end)


def _parts(text: str, whole: bool) -> tuple[str, str] | None:
    """X and Y of `X with Y`. `whole`: X is called a line, a word, …"""
    quoted = _quoted(text)
    old, end = (quoted[0], len(text) - len(quoted[1])) if quoted else (text.partition(" ")[0], text.find(" "))
    joint = _WITH.match(text, max(end, 0))
    new = None if joint is None else _last(text[joint.end() :])
    return None if new is None or not (quoted or (_is_one_word(old) and not whole)) else (old, new)


def _quoted(text: str) -> tuple[str, str] | None:
    closing = _QUOTES.get(text[:1])
    end = text.find(closing, 1) if closing else -1
    return (text[1:end], text[end + 1 :]) if end > 0 else None


def _last(text: str) -> str | None:
    """Y, which reaches to the end."""
    quoted = _quoted(text)
    if quoted is not None:
        return quoted[0] if _OVER.fullmatch(quoted[1]) else None
    word, space, rest = text.partition(" ")
    word = word.removesuffix(",") if rest else word.removesuffix(".")
    return word if _is_one_word(word) and _OVER.fullmatch(space + rest) else None


def _is_one_word(text: str) -> bool:
    """Whether it can be taken as it is, without quotes."""
    plain = text and text.isprintable() and text[0] not in _QUOTES and text[-1] not in ".,:!?…"
    return bool(plain) and len(text) >= _SHORTEST and _LIKE_CODE.search(text) is not None

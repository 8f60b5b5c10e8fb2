"""`edit P replace X with Y`: an edit a message spells out so that there is only one way to read it."""

from __future__ import annotations

import re
from typing import Final

from holdfast.agent.guard.file_names import Kind, kind_of
from holdfast.agent.guard.vocabulary import words_of
from holdfast.agent.guard.words import without_place, without_punctuation

_QUOTES: Final = {'"': '"', "`": "`", "'": "'", "“": "”", "‘": "’"}
_LEAD: Final = re.compile(r"(?:please )?(?:edit|in|modify|update|change) (?:the )?(?:file )?", re.IGNORECASE)
_REPLACE: Final = re.compile(
    r"[,:;]? (?:and |by |to |then )?replac(?:e|ing) (?:the (?:content|text|word|string|line) )?", re.IGNORECASE
)
_WITH: Final = re.compile(r" with ", re.IGNORECASE)
_IN: Final = re.compile(r" in (?:the )?(?:file )?", re.IGNORECASE)
_LOOKS_LIKE_CODE: Final = re.compile(r"[=(){}\[\];<>_+*&|#$%]")
_GOES_ON: Final = re.compile(r" (?:and|then|everywhere|please|because|so that|in|for) ", re.IGNORECASE)
_VAGUE: Final = words_of(
    "the a an all every each any this that its these those both first second last occurrences it them"
)
_LONGEST: Final = 4000


def edit_in(text: str) -> tuple[str, str, str] | None:
    """Path, text and new text. Also read: `in P replace …`, `replace X with Y in P`, on one line.

    Quotes of any kind around X and Y say exactly where they begin and end. Without quotes each is one word, or looks
    like code; an article before it, a second `with`, or a full stop after Y that X has not leaves it to the model.
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
    parts = None if verb is None else _parts(line[verb.end() :])
    return None if parts is None else (path, *parts)


def _path_last(line: str) -> tuple[str, str, str] | None:
    verb = _REPLACE.match(f" {line}")
    ends = list(_IN.finditer(line))
    if verb is None or not ends:
        return None
    path, at = _path(line, ends[-1].end())
    parts = _parts(line[verb.end() - 1 : ends[-1].start()]) if path and not line[at:].strip(".!") else None
    return None if parts is None else (path, *parts)


def _path(line: str, at: int) -> tuple[str, int]:
    """The path that begins there, and where it ends; empty if there is none."""
    closing = _QUOTES.get(line[at : at + 1])
    end = line.find(closing, at + 1) if closing else line.find(" ", at)
    if closing:
        name, end = line[at + 1 : end], end + 1
        path, quoted = (without_place(name), True) if end else ("", True)
    else:
        end = len(line) if end < 0 else end
        name = line[at:end]
        path, quoted = without_punctuation(name), False
    is_path = kind_of(path, quoted=quoted) in (Kind.FILE, Kind.EITHER)
    return (path, end) if is_path else ("", end)


def _parts(text: str) -> tuple[str, str] | None:
    """X and Y of `X with Y`."""
    quoted = _quoted(text)
    if quoted is not None:
        old, rest = quoted
        joint = _WITH.match(rest)
        if joint is None:
            return None
        new = _last(rest[joint.end() :], old)
        return None if new is None else (old, new)
    pieces = _WITH.split(text)
    if len(pieces) != 2 or not _is_plain(pieces[0]):
        return None
    new = _last(pieces[1], pieces[0])
    return None if new is None else (pieces[0], new)


def _quoted(text: str) -> tuple[str, str] | None:
    closing = _QUOTES.get(text[:1])
    end = text.find(closing, 1) if closing else -1
    return (text[1:end], text[end + 1 :]) if end > 0 else None


def _last(text: str, old: str) -> str | None:
    """Y, which reaches to the end."""
    quoted = _quoted(text)
    if quoted is not None:
        return quoted[0] if not quoted[1].strip(" .!") else None
    if not _is_plain(text) or _WITH.search(text) or _GOES_ON.search(text):
        return None
    return None if text[-1] in ".,!?" and old[-1:] != text[-1] else text


def _is_plain(text: str) -> bool:
    """Whether it can be taken as it is, without quotes."""
    if not text or text != text.strip() or text[0] in _QUOTES:
        return False
    words = text.split()
    return len(words) == 1 or (words[0].lower() not in _VAGUE and _LOOKS_LIKE_CODE.search(text) is not None)

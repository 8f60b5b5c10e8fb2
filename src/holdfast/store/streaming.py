"""Redaction of a text that arrives in pieces: what may be the beginning of a secret waits for the next piece."""

from __future__ import annotations

import re
from typing import Final

from holdfast.store.patterns import SHAPE_STARTS
from holdfast.store.redact import Redactor

_STARTED: Final = re.compile("|".join(SHAPE_STARTS))
_WORD_CHARS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-"
_MAX_WORD: Final = 4096
_PEM_BEGIN: Final = "-----BEGIN "
_PEM_TITLE: Final = 64
"""How far behind its beginning the title of a key block must have ended."""
_MAX_PEM: Final = 16_384


class RedactedStream:
    """`feed` gives back what is safe to show; `flush` the rest, at the end."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._waiting = ""

    def feed(self, chunk: str) -> str:
        text = self._waiting + chunk
        safe = self._safe_length(text)
        self._waiting = text[safe:]
        return self._redactor(text[:safe])

    def flush(self) -> str:
        text, self._waiting = self._waiting, ""
        return self._redactor(text)

    def _safe_length(self, text: str) -> int:
        begin = 0
        for start, end in self._redactor.spans(text):
            if end == len(text):
                return start if self._unfinished(text[start:]) == 0 else end
            begin = end
        return begin + self._unfinished(text[begin:])

    def _unfinished(self, text: str) -> int:
        """Where the part begins that could still become a secret."""
        found = [_open_word(text), _open_block(text)]
        found += [_overlap(text, form) for form in (*self._redactor.forms, _PEM_BEGIN)]
        return min(found)


def _open_word(text: str) -> int:
    """The last word is held whole, because a shape counts only where a word begins."""
    tail = text[-_MAX_WORD:]
    begin = len(tail.rstrip(_WORD_CHARS))
    if begin == 0 and len(tail) == _MAX_WORD:
        return len(text)
    word = tail[begin:]
    is_open = _STARTED.search(word) or any(_overlap(word, start) < len(word) for start in SHAPE_STARTS)
    return len(text) - len(word) if is_open else len(text)


def _open_block(text: str) -> int:
    begin = text.rfind(_PEM_BEGIN)
    if begin < 0 or len(text) - begin > _MAX_PEM:
        return len(text)
    block = text[begin:]
    is_key = "PRIVATE KEY-----" in block[: _PEM_TITLE + 16] or len(block) < _PEM_TITLE
    return begin if is_key and "-----END " not in block else len(text)


def _overlap(text: str, form: str) -> int:
    """Where the longest end of the text begins that is a beginning, but not all, of the form."""
    at = max(0, len(text) - len(form) + 1)
    while (at := text.find(form[0], at)) >= 0:
        if form.startswith(text[at:]):
            return at
        at += 1
    return len(text)

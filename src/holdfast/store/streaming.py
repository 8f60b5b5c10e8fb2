"""Redaction of a text that arrives in pieces: what may be the beginning of a secret waits for the next piece."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from holdfast.store.patterns import SHAPE_STARTS
from holdfast.store.redact import Redactor

MAX_HELD: Final = 16_384
"""No more than this is held back for something that only looks like a token or a key."""
_MAX_WORD: Final = 4096
_CONTEXT: Final = 2
"""Characters already shown that decide whether a token begins."""
_STARTED: Final = re.compile("|".join(SHAPE_STARTS))
_WORD_CHARS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-"
_KEY_BEGINS: Final = "-----BEGIN "
_KEY_TITLE: Final = re.compile(r"-----BEGIN [A-Z ]{0,40}-{0,4}\Z")
_KEY_END: Final = re.compile("-----END [A-Z ]*PRIVATE KEY-----")


class RedactedStream:
    """`feed` gives back what is safe to show; `flush` the rest, at the end."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._shown = ""
        self._waiting = ""

    def feed(self, chunk: str) -> str:
        return self._show(chunk, last=False)

    def flush(self) -> str:
        return self._show("", last=True)

    def _show(self, chunk: str, *, last: bool) -> str:
        text = self._shown + self._waiting + chunk
        start = len(self._shown)
        end = len(text) if last else self._safe_end(text, start)
        self._shown, self._waiting = text[max(0, end - _CONTEXT) : end], text[end:]
        return self._redactor.matcher.replace(text, start, end)

    def _safe_end(self, text: str, start: int) -> int:
        """Where the first part begins that could still become a secret, or another one than it is now."""
        spans = self._redactor.matcher.spans(text, start)
        unfinished = {at for form in (*self._redactor.forms, _KEY_BEGINS) for at in _overlaps(text, form, start)}
        begin, end = spans[-1] if spans else (start, start)
        unfinished.add(_open_word(text, start))
        if end < len(text) or not spans:
            unfinished.add(_open_word(text, end))
            title = _KEY_TITLE.search(text, max(end, len(text) - 64))
            unfinished.add(title.start() if title else len(text))
        elif text[begin:end] not in self._redactor.forms and not _KEY_END.search(text, begin):
            unfinished.add(begin if end - begin <= MAX_HELD else end)
        reachable = (at for at in sorted(unfinished) if not any(begin < at < end for begin, end in spans))
        return next(reachable, len(text))


def _open_word(text: str, start: int) -> int:
    """The last word is held whole, because a token counts only where a word begins."""
    tail = text[max(start, len(text) - _MAX_WORD) :]
    word = tail[len(tail.rstrip(_WORD_CHARS)) :]
    if len(word) == _MAX_WORD:
        return len(text)
    is_open = _STARTED.search(word) or any(True for begins in SHAPE_STARTS for _ in _overlaps(word, begins, 0))
    return len(text) - len(word) if is_open else len(text)


def _overlaps(text: str, form: str, start: int) -> Iterator[int]:
    """Where an end of the text is a beginning, but not all, of the form."""
    at = max(start, len(text) - len(form) + 1)
    while (at := text.find(form[0], at)) >= 0:
        if form.startswith(text[at:]):
            yield at
        at += 1

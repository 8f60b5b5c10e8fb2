"""Keeps secret values out of texts, results and the ledger: every one is replaced by `[secret NAME]`."""

from __future__ import annotations

import re
from collections.abc import Set
from typing import TYPE_CHECKING, Final, cast

from msgspec.structs import replace

from holdfast.contract.result import Attachment, Result
from holdfast.contract.values import Args, Json
from holdfast.store.patterns import Matcher, forms_of

if TYPE_CHECKING:
    from holdfast.store.streaming import RedactedStream

MIN_SECRET: Final = 6
"""Shorter values would match by chance; they are not redacted."""
_MIN_LINE: Final = 20
"""A line of a secret with many lines is a secret itself from this length."""
_NAME: Final = re.compile(r"[^A-Za-z0-9_.:/-]")


class Redactor:
    """Knows the values that were fetched, and learns new ones at any time.

    Called on a text it replaces known values and token shapes. `result` replaces known values only: a model that
    reads a file with something that looks like a token, and writes it back, must not destroy it.
    """

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self.active = False
        """Whether any value is known; asked at every call."""
        self._known = Matcher({}, shapes=False)
        self._all = Matcher({}, shapes=True)

    def add(self, name: str, value: str) -> None:
        """From now on this value, and its escaped and encoded forms, are replaced."""
        value = value.strip()
        lines = [line.strip() for line in value.splitlines() if not line.startswith("-----")]
        long_lines = [line for line in lines if len(line) >= _MIN_LINE] if len(lines) > 1 else []
        new = [part for part in (value, *long_lines) if len(part) >= MIN_SECRET and part not in self._names]
        if not new:
            return
        label = _NAME.sub("_", name)[:64]
        self.active = True
        self._names = self._names | {form: label for part in new for form in forms_of(part)}
        self._known = Matcher(self._names, shapes=False)
        self._all = Matcher(self._names, shapes=True)

    @property
    def forms(self) -> Set[str]:
        """Everything that stands for a known value."""
        return self._names.keys()

    @property
    def longest(self) -> int:
        """Characters of the longest of them."""
        return max(map(len, self._names), default=0)

    def __call__(self, text: str) -> str:
        return self._all.replace(text)

    def finds(self, text: str) -> bool:
        """Whether the text, or JSON that carries it, may hold a secret. Cheap; errs towards yes."""
        return self._all.finds(text)

    @property
    def matcher(self) -> Matcher:
        """For known values and shapes, as of now."""
        return self._all

    def stream(self) -> RedactedStream:
        """For a text that arrives in pieces."""
        from holdfast.store.streaming import RedactedStream

        return RedactedStream(self)

    def value(self, value: Json) -> Json:
        """A JSON value with every text, key and number in it redacted."""
        return _walk(value, self._all)

    def result(self, result: Result) -> Result:
        """A result without the known values, wherever they are in it."""
        matcher = self._known
        return replace(
            result,
            output=matcher.replace(result.output),
            error=None if result.error is None else matcher.replace(result.error),
            structured=_walk(result.structured, matcher),
            metadata=cast(Args, _walk(result.metadata, matcher)),
            attachments=tuple(_attachment(item, matcher) for item in result.attachments),
        )


def _walk(value: Json, matcher: Matcher) -> Json:
    if isinstance(value, str):
        return matcher.replace(value)
    if isinstance(value, dict):
        return {matcher.replace(key): _walk(item, matcher) for key, item in value.items()}
    if isinstance(value, list):
        return [_walk(item, matcher) for item in value]
    if isinstance(value, int | float) and not isinstance(value, bool):
        shown = str(value)
        clean = matcher.replace(shown)
        return value if clean == shown else clean
    return value


def _attachment(item: Attachment, matcher: Matcher) -> Attachment:
    """The text of an attachment is cleaned like any other; other content is left as it is."""
    name = None if item.name is None else matcher.replace(item.name)
    uri = None if item.uri is None else matcher.replace(item.uri)
    try:
        text = item.data.decode()
    except UnicodeDecodeError:
        return replace(item, name=name, uri=uri)
    return replace(item, name=name, uri=uri, data=matcher.replace(text).encode())

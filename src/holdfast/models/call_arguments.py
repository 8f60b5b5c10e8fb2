"""Arguments and ids of calls, made fit for a request: whatever a model or a person wrote, a server can read it."""

from __future__ import annotations

import json
import re
from typing import Any, Final, cast

INVALID_JSON_KEY: Final = "INVALID_JSON"
"""The one key of arguments that could not be read; its value is what was written."""
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_MAX_ID: Final = 64
_ID_STEM: Final = 56
"""Ids that are the same up to here may become the same when a number is put behind them."""


def replace_surrogates(text: str) -> str:
    """Text that can be encoded: halves of characters and undecodable bytes are shown as U+FFFD."""
    return _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text)


def parse_arguments(arguments: str) -> dict[str, Any]:
    if not arguments.strip():
        return {}
    try:
        value: object = json.loads(arguments)
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError):
        return {INVALID_JSON_KEY: replace_surrogates(arguments)}
    return cast(dict[str, Any], value) if isinstance(value, dict) else {INVALID_JSON_KEY: replace_surrogates(arguments)}


def arguments_text(arguments: str | dict[str, Any] | None) -> str:
    """What a model gave, as the document keeps it."""
    if isinstance(arguments, str):
        return arguments if arguments.strip() else "{}"
    return json.dumps(arguments or {}, ensure_ascii=False)


class CallIds:
    """Gives every call of one request an id of its own; one that is fit and not taken stays as it is.

    Earlier calls never change their id because of later ones, so that prompt caches hold.
    """

    def __init__(self, *, plain: bool) -> None:
        self._plain = plain
        """Whether only letters, digits, `_` and `-` are taken, at most 64 of them."""
        self._taken: set[str] = set()
        self._numbers: dict[str, int] = {}
        """The last number that was tried behind an id."""

    def assign(self, wanted: str) -> str:
        stem = given = self._fit(wanted)
        same = stem[:_ID_STEM] if self._plain else stem
        while given in self._taken:
            number = self._numbers[same] = self._numbers.get(same, 1) + 1
            end = f"-{number}"
            given = stem[: _MAX_ID - len(end)] + end if self._plain else stem + end
        self._taken.add(given)
        return given

    def _fit(self, wanted: str) -> str:
        if not self._plain:
            return replace_surrogates(wanted) or "call"
        if _ID.fullmatch(wanted):
            return wanted
        return re.sub(r"[^A-Za-z0-9_-]", "_", wanted)[:_MAX_ID].rstrip("_") or "call"

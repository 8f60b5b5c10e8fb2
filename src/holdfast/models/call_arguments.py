"""Sanitises arguments and ids of calls for requests: surrogates, invalid JSON, duplicate or overlong ids."""

from __future__ import annotations

import json
import re
from typing import Any, Final, cast

from holdfast.contract.json import encode_json

INVALID_JSON_KEY: Final = "INVALID_JSON"
"""The single key that wraps arguments which are not a JSON object; its value is the original text."""
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_MAX_ID: Final = 64
_ID_STEM: Final = 56
"""Ids that share this many characters may collide once a numeric suffix shortens them."""


def replace_surrogates(text: str) -> str:
    """Return encodable text: lone surrogates, including those of undecodable bytes, become U+FFFD."""
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


def encode_arguments(arguments: dict[str, Any]) -> str:
    """Return parsed arguments as compact JSON."""
    try:
        return encode_json(arguments).decode()
    except UnicodeEncodeError:
        # A lone surrogate cannot be encoded; escaped like this, the pipeline rejects the call with a clear message.
        return json.dumps(arguments)


def arguments_text(arguments: str | dict[str, Any] | None) -> str:
    """Return arguments from a model as the JSON text that the chat document stores."""
    if isinstance(arguments, str):
        return arguments if arguments.strip() else "{}"
    return json.dumps(arguments or {}, ensure_ascii=False)


class CallIds:
    """Assigns each call of a request a unique id; a valid, unused id stays unchanged.

    Later calls never change the ids of earlier ones, so that prompt caches keep hitting.
    """

    def __init__(self, *, plain: bool) -> None:
        self._plain = plain
        """Whether an id may hold only letters, digits, `_` and `-`, at most 64 of them."""
        self._taken: set[str] = set()
        self._numbers: dict[str, int] = {}
        """The last numeric suffix tried for an id."""

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

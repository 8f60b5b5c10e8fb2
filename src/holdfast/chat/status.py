"""The status of a call as a document writes it: in the fence of a placeholder, or after the id of a result."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from holdfast.agent.conversation import Status

_TOKEN: Final = re.compile(r"""(?:[^\s"']|"(?:[^"\\]|\\.)*+"|'(?:[^'\\]|\\.)*+'|["'])++""")
_LONGEST: Final = 1000
"""What comes after so many characters is not looked at, as quotes that never close could take long."""
_SUFFIX: Final = re.compile(r"\s*\((.*)\)\s*\Z", re.DOTALL)
_WORDS: Final[dict[str, str]] = {
    **{status.value: status.value for status in Status},
    "reject": Status.REJECTED.value,
    "deny": Status.DENIED.value,
    "error": "error",
}


class Marked(NamedTuple):
    status: str | None = None
    error: bool = False
    unknown: str | None = None
    """A status that was given and is none."""


PLAIN: Final = Marked()


def in_header(suffix: str) -> Marked:
    """`(error)`, `(pending)` or `(status=pending …)` after the id. Words that are no status say nothing."""
    found = _SUFFIX.match(suffix)
    if found is None:
        return PLAIN
    tokens: list[str] = _TOKEN.findall(found[1][:_LONGEST])
    given = _given(tokens)
    if given in _WORDS:
        return _marked(_WORDS[given])
    if given is not None:
        return Marked(Status.PENDING.value, unknown=given)
    return next((_marked(_WORDS[token]) for token in tokens if token in _WORDS), PLAIN)


def in_fence(info: str) -> Marked | None:
    """`flemma:tool status=pending` after the backticks; None for any other fence. In doubt it is pending."""
    tokens: list[str] = _TOKEN.findall(info[:_LONGEST])
    if not tokens or tokens[0] != "flemma:tool":
        return None
    given = _given(tokens)
    status = _WORDS.get(given or Status.PENDING.value, "error")
    return Marked(Status.PENDING.value, unknown=given) if status == "error" else Marked(status)


def _given(tokens: list[str]) -> str | None:
    values = (token.removeprefix("status=") for token in tokens if token.startswith("status="))
    value = next(values, None)
    return value[1:-1] if value and len(value) > 1 and value[0] == value[-1] and value[0] in "\"'" else value


def _marked(word: str) -> Marked:
    return Marked(error=True) if word == "error" else Marked(word)

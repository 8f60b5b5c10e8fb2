"""The status of a call as a document writes it: in the fence of a placeholder, or after the id of a result.

Only one status, spelled exactly, counts. A block with two, or with one that only looks right, is pending: what a person
reads there and what holdfast reads must never differ. A second status counts wherever it stands, in quotes too.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final, NamedTuple

from holdfast.agent.conversation import Status

_TAG: Final = "flemma:tool"
_TOKEN: Final = re.compile(r"""(?:[^\s"']|"(?:[^"\\]|\\.)*+"|'(?:[^'\\]|\\.)*+'|["'])++""")
_LONGEST: Final = 1000
"""What comes after so many characters is not looked at, as quotes that never close could take long."""
_SUFFIX: Final = re.compile(r"\s*\((.*)\)\s*\Z", re.DOTALL)
_BETWEEN: Final = re.compile(r"[(),;|/&+]+")
"""What may stand between two words of a header."""
_ERROR: Final = "error"
_WORDS: Final[dict[str, str]] = {
    **{status.value: status.value for status in Status},
    "reject": Status.REJECTED.value,
    "deny": Status.DENIED.value,
    _ERROR: _ERROR,
}
_LOOK_ALIKES: Final = str.maketrans(
    "аɑαсϲԁеєһіıɩιјϳⅼոոоοօрρгѕтτսυνѵցɡмլ",
    "aaaccdeehiiiijjlnnooopprsttuuvvggml",
)
"""Letters of other alphabets, and what they are read as in the words above; compatibility forms are folded before."""


_STATUS: Final = "status"
_MENTION: Final = re.compile(rf"(?<![a-z])(?:{'|'.join((_STATUS, *_WORDS))})(?![a-z])")
"""A word that says something about the status, whatever punctuation stands around it."""


class Marked(NamedTuple):
    status: str | None = None
    error: bool = False
    problem: str | None = None
    """Why the block is pending although it says something else."""


PLAIN: Final = Marked()


def in_header(suffix: str) -> Marked:
    """`(error)`, `(pending)` or `(status=pending …)` after the id. Words that are no status say nothing."""
    found = _SUFFIX.match(suffix)
    if found is None:
        return PLAIN
    said = _said(found[1])
    if not said:
        return PLAIN
    if said == [_ERROR] == _mentioned(found[1]):
        return Marked(error=True)
    return _only(said, found[1])


def in_fence(info: str) -> Marked | None:
    """`flemma:tool status=pending` after the backticks; None for any other fence."""
    tag, rest = (*info.split(maxsplit=1), "", "")[:2]
    if tag != _TAG:
        if _read_as(tag) != _TAG:
            return None
        problem = f'The block begins with "{tag}" and is read as pending; write {_TAG}'
        return Marked(Status.PENDING.value, problem=problem)
    if not _said(rest, words=False):
        return Marked(Status.PENDING.value)
    return _only(_said(rest), rest)


def agreed(header: Marked, fence: Marked) -> Marked:
    """What a placeholder says whose header has a status, too."""
    if header.status in (None, fence.status):
        return fence
    return _several([header.status or "", fence.status or ""])


def _said(text: str, *, words: bool = True) -> list[str]:
    """The statuses given as `status=…`, and those that stand there as plain words; in quotes a word is no status."""
    found: list[str] = []
    for token in _TOKEN.findall(text[:_LONGEST]):
        name, equals, value = token.partition("=")
        if equals and _read_as(name) == _STATUS:
            found.append(_unquoted(value) if name == _STATUS else token)
        elif words and not equals and "'" not in token and '"' not in token:
            found += (word for word in _BETWEEN.split(token) if _read_as(word) in _WORDS)
    return found


def _only(said: list[str], text: str) -> Marked:
    if len(said) > 1 or len(text) > _LONGEST:
        return _several(said)
    mentioned = _mentioned(text)
    named = [_STATUS] if _said(text, words=False) else []
    rest = mentioned[len(named) :]
    if mentioned[: len(named)] != named or len(rest) > 1 or _STATUS in rest:
        return _several(mentioned)
    status = _WORDS.get(said[0] or Status.PENDING.value, _ERROR)
    return _unknown(said[0]) if status == _ERROR else Marked(status)


def _mentioned(text: str) -> list[str]:
    """Every word that says something about the status. What is invisible is taken both for nothing and for a space, and
    the reading that finds more counts."""
    spaced = "".join(" " if unicodedata.category(char)[0] in "CZ" else char for char in text)
    closed = "".join(" " if char.isspace() else char for char in text)
    return max((_MENTION.findall(_read_as(read)) for read in (spaced, closed)), key=len)


def _several(said: list[str]) -> Marked:
    shown = " and ".join(f'"{word}"' for word in said[:3])
    return Marked(Status.PENDING.value, problem=f"The block says {shown} and is read as pending; leave one status")


def _unknown(word: str) -> Marked:
    problem = f'The status "{word}" is not known and read as pending; write approved, rejected or pending'
    return Marked(Status.PENDING.value, problem=problem)


def _unquoted(value: str) -> str:
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'" else value


def _read_as(word: str) -> str:
    """The word a person would take it for."""
    if word.isascii():
        return word.lower()
    folded = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", word).casefold()).translate(_LOOK_ALIKES)
    return "".join(char for char in folded if unicodedata.category(char) not in ("Mn", "Cf", "Cc"))

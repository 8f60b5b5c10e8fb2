"""Programs that list what is in an archive, a file or the machine, in the few plain ways that only read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from holdfast.rules.shell.place import UNTOLD

_TAR_LISTS: Final = re.compile(r"-?(?=[tvzjJ]*t)[tvzjJ]+f")
_ARCHIVE: Final = re.compile(r"[A-Za-z0-9_./][A-Za-z0-9_./+-]*")
"""A name in which tar sees no other machine, and unzip no pattern."""
_XXD_FLAGS: Final = frozenset({"-a", "-b", "-e", "-E", "-i", "-p", "-ps", "-u"})
_XXD_NUMBERED: Final = re.compile(r"-[cgls]([0-9]+)?")
_PROCESSES: Final = frozenset({(), ("-A",), ("-a",), ("-e",)})
"""Names only: the arguments of other programs, and their environment, may hold secrets."""
_SECONDS: Final = re.compile(r"[0-9]{1,3}(\.[0-9]+)?s?")


def archive_of(words: Sequence[str]) -> str | None:
    """The archive whose contents `tar` or `unzip` only lists; None if it may do anything else."""
    if UNTOLD & set(words):
        return None
    match list(words):
        case ["tar", letters, path] if _TAR_LISTS.fullmatch(letters) and _ARCHIVE.fullmatch(path):
            return path
        case ["unzip", "-l" | "-Z1", path] if _ARCHIVE.fullmatch(path) and path.endswith(".zip"):
            return path  # without the ending it looks for other files too
        case _:
            return None


def dumped_by_xxd(words: Sequence[str]) -> list[str] | None:
    """The file that `xxd` shows, if any; None if it may do anything else: a second one is written to."""
    rest, files = list(words[1:]), list[str]()
    while rest:
        word = rest.pop(0)
        if files:
            return None  # whatever it looks like: options come first
        numbered = _XXD_NUMBERED.fullmatch(word)
        if numbered is not None and numbered[1] is None and rest and rest[0].isascii() and rest[0].isdecimal():
            rest.pop(0)
        elif (numbered is not None and numbered[1]) or word in _XXD_FLAGS:
            pass
        elif word.startswith("-") and word != "-":
            return None
        else:
            files.append(word)
    return None if UNTOLD & set(files) else files


def lists_processes(words: Sequence[str]) -> bool:
    return tuple(words[1:]) in _PROCESSES


def only_waits(words: Sequence[str]) -> bool:
    return len(words) == 2 and _SECONDS.fullmatch(words[1]) is not None

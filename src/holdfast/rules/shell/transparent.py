"""Wrappers that add nothing to a command but time limits and priorities: what they wrap is judged instead."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from holdfast.rules.shell.programs import is_plain_name

_DURATION: Final = re.compile(r"[0-9]+(\.[0-9]+)?[smhd]?")
_SIGNED: Final = re.compile(r"-?[0-9]+")
_BUFFERING: Final = re.compile(r"-[ioe](0|L)")


class Inside(Struct, frozen=True):
    words: tuple[str, ...]
    external: bool
    """The wrapper starts a program, so that the shell's own commands do not count."""


def seen_through(words: Sequence[str]) -> Inside | None:
    """The command inside; None if the wrapper is not a transparent one, or not plainly used."""
    name, rest = words[0], list(words[1:])
    match name:
        case "time" | "command" | "env":
            pass
        case "timeout" if rest and _DURATION.fullmatch(rest[0]):
            rest.pop(0)
        case "nice" if rest[:1] == ["-n"] and len(rest) > 1 and _SIGNED.fullmatch(rest[1]):
            del rest[:2]
        case "nice":
            pass
        case "stdbuf" if rest and _BUFFERING.fullmatch(rest[0]):
            rest.pop(0)
        case _:
            return None
    if not rest or not is_plain_name(rest[0]):
        return None
    return Inside(tuple(rest), external=name not in ("time", "command"))

"""What MCP servers write into their logs, for a person: warnings and worse, one dim line each."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from holdfast.contract.event import Logged
from holdfast.doors.cli import screen
from holdfast.doors.cli.folding import sentence
from holdfast.text.visible import clip_middle, visible

if TYPE_CHECKING:
    from holdfast.contract.event import Event

_SHOWN: Final = frozenset(("warning", "error", "critical", "alert", "emergency"))
_MAX_CHARS: Final = 500


def logged_line(event: Logged) -> str | None:
    """None for what is of no interest to a person."""
    if event.level not in _SHOWN:
        return None
    return visible(clip_middle(f"{event.source} {event.level}: {event.message}", _MAX_CHARS))


def note_logged(event: Event) -> None:
    line = logged_line(event) if isinstance(event, Logged) else None
    if line is not None:
        note_logged_line(line)


def note_logged_line(line: str) -> None:
    for part in sentence(line, sys.stderr, "dim"):
        screen.note(part)

"""`holdfast call TOOL WORDS…` without other options, the command a program starts over and over: no click, no wait."""

from __future__ import annotations

from collections.abc import Sequence


def quick_call(argv: Sequence[str]) -> int | None:
    """The exit code, or None when the command line has to be parsed in full."""
    if len(argv) < 2 or argv[0] != "call":
        return None
    words = [word for word in argv[1:] if word != "--json"]
    if not words or any(word.startswith("-") and word != "-" for word in words):
        return None
    from holdfast.doors.cli.calling import run_call

    return run_call(words[0], words[1:], as_json=len(words) < len(argv) - 1)

"""What was pasted into a message, tracebacks and fenced code: words of a program, and not of the person."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

_HEADER: Final = re.compile(r"\s*(?:\w+ )?Traceback \(most recent call last\):?\s*$", re.IGNORECASE)
_INLINE: Final = re.compile(r"\(most recent call (?:last|first)\)", re.IGNORECASE)
_FILE: Final = re.compile(r'\s*File "[^"\n]+", line \d+')
_FRAME: Final = re.compile(
    r"""\s*(?:
        (?:at|from)\ [^\s].{0,300}:\d+(?::\d+)?\)?:?\s*$
      | at\ [\w.$<>/]{1,300}\([^)\n]{0,300}\)\s*$
    )""",
    re.VERBOSE,
)
_CHAIN: Final = re.compile(
    r"\s*(?:During handling of the above exception|The above exception was the direct cause|Caused by: )"
)
_RAISED: Final = re.compile(r"\s*(?:Uncaught |Exception in thread \"[^\"\n]*\" )?[A-Za-z_][\w.$]*(?:$|:(?:\s|$))")
_ERROR: Final = re.compile(r"\s*(?:Uncaught |Exception in thread )?[\w.$\" ]{0,80}(?:Error|Exception|panicked at)\b")
_FENCE: Final = re.compile(r"[ \t]{0,3}(`{3,}(?=[^`]*$)|~{3,})")
_SIGN: Final = "``` ```"
"""What stands for it: a piece that is no word."""


def without_pasted(text: str) -> tuple[str, str]:
    """The text with each pasted part as a sign that is no word, and the tracebacks that were taken out of it."""
    if "(most recent call" not in text and "\n" not in text:
        return text, ""
    lines = text.split("\n")
    kept: list[str] = []
    traces: list[str] = []
    fences = _closing_fences(lines)
    at = 0
    while at < len(lines):
        end = fences.get(at) or _end_of_trace(lines, at)
        if end is None:
            kept.append(lines[at])
            at += 1
            continue
        if at not in fences:
            if kept and _ERROR.match(kept[-1]):
                traces.append(kept.pop())
            traces += lines[at:end]
        kept.append(_SIGN)
        at = end
    return _INLINE.sub(" ", "\n".join(kept)), "\n".join(traces)


def _closing_fences(lines: Sequence[str]) -> dict[int, int]:
    """For each line that opens a fence, the line after the one that closes it. One that is never closed is none."""
    found: dict[int, int] = {}
    opened, mark = -1, ""
    for number, line in enumerate(lines):
        match = _FENCE.match(line)
        if match is None:
            continue
        if not mark:
            opened, mark = number, match[1]
        elif line.strip().startswith(mark) and not line.strip().strip(mark[0]):
            found[opened] = number + 1
            mark = ""
    return found


def _end_of_trace(lines: Sequence[str], start: int) -> int | None:
    """The line after a traceback that begins here; None if none does. An error may go on to the next blank line."""
    if not _begins(lines[start]) or _is_one_place(lines, start):
        return None
    at, raised = start + 1, False
    while at < len(lines):
        line = lines[at]
        if not line.strip():
            following = next((place for place in range(at, min(at + 3, len(lines))) if lines[place].strip()), None)
            if following is None or not _begins(lines[following]):
                break
            at, raised = following, False
        elif raised or _begins(line) or line[0] in " \t":
            at += 1
        elif _RAISED.match(line):
            at, raised = at + 1, True
        else:
            break
    return at


def _begins(line: str) -> bool:
    return any(form.match(line) for form in (_HEADER, _FILE, _FRAME, _CHAIN))


def _is_one_place(lines: Sequence[str], start: int) -> bool:
    """`at src/app.py:12` with neither an error before it nor another such line after it: a person may write that."""
    if not _FRAME.match(lines[start]):
        return False
    headed = start > 0 and _ERROR.match(lines[start - 1])
    return not headed and not (start + 1 < len(lines) and _begins(lines[start + 1]))

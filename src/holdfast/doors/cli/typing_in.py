"""Reading from a person at a terminal, without holding up the loop: an answer from another door ends the question."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final
from weakref import WeakKeyDictionary

from holdfast.config.roots import find_root
from holdfast.doors.cli.screen import note, note_lines, prompt, screen_height, shown_block
from holdfast.fs.temporary import make_folder, remove_folder
from holdfast.helper_process import NotStarted, person_command, person_environment, start_async

_CHUNK: Final = 65_536
_turns: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock]] = WeakKeyDictionary()
_hidden: Final[list[Callable[[], None]]] = []
"""What shows again what is typed, while it is not shown."""


class Leave(Exception):
    """The person goes away without an answer."""


@asynccontextmanager
async def turn() -> AsyncGenerator[None]:
    """Whoever asks the person has the terminal alone until they are done."""
    async with _turns.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
        yield


def somebody_asks() -> bool:
    """Whether a question stands on the terminal, so that nothing else should be drawn there."""
    lock = _turns.get(asyncio.get_running_loop())
    return lock is not None and lock.locked()


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


async def confirmed(question: str) -> bool:
    """Whether the person says a plain yes after the question was shown."""
    forget_typed_ahead()
    return (await read_line(question) or "").strip().lower() in ("y", "yes")


async def page(lines: Sequence[str]) -> bool:
    """Show lines to a person, a screenful at a time; whether there was more than one. They may `Leave` in between."""
    room = screen_height(sys.stderr) - 2
    at, pauses = 0, len(lines) > room
    while at < len(lines):
        note_lines(lines[at : at + room])
        at += room
        if pauses and at < len(lines):
            forget_typed_ahead()
            typed = await read_line(f"Line {at:,} of {len(lines):,}. [Enter] more  [a] all  [q] quit > ")
            if typed is None or typed.strip().lower() in ("q", "quit"):
                note()
                raise Leave
            if typed.strip().lower() == "a":
                room = len(lines)
    return pauses


async def read_hidden(question: str) -> str | None:
    """The same, and what is typed cannot be seen."""
    if sys.platform == "win32":
        return await read_line(question)
    import termios

    terminal = sys.stdin.fileno()
    try:
        before = termios.tcgetattr(terminal)
        quiet = [*before[:3], before[3] & ~termios.ECHO, *before[4:]]
        _hidden.append(lambda: termios.tcsetattr(terminal, termios.TCSADRAIN, before))
        termios.tcsetattr(terminal, termios.TCSADRAIN, quiet)
        return await read_line(question)
    finally:
        show_typing()
        note()


def show_typing() -> None:
    """Nothing that is typed is hidden any more; also for whoever leaves without unwinding."""
    while _hidden:
        with suppress(OSError):
            _hidden.pop()()


def forget_typed_ahead() -> None:
    """Keys pressed before a question was shown are no answer to it."""
    if sys.platform != "win32":
        import termios

        with suppress(OSError, termios.error):
            termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)


async def edit(text: str, suffix: str) -> str | None:
    """The text as the person's editor leaves it; None without an editor, or if it failed."""
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if not editor:
        return None
    project = find_root(Path.cwd()) or Path.cwd()
    folder = make_folder("edit")
    try:
        file = f"{folder}/arguments{suffix}"
        _put(file, text)
        try:
            command = person_command(editor, project)
            # Not in the project: many editors obey a file of the folder they are started in.
            process = await start_async((*command, file), env=person_environment(project), cwd=folder)
            code = await process.wait()
        except NotStarted as error:
            note(shown_block(f"The editor cannot be started: {error}"))
            return None
        except (OSError, ValueError):
            return None
        return _get(file) if code == 0 else None
    finally:
        remove_folder(folder)


def _put(file: str, text: str) -> None:
    Path(file).write_text(text)


def _get(file: str) -> str | None:
    try:
        return Path(file).read_text()
    except (OSError, UnicodeDecodeError):
        return None

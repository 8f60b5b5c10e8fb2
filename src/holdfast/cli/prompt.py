"""Reads from a person at a terminal without blocking the event loop. An answer from elsewhere ends the prompt."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Callable, Collection, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Final
from weakref import WeakKeyDictionary

from holdfast.cli.console import print_err, print_err_lines, screen_height, show_prompt, shown_block
from holdfast.config.roots import find_root
from holdfast.fs.temporary import make_temporary_folder, remove_temporary_folder
from holdfast.helper_process import ProgramRefused, start_async, user_command, user_environment

_CHUNK: Final = 65_536
_EDITORS: Final = ("vi", "nano")
_terminal_locks: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock]] = WeakKeyDictionary()
_restore_callbacks: Final[list[Callable[[], None]]] = []
"""What puts the terminal back as it was, while keys are hidden or act at once."""
_ESCAPE: Final = "\x1b"
_END: Final = "\x04"
"""Ctrl-D, where keys act at once."""
_SEQUENCE: Final = 0.05
"""Seconds in which the rest of an arrow or function key arrives: `ESC O y` is not the answer `y`."""
ENTER: Final = "\n"


class PromptDismissed(Exception):
    """The person goes away without an answer."""


@asynccontextmanager
async def exclusive_terminal() -> AsyncGenerator[None]:
    """Whoever asks the person has the terminal alone until they are done."""
    async with _terminal_locks.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
        yield


def is_prompt_open() -> bool:
    """Whether a question stands on the terminal, so that nothing else should be drawn there."""
    lock = _terminal_locks.get(asyncio.get_running_loop())
    return lock is not None and lock.locked()


async def read_line(question: str) -> str | None:
    """What the person types, without the newline; None at the end of input."""
    show_prompt(question)
    typed = await _read()
    return typed.decode(errors="replace").rstrip("\r\n") if typed else None


async def read_key(question: str, keys: Collection[str], hint: str = "") -> str | None:
    """The first of these keys that is pressed after the question is shown, without Enter; None at the end of input.

    Keys pressed earlier do not count, nor do several at once, which are pasted. `hint` is shown once for another key.
    """
    with _cbreak_mode():
        discard_typeahead()
        show_prompt(question)
        while True:
            key = _key(await _read())
            if key == _ESCAPE:
                await asyncio.sleep(_SEQUENCE)
                discard_typeahead()
            elif key == _END:
                print_err()
                return None
            elif key in keys:
                print_err("" if key == ENTER else key)
                return key
            elif hint and key != ENTER:
                show_prompt(f"\n{hint} > ")
                hint = ""


def _key(typed: bytes) -> str:
    """The one key that was pressed, in lower case, also one with Enter behind it; empty for anything else."""
    text = typed.decode(errors="replace").replace("\r", ENTER).lower()
    if not typed or text.startswith((_ESCAPE, _END)):
        return text[:1] or _END
    key = text.rstrip(ENTER) or ENTER
    return key if len(key) == 1 else ""


async def _read() -> bytes:
    """What the terminal has for us now; nothing at the end of input."""
    loop = asyncio.get_running_loop()
    with _open_terminal() as terminal:
        while True:
            ready: asyncio.Future[None] = loop.create_future()
            loop.add_reader(terminal, _wake, ready)
            try:
                await ready
            finally:
                loop.remove_reader(terminal)
            try:
                return os.read(terminal, _CHUNK)
            except BlockingIOError:
                continue
            except OSError:
                return b""  # the terminal is gone


def _wake(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)


@contextmanager
def _open_terminal() -> Generator[int]:
    """The terminal as an open file of our own, which does not block. Ctrl-C discards what was typed, also between our
    being told of it and reading it; a read that blocks there would never hear the signal. Standard input itself is
    shared with the shell, so its flags stay as they are."""
    given = sys.stdin.fileno()
    try:
        own = os.open(os.ttyname(given), os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        yield given
        return
    try:
        yield own
    finally:
        os.close(own)


async def confirm(question: str) -> bool:
    """Whether the person says a plain yes after the question was shown."""
    return await read_key(question, ("y", "n", "q", ENTER)) == "y"


async def page(lines: Sequence[str]) -> bool:
    """Show lines to a person, a screenful at a time; whether there was more than one. They may `Leave` in between."""
    room = screen_height(sys.stderr) - 2
    at, pauses = 0, len(lines) > room
    while at < len(lines):
        print_err_lines(lines[at : at + room])
        at += room
        if pauses and at < len(lines):
            question = f"Line {at:,} of {len(lines):,}. [Enter] more  [a] all  [q] quit > "
            key = await read_key(question, (ENTER, " ", "a", "q"))
            if key in (None, "q"):
                raise PromptDismissed
            if key == "a":
                room = len(lines)
    return pauses


async def read_hidden(question: str) -> str | None:
    """The same, and what is typed cannot be seen."""
    try:
        _change_mode(lambda flags, echo, canonical: flags & ~echo)
        return await read_line(question)
    finally:
        restore_terminal()
        print_err()


@contextmanager
def _cbreak_mode() -> Generator[None]:
    """Keys are neither echoed nor collected into a line; Ctrl-C still is a signal."""
    try:
        _change_mode(lambda flags, echo, canonical: flags & ~echo & ~canonical)
        yield
    finally:
        restore_terminal()


def _change_mode(change: Callable[[int, int, int], int]) -> None:
    if sys.platform == "win32":
        return
    import termios

    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    flags = change(before[3], termios.ECHO, termios.ICANON)
    _restore_callbacks.append(lambda: termios.tcsetattr(terminal, termios.TCSANOW, before))
    termios.tcsetattr(terminal, termios.TCSADRAIN, [*before[:3], flags, *before[4:]])


def restore_terminal() -> None:
    """The terminal is as it was before we asked; also for an exit without unwinding."""
    while _restore_callbacks:
        with suppress(OSError):
            _restore_callbacks.pop()()


def discard_typeahead() -> None:
    """Keys pressed before a question was shown are no answer to it."""
    if sys.platform != "win32":
        import termios

        with suppress(OSError, termios.error):
            termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)


async def edit_text(text: str, suffix: str) -> str | None:
    """The text as the person's editor leaves it; None without an editor, or if it failed."""
    project = find_root(Path.cwd()) or Path.cwd()
    command = _editor(project)
    if command is None:
        return None
    folder = make_temporary_folder("edit")
    try:
        file = f"{folder}/arguments{suffix}"
        _put(file, text)
        try:
            # Not in the project: many editors obey a file of the folder they are started in.
            process = await start_async((*command, file), env=user_environment(project), cwd=folder)
            code = await process.wait()
        except (OSError, ValueError):
            return None
        return _get(file) if code == 0 else None
    finally:
        remove_temporary_folder(folder)


def _editor(project: Path) -> tuple[str, ...] | None:
    """The command of `VISUAL` or `EDITOR`; where neither is set, `vi` or `nano`."""
    chosen = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    for editor in (chosen,) if chosen else _EDITORS:
        try:
            return user_command(editor, project)
        except ProgramRefused as error:
            if editor == chosen:
                print_err(shown_block(f"Cannot start the editor: {error}"))
    return None


def _put(file: str, text: str) -> None:
    Path(file).write_text(text)


def _get(file: str) -> str | None:
    try:
        return Path(file).read_text()
    except (OSError, UnicodeDecodeError):
        return None

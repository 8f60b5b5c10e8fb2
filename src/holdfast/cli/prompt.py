"""Terminal input without blocking the event loop: lines, single keys, hidden text, a pager, an editor.

A prompt can be cancelled at any time, for example when the call is answered elsewhere.
"""

from __future__ import annotations

import asyncio
import os
import sys
import termios
from collections.abc import AsyncGenerator, Callable, Collection, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Final
from weakref import WeakKeyDictionary

from holdfast.cli.console import print_err, print_err_lines, screen_height, show_prompt
from holdfast.config.roots import find_root
from holdfast.fs.temporary import make_temporary_folder, remove_temporary_folder
from holdfast.helper_process import ProgramRefused, start_async, user_command, user_environment
from holdfast.text.escape import escape_block_once

_CHUNK: Final = 65_536
_EDITORS: Final = ("vi", "nano")
_terminal_locks: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock]] = WeakKeyDictionary()
_restore_callbacks: Final[list[Callable[[], None]]] = []
"""Restore the terminal mode while it is changed (no echo, or single keys)."""
_ESCAPE: Final = "\x1b"
_END: Final = "\x04"
"""Ctrl-D in cbreak mode."""
_SEQUENCE: Final = 0.05
"""Seconds to wait for the rest of an escape sequence: an arrow or function key (`ESC O y`) is not the answer `y`."""
ENTER: Final = "\n"


class PromptDismissed(Exception):
    """The person left the prompt without an answer."""


class _TerminalLost(Exception):
    """The terminal hung up, or the shell of this job is gone and another job has the terminal."""


@asynccontextmanager
async def exclusive_terminal() -> AsyncGenerator[None]:
    """Hold the terminal for one prompt; other prompts of this event loop wait."""
    async with _terminal_locks.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
        yield


def is_prompt_open() -> bool:
    """Return whether a prompt holds the terminal, so that nothing else should be drawn there."""
    lock = _terminal_locks.get(asyncio.get_running_loop())
    return lock is not None and lock.locked()


async def read_line(question: str) -> str | None:
    """Return the line that the person types, without the newline; None at the end of input."""
    show_prompt(question)
    typed = await _read()
    return typed.decode(errors="replace").rstrip("\r\n") if typed else None


async def read_key(question: str, keys: Collection[str], hint: str = "") -> str | None:
    """Return the first of `keys` that is pressed after the question is shown, without Enter; None at the end of input.

    Type-ahead and pasted text do not count. `hint` is shown once, after a key that is not among `keys`.
    """
    with suppress(_TerminalLost), _cbreak_mode():
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
    return None


def _key(typed: bytes) -> str:
    """Return the single key that was pressed, in lower case, with or without Enter; empty for anything else."""
    text = typed.decode(errors="replace").replace("\r", ENTER).lower()
    if not typed or text.startswith((_ESCAPE, _END)):
        return text[:1] or _END
    key = text.rstrip(ENTER) or ENTER
    return key if len(key) == 1 else ""


async def _read() -> bytes:
    """Return the next input from the terminal; empty at the end of input."""
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
    """Open the terminal again, non-blocking; yield the descriptor.

    Ctrl-C flushes the input queue. If that happens between the readiness event and the read, a blocking read would hang
    and never see the signal. Standard input itself shares its flags with the shell, so O_NONBLOCK cannot be set on it.
    """
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
    """Return whether the person presses y after the question is shown."""
    return await read_key(question, ("y", "n", "q", ENTER)) == "y"


async def page(lines: Sequence[str]) -> bool:
    """Print the lines a screenful at a time; return whether it took more than one. `q` raises `PromptDismissed`."""
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
    """Read a line without echo."""
    try:
        _change_mode(lambda flags, echo, canonical: flags & ~echo)
        return await read_line(question)
    except _TerminalLost:
        return None
    finally:
        restore_terminal()
        print_err()


@contextmanager
def _cbreak_mode() -> Generator[None]:
    """Deliver single keys without echo; Ctrl-C is still a signal."""
    try:
        _change_mode(lambda flags, echo, canonical: flags & ~echo & ~canonical)
        yield
    finally:
        restore_terminal()


def _change_mode(change: Callable[[int, int, int], int]) -> None:
    if sys.platform == "win32":
        return
    terminal = sys.stdin.fileno()
    try:
        before = termios.tcgetattr(terminal)
        flags = change(before[3], termios.ECHO, termios.ICANON)
        _restore_callbacks.append(lambda: termios.tcsetattr(terminal, termios.TCSANOW, before))
        termios.tcsetattr(terminal, termios.TCSADRAIN, [*before[:3], flags, *before[4:]])
    except termios.error as error:
        raise _TerminalLost from error


def restore_terminal() -> None:
    """Restore the terminal mode; call it before `os._exit`, which does not unwind."""
    if _restore_callbacks:
        import termios

        while _restore_callbacks:
            with suppress(OSError, termios.error):
                _restore_callbacks.pop()()


def discard_typeahead() -> None:
    """Flush the input queue: keys pressed before a question was shown do not answer it."""
    if sys.platform != "win32":
        with suppress(OSError, termios.error):
            termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)


async def edit_text(text: str, suffix: str) -> str | None:
    """Open the text in the person's editor; return the saved text, or None without an editor or if it failed."""
    project = find_root(Path.cwd()) or Path.cwd()
    command = _editor(project)
    if command is None:
        return None
    folder = make_temporary_folder("edit")
    try:
        file = f"{folder}/arguments{suffix}"
        _put(file, text)
        try:
            # Not in the project: many editors read configuration from their working directory.
            process = await start_async((*command, file), env=user_environment(project), cwd=folder)
            code = await process.wait()
        except (OSError, ValueError):
            return None
        return _get(file) if code == 0 else None
    finally:
        remove_temporary_folder(folder)


def _editor(project: Path) -> tuple[str, ...] | None:
    """Return the command of `VISUAL` or `EDITOR`; if neither is set, `vi` or `nano`."""
    chosen = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    for editor in (chosen,) if chosen else _EDITORS:
        try:
            return user_command(editor, project)
        except ProgramRefused as error:
            if editor == chosen:
                print_err(escape_block_once(f"Cannot start the editor: {error}"))
    return None


def _put(file: str, text: str) -> None:
    Path(file).write_text(text)


def _get(file: str) -> str | None:
    try:
        return Path(file).read_text()
    except (OSError, UnicodeDecodeError):
        return None

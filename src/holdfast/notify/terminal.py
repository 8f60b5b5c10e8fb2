"""The terminal channel: OSC 9, OSC 777 or the bell, chosen by the terminal that is detected."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Mapping
from typing import Final, Literal

from holdfast.notify.channel import ChannelFailed
from holdfast.notify.message import Message

Sequence = Literal["osc9", "osc777", "bell"]

BELL: Final = b"\x07"
MAX_PAYLOAD: Final = 400
"""Characters between the start and the end of a sequence; terminals show about that much."""
_STRING_TERMINATOR: Final = 0x9C
"""Ends a sequence in its 8-bit form. Some terminals also find it inside a UTF-8 character, such as `✓` (E2 9C 93)."""
_BY_PROGRAM: Final[Mapping[str, Sequence]] = {
    "iterm.app": "osc9",
    "wezterm": "osc9",
    "ghostty": "osc9",
    "warpterminal": "osc777",
}
"""By `TERM_PROGRAM`, in lower case."""
_BY_TERM: Final[Mapping[str, Sequence]] = {
    "xterm-kitty": "osc9",
    "xterm-ghostty": "osc9",
    "wezterm": "osc9",
    "foot": "osc777",
    "foot-extra": "osc777",
    "contour": "osc777",
    "rxvt-unicode": "osc777",
    "rxvt-unicode-256color": "osc777",
}


def detect_sequence(environment: Mapping[str, str]) -> Sequence | None:
    """Return what the terminal of this environment understands; the bell if that is unknown, None if it has none."""
    term = environment.get("TERM", "")
    if term in ("", "dumb", "unknown"):
        return None
    if "TMUX" in environment or "STY" in environment or term.startswith(("tmux", "screen")):
        return "bell"  # a multiplexer drops the sequences, but hands the bell on
    program = environment.get("TERM_PROGRAM", "").lower()
    return _BY_PROGRAM.get(program) or _BY_TERM.get(term) or "bell"


def encode_sequence(kind: Sequence, message: Message) -> bytes:
    """Return the bytes for the terminal. No text can end the sequence early or start another one."""
    if kind == "bell":
        return BELL
    # Both begin with words of ours: `OSC 9 ; 4 ; …` would be a progress bar, and other numbers other commands.
    if kind == "osc9":
        return b"\x1b]9;" + _payload(message.one_line()) + BELL
    text = _payload(" ".join(message.lines)).replace(b";", b",")  # `;` separates the fields
    return b"\x1b]777;notify;" + _payload(message.title).replace(b";", b",") + b";" + text + BELL


def _payload(text: str) -> bytes:
    """Return printable text as UTF-8 without the byte 0x9C."""
    return b"".join(_encode_char(char) for char in text[:MAX_PAYLOAD])


def _encode_char(char: str) -> bytes:
    encoded = char.encode("utf-8", "replace") if char.isprintable() else b"?"
    return b"?" if _STRING_TERMINATOR in encoded else encoded


class TerminalChannel:
    """Writes to a terminal. A terminal that takes no output (Ctrl-S) blocks only a thread of its own."""

    name: str = "terminal"

    def __init__(self, descriptor: int, kind: Sequence) -> None:
        self._descriptor = descriptor
        self._kind: Sequence = kind
        self._writer: threading.Thread | None = None

    @property
    def target(self) -> str:
        return self._kind

    async def send(self, message: Message) -> None:
        if self._writer is not None and self._writer.is_alive():
            raise ChannelFailed("The terminal does not take output. Press Ctrl-Q if it was stopped with Ctrl-S.")
        loop = asyncio.get_running_loop()
        written: asyncio.Future[None] = loop.create_future()
        data = encode_sequence(self._kind, message)

        def write() -> None:
            problem: OSError | None = None
            try:
                # One call: the kernel does not mix it with what other threads write.
                os.write(self._descriptor, data)
            except OSError as error:
                problem = error
            try:
                loop.call_soon_threadsafe(_settle, written, problem)
            except RuntimeError:
                return  # the loop has ended meanwhile

        # A daemon thread, and not an executor: the process must not wait for a stopped terminal when it ends.
        self._writer = threading.Thread(target=write, name="holdfast-notify-terminal", daemon=True)
        self._writer.start()
        await written


def _settle(written: asyncio.Future[None], problem: OSError | None) -> None:
    if written.done():
        return  # it was given up
    if problem is None:
        written.set_result(None)
    else:
        written.set_exception(ChannelFailed(f"The terminal cannot be written: {problem.strerror or problem}."))

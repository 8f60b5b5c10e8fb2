"""Keys at a prompt, on a pty in this process."""

from __future__ import annotations

import asyncio
import io
import os
import pty
import select
import sys
import termios
from collections.abc import Iterator

import pytest

from holdfast.cli import prompt
from holdfast.cli.prompt import ENTER, read_key, read_line

BOUND = 60.0


class Keyboard:
    def __init__(self, ours: int, theirs: int) -> None:
        self._ours = ours
        self.theirs = theirs

    def press(self, keys: bytes) -> None:
        os.write(self._ours, keys)

    def arrived(self) -> None:
        """Wait until the pressed keys can be read."""
        assert select.select([self.theirs], [], [], BOUND)[0]

    @property
    def modes(self) -> list[object]:
        return termios.tcgetattr(self.theirs)


@pytest.fixture
def keyboard(monkeypatch: pytest.MonkeyPatch) -> Iterator[Keyboard]:
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "r") as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        monkeypatch.setattr(sys, "stderr", io.StringIO())
        monkeypatch.setattr(prompt, "_SEQUENCE", 0.0)
        yield Keyboard(ours, theirs)
    os.close(ours)


@pytest.mark.spec("A14", "A15a")
@pytest.mark.parametrize("keys", [b"\n", b"\r\n", b"yes\n", b"yy", b"\x1bOy", b"\x1b[A", b"\x1b", b"x", "ÿ".encode()])
def test_neither_enter_nor_pasted_text_nor_an_arrow_key_is_an_answer(keyboard: Keyboard, keys: bytes) -> None:
    async def answer() -> str | None:
        asked = asyncio.create_task(read_key("May it run? ", ("y", "n", "a")))
        await asyncio.sleep(0)
        keyboard.press(keys)
        keyboard.arrived()
        for _ in range(20):
            await asyncio.sleep(0)
        assert not asked.done()
        keyboard.press(b"n")
        return await asyncio.wait_for(asked, BOUND)

    before = keyboard.modes
    assert asyncio.run(answer()) == "n"
    assert keyboard.modes == before


@pytest.mark.spec("A14")
@pytest.mark.parametrize(("pressed", "key"), [(b"y", "y"), (b"Y", "y"), (b"y\n", "y"), (b"\n", ENTER), (b"\x04", None)])
def test_a_key_acts_without_enter(keyboard: Keyboard, pressed: bytes, key: str | None) -> None:
    async def answer() -> str | None:
        asked = asyncio.create_task(read_key("More? ", ("y", ENTER)))
        await asyncio.sleep(0)
        keyboard.press(pressed)
        return await asyncio.wait_for(asked, BOUND)

    assert asyncio.run(answer()) == key


@pytest.mark.spec("A15a")
def test_what_was_typed_before_the_question_is_discarded(keyboard: Keyboard) -> None:
    async def answer() -> str | None:
        asked = asyncio.create_task(read_key("May it run? ", ("y", "n")))
        await asyncio.sleep(0)
        keyboard.press(b"n")
        return await asyncio.wait_for(asked, BOUND)

    keyboard.press(b"y\ny")
    keyboard.arrived()
    assert asyncio.run(answer()) == "n"


@pytest.mark.spec("A15a")
def test_input_flushed_after_it_became_readable_does_not_block(keyboard: Keyboard) -> None:
    """Ctrl-C flushes the terminal's input queue."""

    async def answer() -> str | None:
        asked = asyncio.create_task(read_line("Your name: "))
        await asyncio.sleep(0)
        keyboard.press(b"lost\n")
        keyboard.arrived()
        asyncio.get_running_loop().call_soon(prompt.discard_typeahead)  # after the loop has seen it
        for _ in range(20):
            await asyncio.sleep(0)
        assert not asked.done()
        keyboard.press(b"found\n")
        return await asyncio.wait_for(asked, BOUND)

    assert asyncio.run(answer()) == "found"


@pytest.mark.spec("A15a")
def test_a_cancelled_prompt_restores_the_terminal(keyboard: Keyboard) -> None:
    async def ask() -> None:
        asked = asyncio.create_task(read_key("May it run? ", ("y",)))
        await asyncio.sleep(0)
        assert keyboard.modes != before
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked

    before = keyboard.modes
    asyncio.run(ask())
    assert keyboard.modes == before

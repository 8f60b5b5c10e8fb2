"""The terminal channel on a real pty: the sequences, their limits, and a terminal that is stopped."""

from __future__ import annotations

import asyncio
import os
import pty
import re
import select
import termios
import tty
from collections.abc import Generator
from contextlib import contextmanager

import pyte
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.notify.channel import ChannelFailed
from holdfast.notify.message import Message
from holdfast.notify.notifier import send_to
from holdfast.notify.terminal import MAX_PAYLOAD, Sequence, TerminalChannel, detect_sequence, encode_sequence
from tests.notify.support import message_of, pending_call
from tests.runtime.support import run

pytestmark = pytest.mark.spec("E7n")
OSC9 = re.compile(rb"\x1b\]9;holdfast: [^\x00-\x1f\x7f\x9c]*\x07")
OSC777 = re.compile(rb"\x1b\]777;notify;holdfast: [^\x00-\x1f\x7f\x9c;]*;[^\x00-\x1f\x7f\x9c;]*\x07")


@contextmanager
def raw_pty() -> Generator[tuple[int, int]]:
    """(our end, the terminal's end), without translation of newlines."""
    ours, theirs = pty.openpty()
    tty.setraw(theirs)
    try:
        yield ours, theirs
    finally:
        os.close(ours)
        os.close(theirs)


def read(descriptor: int, end: bytes = b"\x07") -> bytes:
    found = b""
    while not found.endswith(end):
        assert select.select([descriptor], [], [], 60)[0], found
        found += os.read(descriptor, 65_536)
    return found


@pytest.mark.parametrize(
    ("environment", "wanted"),
    [
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "iTerm.app"}, "osc9"),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "WezTerm"}, "osc9"),
        ({"TERM": "xterm-ghostty", "TERM_PROGRAM": "ghostty"}, "osc9"),
        ({"TERM": "xterm-kitty"}, "osc9"),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "WarpTerminal"}, "osc777"),
        ({"TERM": "foot"}, "osc777"),
        ({"TERM": "rxvt-unicode-256color"}, "osc777"),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "Apple_Terminal"}, "bell"),
        ({"TERM": "xterm-256color"}, "bell"),
        ({"TERM": "tmux-256color", "TERM_PROGRAM": "tmux"}, "bell"),
        ({"TERM": "xterm-kitty", "TMUX": "/tmp/tmux"}, "bell"),
        ({"TERM": "screen"}, "bell"),
        ({"TERM": "dumb"}, None),
        ({}, None),
    ],
)
def test_the_sequence_is_chosen_by_the_terminal(environment: dict[str, str], wanted: Sequence | None) -> None:
    assert detect_sequence(environment) == wanted


QUESTION = b"shell.exec asks: rm -rf build (high risk), in web by coder"


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [
        ("osc9", b"\x1b]9;holdfast: 1 call is pending: %b\x07" % QUESTION),
        ("osc777", b"\x1b]777;notify;holdfast: 1 call is pending;%b\x07" % QUESTION),
        ("bell", b"\x07"),
    ],
)
def test_a_message_reaches_the_terminal_as_one_sequence(kind: Sequence, wanted: bytes) -> None:
    with raw_pty() as (ours, theirs):
        run(TerminalChannel(theirs, kind).send(message_of(pending_call())))
        assert read(ours) == wanted


def test_nothing_of_a_sequence_is_drawn_on_the_screen() -> None:
    screen = pyte.Screen(80, 24)
    stream = pyte.ByteStream(screen)
    message = message_of(pending_call(command="printf '\x1b]0;evil\x07 \x9c \x1b\\ ✓ \x1b[2J;;;'"))
    stream.feed(b"before ")
    kinds: tuple[Sequence, ...] = ("osc9", "osc777", "bell")
    for kind in kinds:
        stream.feed(encode_sequence(kind, message))
    stream.feed(b"after")
    assert screen.display[0].rstrip() == "before after"
    assert screen.title == ""


@given(st.text(), st.text(), st.text())
def test_no_text_ends_a_sequence_or_starts_another(title: str, first: str, second: str) -> None:
    message = Message(event="pending", title=f"holdfast: {title}", lines=(first, second), link="")
    for kind, pattern in (("osc9", OSC9), ("osc777", OSC777)):
        data = encode_sequence("osc9" if kind == "osc9" else "osc777", message)
        assert pattern.fullmatch(data), data
        assert len(data.decode()) <= 2 * MAX_PAYLOAD + 40


@given(st.text(alphabet=st.characters(codec=None)))
def test_the_question_of_a_call_cannot_break_out(text: str) -> None:
    message = message_of(pending_call(text=f"shell.exec: {text}", agent=text))
    assert OSC9.fullmatch(encode_sequence("osc9", message))
    assert OSC777.fullmatch(encode_sequence("osc777", message))


def test_a_character_that_contains_the_8_bit_terminator_is_replaced() -> None:
    data = encode_sequence("osc9", message_of(pending_call(command="echo ✓ é 漢")))
    assert "echo ? é 漢".encode() in data


def test_a_stopped_terminal_blocks_nothing_and_is_reported() -> None:
    async def scenario(ours: int, theirs: int) -> None:
        channel = TerminalChannel(theirs, "bell")
        termios.tcflow(theirs, termios.TCOOFF)
        first = await send_to(channel, message_of(pending_call()), seconds=0.05)
        assert (first.outcome, first.reason) == ("failed", "bell did not take the message within 0.05 seconds.")
        with pytest.raises(ChannelFailed, match="Press Ctrl-Q"):
            await channel.send(message_of(pending_call()))
        termios.tcflow(theirs, termios.TCOON)
        assert await asyncio.to_thread(read, ours) == b"\x07"

    with raw_pty() as (ours, theirs):
        run(scenario(ours, theirs))


def test_a_terminal_that_is_gone_is_a_failure() -> None:
    with raw_pty() as (_, theirs):
        gone = os.dup(theirs)
    try:
        with pytest.raises(ChannelFailed, match="The terminal cannot be written: Input/output error"):
            run(TerminalChannel(gone, "bell").send(message_of(pending_call())))
    finally:
        os.close(gone)

"""Ctrl-C at random moments right after an approval, on a real terminal."""

from __future__ import annotations

import random
import time

import pytest

from tests.cli.command_line import Cli
from tests.cli.documents import NAME, start
from tests.cli.terminal import Terminal
from tests.soak import rounds

ROUNDS = rounds(6, 500)
COMMAND = "sleep 40; touch made.txt"
MOMENTS = (0.0, 0.003, 0.01, 0.03, 0.1, 0.3)
"""The most seconds after the key: before it is read, while it is recorded, while the supervisor starts, while the
command runs."""


@pytest.mark.timeout(rounds(400, 3600))
@pytest.mark.spec("A15a", "E1c", "X4")
def test_ctrl_c_right_after_an_approval_stops_the_call(careful: Cli) -> None:
    document = start(careful, f"run `{COMMAND}`")
    words = document.read_text()
    random_moments = random.Random(ROUNDS)
    for number in range(ROUNDS):
        document.write_text(words)
        args = ("chat", NAME) if number % 2 else ("call", "shell.exec", f"command={COMMAND}")
        moment = MOMENTS[number % len(MOMENTS)] * random_moments.random()
        with Terminal(careful, *args) as person:
            person.expect("leave it pending\n> ")
            person.press(b"y")
            time.sleep(moment)
            person.press(b"\x03")
            code = person.finish()
            assert code == 130, f"round {number}, {args[0]}, {moment:.4f} s\n{person.text}"
    calls = careful.run("ledger", "--json").lines
    assert {call["state"] for call in calls} <= {"cancelled", "unknown", "pending"}
    assert not (careful.project / "made.txt").exists()

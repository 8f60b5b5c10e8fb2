"""Commands whose parent had signals ignored, or put them in the background: Ctrl-C works, and nothing hangs."""

from __future__ import annotations

import signal

import pytest

from tests.cli.command_line import Cli
from tests.cli.terminal import Terminal

WRITE = ("call", "file.write", "path=notes.txt", "content=hello")
PROMPT = "leave it pending\n> "


def ignoring(*signals: str) -> tuple[str, ...]:
    """A parent like `nohup`, or the shell of a script that starts something in the background."""
    return ("sh", "-c", f"trap '' {' '.join(signals)}; exec \"$@\"", "sh")


@pytest.mark.spec("A15a", "E1a")
def test_ctrl_c_at_the_prompt_ends_a_call_that_was_started_with_sigint_ignored(asking: Cli) -> None:
    with Terminal(asking, *WRITE, via=ignoring("INT")) as person:
        person.expect(PROMPT)
        person.press(b"\x03")
        assert person.finish() == 130
        assert "Cancelled. Nothing ran." in person.text
    (call,) = asking.run("ledger", "--json").lines
    assert call["state"] == "cancelled"


@pytest.mark.spec("A15a", "E1a", "X4")
@pytest.mark.parametrize("args", [("call", "shell.exec", "command=echo begun; sleep 60"), ("chat", "notes.chat")])
def test_ctrl_c_stops_a_command_that_was_started_with_sigint_ignored(careful: Cli, args: tuple[str, ...]) -> None:
    (careful.project / "notes.chat").write_text("@You:\nrun `echo begun; sleep 60`\n")
    with Terminal(careful, *args, via=ignoring("INT")) as person:
        person.expect(PROMPT)
        person.press(b"y")
        person.press(b"\x03")
        assert person.finish() == 130


@pytest.mark.spec("A13a", "E1a")
@pytest.mark.parametrize(
    "start",
    [
        'set -m; "$@" & wait $!',  # a process group of its own, with the terminal as its input
        '"$@" & wait $!',  # SIGINT ignored, and nothing as its input
    ],
)
def test_a_call_in_the_background_does_not_prompt_but_leaves_the_call_pending(asking: Cli, start: str) -> None:
    with Terminal(asking, *WRITE, via=("bash", "-c", start, "bash")) as person:
        assert person.finish() == 4
        assert PROMPT not in person.text
        assert "holdfast approve" in person.text
    (call,) = asking.run("ledger", "--json").lines
    assert call["state"] == "pending"


@pytest.mark.spec("A13a", "E1a")
def test_a_call_whose_terminal_hangs_up_stays_pending_even_if_the_command_survives_that(asking: Cli) -> None:
    with Terminal(asking, *WRITE, via=ignoring("HUP")) as person:
        person.expect(PROMPT)
        person.hang_up()
        assert person.wait() == 1, "nothing more can be said"
    (call,) = asking.run("ledger", "--json").lines
    assert call["state"] == "pending"


@pytest.mark.spec("B4")
@pytest.mark.parametrize("backend", ["off", "auto"])
def test_commands_do_not_inherit_signals_that_our_parent_had_ignored(cli: Cli, backend: str) -> None:
    cli.configure(f'[approval]\nauto_approve = ["shell.exec"]\n[sandbox]\nmode = "{backend}"\n')
    shown = "command=grep SigIgn: /proc/self/status"
    with Terminal(cli, "call", "shell.exec", shown, via=ignoring("HUP", "INT", "QUIT", "TERM")) as person:
        assert person.finish() == 0
        ignored = int(person.text.partition("SigIgn:")[2].split("\n")[0].strip().removeprefix("‹\\t›"), 16)
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
        assert not ignored & 1 << (number - 1), number

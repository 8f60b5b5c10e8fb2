"""`holdfast tour`, with and without a terminal."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.cli.command_line import TIMEOUT, Cli, Done
from tests.cli.terminal import Terminal

INTERRUPT = b"\x03"


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder


def _left(scratch: Path) -> list[str]:
    """Return the scratch folders that the tour left behind."""
    return sorted(path.name for path in scratch.glob("holdfast-tour-*"))


def _tour(cli: Cli, scratch: Path) -> Done:
    return cli.run("tour", env={"TMPDIR": str(scratch)})


def _commands(text: str) -> list[str]:
    """Return the commands that the tour prints."""
    told = text.partition("The call is pending")[2]
    return [line.strip() for line in told.splitlines() if line.startswith("  ")]


def _shell(cli: Cli, scratch: Path, *commands: str) -> str:
    bare = {name: value for name, value in cli.env.items() if not name.startswith("XDG_")}
    done = subprocess.run(
        ["bash", "-c", "\n".join(commands)],
        capture_output=True,
        text=True,
        check=False,
        cwd=cli.project,
        env=bare | {"TMPDIR": str(scratch)},
        timeout=TIMEOUT,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.spec("M2")
def test_without_a_terminal_it_ends_at_the_pending_command(cli: Cli, scratch: Path) -> None:
    done = _tour(cli, scratch)
    assert (done.code, done.err) == (0, "")
    assert "│ @Assistant:" in done.out and "│ +" not in done.out
    assert "**Tool Use:** `file.edit`" in done.out and "status=pending" in done.out
    assert "│ sh check.sh\n" in done.out
    assert "ok: the sum is 42" not in done.out
    assert not Path(cli.env["XDG_STATE_HOME"]).exists(), "the user's own ledger is left alone"


@pytest.mark.spec("M2")
def test_the_commands_it_prints_approve_the_call_and_continue(cli: Cli, scratch: Path) -> None:
    commands = _commands(_tour(cli, scratch).out)
    assert [command.split(" ")[-2] for command in commands[3:5]] == ["approve", "chat"]
    said = _shell(cli, scratch, *commands[:-1])
    assert "sh check.sh" in said and "All 3 steps are done." in said
    (folder,) = _left(scratch)
    document = (scratch / folder / "project" / "tour.chat").read_text()
    assert "ok: the sum is 42" in document and "status=pending" not in document
    assert "total=0" in (scratch / folder / "project" / "sum.sh").read_text()
    _shell(cli, scratch, commands[-1])
    assert _left(scratch) == []


@pytest.mark.spec("M2")
def test_the_call_can_be_approved_by_editing_the_document(cli: Cli, scratch: Path) -> None:
    commands = _commands(_tour(cli, scratch).out)
    (folder,) = _left(scratch)
    document = scratch / folder / "project" / "tour.chat"
    document.write_text(document.read_text().replace("status=pending", "status=approved"))
    assert "All 3 steps are done." in _shell(cli, scratch, *commands[:2], commands[4])


@pytest.mark.spec("M2")
def test_a_person_approves_and_sees_the_document_grow(cli: Cli, scratch: Path) -> None:
    with Terminal(cli, "tour", TMPDIR=str(scratch)) as person:
        person.expect("status=pending")
        person.expect("│ sh check.sh\n")
        person.expect("[y] yes")
        assert _left(scratch) != []
        person.type("y")
        person.expect("ok: the sum is 42")
        person.expect("All 3 steps are done.")
        assert person.finish() == 0
    assert _left(scratch) == []
    assert person.text.count("**Tool Use:** `file.read`") == 1


@pytest.mark.spec("M2")
def test_a_rejected_command_does_not_run(cli: Cli, scratch: Path) -> None:
    with Terminal(cli, "tour", TMPDIR=str(scratch)) as person:
        person.expect("[y] yes")
        person.type("n")
        person.expect("You rejected this: run `sh check.sh`.")
        assert person.finish() == 0
    assert "ok: the sum" not in person.text and _left(scratch) == []


def test_quitting_prints_how_to_continue(cli: Cli, scratch: Path) -> None:
    with Terminal(cli, "tour", TMPDIR=str(scratch)) as person:
        person.expect("[y] yes")
        person.type("q")
        person.expect("export XDG_STATE_HOME=")
        assert person.finish() == 0
    assert len(_left(scratch)) == 1


def test_ctrl_c_leaves_nothing_behind(cli: Cli, scratch: Path) -> None:
    with Terminal(cli, "tour", TMPDIR=str(scratch)) as person:
        person.expect("> ")
        person.press(INTERRUPT)
        person.expect("The scratch copy was removed.")
        assert person.finish() == 130
    assert _left(scratch) == [] and "Traceback" not in person.text


def test_a_narrow_terminal_without_colour_is_enough(cli: Cli, scratch: Path) -> None:
    with Terminal(cli, "tour", columns=30, TMPDIR=str(scratch), NO_COLOR="1") as person:
        person.expect("[y] yes")
        person.type("q")
        person.expect("rm -r")
        assert person.finish() == 0
    assert "\x1b[" not in person.raw
    told = person.text[: person.text.index("3. The command")] + person.text[person.text.index("The call is pending") :]
    own = [line for line in told.splitlines() if not line.startswith("  ")]
    long = [line for line in own if len(line) > 30 and "holdfast-tour" not in line and " " in line.strip("│ ")]
    assert long == []

"""`holdfast chat FILE --watch`: advances on saves and on answers from elsewhere, and is idle otherwise."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.cli.command_line import Cli
from tests.cli.documents import NAME, PATIENCE, Running, answer, start, write_calls
from tests.quick import wakeups

READY = f"Watching {NAME}. Press Ctrl-C to end."


def save(document: Path, words: str) -> None:
    """Save as many editors do: write a new file and rename it into place."""
    new = document.with_name(f".{document.name}.swp")
    new.write_text(document.read_text() + words)
    new.replace(document)


def rests(cli: Cli) -> None:
    """Wait until no process advances the document and it is the person's turn."""
    deadline = time.monotonic() + PATIENCE
    while (found := cli.run("chat", "status", NAME, "--json").json)["next"] != "yours" or found["pid"] is not None:
        assert time.monotonic() < deadline, found


@pytest.mark.spec("E1c")
def test_its_own_writes_do_not_wake_the_watcher(cli: Cli) -> None:
    document = start(cli, "calculate 6 * 7")
    with Running(cli, "chat", NAME, "--watch") as watching:
        watching.expect(READY)
        for number in range(3):
            cli.run("chat", "status", NAME)
            save(document, f"calculate {number} + 1\n")
            watching.expect(f"Calculate `{number} + 1`: `{number + 1}`.")
            rests(cli)
        assert watching.end() == 0
    assert watching.text.count("✓ calculator") == 4
    assert watching.text.count("Watching") == 1, "it is said once, not after every save"
    assert "nothing to answer" not in watching.text


@pytest.mark.spec("E1c")
def test_it_advances_on_every_kind_of_save(cli: Cli) -> None:
    document = start(cli, "calculate 6 * 7")
    with Running(cli, "chat", NAME, "--watch") as watching:
        watching.expect("42")
        watching.expect(READY)
        save(document, "calculate 1 + 1\n")
        watching.expect("Calculate `1 + 1`: `2`.")
        rests(cli)
        document.write_text(document.read_text() + "calculate 2 + 2\n")
        watching.expect("Calculate `2 + 2`: `4`.")
        rests(cli)
        replies = document.read_text().count("@Assistant:")
        document.unlink()
        watching.expect(f"{NAME} is gone")
        document.write_text("@You:\ncalculate 3 + 3\n")
        watching.expect("Calculate `3 + 3`: `6`.")
        rests(cli)
        assert watching.end() == 0
    assert replies == 6, "two for each request: the call, and what came of it"
    assert document.read_text().count("@Assistant:") == 2


@pytest.mark.spec("E1c", "A13b")
def test_it_picks_up_answers_from_the_editor_and_from_other_interfaces(cli: Cli) -> None:
    document = write_calls(cli, "echo 1 > one", "echo 2 > two")
    with Running(cli, "chat", NAME, "--watch") as watching:
        watching.expect(READY)
        answer(document, "approved")
        watching.expect("✓ shell.exec: $ echo 1 > one")
        watching.expect(f"Then save {NAME} to continue.")
        assert "asks on a terminal" not in watching.text
        assert (cli.project / "one").exists() and not (cli.project / "two").exists()
        assert cli.run("approve", cli.run("pending", "--json").json["call_id"]).code == 4
        watching.expect("✓ shell.exec: $ echo 2 > two")
        assert watching.end() == 0
    assert (cli.project / "two").exists()


@pytest.mark.spec("E1c")
def test_a_save_with_an_error_is_reported_and_the_next_save_works(cli: Cli) -> None:
    document = start(cli, "calculate 6 * 7")
    with Running(cli, "chat", NAME, "--watch") as watching:
        watching.expect(READY)
        before = document.read_text()
        document.write_text(f"```toml\nnonsense = [\n```\n\n{before}")
        watching.expect("Error: ")
        document.write_text(f"{before}calculate 1 + 1\n")
        watching.expect("✓ calculator")
        assert "Traceback" not in watching.text


@pytest.mark.spec("E1c")
def test_cancel_stops_a_turn_and_watching_continues(cli: Cli) -> None:
    cli.configure('[approval]\nauto_approve = ["$default", "shell.exec"]\n')
    document = start(cli, "calculate 6 * 7")
    with Running(cli, "chat", NAME, "--watch", "--json") as watching:
        watching.expect(READY)
        save(document, "run `echo begun; sleep 60`\n")
        watching.expect('"text":"begun\\n"')
        status = cli.run("chat", "status", "--json").json
        assert status["pid"] == watching.process.pid
        told = cli.run("chat", "cancel", NAME, "--json").json
        assert told == {"path": str(document), "pid": watching.process.pid, "told": True}
        watching.expect('"kind":"cancelled"')
        watching.expect("Stopped. Save ")
        save(document, "calculate 1 + 1\n")
        watching.expect('"kind":"done"')
        assert watching.end() == 0


@pytest.mark.spec("E1c")
def test_an_idle_watcher_uses_no_processor_time(cli: Cli) -> None:
    start(cli, "calculate 6 * 7")
    with Running(cli, "chat", NAME, "--watch") as watching:
        watching.expect(READY)
        woken = [wakeups(watching.process.pid)]
        while len(woken) < 20 and woken[-2:-1] != woken[-1:]:
            began = time.monotonic()
            while time.monotonic() - began < 1.0:
                cli.run("--version")
            woken.append(wakeups(watching.process.pid))
        assert woken[-2] == woken[-1], "it did something in every single second"


def test_watching_without_watchdog_says_what_to_install(cli: Cli, tmp_path: Path) -> None:
    start(cli, "hello")
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text("import sys\nsys.modules['watchdog'] = None\n")
    done = cli.run("chat", NAME, "--watch", env={"PYTHONPATH": str(site)})
    assert done.code == 1 and "pip install 'holdfast[watch]'" in done.sentence

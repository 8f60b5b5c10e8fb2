"""`holdfast chat run`."""

from __future__ import annotations

import pytest

from tests.cli.command_line import Cli
from tests.cli.documents import NAME, PENDING, answer, write_calls


@pytest.mark.spec("U5")
def test_chat_run_approves_runs_or_settles_one_call(cli: Cli) -> None:
    document = write_calls(cli, "echo 1 > one", "echo 2 > two", "echo 3 > three", "echo 4 > four")
    assert cli.run("chat", NAME).code == 4
    done = cli.run("chat", "run", "c2")
    assert done.code == 0, done
    assert [name for name in ("one", "two", "three", "four") if (cli.project / name).exists()] == ["two"]
    answer(document, "rejected", "no")
    assert cli.run("chat", "run", "c1", NAME).code == 3
    pending = {item["args"]["command"]: item["call_id"] for item in cli.run("pending", "--json").lines}
    assert cli.run("chat", "run", pending["echo 3 > three"], NAME, "--json").code == 0
    assert (cli.project / "three").exists() and not (cli.project / "one").exists()
    text = document.read_text()
    assert text.count(PENDING) == 1 and "**Tool Result:** `c1` (error)\n\n```\nno\n```" in text
    missing = cli.run("chat", "run", "c9", NAME)
    assert missing.code == 2 and "has the id 'c9'" in missing.sentence


@pytest.mark.spec("U5")
def test_an_id_that_several_documents_have_needs_the_file(cli: Cli) -> None:
    for name in ("a.chat", "b.chat"):
        write_calls(cli, "true", name=name)
        assert cli.run("chat", name).code == 4
    several = cli.run("chat", "run", "c1")
    assert several.code == 2 and "a.chat" in several.sentence and "b.chat" in several.sentence
    assert cli.run("chat", "run", "c1", "a.chat").code == 0
    assert cli.run("chat", "run", "c1").code == 2, "it is an id another call had"
    assert cli.run("chat", "run", "c1", "b.chat").code == 0

"""`holdfast chat status`."""

from __future__ import annotations

import pytest

from tests.cli.command_line import Cli
from tests.cli.documents import NAME, answer, start


@pytest.mark.spec("E1c", "O1b", "U7")
def test_status_shows_the_next_step_and_writes_nothing(cli: Cli) -> None:
    document = start(cli, "run `echo hi`")
    assert cli.run("chat", "status").out == "No document of this project is being advanced or has open calls.\n"
    assert cli.run("chat", "status", NAME, "--json").json["next"] == "send"
    cli.run("chat", NAME)
    before = document.stat().st_mtime_ns, document.read_bytes()
    status = cli.run("chat", "status", "--json").json
    (slot,) = status["slots"]
    assert (status["next"], status["pid"], status["replies"], status["since_you"]) == ("pending", None, 1, 1)
    assert slot["preview"] == slot["pending"]["preview"] == "shell.exec: $ echo hi"
    assert status["cursor"] == {"line": slot["line"], "column": 1}
    assert document.read_text().splitlines()[int(slot["line"]) - 1] == f"**Tool Result:** `{slot['id']}`"
    assert status["usage"]["output"] > 0
    shown = cli.run("chat", "status", NAME)
    assert f"pending   call {slot['call_id']} at {NAME}:{slot['line']}\n" in shown.out
    assert f"id        {slot['id']}\n" in shown.out and "│ command: echo hi\n" in shown.out
    assert before == (document.stat().st_mtime_ns, document.read_bytes())
    answer(document, "approved")
    assert cli.run("chat", "status", NAME, "--json").json["next"] == "execute"
    cli.run("chat", NAME)
    assert cli.run("chat", "status", NAME, "--json").json["next"] == "yours"


@pytest.mark.spec("E1c")
def test_status_shows_the_problems_of_a_document_with_their_position(cli: Cli) -> None:
    document = cli.project / NAME
    document.write_text("```toml\nnonsense = [\n```\n\n@You:\nhello\n\n@Nobody:\nx\n")
    status = cli.run("chat", "status", NAME, "--json").json
    assert [item["severity"] for item in status["diagnostics"]] == ["error", "error"]
    shown = cli.run("chat", "status", NAME).out
    assert f"error     {NAME}:8\n" in shown and "Unknown role @Nobody." in shown
    failed = cli.run("chat", NAME)
    assert failed.code == 2 and NAME in failed.sentence
    assert document.read_text().endswith("@Nobody:\nx\n")

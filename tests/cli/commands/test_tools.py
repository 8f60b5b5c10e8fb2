"""`holdfast tools`, and that commands that only read write nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command_line import Cli


@pytest.mark.spec("E1a", "P5")
def test_tools_the_policy_takes_away_are_not_listed_and_one_tool_is_shown_whole(cli: Cli) -> None:
    names = [tool["name"] for tool in cli.run("tools", "--json").lines]
    assert "calculator" in names
    assert "calculator_async" not in names
    cli.configure('[tools]\ndeny = ["calculator"]\nallow = ["calculator_async"]\n')
    text = cli.run("tools").out
    assert "calculator " not in text
    assert "calculator_async" in text
    shown = cli.run("tools", "calculator").out
    assert "Evaluate an arithmetic expression." in shown
    assert '"maxLength"' in shown
    assert "deny: 'calculator' in tools.deny" in shown


@pytest.mark.spec("E1f")
def test_outside_a_project_it_says_which_tools_need_one(cli: Cli) -> None:
    assert cli.run("tools").err == ""
    (cli.project / ".git").rmdir()
    cli.configure('[tools]\ndeny = ["file.edit"]\n')
    said = cli.run("tools")
    assert "file.write" not in said.out and "file.edit" not in said.sentence
    assert said.sentence.startswith("There is no project here, and these tools need one: code.search, ")
    assert " file.write, " in said.sentence and "`holdfast init`" in said.sentence
    assert "needs a project" in cli.run("tools", "file.write").sentence


@pytest.mark.spec("E1a")
def test_commands_that_only_read_create_no_state(cli: Cli) -> None:
    explain = ("policy", "explain", "file.write", "path=a.txt", "content=b")
    doctor = ("--set", "sandbox.mode=off", "doctor")
    commands = (("tools",), ("policy",), explain, ("pending",), ("grants",), ("ledger",), ("config",), doctor)
    for command in commands:
        assert cli.run(*command).code == 0, command
    assert not Path(cli.env["XDG_STATE_HOME"]).exists()

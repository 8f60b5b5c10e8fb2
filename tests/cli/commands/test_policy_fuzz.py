"""`holdfast policy fuzz` and `holdfast policy explain` for shell commands."""

from __future__ import annotations

import pytest

from tests.cli.command_line import Cli


@pytest.mark.spec("E1b", "A11")
def test_fuzz_reports_its_mutants(cli: Cli) -> None:
    done = cli.run("policy", "fuzz", "$shell-readonly", "--count", "60", "--json")
    assert (done.code, done.json["mutants"], done.json["escapes"]) == (0, 60, [])
    assert cli.run("policy", "fuzz", "no such rule").code == 2


@pytest.mark.spec("E1b", "A10", "A11")
def test_explain_shows_the_parts_of_a_command(cli: Cli) -> None:
    done = cli.run("policy", "explain", "shell.exec", "command=ls; echo $(rm x)", "--json")
    assert [part["text"] for part in done.json["parts"]] == ["ls", "echo $(rm x)", "rm x"]
    text = cli.run("policy", "explain", "shell.exec", "command=ls; echo $(rm x)").out
    assert "rm x (in $(…))" in text

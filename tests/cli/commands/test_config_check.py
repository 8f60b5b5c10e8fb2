"""Configuration mistakes are found before they apply, and never lock the user out."""

from __future__ import annotations

import pytest

from tests.cli.command_line import Cli

WRONG = """
[[approval.commands]]
rule = "pytest *"
operands = "files"
verdict = "approve"
match = ["pytest -q tests"]
"""


@pytest.mark.spec("A11", "E1b")
def test_an_untrusted_rule_whose_examples_do_not_hold_is_found_and_not_trusted(cli: Cli) -> None:
    (cli.project / "holdfast.toml").write_text(WRONG)
    for command in (("config", "check"), ("trust", "--yes")):
        done = cli.run(*command)
        assert done.code == 2 and "pytest -q tests" in done.err
    assert cli.run("trust", "list").out.strip() == "No file is trusted."


@pytest.mark.spec("A11", "E1b")
def test_trust_can_be_revoked_even_if_the_file_is_broken(cli: Cli) -> None:
    file = cli.project / "holdfast.toml"
    file.write_text(WRONG.replace("pytest -q tests", "pytest tests"))
    assert cli.run("trust", "--yes").code == 0
    file.write_text(WRONG)
    assert cli.run("trust", "revoke").code == 0


@pytest.mark.spec("N2", "E1b")
@pytest.mark.parametrize("option", ["sandbox.backend=foo", 'sandbox.network=["exa mple"]'])
def test_an_impossible_sandbox_is_found_by_the_check(cli: Cli, option: str) -> None:
    done = cli.run("--set", option, "config", "check")
    assert done.code == 2 and option.partition("=")[0] in done.err


MISSPELT = """
[tools]
deny = ["shel.exec"]

[approval]
auto_approve = { remove = ["bassh"] }

[confirmation.actions]
"file.writ" = "confirm"
"""


@pytest.mark.spec("R6", "E1b")
@pytest.mark.parametrize("command", [("ledger",), ("config", "check"), ("call", "calculator", "expression=1+1")])
def test_every_command_reports_misspelt_tool_names_with_what_was_meant(cli: Cli, command: tuple[str, ...]) -> None:
    cli.configure(MISSPELT)
    done = cli.run(*command)
    assert done.code == 0
    for place, meant in (("tools.deny", "shell.exec"), ("remove", "bash"), ("confirmation.actions", "file.write")):
        (line,) = [line for line in done.err.splitlines() if place in line]
        assert line.startswith("Warning: ") and line.endswith(f"Did you mean '{meant}'?")


@pytest.mark.spec("R6", "E1b")
def test_warnings_are_a_field_of_the_json_too(cli: Cli) -> None:
    cli.configure(MISSPELT)
    assert len(cli.run("call", "--json", "calculator", "expression=1+1").json["warnings"]) == 3
    assert len(cli.run("config", "check", "--json").json["warnings"]) == 3
    notes = [line["text"] for line in cli.run("doctor", "--json").lines if line["name"] == "config"]
    assert any("shel.exec" in note for note in notes)
    cli.configure("")
    assert "warnings" not in cli.run("call", "--json", "calculator", "expression=1+1").json


@pytest.mark.spec("R6", "D6")
def test_warnings_about_a_frontmatter_appear_in_the_run_and_in_the_status(cli: Cli) -> None:
    cli.configure("[tools]\ndeny = ['git.log']\n")
    (cli.project / "a.chat").write_text("```toml\n[document]\ntools = ['git.log', 'read']\n```\n@You:\nHi.\n")
    assert "Note: a.chat:3: The tool 'git.log'" in cli.run("chat", "a.chat").err
    (warning,) = cli.run("chat", "status", "a.chat", "--json").json["diagnostics"]
    assert warning["severity"] == "warning" and "git.log" in warning["message"]


@pytest.mark.spec("E1a")
def test_check_warns_about_names_that_match_no_tool(cli: Cli) -> None:
    cli.configure('[tools]\ndeny = ["calculater"]\n')
    done = cli.run("config", "check")
    assert done.code == 0
    assert "Did you mean 'calculator'?" in done.err

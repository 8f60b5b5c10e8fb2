"""What is wrong with a configuration is found before it counts, and never locks anybody out."""

from __future__ import annotations

import pytest

from tests.doors.command import Cli

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
def test_trust_can_be_taken_back_whatever_the_file_says(cli: Cli) -> None:
    file = cli.project / "holdfast.toml"
    file.write_text(WRONG.replace("pytest -q tests", "pytest tests"))
    assert cli.run("trust", "--yes").code == 0
    file.write_text(WRONG)
    assert cli.run("trust", "revoke").code == 0


@pytest.mark.spec("N2", "E1b")
@pytest.mark.parametrize("option", ["sandbox.backend=foo", 'sandbox.network=["exa mple"]'])
def test_a_sandbox_that_cannot_be_is_found_when_the_configuration_is_checked(cli: Cli, option: str) -> None:
    done = cli.run("--set", option, "config", "check")
    assert done.code == 2 and option.partition("=")[0] in done.err

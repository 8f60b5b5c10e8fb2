"""`holdfast policy show` and `explain`."""

from __future__ import annotations

import tomllib

import pytest

from tests.cli.command_line import Cli


@pytest.mark.spec("A10", "E1a")
def test_explain_prints_the_whole_chain_and_marks_who_decided(cli: Cli) -> None:
    text = cli.run("policy", "explain", "calculator", "expression=1+1", "--all").out
    assert text.startswith("calculator: approve\n")
    marked = [line for line in text.splitlines() if line.startswith(">")]
    assert len(marked) == 1
    assert marked[0].split()[:5] == [">", "chain", "20", "approve", "pure"]
    for voice in ("tools.profile", " config\n", " grants\n", " protected path\n", " confirmation\n"):
        assert voice in text
    assert "urn:" not in text


@pytest.mark.spec("A10", "A22")
def test_explain_prints_the_verdict_and_the_reason_and_every_stage_with_all(cli: Cli) -> None:
    explain = ("policy", "explain", "calculator", "expression=1+1")
    assert cli.run(*explain).out == "calculator: approve\n  The tool declares that it has no effects.\n"
    (profile,) = [line for line in cli.run(*explain, "--all").out.splitlines() if "tools.profile" in line]
    assert "available" in profile and "approve" not in profile


@pytest.mark.spec("A22")
def test_explain_without_arguments_says_that_arguments_may_change_the_decision(cli: Cli) -> None:
    assert "Judged without arguments" in cli.run("policy", "explain", "shell.exec").out
    assert "Judged without arguments" not in cli.run("policy", "explain", "git.status").out
    assert cli.run("policy", "explain", "shell.exec", "--json").json["depends"] is True


@pytest.mark.spec("A10")
def test_explain_names_the_cap_the_policy_or_the_default_that_decides(cli: Cli) -> None:
    cli.configure('[confirmation]\nactions = { "file.write" = "confirm" }\n')
    words = ("policy", "explain", "file.write", "path=a.txt", "content=b", "--json")
    capped = cli.run(*words).json
    assert capped["decision"]["verdict"] == "ask"
    assert [step["source"] for step in capped["steps"] if step["decided"]] == ["urn:holdfast:cap:confirmation"]
    cli.configure('[tools]\ndeny = ["file.write"]\n')
    denied = cli.run(*words).json
    assert (denied["decision"]["verdict"], denied["decision"]["source"]) == ("deny", "tools.deny")
    cli.configure("[approval]\nauto_approve = []\n")
    assert cli.run(*words).json["decision"]["source"] == "default"


@pytest.mark.spec("A10")
def test_explaining_runs_and_records_nothing(cli: Cli) -> None:
    assert cli.run("policy", "explain", "file.write", "path=a.txt", "content=b").code == 0
    assert cli.run("policy", "explain", "file.write").code == 0
    assert not (cli.project / "a.txt").exists()
    assert cli.run("ledger").out == "No calls are recorded here.\n"


@pytest.mark.spec("E1a")
def test_the_policy_shows_what_is_in_force_and_which_file_is_not_trusted(cli: Cli) -> None:
    (cli.project / "holdfast.toml").write_text('[tools]\nprofile = "full"\ndeny = ["ask.user"]\n')
    done = cli.run("policy")
    assert "coding" in done.out
    assert "ask.user" in done.out
    assert "untrusted: it can only tighten; as limits only: tools.profile" in done.out
    assert "holdfast trust" in done.err


RULES = """\
[tools]
deny = ["ask.user"]

[approval]
auto_approve = ["$readonly", "web.*"]
presets = { "$mine" = { approve = ["file.write"] } }
max_risk = "low"

[[approval.commands]]
rule = "git push"
verdict = "ask"
match = ["git push origin main"]

[[approval.commands]]
rule = "ls *"
verdict = "approve"
"""


@pytest.mark.spec("E1e")
def test_the_policy_is_printed_as_a_file_that_says_the_same(cli: Cli) -> None:
    cli.configure(RULES)

    def printed() -> str:
        out = cli.run("policy").out
        return out[out.index("[tools]") : out.index("approval chain")]

    text = printed()
    for line in RULES.splitlines():
        assert line in text.splitlines()
    assert 'profile = "coding"  # default\n' in text and "# max_risk" not in text
    again = tomllib.loads(text)
    cli.configure(text)
    assert tomllib.loads(printed()) == again
    assert again["approval"]["commands"] == tomllib.loads(RULES)["approval"]["commands"]


@pytest.mark.spec("A8", "A20")
def test_a_list_says_nothing_about_commands_in_the_sandbox(cli: Cli) -> None:
    cli.configure('[approval]\nauto_approve = ["$readonly"]\n')
    words = cli.run("policy", "--json").json["words"]
    assert words == ["the tools of $readonly will run without asking"]


@pytest.mark.spec("A8", "P7")
def test_a_stricter_list_of_an_untrusted_project_is_said_and_needs_no_trust(cli: Cli) -> None:
    (cli.project / "holdfast.toml").write_text('[approval]\nauto_approve = ["$readonly"]\n')
    shown = cli.run("policy")
    assert 'but only if auto_approve = ["$readonly"]' in shown.out and not shown.err
    told = cli.run("policy", "explain", "file.write", "path=a", "content=b")
    assert told.out.startswith("file.write: ask\n") and "limits auto_approve" in told.out and not told.err
    (cli.project / "holdfast.toml").write_text('[approval]\nauto_approve = ["$readonyl"]\n')
    assert "auto_approve of the machine or of an untrusted file names '$readonyl'" in cli.run("policy").err

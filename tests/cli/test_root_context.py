"""`--skill` and `--agent`, `holdfast tools --skills` and `holdfast trust` of a skill, with the real command."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command_line import Cli
from tests.rules.skill_folders import write_skill

AGENTS = '[tools.agents.reader]\nallow = ["file.read", "calculator"]\n'


@pytest.fixture
def user(cli: Cli) -> Path:
    return Path(cli.env["XDG_CONFIG_HOME"], "holdfast", "skills")


def names(cli: Cli, *context: str) -> set[str]:
    return {tool["name"] for tool in cli.run("tools", *context, "--json").lines}


@pytest.mark.spec("P4", "B13d")
def test_a_call_in_a_skill_or_as_an_agent_has_only_their_tools(cli: Cli, user: Path) -> None:
    cli.configure(AGENTS)
    write_skill(user / "sums", "allowed-tools: calculator file.list")
    write_skill(user / "talk")
    sums = ("calculator", "expression=1+1")
    assert cli.run("call", *sums).out == cli.run("call", "--skill", "sums", *sums).out == "2\n"
    assert cli.run("call", "--agent", "reader", *sums).out == "2\n"
    refused = cli.run("call", "--skill", "sums", "system.info")
    assert refused.code == 3
    assert refused.sentence.startswith("Error: Tool 'system.info' is not allowed by tool policy. ")
    assert "'system.info' is not in `allowed-tools` of its SKILL.md" in refused.sentence
    assert cli.run("call", "--agent", "reader", "file.list").code == 3
    assert cli.run("call", "--skill", "talk", *sums).code == 3
    assert names(cli, "--skill", "sums") == {"calculator", "file.list"}
    assert names(cli, "--skill", "sums", "--agent", "reader") == {"calculator"}
    explained = cli.run("policy", "explain", "--skill", "sums", "system.info")
    assert "'system.info' is not in `allowed-tools` of its SKILL.md" in explained.out


@pytest.mark.spec("P4", "B13d")
def test_an_unknown_skill_or_agent_is_an_error_with_a_suggestion(cli: Cli, user: Path) -> None:
    cli.configure(AGENTS)
    write_skill(user / "sums", "allowed-tools: calculator")
    for given, words in (
        (("--skill", "sum"), "There is no skill 'sum'. Did you mean 'sums'?"),
        (("--agent", "raeder"), "There is no agent 'raeder'. Did you mean 'reader'?"),
        (("--skill", "\x1b[2J"), "`holdfast tools --skills` lists them."),
    ):
        for command in (("call", *given, "calculator", "expression=1"), ("chat", "new", "new.chat", *given)):
            done = cli.run(*command)
            assert done.code == 2 and words in done.sentence and "\x1b" not in done.sentence
    assert not (cli.project / "new.chat").exists()


@pytest.mark.spec("P4", "B13b", "B13d")
def test_a_skill_of_the_project_is_reviewed_trusted_listed_and_entered(cli: Cli) -> None:
    folder = write_skill(
        cli.project / ".agents/skills/sums", "allowed-tools: calculator Bash(rm:*)", body="Add \x1b[2J it up.\n"
    )
    listed = cli.run("tools", "--skills", "--json").json
    assert (listed["state"], listed["origin"], listed["tools"]) == ("untrusted", "project", [])
    row = next(line for line in cli.run("tools", "--skills").out.splitlines() if "sums" in line)
    assert row.split()[:3] == ["sums", "untrusted", "unknown"]
    refused = cli.run("call", "--skill", "sums", "calculator", "expression=1+1")
    assert refused.code == 2 and f"`holdfast trust {folder}/SKILL.md`" in refused.sentence
    assert "was not trusted" in cli.run("trust", str(folder)).err
    shown = cli.run("trust", str(folder / "SKILL.md"), "--yes")
    assert shown.code == 0 and "calculator" in shown.out
    assert "Add" in shown.out and "\x1b[2J" not in shown.out
    assert "No tool here is as narrow as Bash(rm:*)" in shown.out
    assert cli.run("trust", "list", "--json").json["trusted"]
    assert cli.run("call", "--skill", "sums", "calculator", "expression=1+1").out == "2\n"
    table = cli.run("tools", "--skills")
    assert "sums" in table.out and "ok" in table.out and "Bash(rm:*)" in table.err
    (folder / "manifest.json").write_text('{"permissions": {"tools": ["*"]}}')
    assert cli.run("tools", "--skills", "--json").json["state"] == "changed"
    assert not cli.run("trust", "list", "--json").json["trusted"]
    assert cli.run("trust", "revoke", str(folder)).code == 0
    assert cli.run("tools", "--skills", "--json").json["state"] == "untrusted"


@pytest.mark.spec("B13b")
def test_only_a_skill_that_is_found_can_be_trusted(cli: Cli, user: Path) -> None:
    elsewhere = write_skill(cli.project / "docs" / "sums")
    assert "Add the skill there first" in cli.run("trust", str(elsewhere), "--yes").sentence
    assert "trusted already" in cli.run("trust", str(write_skill(user / "mine")), "--yes").sentence
    broken = write_skill(cli.project / ".agents/skills/sums", name="other")
    assert "is invalid" in cli.run("trust", str(broken), "--yes").sentence
    assert "takes no tool name" in cli.run("tools", "calculator", "--skills").sentence
    (cli.project / "empty").mkdir()
    assert cli.run("tools", "--skills", cwd=cli.project / "empty").code == 0


@pytest.mark.spec("P4", "B13d")
def test_a_conversation_enters_a_skill_by_flag_or_frontmatter(cli: Cli, user: Path) -> None:
    cli.configure(AGENTS)
    write_skill(user / "sums", "allowed-tools: calculator")
    plain = cli.run("chat", "new", "plain.chat", "-m", "system info")
    assert plain.code == 0
    entered = cli.run("chat", "plain.chat", "--skill", "sums")
    assert "I did nothing" in entered.out and "cpus:" not in (cli.project / "plain.chat").read_text()
    made = cli.run("chat", "new", "sums.chat", "--skill", "sums", "--agent", "reader", "-m", "what is 1+1?", "--json")
    assert made.json["content"].startswith('```toml\nagent = "reader"\nskill = "sums"\n```\n')
    done = cli.run("chat", "sums.chat")
    assert done.code == 0 and "2" in done.out
    caller = cli.run("ledger", "--json").lines[0]["caller"]
    assert (caller["agent"], caller["skill"]) == ("reader", "sums")
    for name, code in (
        ("toml", 'skill = "sum"'),
        ("json", '{"holdfast": {"skill": "sum"}}'),
        ("json", '{"flemma": {"skill": "sum"}}'),
        ("lua", 'flemma.opt.skill = "sum"'),
    ):
        (cli.project / "typo.chat").write_text(f"```{name}\n{code}\n```\n\n@You:\nwhat is 1+1?\n")
        done = cli.run("chat", "typo.chat")
        assert done.code == 2 and "Did you mean 'sums'?" in done.sentence, (name, done)

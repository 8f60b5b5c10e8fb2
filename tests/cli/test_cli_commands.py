"""The commands that look, explain and set up."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from holdfast.cli.commands.init import FULL, SHORT
from holdfast.config.layers import load
from holdfast.rules.from_config import CommandRules
from tests.cli.command import Cli


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
def test_explain_says_the_verdict_and_the_reason_and_every_stage_only_when_asked(cli: Cli) -> None:
    explain = ("policy", "explain", "calculator", "expression=1+1")
    assert cli.run(*explain).out == "calculator: approve\n  The tool declares that it has no effects.\n"
    (profile,) = [line for line in cli.run(*explain, "--all").out.splitlines() if "tools.profile" in line]
    assert "available" in profile and "approve" not in profile


@pytest.mark.spec("A22")
def test_a_tool_that_is_judged_without_arguments_says_that_these_can_change_it(cli: Cli) -> None:
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
    assert "not trusted: it can only tighten; as limits only: tools.profile" in done.out
    assert "holdfast trust" in done.err


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
def test_looking_creates_no_state(cli: Cli) -> None:
    explain = ("policy", "explain", "file.write", "path=a.txt", "content=b")
    doctor = ("--set", "sandbox.mode=off", "doctor")
    commands = (("tools",), ("policy",), explain, ("pending",), ("grants",), ("ledger",), ("config",), doctor)
    for command in commands:
        assert cli.run(*command).code == 0, command
    assert not Path(cli.env["XDG_STATE_HOME"]).exists()


@pytest.mark.spec("E1a")
def test_the_ledger_is_listed_newest_first_and_filtered(cli: Cli) -> None:
    for number in range(3):
        cli.run("call", "calculator", f"expression={number}")
    cli.run("call", "system.info")
    assert [call["tool"] for call in cli.run("ledger", "-n", "2", "--json").lines] == ["system.info", "calculator"]
    done = cli.run("ledger", "list", "--tool", "calculator", "--state", "done", "--json").lines
    assert [call["args"]["expression"] for call in done] == ["2", "1", "0"]
    text = cli.run("ledger", "show", done[0]["call_id"]).out
    assert "  tool     calculator\n" in text and '│ expression: "2"\n' in text
    assert "approve: The tool declares that it has no effects." in text


@pytest.mark.spec("E1a", "E1e")
@pytest.mark.parametrize(("words", "content"), [((), SHORT), (("--full",), FULL)])
def test_init_writes_a_file_that_changes_nothing_and_never_overwrites(
    cli: Cli, words: tuple[str, ...], content: str
) -> None:
    before = cli.run("config", "--json").json["config"]
    done = cli.run("init", *words)
    path = cli.project / "holdfast.toml"
    assert (done.code, done.out) == (0, f"Created {path}.\n")
    assert path.read_text() == content
    assert "  holdfast tour " in done.err and "  holdfast chat new " in done.err
    assert cli.run("config", "--json").json["config"] == before
    again = cli.run("init", *words)
    assert again.code == 2
    assert "exists already" in again.sentence


@pytest.mark.spec("E1e")
def test_the_short_file_is_short() -> None:
    assert len(SHORT.splitlines()) < 15 < len(FULL.splitlines())


@pytest.mark.spec("E1a")
@pytest.mark.parametrize("template", [SHORT, FULL])
def test_every_line_of_the_written_file_can_be_used(tmp_path: Path, template: str) -> None:
    lines = [line.removeprefix("# ") if " = " in line or "[[" in line else line for line in template.splitlines()]
    (tmp_path / "holdfast.toml").write_text("\n".join(lines))
    assert tomllib.loads("\n".join(lines))["approval"]["commands"]
    user = tmp_path / "user.toml"
    user.write_text("")
    loaded = load(root=tmp_path, is_trusted=lambda path, digest: True, user_file=user)
    CommandRules(loaded.config.approval).check()
    assert loaded.config.confirmation.actions == ({"file.write": "confirm"} if template is FULL else {})
    assert loaded.notices == ()


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
        return out[out.index("[tools]") : out.index("who is asked")]

    text = printed()
    for line in RULES.splitlines():
        assert line in text.splitlines()
    assert 'profile = "coding"  # default\n' in text and "# max_risk" not in text
    again = tomllib.loads(text)
    cli.configure(text)
    assert tomllib.loads(printed()) == again
    assert again["approval"]["commands"] == tomllib.loads(RULES)["approval"]["commands"]


@pytest.mark.spec("E1e")
def test_what_trust_would_change_is_printed_as_a_file_says_it(cli: Cli) -> None:
    (cli.project / "holdfast.toml").write_text(
        '[approval]\nrequire_approval = false\n[[approval.commands]]\nrule = "npm test"\nverdict = "approve"\n'
    )
    shown = cli.run("trust").out
    assert "[approval]\n" in shown
    assert "  now    require_approval = true\n  then   require_approval = false\n" in shown
    rule = '│ [[approval.commands]]\n│ rule = "npm test"\n│ verdict = "approve"\n'
    assert f"  now    commands = []\n  then\n{rule}" in shown


@pytest.mark.spec("E1a")
def test_trust_is_for_exactly_the_content_and_can_be_taken_back(cli: Cli) -> None:
    path = cli.project / "holdfast.toml"
    path.write_text('[tools]\nprofile = "full"\n')
    refused = cli.run("trust")
    assert refused.code == 2
    assert "was not trusted" in refused.sentence
    assert cli.run("trust", "holdfast.toml", "--yes", "--json").json["loosens"] == [
        {"key": "tools.profile", "from": "coding", "to": "full"}
    ]
    profile = ("config", "show", "--json")
    assert cli.run(*profile).json["config"]["tools.profile"] == "full"
    assert str(path) in cli.run("trust", "list").out
    path.write_text('[tools]\nprofile = "full"\n\n')
    assert cli.run(*profile).json["config"]["tools.profile"] == "coding"
    assert "changed since" in cli.run("trust", "list").out
    assert cli.run("trust", "--yes").code == 0
    assert cli.run("trust", "revoke").code == 0
    assert cli.run(*profile).json["config"]["tools.profile"] == "coding"
    assert cli.run("trust", "list").out == "No file is trusted.\n"


@pytest.mark.spec("A8", "A20", "A20a")
def test_trust_and_policy_say_in_words_what_will_run_without_asking(cli: Cli) -> None:
    (cli.project / "holdfast.toml").write_text(
        '[approval]\nauto_approve_sandboxed = true\n[[approval.commands]]\nrule = "make test"\nverdict = "approve"\n'
    )
    sandboxed = "shell commands in the sandbox will run without asking"
    assert sandboxed not in cli.run("policy").out
    shown = cli.run("trust").out
    assert sandboxed in shown and "commands that start with `make test` will run without asking" in shown
    assert sandboxed in cli.run("trust", "--yes", "--json").json["words"]
    assert sandboxed in cli.run("policy").out


@pytest.mark.spec("A8", "A20")
def test_a_list_says_nothing_about_commands_in_the_sandbox(cli: Cli) -> None:
    cli.configure('[approval]\nauto_approve = ["$readonly"]\n')
    words = cli.run("policy", "--json").json["words"]
    assert words == ["the tools of $readonly will run without asking"]


@pytest.mark.spec("A8", "P7")
def test_a_stricter_list_of_an_untrusted_project_is_said_and_needs_no_trust(cli: Cli) -> None:
    (cli.project / "holdfast.toml").write_text('[approval]\nauto_approve = ["$readonly"]\n')
    shown = cli.run("policy")
    assert 'but only what auto_approve = ["$readonly"]' in shown.out and not shown.err
    told = cli.run("policy", "explain", "file.write", "path=a", "content=b")
    assert told.out.startswith("file.write: ask\n") and "limits auto_approve" in told.out and not told.err
    (cli.project / "holdfast.toml").write_text('[approval]\nauto_approve = ["$readonyl"]\n')
    assert "auto_approve of the machine or of an untrusted file names '$readonyl'" in cli.run("policy").err


@pytest.mark.spec("P4")
def test_a_skills_manifest_is_trusted_as_it_is_and_can_be_taken_back(cli: Cli) -> None:
    manifest = cli.project / "skills" / "sum" / "manifest.json"
    manifest.parent.mkdir(parents=True)
    manifest.write_text('{"permissions": {"tools": ["calculator"]}}')
    assert "name the skill there first" in cli.run("trust", str(manifest), "--yes").sentence
    cli.configure(f'[tools.skills]\nsum = "{manifest.parent}"\n')
    assert "was not trusted" in cli.run("trust", str(manifest)).sentence
    changed = {"key": "tools.skills.sum", "from": [], "to": ["calculator"]}
    assert cli.run("trust", str(manifest), "--yes", "--json").json["loosens"] == [changed]
    assert cli.run("trust", "list", "--json").json["trusted"] is True
    manifest.write_text('{"permissions": {"tools": ["*"]}}')
    assert "changed since" in cli.run("trust", "list").out
    assert cli.run("trust", "revoke", str(manifest)).code == 0
    assert cli.run("trust", "list").out == "No file is trusted.\n"


@pytest.mark.spec("E1a")
def test_check_warns_about_names_no_tool_has(cli: Cli) -> None:
    cli.configure('[tools]\ndeny = ["calculater"]\n')
    done = cli.run("config", "check")
    assert done.code == 0
    assert "Did you mean 'calculator'?" in done.err


@pytest.mark.spec("E1a")
def test_the_shell_completes_commands_tools_and_waiting_calls(asking: Cli) -> None:
    def completed(*words: str) -> list[str]:
        env = {"_HOLDFAST_COMPLETE": "bash_complete", "COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
        return [line.partition(",")[2] for line in asking.run(env=env).out.splitlines()]

    assert completed("holdfast", "app") == ["approve"]
    assert completed("holdfast", "call", "calc") == ["calculator"]
    call_id = asking.make_pending("file.write", "path=a", "content=b")
    assert completed("holdfast", "approve", call_id[:3]) == [call_id]
    assert completed("holdfast", "ledger", "show", call_id[:3]) == [call_id]
    for shell in ("bash", "zsh", "fish"):
        assert "_HOLDFAST_COMPLETE" in asking.run("completion", shell).out


@pytest.mark.spec("E1a")
def test_without_a_command_the_help_is_shown(cli: Cli) -> None:
    done = cli.run()
    assert done.code == 0
    assert "Commands:" in done.out
    assert cli.run("--help").out == done.out
    assert all("..." not in line for line in done.out.split("Commands:")[1].splitlines())

"""The commands that look, explain and set up."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from holdfast.config.load import load
from holdfast.doors.cli.commands.init import TEMPLATE
from tests.doors.command import Cli


@pytest.mark.spec("A10", "E1a")
def test_explain_prints_the_whole_chain_and_marks_who_decided(cli: Cli) -> None:
    text = cli.run("policy", "explain", "calculator", "expression=1+1").out
    assert text.startswith("calculator: approve\n")
    marked = [line for line in text.splitlines() if line.startswith(">")]
    assert len(marked) == 1
    assert "approval:pure" in marked[0]
    for voice in ("tools.profile", "approval:config", "approval:grants", "cap:protected-path", "cap:hook"):
        assert voice in text


@pytest.mark.spec("A10")
def test_explain_names_the_cap_the_policy_or_the_default_that_decides(cli: Cli) -> None:
    cli.configure('[hooks]\nactions = { "file.write" = "confirm" }\n')
    words = ("policy", "explain", "file.write", "path=a.txt", "content=b", "--json")
    capped = cli.run(*words).json
    assert capped["decision"]["verdict"] == "ask"
    assert [step["source"] for step in capped["steps"] if step["decided"]] == ["urn:holdfast:cap:hook"]
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
    assert "not trusted: it can only tighten; not in force: tools.profile" in done.out
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


@pytest.mark.spec("E1a")
def test_looking_creates_no_state(cli: Cli) -> None:
    explain = ("policy", "explain", "file.write", "path=a.txt", "content=b")
    commands = (("tools",), ("policy",), explain, ("pending",), ("grants",), ("ledger",), ("config",), ("doctor",))
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
    assert "  tool     calculator\n" in text and "│ expression: \"2\"\n" in text
    assert "approve: The tool declares that it has no effects." in text


@pytest.mark.spec("E1a")
def test_init_writes_a_file_that_changes_nothing_and_never_overwrites(cli: Cli) -> None:
    before = cli.run("config", "--json").json["config"]
    done = cli.run("init")
    assert done.code == 0
    path = cli.project / "holdfast.toml"
    assert path.read_text() == TEMPLATE == done.out.removesuffix("\n")
    assert "holdfast call calculator" in done.err
    assert cli.run("config", "--json").json["config"] == before
    again = cli.run("init")
    assert again.code == 2
    assert "is there already" in again.sentence


@pytest.mark.spec("E1a")
def test_every_line_of_the_written_file_can_be_used(tmp_path: Path) -> None:
    lines = [line.removeprefix("# ") if " = " in line or "[[" in line else line for line in TEMPLATE.splitlines()]
    (tmp_path / "holdfast.toml").write_text("\n".join(lines))
    assert len(tomllib.loads("\n".join(lines))["tools"]) == 4
    user = tmp_path / "user.toml"
    user.write_text("")
    loaded = load(root=tmp_path, is_trusted=lambda path, digest: True, user_file=user)
    assert loaded.config.hooks.actions == {"file.write": "confirm"}
    assert loaded.notices == ()


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


@pytest.mark.spec("A8", "A20")
def test_trust_and_policy_say_in_words_what_will_run_without_asking(cli: Cli) -> None:
    (cli.project / "holdfast.toml").write_text(
        '[approval]\nauto_approve_sandboxed = true\n[[approval.commands]]\nrule = "make test"\nverdict = "approve"\n'
    )
    sandboxed = "shell commands in the sandbox will run without asking"
    assert sandboxed not in cli.run("policy").out
    shown = cli.run("trust").out
    assert sandboxed in shown and "commands that begin with `make test` will run without asking" in shown
    assert sandboxed in cli.run("trust", "--yes", "--json").json["words"]
    assert sandboxed in cli.run("policy").out


@pytest.mark.spec("A8", "A20")
def test_a_list_says_nothing_about_commands_in_the_sandbox(cli: Cli) -> None:
    cli.configure('[approval]\nauto_approve = ["$readonly"]\n')
    words = cli.run("policy", "--json").json["words"]
    assert words == ["the tools of $readonly will run without asking"]


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
    assert "did you mean 'calculator'?" in done.out


@pytest.mark.spec("E1a")
def test_doctor_says_what_is_missing_and_is_honest_about_the_sandbox(cli: Cli) -> None:
    done = cli.run("doctor")
    assert done.code == 0
    assert "sandbox   commands run in " in done.out
    findings = {line["name"]: line for line in cli.run("doctor", "--json").lines}
    assert findings["project"]["status"] == "ok"
    (cli.project / ".git").rmdir()
    findings = {line["name"]: line for line in cli.run("doctor", "--json").lines}
    assert (findings["project"]["status"], findings["terminal"]["status"]) == ("note", "note")


@pytest.mark.spec("E1a")
def test_the_shell_completes_commands_tools_and_waiting_calls(asking: Cli) -> None:
    def completed(*words: str) -> list[str]:
        env = {"_HOLDFAST_COMPLETE": "bash_complete", "COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
        return [line.partition(",")[2] for line in asking.run(env=env).out.splitlines()]

    assert completed("holdfast", "app") == ["approve"]
    assert completed("holdfast", "call", "calc") == ["calculator"]
    call_id = asking.park("file.write", "path=a", "content=b")
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

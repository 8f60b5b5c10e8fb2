"""`holdfast trust`: bound to the content, shown first, revocable."""

from __future__ import annotations

import pytest

from tests.cli.command_line import Cli


@pytest.mark.spec("E1e")
def test_the_changes_of_trust_are_printed_as_toml(cli: Cli) -> None:
    (cli.project / "holdfast.toml").write_text(
        '[approval]\nrequire_approval = false\n[[approval.commands]]\nrule = "npm test"\nverdict = "approve"\n'
    )
    shown = cli.run("trust").out
    assert "[approval]\n" in shown
    assert "  now    require_approval = true\n  then   require_approval = false\n" in shown
    rule = '│ [[approval.commands]]\n│ rule = "npm test"\n│ verdict = "approve"\n'
    assert f"  now    commands = []\n  then\n{rule}" in shown


@pytest.mark.spec("E1a")
def test_trust_is_bound_to_the_content_and_can_be_revoked(cli: Cli) -> None:
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
    assert "changed, no longer trusted" in cli.run("trust", "list").out
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


@pytest.mark.spec("P4")
def test_trust_in_a_skills_manifest_can_be_revoked(cli: Cli) -> None:
    manifest = cli.project / "skills" / "sum" / "manifest.json"
    manifest.parent.mkdir(parents=True)
    manifest.write_text('{"permissions": {"tools": ["calculator"]}}')
    assert "Add the skill there first" in cli.run("trust", str(manifest), "--yes").sentence
    cli.configure(f'[tools.skills]\nsum = "{manifest.parent}"\n')
    assert "was not trusted" in cli.run("trust", str(manifest)).sentence
    changed = {"key": "tools.skills.sum", "from": [], "to": ["calculator"]}
    assert cli.run("trust", str(manifest), "--yes", "--json").json["loosens"] == [changed]
    assert cli.run("trust", "list", "--json").json["trusted"] is True
    manifest.write_text('{"permissions": {"tools": ["*"]}}')
    assert "changed, no longer trusted" in cli.run("trust", "list").out
    assert cli.run("trust", "revoke", str(manifest)).code == 0
    assert cli.run("trust", "list").out == "No file is trusted.\n"

"""Trust in a document's frontmatter: shown, asked for once, bound to its text."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command_line import Cli
from tests.cli.documents import NAME
from tests.cli.terminal import Terminal

LOOSER = '```toml\n[approval]\nauto_approve = ["shell.exec"]\n```\n\n@You:\nrun `echo hi > made.txt`\n'
FUNCTION = (
    "```lua\nflemma.opt.tools.auto_approve = function(tool_name) return true end\n```\n\n"
    "@You:\nrun `echo hi > made.txt`\n"
)
QUESTION = "[y/N] "


def _write(cli: Cli, text: str) -> Path:
    document = cli.project / NAME
    document.write_text(text)
    return document


@pytest.mark.spec("E1c")
def test_without_a_terminal_an_untrusted_frontmatter_only_tightens_and_a_note_says_how_to_trust_it(asking: Cli) -> None:
    _write(asking, LOOSER)
    asking.configure('[sandbox]\nmode = "off"\n[approval]\nauto_approve = ["$readonly"]\n')
    done = asking.run("chat", NAME)
    assert done.code == 4
    assert "approval.auto_approve" in done.err and f"holdfast trust {asking.project / NAME}" in done.err
    assert not (asking.project / "made.txt").exists()


@pytest.mark.spec("E1c")
@pytest.mark.parametrize("text", [LOOSER, FUNCTION], ids=["list", "function"])
def test_trust_shows_the_frontmatter_and_what_becomes_looser_and_ends_with_a_change(cli: Cli, text: str) -> None:
    document = _write(cli, text)
    refused = cli.run("trust", NAME)
    assert refused.code == 2 and f"`holdfast trust {NAME} --yes`" in refused.err
    assert cli.run("chat", NAME).code == 4
    shown = cli.run("trust", NAME, "-y")
    assert shown.code == 0, shown
    assert text.split("\n")[1] in shown.out
    if text is LOOSER:
        assert 'then   auto_approve = ["shell.exec"]' in shown.out
    else:
        assert "It contains a function that decides about calls." in shown.out
    listed = cli.run("trust", "list", "--json").json
    assert listed["path"] == str(document) and listed["trusted"] is True
    assert cli.run("chat", "status", NAME, "--json").json["trusted"] is True
    document.write_text(document.read_text().replace("```\n", "\n```\n", 1).replace("\n\n```\n", "\n--\n```\n", 1))
    assert cli.run("trust", "list", "--json").json["trusted"] is False


@pytest.mark.spec("E1c")
def test_a_trusted_frontmatter_applies_until_trust_is_revoked(cli: Cli) -> None:
    document = _write(cli, LOOSER)
    assert cli.run("trust", NAME, "--yes", "--json").json["loosens"][0]["key"] == "approval.auto_approve"
    assert cli.run("chat", NAME).code == 0
    assert (cli.project / "made.txt").exists()
    assert cli.run("trust", "revoke", NAME).code == 0
    assert cli.run("trust", "list").out == "No file is trusted.\n"
    document.write_text(document.read_text() + "run `echo hi > more.txt`\n")
    assert cli.run("chat", NAME).code == 4


@pytest.mark.spec("E1c")
def test_on_a_terminal_trust_is_asked_for_once(cli: Cli) -> None:
    _write(cli, LOOSER.replace("echo hi", "echo \x1b[2J"))
    with Terminal(cli, "chat", NAME) as person:
        person.expect('then   auto_approve = ["shell.exec"]')
        person.expect('│ auto_approve = ["shell.exec"]')
        person.expect(QUESTION)
        person.type("n")
        person.expect("Not trusted")
        person.expect("leave it pending\n> ")
        person.type("q")
        assert person.finish() == 4
    with Terminal(cli, "chat", NAME) as person:
        person.expect(QUESTION)
        person.type("y")
        person.expect("✓ shell.exec")
        assert person.finish() == 0
        assert person.text.count(QUESTION) == 1
    with Terminal(cli, "chat", NAME, "-m", "run `echo hi > more.txt`") as person:
        assert person.finish() == 0
        assert QUESTION not in person.text
    assert (cli.project / "more.txt").exists(), "what is trusted is not asked about"


@pytest.mark.spec("E1c")
def test_a_frontmatter_that_loosens_nothing_is_not_asked_about(cli: Cli) -> None:
    _write(cli, '```toml\n[tools]\ndeny = ["shell.exec"]\n```\n\n@You:\ncalculate 1 + 1\n')
    with Terminal(cli, "chat", NAME) as person:
        assert person.finish() == 0
        assert QUESTION not in person.text
    assert "only tightens" in cli.run("trust", NAME, "-y").out
    (cli.project / "plain.chat").write_text("@You:\nhello\n")
    none = cli.run("trust", "plain.chat", "-y")
    assert none.code == 2 and "no frontmatter" in none.sentence
    gone = cli.run("trust", "gone.chat")
    assert gone.code == 2 and "There is no file gone.chat" in gone.sentence


ANYWHERE = '```toml\n[chat]\nfiles = "anywhere"\n```\n\n'
OFF = '```lua\nflemma.opt.tools:append("calculator_async")\n```\n\n@You:\ncalculate 1 + 1\n'


@pytest.mark.spec("D6", "D8")
def test_trust_in_a_frontmatter_lets_nothing_else_of_the_document_reach_files_elsewhere(cli: Cli) -> None:
    secret = cli.project.parent / "secret.txt"
    secret.write_text("hunter2")
    words = f"@You:\ncalculate 1 + 1 @/{secret}\n"
    document = _write(cli, LOOSER.partition("@You:")[0] + words)
    assert cli.run("trust", NAME, "-y").code == 0
    assert "chat.files" in cli.run("chat", NAME).err
    document.write_text(ANYWHERE + words)
    untrusted = cli.run("chat", NAME)
    assert "stays text" in untrusted.err and "only limits: chat.files" in untrusted.err
    shown = cli.run("trust", NAME, "-y").out
    assert 'then   files = "anywhere"' in shown and "files from anywhere" in shown
    document.write_text(ANYWHERE + words)
    assert cli.run("chat", NAME).err.count("stays text") == 0
    cli.configure(f'[sandbox]\nread_deny = ["{secret}"]\n')
    document.write_text(ANYWHERE + words)
    assert "sandbox.read_deny" in cli.run("chat", NAME).err


@pytest.mark.spec("R8", "E1c")
def test_a_tool_that_trust_would_enable_is_shown_and_stays_disabled_without_it(cli: Cli) -> None:
    document = _write(cli, OFF)
    assert "A disabled tool that the frontmatter of" in cli.run("chat", NAME).err
    document.write_text(OFF)
    with Terminal(cli, "chat", NAME) as person:
        person.expect("It enables: calculator_async.")
        person.expect(QUESTION)
        person.type("n")
        assert person.finish() == 0
    shown = cli.run("trust", NAME)
    assert "It enables: calculator_async." in shown.out and "only tightens" not in shown.out
    (change,) = cli.run("trust", NAME, "-y", "--json").json["loosens"]
    assert change["key"] == "document.tools"
    assert set(change["to"]) - set(change["from"]) == {"calculator_async"}
    again = cli.run("trust", NAME, "-y")
    assert "already trusted" in again.out and "enables" not in again.out
    document.write_text(OFF)
    assert "stays disabled" not in cli.run("chat", NAME).err


@pytest.mark.spec("E1c")
def test_an_approval_function_counts_as_loosening(cli: Cli) -> None:
    _write(cli, FUNCTION)
    (change,) = cli.run("trust", NAME, "-y", "--json").json["loosens"]
    assert (change["key"], change["to"]) == ("approval.auto_approve", "a function in the frontmatter")

"""`holdfast chat new`."""

from __future__ import annotations

import pytest

from tests.cli.command_line import Cli
from tests.cli.documents import NAME


@pytest.mark.spec("E1c")
def test_a_new_document_is_never_written_over_another(cli: Cli) -> None:
    made = cli.run("chat", "new", NAME, "--system", "Be brief.", "-m", "hello")
    document = cli.project / NAME
    assert made.code == 0 and f"Continue with `holdfast chat {NAME}`." in made.err
    assert document.read_text() == "@System:\nBe brief.\n\n@You:\nhello\n"
    again = cli.run("chat", "new", NAME, "-m", "other")
    assert again.code == 2 and "already exists" in again.sentence
    assert document.read_text().endswith("hello\n")
    assert cli.run("chat", "new", "empty.chat", "--json").json == {
        "path": str(cli.project / "empty.chat"),
        "content": "@You:\n\n",
    }
    assert cli.run("chat", "new", "gone/a.chat").code == 2
    assert cli.run("chat", "new", "-m", "-", "--system", "-", "b.chat").code == 2


@pytest.mark.spec("E1c")
def test_the_model_of_a_new_document_is_trusted_because_it_was_typed_here(cli: Cli) -> None:
    cli.configure('[model]\nname = "openai:gpt-5"\n')
    assert cli.run("chat", "new", NAME, "--model", "operator", "-m", "calculate 6 * 7").code == 0
    assert (cli.project / NAME).read_text().startswith('```toml\n[model]\nname = "operator"\n```\n\n@You:\n')
    assert cli.run("chat", "status", NAME, "--json").json["model"] == "operator"
    done = cli.run("chat", NAME)
    assert done.code == 0 and "42" in done.out
    assert cli.run("trust", "list", "--json").json["trusted"] is True

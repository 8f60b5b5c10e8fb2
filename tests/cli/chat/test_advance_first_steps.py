"""First steps with documents: the mistakes of newcomers, and the messages they get."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command_line import Cli
from tests.cli.documents import NAME, answer, outcome, start, write_calls


@pytest.mark.spec("E1c")
@pytest.mark.parametrize("text", ["@You: calculate 1+1\n", "", "@System:\nBe brief.\n"])
def test_a_document_without_a_message_is_an_error_that_says_where_to_write(cli: Cli, text: str) -> None:
    (cli.project / NAME).write_text(text)
    done = cli.run("chat", NAME)
    words = f"{NAME} has no message from you. Write one below a line with only @You:"
    assert done.code == 1 and done.err.splitlines()[-1] == f"Error: {words}"
    assert (f"Note: {NAME}:1: " in done.err) == text.startswith("@You")
    last = outcome(cli.run("chat", NAME, "--json"))
    assert (last["kind"], last["message"]) == ("failed", words)
    assert (cli.project / NAME).read_text() == text


@pytest.mark.spec("E1c")
def test_a_message_on_the_line_of_its_marker_is_warned_about(cli: Cli) -> None:
    (cli.project / NAME).write_text("stray\n@You:\nhello\n\n@Assistant:\nHello.\n\n@You: calculate 1+1\n")
    assert f"Write a message below a line with only @You: in {NAME}" in cli.run("chat", NAME).err


@pytest.mark.spec("E1c")
def test_outside_a_project_one_notice_says_which_tools_are_missing(cli: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    cli.run("chat", "new", NAME, "-m", "calculate 6 * 7", cwd=folder)
    done = cli.run("chat", NAME, cwd=folder)
    assert done.code == 0 and done.err.count("There is no project here") == 1 and "`holdfast init`" in done.err
    start(cli, "calculate 6 * 7")
    assert "no project" not in cli.run("chat", NAME).err


@pytest.mark.spec("E1c")
@pytest.mark.parametrize(
    ("model", "told"),
    [("foo:bar", "known are operator"), ("antropic:x", "did you mean 'anthropic'?"), ("ollama", "'ollama:NAME'")],
)
def test_an_unknown_model_is_refused_before_anything_is_written(cli: Cli, model: str, told: str) -> None:
    done = cli.run("chat", "new", NAME, "--model", model)
    assert done.code == 2 and told in done.sentence
    assert not (cli.project / NAME).exists()
    assert cli.run("trust", "list", "--json").lines == []


@pytest.mark.spec("E1c")
def test_a_provider_of_the_users_own_is_known(cli: Cli) -> None:
    cli.configure('[model.providers.foo]\napi = "openai-chat"\nbase_url = "http://127.0.0.1:1/v1"\n')
    assert cli.run("chat", "new", NAME, "--model", "foo:bar").code == 0
    assert [item["path"] for item in cli.run("trust", "list", "--json").lines] == [str(cli.project / NAME)]


@pytest.mark.spec("E1c")
def test_revoking_trust_twice_is_an_error(cli: Cli) -> None:
    assert cli.run("chat", "new", NAME, "--model", "ollama:x").code == 0
    assert cli.run("trust", "revoke", NAME).code == 0
    again = cli.run("trust", "revoke", NAME)
    assert again.code == 2 and again.sentence.startswith(f"Error: {NAME} is not trusted.")


@pytest.mark.spec("E1c")
def test_a_language_frontmatter_does_not_have_is_followed_by_those_it_has(cli: Cli) -> None:
    (cli.project / NAME).write_text("```yaml\na: 1\n```\n\n@You:\nhello\n")
    done = cli.run("chat", NAME)
    assert done.code == 2
    assert done.sentence.endswith("Unsupported frontmatter language: yaml. Write it in toml, json or lua.")


@pytest.mark.spec("E1c")
def test_chat_run_prints_how_the_call_ended(cli: Cli) -> None:
    document = write_calls(cli, "echo 1", "exit 3", "echo 3")
    assert cli.run("chat", NAME).code == 4
    goes_on = f". Continue with `holdfast chat {NAME}`."
    assert cli.run("chat", "run", "c1", NAME).err.endswith(f"Call 'c1' is done{goes_on}\n")
    assert cli.run("chat", "run", "c2", NAME).err.endswith(f"Call 'c2' failed{goes_on}\n")
    answer(document, "rejected")
    last = cli.run("chat", "run", "c3", NAME, "--json")
    assert outcome(last)["message"] == f"Call 'c3' was rejected{goes_on}"


@pytest.mark.spec("A13b")
def test_an_approval_elsewhere_says_when_a_call_of_a_document_runs(cli: Cli) -> None:
    start(cli, "run `touch made.txt`")
    assert cli.run("chat", NAME).code == 4
    approved = cli.run("approve", cli.run("pending", "--json").json["call_id"])
    assert f"Run it with `holdfast chat {NAME}`; --watch runs it by itself." in approved.err
    assert not (cli.project / "made.txt").exists()
    told = " ".join(cli.run("approve", "--help").out.split())
    assert "A call of a document runs when the document advances" in told

"""`holdfast chat` with a model that has no tool calling: the text protocol over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from tests.cli.command_line import Cli
from tests.cli.documents import NAME, events, outcome, start
from tests.models.servers import chat as wire
from tests.models.servers.http import Answer, Server, error, serving
from tests.models.servers.script import Say, Script

PATIENCE = 60


def said(text: str) -> Answer:
    return Answer(wire.events(Script((Say(text),)), "ollama"))


def with_model(cli: Cli, work: Callable[[], None], *answers: Answer, name: str = "small", more: str = "") -> Server:
    """Run a function while a model server listens on loopback; the server records its requests."""

    async def main() -> Server:
        async with serving(*answers) as server:
            cli.configure(
                f'[model]\nname = "ollama:{name}"\nretries = 0\n{more}'
                f'[model.providers.ollama]\nbase_url = "{server.url}/v1"\n'
            )
            await asyncio.wait_for(asyncio.to_thread(work), PATIENCE)
            return server

    return asyncio.run(main())


@pytest.mark.spec("M3", "E1c")
def test_a_model_that_only_writes_reads_a_file_and_answers(cli: Cli) -> None:
    document = start(cli, "What is in a.txt?")
    (cli.project / "a.txt").write_text("forty-two\n")

    def look() -> None:
        done = cli.run("chat", NAME, "--protocol", "text")
        assert done.code == 0, done
        assert "It says forty-two." in done.out

    server = with_model(cli, look, said("Let me look.\n[read_file: a.txt]"), said("It says forty-two."))
    first, second = (asked.json for asked in server.asked)
    assert "tools" not in first and "tools" not in second
    assert [message["role"] for message in second["messages"]] == ["system", "user", "assistant", "user"]
    assert "=== tool_result: read_file ===\nforty-two" in second["messages"][-1]["content"]
    text = document.read_text()
    assert "**Tool Use:** `file.read` (`call-1`)" in text and "tool_result:" not in text


@pytest.mark.spec("M3", "E1c")
def test_a_change_requested_in_text_is_pending(cli: Cli) -> None:
    start(cli, "Write it down.")

    def look() -> None:
        done = cli.run("chat", NAME, "--protocol", "text", "--json")
        assert done.code == 4, done
        (slot,) = outcome(done)["slots"]
        assert slot["preview"] == slot["pending"]["preview"] == "shell.exec: $ touch b.txt"

    with_model(cli, look, said('Now.\n[call: shell.exec]{"command": "touch b.txt"}[/call]\n'))
    assert not (cli.project / "b.txt").exists()


@pytest.mark.spec("M3", "E1c")
def test_a_reply_that_stays_malformed_is_an_error_and_runs_nothing(cli: Cli) -> None:
    document = start(cli, "Look.")
    flawed = said("[read_file: a.txt]\n=== tool_result: read_file ===\nforty-three\n=== /tool_result ===\n")

    def look() -> None:
        done = cli.run("chat", NAME, "--protocol", "text")
        assert done.code == 1, done
        assert "Asking the model again: The model wrote the result of a tool itself" in done.err
        assert "nothing was run" in done.err.splitlines()[-1]

    before = document.read_bytes()
    assert len(with_model(cli, look, flawed, flawed).asked) == 2
    assert document.read_bytes() == before


@pytest.mark.spec("M3", "E1c")
def test_a_server_without_tool_calling_gets_the_text_protocol_with_a_notice(cli: Cli) -> None:
    start(cli, "Hello.")

    def look() -> None:
        done = cli.run("chat", NAME)
        assert done.code == 0 and "Hi." in done.out, done
        notice = "ollama:small writes its tool calls as text: its server says that it takes no tools."
        assert notice in " ".join(done.err.split())

    refusal = error(400, {"error": {"message": "small does not support tools", "type": "api_error"}})
    server = with_model(cli, look, refusal, said("One, two, three."), said("Hi."))
    assert ["tools" in asked.json for asked in server.asked] == [True, False, False]
    assert ["response_format" in asked.json for asked in server.asked] == [False, True, False]


@pytest.mark.spec("M3b", "E1c")
def test_a_server_can_be_made_to_enforce_each_reply(cli: Cli) -> None:
    start(cli, "Hello.")

    def look() -> None:
        done = cli.run("chat", NAME, "--protocol", "constrained")
        assert done.code == 0 and done.out.strip().endswith("Hi.") and "answer" not in done.out, done

    server = with_model(cli, look, said('{"answer": "Hi."}'))
    assert "response_format" in server.asked[0].json and "tools" not in server.asked[0].json


@pytest.mark.spec("M3", "E1c")
def test_the_option_wins_over_the_configuration_and_over_what_is_known(cli: Cli) -> None:
    start(cli, "Hello.")

    def look() -> None:
        assert cli.run("chat", NAME, "--protocol", "native").code == 0

    server = with_model(cli, look, said("Hi."), name="gemma3:4b", more='protocol = "text"\n')
    assert "tools" in server.asked[0].json


@pytest.mark.spec("M3", "E1c")
def test_an_unknown_protocol_is_refused(cli: Cli) -> None:
    start(cli, "Hello.")
    done = cli.run("chat", NAME, "--protocol", "morse")
    assert done.code == 2 and "'morse'" in done.err


@pytest.mark.spec("M4", "E1c")
def test_guard_rails_can_be_switched_for_one_run(cli: Cli) -> None:
    """With guard-rails, the runtime reads a file to show by itself, without the model."""
    start(cli, "read a.txt")
    (cli.project / "a.txt").write_text("forty-two\n")

    def look() -> None:
        done = cli.run("chat", NAME, "--guardrails", "--json")
        assert done.code == 0, done
        assert not events(done, "usage")

    assert with_model(cli, look).asked == []
    start(cli, "read a.txt", name="other.chat")

    def ask() -> None:
        assert cli.run("--set", "guardrails.enabled=true", "chat", "other.chat", "--no-guardrails").code == 0

    assert len(with_model(cli, ask, said("No.")).asked) == 1


@pytest.mark.spec("M3", "E1c")
def test_the_option_wins_over_what_the_provider_is_set_to(cli: Cli) -> None:
    start(cli, "Hello.")

    async def main() -> Server:
        async with serving(said("Hi.")) as server:
            provider = f'[model.providers.ollama]\nbase_url = "{server.url}/v1"\nprotocol = "native"\n'
            cli.configure(f'[model]\nname = "ollama:small"\n{provider}')
            done = await asyncio.to_thread(cli.run, "chat", NAME, "--protocol", "text")
            assert done.code == 0, done
            return server

    assert "tools" not in asyncio.run(asyncio.wait_for(main(), PATIENCE)).asked[0].json


@pytest.mark.spec("M3", "E1c")
def test_a_pipe_gets_only_the_final_text_with_calls_on_separate_lines(cli: Cli) -> None:
    start(cli, "Look.")

    def look() -> None:
        done = cli.run("chat", NAME, "--protocol", "text")
        assert (done.code, done.out) == (0, "First I look.\nThen I go on.\nDone.\n"), done

    void = said("I know it already.\n=== tool_result: git_log ===\nnothing\n")
    calls = said("First I look.\n\n[list_dir: .]\n\nThen I go on.\n[list_dir: .]\n")
    with_model(cli, look, void, calls, said("Done."))

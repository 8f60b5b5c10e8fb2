"""`holdfast chat` with a model server on loopback."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from tests.cli.command_line import Cli
from tests.cli.documents import NAME, events, outcome, start
from tests.cli.terminal import Terminal
from tests.models.servers import chat as wire
from tests.models.servers.http import Answer, error, serving
from tests.models.servers.script import Say, Script, Think, Use

PATIENCE = 60


def with_model(cli: Cli, work: Callable[[], None], *answers: Answer) -> None:
    """Run a function while a model server listens on loopback."""

    async def main() -> None:
        async with serving(*answers) as server:
            cli.configure(
                f'[model]\nname = "ollama:small"\nretries = 0\n[model.providers.ollama]\nbase_url = "{server.url}/v1"\n'
            )
            await asyncio.wait_for(asyncio.to_thread(work), PATIENCE)

    asyncio.run(main())


@pytest.mark.spec("E1c")
def test_ctrl_c_during_a_reply_keeps_its_text_marked_as_aborted(cli: Cli) -> None:
    document = start(cli, "Tell me.")
    half = wire.events(Script((Think("hm, hm"), Say("Half an answer"))), "vllm")[:-3]

    def person_stops_it() -> None:
        with Terminal(cli, "chat", NAME) as person:
            person.expect("Half an answer"[:-1])
            assert "\x1b[2m" in person.raw, "thinking is dim"
            person.press(b"\x03")
            assert person.finish() == 130

    with_model(cli, person_stops_it, Answer(half, then="stall"))
    text = document.read_text()
    assert "Half an answe" in text
    assert "<!-- flemma:aborted: Response interrupted by the user. -->" in text


@pytest.mark.spec("E1c")
def test_a_provider_error_is_one_sentence_and_the_document_is_unchanged(cli: Cli) -> None:
    document = start(cli, "Tell me.")
    before = document.read_bytes()

    def look() -> None:
        done = cli.run("chat", NAME)
        assert done.code == 1 and done.sentence.startswith("Error: ")
        failed = cli.run("chat", NAME, "--json")
        assert outcome(failed)["kind"] == "failed"

    refused = error(401, {"error": {"message": "no such key"}})
    with_model(cli, look, refused, refused)
    assert document.read_bytes() == before


@pytest.mark.spec("E1c", "O1b")
def test_a_call_of_a_model_is_shown_as_the_runtime_would_run_it(cli: Cli) -> None:
    start(cli, "Say hi.")
    arguments = '{"command": "echo hi", "cwd": null, "timeout": null, "label": "greet"}'
    asked = wire.events(Script((Use("call_1", "shell--exec", arguments),)))

    def look() -> None:
        done = cli.run("chat", NAME, "--json")
        assert done.code == 4, done
        (slot,) = outcome(done)["slots"]
        assert slot["preview"] == slot["pending"]["preview"] == "shell.exec: $ echo hi  # greet"
        assert events(done, "usage")[0]["reply"]["output"] > 0

    with_model(cli, look, Answer(asked))


@pytest.mark.spec("E1c")
def test_the_reason_for_a_retry_is_printed_once(cli: Cli) -> None:
    start(cli, "Tell me.")

    def look() -> None:
        done = cli.run("--set", "model.retries=3", "chat", NAME)
        lines = done.err.splitlines()
        assert done.code == 0 and "Told." in done.out, done
        assert lines[0].startswith("Asking the model again: ")
        assert lines[1:] == ["Retrying in 0 s (2 of 3).", "Retrying in 0 s (3 of 3)."]

    busy = error(503, {"error": {"message": "busy"}}, retry_after="0")
    with_model(cli, look, busy, busy, busy, Answer(wire.events(Script((Say("Told."),)))))

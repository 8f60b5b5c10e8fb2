"""Elicitation on the terminal: questions of tools and MCP servers."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.cli.elicitation import address_warning
from holdfast.cli.prompt import exclusive_terminal, is_prompt_open
from holdfast.contract.elicitation import (
    FormRequest,
    Question,
    RootsRequest,
    SamplingMessage,
    SamplingRequest,
    UrlRequest,
)
from holdfast.rules.form_safety import InvalidInput, form_fields
from tests.cli.command_line import Cli
from tests.cli.mcp_servers import asks_form, serving
from tests.cli.terminal import Terminal

__all__ = ["serving"]
CALL = ("call", "elicit")
NAME: dict[str, Any] = {"type": "string", "title": "Your name", "description": "As in your passport.", "minLength": 2}


def elicits(cli: Cli, *questions: Question) -> Cli:
    """Return a project with a tool that asks these questions."""
    (cli.project / "questions.json").write_bytes(msgspec.json.encode(questions))
    cli.configure('[tools]\nmodules = ["tests.cli.elicitation_tools"]\n')
    return Cli(cli.project, cli.env | {"PYTHONPATH": str(Path(__file__).parents[2])})


def form(*required: str, **fields: dict[str, Any]) -> FormRequest:
    schema: dict[str, Any] = {"type": "object", "properties": fields, "required": list(required)}
    return FormRequest(message="Please tell us.", schema=schema)


def replies(person: Terminal) -> list[dict[str, Any]]:
    """Return the replies that the tool got, from the last line of output."""
    assert person.finish() == 0, person.text
    return json.loads(person.text.strip().splitlines()[-1])


@pytest.mark.spec("K1", "E1a")
def test_a_form_is_filled_in_field_by_field_and_shown_before_it_is_sent(cli: Cli) -> None:
    colour = {"type": "string", "oneOf": [{"const": "#f00", "title": "Red"}, {"const": "#00f", "title": "Blue"}]}
    several = {"type": "array", "items": {"enum": ["a", "b", "c"]}, "maxItems": 2}
    fields = {
        "name": NAME,
        "age": {"type": "integer", "minimum": 18},
        "share": {"type": "number", "default": 0.5},
        "sure": {"type": "boolean"},
        "colour": colour,
        "several": several,
        "note": {"type": "string"},
    }
    with Terminal(elicits(cli, form("name", "age", "sure", **fields)), *CALL, columns=120) as person:
        person.expect("The tool 'elicit' asks you (call ")
        person.expect("│ Please tell us.")
        person.expect("• Your name: As in your passport.")
        person.expect("• age (a whole number)")
        person.expect("1. Red")
        person.expect("• note (optional)")
        person.expect("Answer? [y/N] ")
        person.type("y")
        for question, typed, told in [
            ("Your name: ", "", "a value is required"),
            ("Your name: ", "A", "at least 2 characters"),
            ("Your name: ", "Ann", None),
            ("age: ", "old", "type a whole number"),
            ("age: ", "17", "18"),
            ("age: ", "44", None),
            ("share [0.5]: ", "", None),
            ("sure: ", "perhaps", "type yes or no"),
            ("sure: ", "yes", None),
            ("colour (Enter to skip): ", "3", "type a number from 1 to 2"),
            ("colour (Enter to skip): ", "2", None),
            ("several (Enter to skip): ", "1, c", None),
            ("note (Enter to skip): ", "", None),
        ]:
            person.expect(question)
            person.type(typed)
            if told is not None:
                person.expect(told)
        person.expect("Your name: Ann")
        person.expect("Send this? [y/N] ")
        person.type("y")
        (reply,) = replies(person)
    sent = {"name": "Ann", "age": 44, "share": 0.5, "sure": True, "colour": "#00f", "several": ["a", "c"]}
    assert (reply["action"], reply["content"], reply["by"]) == ("accept", sent, "cli:tester")


@pytest.mark.spec("K1")
def test_a_field_that_asks_for_a_secret_is_warned_about_hidden_and_declined_by_default(cli: Cli) -> None:
    asked = elicits(cli, form("key", key={"type": "string", "title": "API key"}))
    with Terminal(asked, *CALL, columns=120) as person:
        person.expect("This seems to ask for a secret.")
        person.expect("Answer? [y/N] ")
        person.type("")
        assert replies(person)[0]["action"] == "decline"
    with Terminal(asked, *CALL, columns=120) as person:
        person.expect("Answer? [y/N] ")
        person.type("y")
        person.expect("API key: ")
        person.type("hunter2-hunter2")
        person.expect("API key: (hidden)")
        person.expect("Send this? [y/N] ")
        assert "hunter2" not in person.text
        person.type("y")
        assert replies(person)[0]["content"] == {"key": "hunter2-hunter2"}


@pytest.mark.spec("K1")
def test_a_secret_that_only_the_message_mentions_hides_every_typed_field(cli: Cli) -> None:
    fields = {"value": {"type": "integer"}, "sure": {"type": "boolean"}}
    schema: dict[str, Any] = {"type": "object", "properties": fields, "required": ["value", "sure"]}
    asked = elicits(cli, FormRequest(message="Type the P\u0406N of your phone.", schema=schema))
    with Terminal(asked, *CALL, columns=120) as person:
        person.expect("This seems to ask for a secret.")
        person.expect("Answer? [y/N] ")
        person.type("y")
        person.expect("value: ")
        person.type("834172")
        person.expect("sure: ")
        person.type("yes")
        person.expect("value: (hidden)")
        person.expect("Send this? [y/N] ")
        assert "834172" not in person.text
        person.type("y")
        assert replies(person)[0]["content"] == {"value": 834172, "sure": True}


@pytest.mark.spec("K1")
def test_end_of_input_cancels_the_questions_and_ctrl_c_the_call(cli: Cli) -> None:
    asked = elicits(cli, form(name=NAME), form(name=NAME))
    with Terminal(asked, *CALL) as person:
        person.expect("Answer? [y/N] ")
        person.press(b"\x04")
        assert [reply["action"] for reply in replies(person)] == ["cancel", "cancel"]
    with Terminal(asked, *CALL) as person:
        person.expect("Answer? [y/N] ")
        person.press(b"\x03")
        assert person.finish() == 130


@pytest.mark.spec("K1")
def test_without_a_terminal_a_question_is_cancelled_at_once(cli: Cli) -> None:
    done = elicits(cli, form(name=NAME), UrlRequest(message="", url="https://example.com/")).run(*CALL)
    assert done.code == 0
    assert [reply["action"] for reply in json.loads(done.out)] == ["cancel", "cancel"]


@pytest.mark.spec("K1")
def test_a_question_is_escaped_and_limited_in_length(cli: Cli) -> None:
    hostile = "\x1b]0;owned\x07\x1b[2J" + "z" * 100_000
    field = {"type": "string", "title": hostile, "description": hostile, "enum": [hostile, "b"]}
    schema: dict[str, Any] = {"type": "object", "properties": {hostile: field}}
    asked = elicits(cli, FormRequest(message=hostile, schema=schema))
    with Terminal(asked, *CALL) as person:
        person.expect("lines hidden; in all 100,014 characters, sha256\n")
        person.expect("Answer? [y/N] ")
        person.type("n")
        assert person.finish() == 0
        assert "\x1b]" not in person.raw and "\x1b[2J" not in person.raw and "\x07" not in person.raw
        assert len(person.raw) < 20_000


@pytest.mark.spec("K1")
def test_an_address_is_shown_with_its_host_and_opened_only_on_request(cli: Cli) -> None:
    good = UrlRequest(message="Log in.", url="https://login.example/start?a=1")
    bad = UrlRequest(message="Log in.", url="https://bank.example@evil.example/")
    worse = UrlRequest(message="Log in.", url="file:///etc/passwd")
    browser = cli.project.parent / "browser"
    browser.write_text('#!/bin/sh\nprintf %s "$1" > "$0.opened"\n')
    browser.chmod(0o755)
    asked = elicits(cli, good, good, bad, worse)
    with Terminal(asked, *CALL, columns=120, BROWSER=str(browser), DISPLAY=":0") as person:
        person.expect("https://login.example/start?a=1")
        person.expect("host: login.example")
        person.expect("[n] no\n> ")
        assert not Path(f"{browser}.opened").exists()
        person.press(b"o")
        person.expect("host: login.example")
        assert Path(f"{browser}.opened").read_text() == good.url
        person.expect("[n] no\n> ")
        person.press(b"n")
        person.expect("[host: evil.example]")
        person.expect("which hides where it leads. Declined.")
        person.expect("That is not a web address. Declined.")
        actions = [reply["action"] for reply in replies(person)]
    assert actions == ["accept", "decline", "decline", "decline"]


@pytest.mark.spec("K1")
def test_a_sampling_request_shows_the_conversation_and_the_person_writes_the_reply(cli: Cli) -> None:
    wanted = SamplingRequest(
        system="Be brief.",
        messages=(
            SamplingMessage("user", {"type": "text", "text": "What is the capital?\x1b[1m"}),
            SamplingMessage("assistant", [{"type": "image", "data": "AAAA", "mimeType": "image/png"}]),
        ),
    )
    with Terminal(elicits(cli, wanted, wanted), *CALL, columns=120) as person:
        person.expect("Be brief.")
        person.expect("What is the capital?‹\\x1b›[1m")
        person.expect("[image, 4 characters]")
        person.expect("[n] no\n> ")
        person.type("r")
        person.expect("Reply: ")
        person.type("Paris")
        person.expect("[n] no\n> ")
        person.type("n")
        first, second = replies(person)
    assert first["content"] == {
        "role": "assistant",
        "content": {"type": "text", "text": "Paris"},
        "model": "a person",
        "stopReason": "endTurn",
    }
    assert second["action"] == "decline"


@pytest.mark.spec("K1")
def test_roots_are_answered_without_asking(cli: Cli) -> None:
    with Terminal(elicits(cli, RootsRequest()), *CALL) as person:
        assert person.finish() == 0
        assert cli.project.as_uri() in person.text.replace("\n", "")


@pytest.mark.spec("K1")
def test_a_server_asks_the_person_and_gets_the_answer(serving: Cli) -> None:
    asks_form(serving, "Who are you?", ("name",), name={"type": "string"})
    with Terminal(serving, "call", "mcp:little:ask", columns=120) as person:
        person.expect("The MCP server 'little' asks you")
        person.expect("Who are you?")
        person.expect("Answer? [y/N] ")
        person.type("y")
        person.expect("name: ")
        person.type("Ann")
        person.expect("Send this? [y/N] ")
        person.type("y")
        assert person.finish() == 0
        assert '"action": "accept"' in person.text and '{"name": "Ann"}' in person.text


@pytest.mark.spec("K1")
def test_a_prompt_holds_the_terminal_exclusively() -> None:
    asyncio.run(_two_who_ask())


async def _two_who_ask() -> None:
    order: list[str] = []
    first_asks = asyncio.Event()
    answered = asyncio.Event()

    async def first() -> None:
        async with exclusive_terminal():
            first_asks.set()
            await answered.wait()
            order.append("first")

    async def second() -> None:
        async with exclusive_terminal():
            order.append("second")

    assert not is_prompt_open()
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        group.create_task(first())
        await first_asks.wait()
        group.create_task(second())
        assert is_prompt_open()
        answered.set()
    assert order == ["first", "second"]
    assert not is_prompt_open()


def test_a_default_that_the_schema_rejects_is_ignored() -> None:
    fields = {"a": {"type": "integer", "default": 3}, "b": {"type": "integer", "default": "x"}}
    good, bad = form_fields({"properties": fields})
    assert good.default == 3
    assert bad.default is msgspec.UNSET


@given(st.text(max_size=20), st.sampled_from(["string", "integer", "number", "boolean", "array", "object", "null"]))
def test_any_typed_text_is_a_valid_value_or_refused(typed: str, kind: str) -> None:
    (field,) = form_fields({"properties": {"a": {"type": kind}}})
    try:
        value = field.read(typed)
    except InvalidInput:
        return
    assert field.checked.accepts(value)


@pytest.mark.parametrize(
    ("url", "openable"),
    [
        ("https://example.com/a?b=c#d", True),
        ("http://127.0.0.1:8080/x", True),
        ("http://localhost/x", True),
        ("http://[::1]:3/", True),
        ("http://example.com/", False),
        ("HTTP://example.com/", False),
        ("http://127.0.0.1.example.com/", False),
    ],
)
def test_an_unencrypted_address_is_warned_about(url: str, openable: bool) -> None:
    assert (address_warning(url) is None) == openable

"""Calls of a reply are put right before they are kept."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.agent.guard import AcceptReply
from holdfast.contract.message import Part, Text, ToolUse
from tests.guardrails.turns import WHERE, rails, turn_of, use, without


def received(config: Any, prompt: str, *parts: Part) -> AcceptReply:
    accepted = rails(config).receive(turn_of(prompt), parts)
    assert isinstance(accepted, AcceptReply), accepted
    return accepted


def arguments(accepted: AcceptReply, place: int = 0) -> dict[str, Any]:
    asked = accepted.parts[place]
    assert isinstance(asked, ToolUse)
    return json.loads(asked.arguments)


IN_NET = "Where is parse_line defined in src/net?"


@pytest.mark.spec("M4")
@pytest.mark.parametrize(
    ("path", "kept"),
    [(None, "src/net"), ("", "src/net"), (".", "src/net"), ("lib", "src/net"), ("src/network", "src/net"),
     ("src/net/../..", "src/net"), ("src/net", "src/net"), ("./src/net/http", "./src/net/http")],
)  # fmt: skip
def test_a_search_keeps_to_the_folder_the_message_names(path: str | None, kept: str) -> None:
    asked = use("code.search", query="parse_line", path=path)
    accepted = received(None, IN_NET, asked)
    assert arguments(accepted) == {"query": "parse_line", "path": kept}
    assert ("scope" in accepted.corrections) == (path != kept)
    assert received(without("scope"), IN_NET, asked) == AcceptReply((asked,))


@pytest.mark.spec("M4")
def test_a_phrase_is_searched_as_its_first_word_that_says_something() -> None:
    asked = use("search_code", query="where is parse_line implemented", label="look")
    accepted = received(None, WHERE, Text("I look."), asked)
    assert arguments(accepted, 1) == {"query": "parse_line", "label": "look"}
    assert "parse_line" in accepted.corrections["simplify_queries"]
    assert received(without("simplify_queries"), WHERE, asked) == AcceptReply((asked,))


@pytest.mark.spec("M4")
@pytest.mark.parametrize(
    "arguments", ['{"query": "parse_line"}', '{"query": "is (a|b) c", "regex": true}', '{"query": 3}', "{", "[]", ""]
)
def test_calls_that_need_no_help_keep_every_byte(arguments: str) -> None:
    asked = ToolUse("c1", "code.search", arguments)
    assert received(None, WHERE, asked) == AcceptReply((asked,))


@pytest.mark.spec("M4")
def test_a_models_call_cannot_pass_for_one_of_the_runtimes() -> None:
    parts = (ToolUse("runtime-1", "file.read", "{}"), ToolUse("model-runtime-1", "file.read", "{}"))
    ids = [part.id for part in received(None, WHERE, *parts).parts if isinstance(part, ToolUse)]
    assert len(set(ids)) == 2
    assert not any(each.startswith("runtime-") for each in ids)

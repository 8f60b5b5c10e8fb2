"""The grammar: each request leads to exactly its calls, and anything else to none."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from holdfast.contract.tool import Tool
from holdfast.models.operator.phrases import GRAMMAR, Phrase, no_arguments
from tests.models.operator.conversations import TOOLS, played, reply, you
from tests.models.operator.phrasings import UNDERSTOOD, Calls
from tests.models.operator.refusals import NOT_UNDERSTOOD

PAGE = Path(__file__).parents[3] / "docs" / "operator.md"
REFUSED = [(why, text) for why, texts in NOT_UNDERSTOOD.items() for text in texts]


@pytest.mark.spec("M2")
@pytest.mark.parametrize(("text", "steps"), UNDERSTOOD, ids=[text for text, _ in UNDERSTOOD])
def test_a_request_leads_to_exactly_these_calls(text: str, steps: list[Calls]) -> None:
    assert played(text) == steps


@pytest.mark.spec("M2")
@pytest.mark.parametrize(("why", "text"), REFUSED, ids=[text for _, text in REFUSED])
def test_a_request_that_is_not_understood_makes_no_call_and_says_so(why: str, text: str) -> None:
    answer = reply([you(text)])
    assert answer.tool_uses == ()
    assert answer.text.startswith("I did nothing, because") and "- read a.py and b.py" in answer.text


def test_at_least_a_third_of_the_sample_requests_are_refusals() -> None:
    assert len({text for text, _ in UNDERSTOOD}) >= 80
    assert len({text for _, text in REFUSED}) >= 60
    assert len(REFUSED) >= (len(UNDERSTOOD) + len(REFUSED)) / 3


@pytest.mark.spec("M2")
@pytest.mark.parametrize("tool", GRAMMAR)
def test_every_example_calls_the_tool_it_is_listed_under(tool: str) -> None:
    for phrase in GRAMMAR[tool]:
        steps = played(phrase.example)
        assert {name for step in steps for name, _ in step} == {tool}, phrase.form.text


def test_the_grammar_covers_every_built_in_tool() -> None:
    # What it can ask for is never left out of a request, so it has nothing to search for.
    assert set(GRAMMAR) == {tool.name for tool in TOOLS} - {"calculator_async", "tool.search"}


def test_the_operator_guide_lists_exactly_the_phrases_of_the_grammar() -> None:
    rows = re.findall(r"^\| `(.+?)` \| `(.+?)` \|$", PAGE.read_text(), re.MULTILINE)
    assert rows == [(phrase.form.text, tool) for tool, phrases in GRAMMAR.items() for phrase in phrases]
    assert len(PAGE.read_text().splitlines()) <= 145


@pytest.mark.spec("M2")
def test_a_tool_that_is_not_offered_is_named_and_not_called() -> None:
    few = [tool for tool in TOOLS if tool.name != "shell.exec"]
    answer = reply([you("read a.py then run `ls`")], few)
    assert answer.tool_uses == ()
    assert "`shell.exec`, which is not offered here" in answer.text
    assert 'tools.allow = ["shell.exec"]' in answer.text
    assert "run `make test`" not in answer.text
    assert reply([you("read a.py")], []).tool_uses == ()


@pytest.mark.spec("M2")
@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("remember that we use PostgreSQL 16", 'remember "…" in project/notes'),
        ("click Sign in", 'click the button "Sign in"'),
    ],
)
def test_a_request_that_lacks_something_is_answered_with_how_to_say_it(text: str, advice: str) -> None:
    answer = reply([you(text)])
    assert answer.tool_uses == () and advice in answer.text.split("I understand requests")[0]


@pytest.mark.spec("M2")
def test_a_tool_of_the_same_name_with_other_arguments_is_not_called() -> None:
    schema = {"type": "object", "properties": {"file": {"type": "string"}}, "additionalProperties": False}
    answer = reply([you("read a.py")], [Tool(name="file.read", input_schema=schema)])
    assert answer.tool_uses == () and "`file.read` does not take it" in answer.text


@pytest.mark.spec("M2")
def test_an_ambiguous_request_is_not_understood(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(GRAMMAR, "git.log", (Phrase("read FILES", "read a.py", no_arguments),))
    answer = reply([you("read a.py")])
    assert answer.tool_uses == () and "in two ways" in answer.text


@pytest.mark.spec("M2")
@pytest.mark.parametrize(
    "text",
    ["read a.py" + " and read a.py" * 400, "list a, " * 17 + "b", "ls\n" * 51, "read a.py " * 500, "x" * 200_001],
    ids=["and", "commas", "steps", "words", "characters"],
)
def test_too_much_at_once_is_refused(text: str) -> None:
    answer = reply([you(text)])
    assert answer.tool_uses == () and len(answer.text) < 5_000


@pytest.mark.spec("M2")
def test_help_lists_the_offered_tools_and_makes_no_call() -> None:
    for text in ("help", "what can you do?", "Hello!", "Thanks!"):
        answer = reply([you(text)], [tool for tool in TOOLS if tool.name == "calculator"])
        assert answer.tool_uses == ()
        assert answer.text.endswith("- calculate sqrt(2) * 10")


@pytest.mark.spec("M2")
def test_the_part_that_is_not_understood_is_named() -> None:
    answer = reply([you("read a.py, then frobnicate it and run `ls`")])
    assert "``frobnicate it and run `ls```" in answer.text.replace(" ``", "``").replace("`` ", "``")
    assert "run the tests" in reply([you("list src; run the tests")]).text
    assert "say the command" in reply([you("run the tests")]).text

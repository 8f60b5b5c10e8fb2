"""For any input: nothing raises, and only offered tools are called, with valid arguments."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.contract.message import Message
from holdfast.models.requests.masked_text import mask
from tests.models.operator.conversations import TOOLS, reply, results, you
from tests.models.operator.phrasings import UNDERSTOOD
from tests.models.operator.refusals import NOT_UNDERSTOOD
from tests.soak import rounds

_SAID = [text for text, _ in UNDERSTOOD] + [text for texts in NOT_UNDERSTOOD.values() for text in texts]
_WORDS = sorted({word for text in _SAID for word in text.split(" ")})
_GLUE = st.sampled_from([" ", "\n", ", ", " and ", "; ", " then ", ". ", "? ", '"', "`", "'", "\n```\n"])

anything = st.text(max_size=300)
surrogates = st.text(st.characters(min_codepoint=0xD800, max_codepoint=0xDFFF), max_size=3)
salad = st.lists(st.tuples(st.sampled_from(_WORDS), _GLUE), max_size=20).map(
    lambda pairs: "".join(word + glue for word, glue in pairs)
)
joined = st.lists(st.tuples(st.sampled_from(_SAID), _GLUE), max_size=5).map(
    lambda pairs: "".join(text + glue for text, glue in pairs)
)
broken = st.tuples(st.sampled_from(_SAID), surrogates, st.integers(0, 80)).map(
    lambda made: made[0][: made[2]] + made[1] + made[0][made[2] :]
)
messages = st.one_of(anything, salad, joined, broken)
offered = st.lists(st.sampled_from(TOOLS), unique=True)


@pytest.mark.spec("M2")
@settings(max_examples=rounds(80, 400), deadline=None)
@given(messages, offered)
def test_only_offered_tools_are_called_and_with_valid_arguments(text: str, tools: list[object]) -> None:
    few = [tool for tool in TOOLS if tool in tools]
    known = {tool.name: tool for tool in few}
    answer = reply([you(text)], few)
    assert answer.text.encode()
    for use in answer.tool_uses:
        known[use.name].schema.validate(json.loads(use.arguments))
    ids = [use.id for use in answer.tool_uses]
    assert len(set(ids)) == len(ids)


@pytest.mark.spec("M2")
@settings(max_examples=rounds(40, 200), deadline=None)
@given(messages, messages)
def test_the_next_calls_do_not_depend_on_the_text_of_results(hostile: str, other: str) -> None:
    asked = you("read a.py and b.py then run `make`")
    first = reply([asked])
    assert len(first.tool_uses) == 2
    second = reply([asked, first, results(first, hostile, other)])
    assert [(use.name, json.loads(use.arguments)["command"]) for use in second.tool_uses] == [("shell.exec", "make")]
    last = reply([asked, first, results(first, hostile, other), second, results(second, hostile)])
    assert last.tool_uses == ()
    failed = reply([asked, first, results(first, hostile, other, error=True)])
    assert failed.tool_uses == ()


@pytest.mark.spec("M2")
@settings(max_examples=rounds(40, 200), deadline=None)
@given(messages)
def test_only_the_users_last_message_leads_to_a_call(text: str) -> None:
    before = [Message("system", you(text).parts), you(text), Message("assistant", you(text).parts)]
    assert reply([*before, you("please fly to the moon")]).tool_uses == ()
    assert reply(before).tool_uses == ()


@settings(max_examples=rounds(40, 200), deadline=None)
@given(messages)
def test_unmasking_a_masked_message_restores_it(text: str) -> None:
    masked = mask(text)
    if not masked.problem and all(piece.kind in ("quote", "code") for piece in masked.literals):
        assert masked.unmask(masked.text) == text.replace("\r\n", "\n")

"""Enforced replies with a real, very small model: whatever it is asked, it writes calls or answers."""

from __future__ import annotations

import json

import pytest

from holdfast.contract.message import Message, Text, ToolUse
from holdfast.models.constrained import ConstrainedModel, probe_schemas
from holdfast.models.port import ProtocolChoice, Retrying, Settings, TextDelta
from holdfast.models.protocol import ProbedModel, protocol_choice
from holdfast.models.providers import Endpoint
from holdfast.models.remote_model import RemoteModel
from holdfast.models.text_protocol.text_model import TextModel
from tests.models.exchanges import end, hear, parts, run
from tests.models.text_protocol.scripted_model import TOOLS

PLAIN = Settings(max_tokens=96, temperature=0.0, thinking=None, retries=0)
WORDS = [
    "Show me what is in notes.txt.",
    "Reply with plain words, not with JSON.",
    "Write [read_file: a.py] and then ```json {} ```.",
    "Search the project for the word main.",
]


def remote(address: str) -> RemoteModel:
    return RemoteModel(Endpoint(provider="llamacpp", api="openai-chat", model="smollm2", base_url=f"{address}/v1"))


@pytest.mark.spec("M3b")
def test_the_probe_finds_that_the_server_enforces_schemas(address: str) -> None:
    enforced, spent = run(probe_schemas(remote(address), PLAIN), 120)
    assert enforced and spent.input > 5 and 2 < spent.output <= 24


@pytest.mark.parametrize("words", WORDS)
@pytest.mark.spec("M3b")
def test_every_reply_is_a_call_that_fits_its_tool_or_an_answer(address: str, words: str) -> None:
    asked = (Message("user", (Text(words),)),)
    events = run(hear(ConstrainedModel(remote(address)), asked, TOOLS, PLAIN), 240)
    assert not [event for event in events if isinstance(event, Retrying)]
    got = parts(events)
    if end(events).stop == "max_tokens":
        assert not [part for part in got if isinstance(part, ToolUse)]
        return
    (part,) = got
    if isinstance(part, Text):
        assert part.text == "".join(event.text for event in events if isinstance(event, TextDelta))
        return
    assert isinstance(part, ToolUse)
    tool = next(tool for tool in TOOLS if tool.name == part.name)
    args = json.loads(part.arguments)
    assert set(tool.input_schema["required"]) <= set(args) <= set(tool.input_schema["properties"])


@pytest.mark.spec("M3b")
def test_a_probed_model_uses_enforced_replies(address: str) -> None:
    inner = remote(address)
    model = ProbedModel(inner, ConstrainedModel(inner), TextModel(inner))
    events = run(hear(model, (Message("user", (Text("Read the file notes.txt."),)),), TOOLS, PLAIN), 240)
    assert protocol_choice(model) == ProtocolChoice("constrained")
    assert end(events).usage.output > 5

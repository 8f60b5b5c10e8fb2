"""A real llama.cpp server and a very small model: the wire protocols hold, whatever it replies."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast.contract.message import Message, Text, Thinking, ToolResult, ToolUse
from holdfast.models.port import ModelError, ModelEvent, ModelFault, Settings, TextDelta
from holdfast.models.providers import Endpoint
from holdfast.models.remote_model import RemoteModel
from tests.models.exchanges import TOOLS, end, hear, parts, run

APIS = pytest.mark.parametrize(("api", "path"), [("openai-chat", "/v1"), ("anthropic", ""), ("openai", "/v1")])
PLAIN = Settings(max_tokens=48, temperature=0.0, thinking=None, retries=0)
HELLO = (Message("system", (Text("You answer briefly."),)), Message("user", (Text("Say hello to the world."),)))


def model(address: str, api: Any = "openai-chat", path: str = "/v1") -> RemoteModel:
    return RemoteModel(Endpoint(provider="llamacpp", api=api, model="smollm2", base_url=address + path))


@APIS
@pytest.mark.spec("M1", "M5")
def test_text_streams_and_is_counted(address: str, api: str, path: str) -> None:
    events = run(hear(model(address, api, path), HELLO, (), PLAIN), 120)
    shown = [event.text for event in events if isinstance(event, TextDelta)]
    assert len(shown) > 3
    assert "".join(shown) == "".join(part.text for part in parts(events) if isinstance(part, Text))
    counted = end(events).usage
    assert counted.input > 10 and 3 < counted.output <= 48
    assert counted.cost is None
    assert end(events).stop in ("end", "max_tokens")


# Its Responses API does not take assistant messages as plain text, which OpenAI's does.
@pytest.mark.parametrize(("api", "path"), [("openai-chat", "/v1"), ("anthropic", "")])
@pytest.mark.spec("M1")
def test_a_conversation_with_calls_and_thinking_is_accepted(address: str, api: str, path: str) -> None:
    history = (
        *HELLO,
        Message("assistant", (Thinking("hm"), Text("Let me look."), ToolUse("call_1", "file.read", '{"path": "a"}'))),
        Message("user", (ToolResult("call_1", "file.read", "hello world"), Text("What did it say?"))),
        Message("assistant", (ToolUse("call_1", "file.read", '{"path": '),)),
        Message("user", (ToolResult("call_1", "file.read", "The arguments are not JSON.", error=True),)),
    )
    events = run(hear(model(address, api, path), history, TOOLS, PLAIN), 120)
    assert end(events).usage.output > 0
    for part in parts(events):
        assert isinstance(part, Text | Thinking | ToolUse)


@pytest.mark.spec("M1")
def test_closing_the_stream_midway_frees_the_server_for_the_next_request(address: str) -> None:
    async def leave() -> list[ModelEvent]:
        long = Settings(max_tokens=2000, temperature=0.0, thinking=None, retries=0)
        stream = model(address).stream((Message("user", (Text("Tell a very long story."),)),), (), long)
        async for event in stream:
            if isinstance(event, TextDelta):
                break
        await stream.aclose()
        # It has one slot: this one is answered only when the first has been given up.
        return await asyncio.wait_for(hear(model(address), HELLO, (), PLAIN), 60)

    assert end(run(leave(), 120)).usage.output > 0


@pytest.mark.spec("M1")
def test_an_exceeded_context_window_is_recognised(address: str) -> None:
    async def ask() -> ModelError:
        with pytest.raises(ModelError) as caught:
            await hear(model(address), (Message("user", (Text("word " * 9000),)),), (), PLAIN)
        return caught.value

    assert run(ask(), 120).fault is ModelFault.CONTEXT

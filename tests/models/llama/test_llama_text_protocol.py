"""The text protocol with a real, very small model: any reply is parsed, and its calls run."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from holdfast import Tool
from holdfast.agent.loop import Loop
from holdfast.contract.message import Message, Text, ToolResult, ToolUse
from holdfast.models.port import ModelError, ModelEvent, PartEnded, Retrying, Settings, TextDelta
from holdfast.models.providers import Endpoint
from holdfast.models.remote_model import RemoteModel
from holdfast.models.text_protocol.parser import parse
from holdfast.models.text_protocol.syntax import TextPiece
from holdfast.models.text_protocol.text_model import TextModel
from holdfast.testing.memory_conversation import MemoryConversation
from holdfast.tools.files.read import FILE_READ
from tests.models.exchanges import end, hear, parts, run
from tests.models.text_protocol.scripted_model import TOOLS, Scripted, written
from tests.runtime.support import approving, runtime_in

APIS = pytest.mark.parametrize(("api", "path"), [("openai-chat", "/v1"), ("anthropic", "")])
PLAIN = Settings(max_tokens=64, temperature=0.0, thinking=None, retries=0)
BEFORE = (
    Message("user", (Text("Read the file colours.txt."),)),
    Message("assistant", (ToolUse("call-1", "file.read", '{"path":"colours.txt"}'),)),
    Message("user", (ToolResult("call-1", "file.read", "red and blue"),)),
    Message("assistant", (Text("It says: red and blue."),)),
)
"""A model this small has to have seen it done once."""


class Overheard:
    """Wraps a model and records the text it really wrote."""

    def __init__(self, inner: RemoteModel) -> None:
        self.inner, self.provider, self.name = inner, inner.provider, inner.name
        self.wrote: list[str] = []

    async def stream(
        self, messages: Sequence[Message], tools: Sequence[Tool], settings: Settings
    ) -> AsyncGenerator[ModelEvent]:
        self.wrote.append("")
        async with aclosing(self.inner.stream(messages, tools, settings)) as events:
            async for event in events:
                if isinstance(event, TextDelta):
                    self.wrote[-1] += event.text
                yield event


def behind(address: str, api: Any, path: str) -> RemoteModel:
    return RemoteModel(Endpoint(provider="llamacpp", api=api, model="smollm2", base_url=address + path))


def model(address: str, api: str, path: str) -> TextModel:
    return TextModel(behind(address, api, path))


async def told(text: TextModel, words: str, events: list[ModelEvent]) -> str:
    """The error, if any; `events` are those of the last attempt."""
    try:
        async for event in text.stream((Message("user", (Text(words),)),), TOOLS, PLAIN):
            if isinstance(event, Retrying):
                events.clear()
            else:
                events.append(event)
    except ModelError as error:
        return str(error)
    return ""


@APIS
@pytest.mark.parametrize(
    "words",
    [
        "Show me what is in notes.txt.",
        "Please repeat: [edit_file] path: a.txt [/edit_file]",
        "Write ``` and then [git_log].",
    ],
)
@pytest.mark.spec("M3")
def test_any_reply_is_parsed_and_its_text_is_kept(address: str, api: str, path: str, words: str) -> None:
    heard = Overheard(behind(address, api, path))
    events: list[ModelEvent] = []
    wrong = run(told(TextModel(heard), words, events), 240)
    wrote = heard.wrote[-1]
    shown = "".join(event.text for event in events if isinstance(event, TextDelta))
    if wrong:
        assert "nothing was run" in wrong
        assert wrote.startswith(shown) and not [event for event in events if isinstance(event, PartEnded)]
        return
    read = parse(wrote)
    kept = [piece.text for piece in read.pieces if isinstance(piece, TextPiece)]
    assert shown.split() == (wrote if read.problems else "\n".join(kept)).split()
    calls = [part.name for part in parts(events) if isinstance(part, ToolUse)]
    assert calls == ([] if read.problems else [call.name for call in read.calls])


@APIS
@pytest.mark.spec("M3")
def test_it_calls_read_file_after_an_example(address: str, api: str, path: str) -> None:
    asked = Message("user", (Text("Read the file notes.txt."),))
    events = run(hear(model(address, api, path), (*BEFORE, asked), TOOLS, PLAIN), 120)
    assert parts(events) == [ToolUse("call-1", "file.read", '{"path":"notes.txt"}')]
    assert end(events).stop == "tool_use" and end(events).usage.output > 3


@APIS
@pytest.mark.spec("M3")
def test_a_requested_file_is_read_by_the_real_runtime(tmp_path: Path, address: str, api: str, path: str) -> None:
    async def talk() -> MemoryConversation:
        conversation = MemoryConversation()
        async with runtime_in(tmp_path, FILE_READ, config=approving("file.read")) as runtime:
            assert runtime.workspace.root is not None
            (runtime.workspace.root / "colours.txt").write_text("red and blue\n")
            (runtime.workspace.root / "notes.txt").write_text("Buy seven apples.\n")
            shown = TextModel(Scripted([written("[read_file: colours.txt]"), written("It says: red and blue.")]))
            for words, answers in (("colours.txt", shown), ("notes.txt", model(address, api, path))):
                conversation.say(f"Read the file {words}.")
                outcome = await Loop(runtime, answers, conversation, PLAIN, max_turns=2).advance()
                assert outcome.kind in ("done", "stopped"), outcome
        return conversation

    messages = run(talk(), 240).messages()
    results = [part for message in messages for part in message.parts if isinstance(part, ToolResult)]
    assert [(result.name, result.output.strip(), result.error) for result in results][:2] == [
        ("file.read", "red and blue", False),
        ("file.read", "Buy seven apples.", False),
    ]

"""A conformance suite for models: derive from `ModelConformance` and say how the model is opened."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from typing import Any, cast

import pytest

from holdfast import Tool
from holdfast.contract.message import Aborted, Message, Text, Thinking, ToolResult, ToolUse
from holdfast.models.port import (
    CallBegun,
    Model,
    ModelEvent,
    PartEnded,
    ReplyEnded,
    Retrying,
    Settings,
    TextDelta,
    ThinkingDelta,
)

SECONDS = 60
_KINDS = (TextDelta, ThinkingDelta, CallBegun, PartEnded, Retrying, ReplyEnded)


class ModelConformance:
    tools: Sequence[Tool] = ()

    def opened(self) -> AbstractAsyncContextManager[Model]:
        """A model that answers each of the conversations here with something."""
        raise NotImplementedError

    conversation: Sequence[Message] = (
        Message("system", (Text("You are a careful assistant."),)),
        Message("user", (Text("hello"),)),
    )

    def long_conversation(self) -> Sequence[Message]:
        """Everything a document can hold: calls with broken arguments and equal ids, thinking of others, an abort."""
        return (
            *self.conversation,
            Message("assistant", (Thinking("hm", "somebody", "c2ln"), Text("wait"), ToolUse("call_1", "file.read"))),
            Message("user", (ToolResult("call_1", "file.read", "text"),)),
            Message("assistant", (ToolUse("call_1", "no.such.tool", '{"path": '), Thinking("", None, None, True))),
            Message("user", (ToolResult("call_1", "no.such.tool", "There is no such tool.", True), Text("go on"))),
            Message("assistant", (Text("I was say"), Aborted("Response interrupted by the user."))),
            Message("user", (Text("hello again \udcff"),)),
        )

    def heard(self, messages: Sequence[Message]) -> list[ModelEvent]:
        async def hear() -> list[ModelEvent]:
            async with self.opened() as model:
                return [event async for event in model.stream(messages, self.tools, Settings())]

        return _run(hear())

    @pytest.mark.spec("M1")
    def test_it_has_a_provider_and_a_name(self) -> None:
        async def names() -> tuple[str, str]:
            async with self.opened() as model:
                return model.provider, model.name

        provider, name = _run(names())
        assert provider and (name == provider or name.startswith(f"{provider}:"))

    @pytest.mark.spec("M1")
    def test_a_reply_ends_once_and_last(self) -> None:
        events = self.heard(self.conversation)
        assert all(isinstance(event, _KINDS) for event in events)
        assert [isinstance(event, ReplyEnded) for event in events] == [False] * (len(events) - 1) + [True]

    @pytest.mark.spec("M1")
    def test_what_is_shown_while_it_comes_is_what_the_parts_say(self) -> None:
        events = self.heard(self.conversation)
        shown = "".join(event.text for event in events if isinstance(event, TextDelta))
        said = [event.part for event in events if isinstance(event, PartEnded)]
        assert said and all(isinstance(part, Text | Thinking | ToolUse) for part in said)
        assert shown == "".join(part.text for part in said if isinstance(part, Text))
        begun = [(event.id, event.name) for event in events if isinstance(event, CallBegun)]
        assert begun == [(part.id, part.name) for part in said if isinstance(part, ToolUse)]
        assert len(set(begun)) == len(begun)

    @pytest.mark.spec("M5")
    def test_tokens_are_counted_and_never_negative(self) -> None:
        last = self.heard(self.conversation)[-1]
        assert isinstance(last, ReplyEnded)
        counted = last.usage
        assert min(counted.input, counted.output, counted.cache_read, counted.cache_write, counted.thinking) >= 0
        assert counted.cost is None or counted.cost >= 0

    @pytest.mark.spec("M1")
    def test_everything_a_document_can_hold_can_be_sent(self) -> None:
        assert isinstance(self.heard(self.long_conversation())[-1], ReplyEnded)

    @pytest.mark.spec("M1")
    def test_a_reply_can_be_left_after_any_event(self) -> None:
        total = len(self.heard(self.conversation))

        async def leave(after: int) -> set[asyncio.Task[Any]]:
            async with self.opened() as model:
                before = asyncio.all_tasks()
                stream = model.stream(self.conversation, self.tools, Settings())
                async with aclosing(cast(Any, stream)) as events:
                    for _ in range(after):
                        await anext(events)
                left = {task for task in asyncio.all_tasks() - before if "serve" not in repr(task)}
                return (await asyncio.wait(left, timeout=30))[1] if left else set()

        for after in {0, 1, total // 2, total - 1}:
            left = _run(leave(after))
            assert not left, f"tasks are left: {left}"


def _run(work: Any) -> Any:
    async def bounded() -> Any:
        return await asyncio.wait_for(work, SECONDS)

    return asyncio.run(bounded())

"""A scripted model, recording tools, and a harness that runs the loop with them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

from holdfast import Config, Runtime, Tool
from holdfast.agent.conversation import Conversation, Slot
from holdfast.agent.events import AgentEvent, Outcome
from holdfast.agent.loop import Loop
from holdfast.config.config import ApprovalConfig
from holdfast.contract.enums import State
from holdfast.contract.message import Message, Part, Text, ToolResult, ToolUse
from holdfast.models.port import ModelEvent, PartEnded, ReplyEnded, Settings, TextDelta, Usage
from holdfast.store.ledger import Ledger
from holdfast.testing.memory_conversation import MemoryConversation, MemoryUser
from tests.runtime.support import recorder, runtime_in

USAGE = Usage(input=10, output=5)
Script = Sequence[ModelEvent | BaseException | Callable[[], None]]


def scripted_reply(*parts: Part | str) -> list[ModelEvent]:
    """The events of a complete reply."""
    events: list[ModelEvent] = []
    for part in parts:
        whole = Text(part) if isinstance(part, str) else part
        if isinstance(whole, Text):
            events.append(TextDelta(whole.text))
        events.append(PartEnded(whole))
    calls = any(isinstance(part, ToolUse) for part in parts)
    return [*events, ReplyEnded("tool_use" if calls else "end", USAGE, "scripted-1")]


def use(use_id: str, name: str = "note", arguments: str = '{"text": "x"}') -> ToolUse:
    return ToolUse(use_id, name, arguments)


class ScriptedModel:
    """A model that sends its replies in order, and then that it is done."""

    provider = "scripted"
    name = "scripted:one"

    def __init__(self, *replies: Script) -> None:
        self.replies = list(replies)
        self.requests: list[list[Message]] = []
        self.tools: list[list[str]] = []
        self.closed = 0
        self.started = asyncio.Event()

    async def stream(
        self, messages: Sequence[Message], tools: Sequence[Tool], settings: Settings
    ) -> AsyncIterator[ModelEvent]:
        self.requests.append(list(messages))
        self.tools.append([tool.name for tool in tools])
        try:
            for event in self.replies.pop(0) if self.replies else scripted_reply("Done."):
                if isinstance(event, BaseException):
                    raise event
                if callable(event):
                    event()
                    self.started.set()
                    await asyncio.Event().wait()
                else:
                    yield event
        finally:
            self.closed += 1


def fixed_tool(name: str, words: str) -> Tool:
    """A tool without effects and with a fixed output."""

    async def execute(args: Any) -> str:
        return words

    return Tool(name=name, execute=execute, effects=frozenset())


def hang() -> None:
    """In a script: block for ever."""


class LoopHarness:
    """A loop with its model, conversation and runtime. The policy approves `note`; `ask` needs approval."""

    def __init__(self, folder: Path, *replies: Script, tools: Sequence[Tool] = (), **options: Any) -> None:
        self.folder = folder
        self.note, self.notes = recorder()
        self.ask, self.asks = recorder("ask")
        self.tools: tuple[Tool, ...] = (self.note, self.ask, *tools)
        self.model = ScriptedModel(*replies)
        self.conversation = MemoryConversation()
        self.user = MemoryUser(self.conversation.store)
        self.events: list[AgentEvent] = []
        self.options = options
        self.user.say("Go.")

    def config(self) -> Config:
        return Config(approval=ApprovalConfig(auto_approve=("note",), presets={}))

    def runtime(self, **options: Any) -> Runtime:
        options = {"config": self.config(), "nobody": "pending", **options}
        return runtime_in(self.folder, *self.tools, **options)

    def loop(self, runtime: Runtime, conversation: Conversation | None = None, **options: Any) -> Loop:
        options = {"on_event": self.events.append, **self.options, **options}
        return Loop(runtime, self.model, conversation or self.conversation, Settings(), **options)

    def run(self, work: Callable[[Loop], Any] | None = None, *, step: bool = False, **options: Any) -> Any:
        """Open everything again, like another process, and advance once or run `work`."""

        async def inside() -> Any:
            async with self.runtime(**options) as runtime:
                loop = self.loop(runtime)
                done = await (work(loop) if work is not None else loop.advance(step=step))
            if runtime.ledger is not None:
                runtime.ledger.close()
            return done

        return asyncio.run(asyncio.wait_for(inside(), 60))

    def advance(self, *, step: bool = False, **options: Any) -> Outcome:
        return self.run(step=step, **options)

    def run_one(self, use_id: str, **options: Any) -> Outcome:
        return self.run(lambda loop: loop.run_one(use_id), **options)

    def slots(self) -> list[Slot]:
        self.conversation.refresh()
        return list(self.conversation.slots())

    def results(self) -> list[ToolResult]:
        return results_in(self.conversation.messages())

    def ledger(self) -> Ledger:
        return Ledger.open(self.folder / "state" / "ledger.db")

    def states(self) -> list[State]:
        with self.ledger() as ledger:
            return [record.state for record in reversed(ledger.calls())]


def results_in(messages: Sequence[Message]) -> list[ToolResult]:
    return [part for message in messages for part in message.parts if isinstance(part, ToolResult)]

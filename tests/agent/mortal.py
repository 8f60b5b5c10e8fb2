"""Processes that die: a conversation and a ledger that can end at any durable step, and what is found afterwards."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import json

from holdfast import Call, Caller, Config, Runtime, Tool
from holdfast.agent.events import Outcome
from holdfast.agent.loop import Loop
from holdfast.config.config import ApprovalConfig, Preset
from holdfast.contract.message import Message
from holdfast.models.port import ModelEvent, Settings
from holdfast.runtime.workspace import Workspace
from holdfast.store import process_identity
from holdfast.store.blobs import Blobs
from holdfast.store.database import Database, Op
from holdfast.store.ledger import Ledger
from holdfast.store.redact import Redactor
from holdfast.testing.memory_conversation import ConversationStore, MemoryConversation, MemoryUser
from tests.agent.scripted import said

CONFIG = Config(
    approval=ApprovalConfig(auto_approve=("$mine",), presets={"$mine": Preset(approve=("auto",), deny=("never",))})
)


class Crash(BaseException):
    """The process is gone, here and now."""


class Life:
    """Counts the steps that outlive the process, and ends it at one of them."""

    def __init__(self, ends_at: int | None = None, end: Callable[[], None] | None = None) -> None:
        self.steps = 0
        self.over = False
        self._ends_at = ends_at
        self._end = end

    def tick(self) -> None:
        self.steps += 1
        if self.over or self.steps == self._ends_at:
            self.over = True
            if self._end is not None:
                self._end()
            raise Crash


class MortalDatabase(Database):
    life = Life()

    def write(self, ops: Sequence[Op[Any]]) -> list[Any]:
        self.life.tick()
        outcomes = super().write(ops)
        self.life.tick()
        return outcomes


def open_ledger(folder: Path, life: Life) -> tuple[Ledger, Database]:
    database = MortalDatabase.open(folder / "ledger.db")
    assert isinstance(database, MortalDatabase)
    database.life = life
    redactor = Redactor()
    return Ledger(database, Blobs(folder / "blobs", redactor, sync=False), redactor), database


def bury(folder: Path) -> None:
    """Make the owner of what runs in the ledger a process that is no more."""
    me = process_identity.this_process()
    gone = f"{me.started.rpartition(':')[0]}:0"
    with Ledger.open(folder / "ledger.db") as ledger:
        ledger.run(
            lambda tx: tx.execute("UPDATE open_calls SET pid_start = ? WHERE state = 'running'", (gone,)).rowcount
        )


class Disk:
    """The conversation as it lies on a disk."""

    def __init__(self, path: Path) -> None:
        self._path = path
        if not path.exists():
            path.write_bytes(json.encode(ConversationStore()))

    def read(self) -> ConversationStore:
        return json.decode(self._path.read_bytes(), type=ConversationStore)

    def write(self, shelf: ConversationStore) -> None:
        fresh = self._path.with_suffix(".new")
        fresh.write_bytes(json.encode(shelf))
        fresh.replace(self._path)

    def edit(self, edit: Callable[[MemoryUser], None]) -> None:
        """As a person who has the conversation open somewhere else."""
        shelf = self.read()
        edit(MemoryUser(shelf))
        self.write(shelf)

    def open(self, life: Life) -> MemoryConversation:
        def saved(shelf: ConversationStore) -> None:
            life.tick()
            self.write(shelf)
            life.tick()

        return MemoryConversation(self.read(), on_change=saved)


class Oracle:
    """Outside of everything: which call ran, how often and with what."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def tools(self, life: Life, *, check: Callable[[Call], None] | None = None) -> list[Tool]:
        def made(name: str) -> Tool:
            async def execute(args: Any, ctx: Any) -> str:
                life.tick()
                if check is not None:
                    check(ctx.call_record)
                with self._path.open("a") as file:
                    file.write(f"{ctx.call_id}\n")
                await asyncio.sleep(0)
                life.tick()
                return f"ran {ctx.call_id}"

            return Tool(name=name, execute=execute, effects=frozenset({"external"}))

        return [made(name) for name in ("auto", "ask", "never")]

    def executions(self) -> Counter[str]:
        return Counter(self._path.read_text().split()) if self._path.exists() else Counter()


class Following:
    """A model whose next reply follows from how many it has given; it checks what it is sent."""

    provider = name = "following"

    def __init__(
        self, replies: Sequence[Sequence[ModelEvent]], check: Callable[[Sequence[Message]], None] | None = None
    ) -> None:
        self._replies = replies
        self._check = check

    async def stream(self, messages: Sequence[Message], tools: Any, settings: Any) -> AsyncIterator[ModelEvent]:
        if self._check is not None:
            self._check(messages)
        turn = sum(message.role == "assistant" for message in messages)
        for event in self._replies[turn] if turn < len(self._replies) else said("Done."):
            yield event


class World:
    """Everything that is left when a process dies: the disk, the ledger and the oracle."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.disk = Disk(folder / "talk.json")
        self.oracle = Oracle(folder / "executed")

    async def live(
        self,
        model: Any,
        work: Callable[[Loop], Any],
        *,
        life: Life | None = None,
        check: Callable[[Call], None] | None = None,
        document: Path | None = None,
        **options: Any,
    ) -> Any:
        """One process from its start to its end."""
        asyncio.get_running_loop().set_exception_handler(_ignore_deaths)
        life = life or Life()
        ledger, database = open_ledger(self.folder, life)
        try:
            tools = self.oracle.tools(life, check=check)
            runtime = Runtime(
                tools=tools,
                ledger=ledger,
                config=CONFIG,
                nobody="pending",
                workspace=Workspace(root=self.folder, document=document),
            )
            caller = Caller(document=None if document is None else str(document))
            async with runtime:
                conversation = self.disk.open(life)
                return await work(Loop(runtime, model, conversation, Settings(), caller=caller, **options))
        finally:
            database.close()

    def advance(
        self, model: Any, life: Life | None = None, work: Callable[[Loop], Any] | None = None, **options: Any
    ) -> Outcome | None:
        """None if the process died."""
        with suppress(Crash):
            return asyncio.run(self.live(model, work or (lambda loop: loop.advance()), life=life, **options))
        bury(self.folder)
        return None


def _ignore_deaths(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Of the tasks of a process that died nobody hears any more."""
    if not isinstance(context.get("exception"), Crash):
        loop.default_exception_handler(context)

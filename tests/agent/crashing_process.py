"""Simulated processes that crash at any durable step, and the state that they leave behind."""

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
from tests.agent.scripted_model import scripted_reply

CONFIG = Config(
    approval=ApprovalConfig(auto_approve=("$mine",), presets={"$mine": Preset(approve=("auto",), deny=("never",))})
)


class ProcessCrash(BaseException):
    """The simulated process has crashed."""


class CrashPoint:
    """Counts durable steps, and crashes the process at one of them."""

    def __init__(self, ends_at: int | None = None, end: Callable[[], None] | None = None) -> None:
        self.steps = 0
        self.crashed = False
        self._ends_at = ends_at
        self._end = end

    def tick(self) -> None:
        self.steps += 1
        if self.crashed or self.steps == self._ends_at:
            self.crashed = True
            if self._end is not None:
                self._end()
            raise ProcessCrash


class CrashingDatabase(Database):
    crash_point = CrashPoint()

    def write(self, ops: Sequence[Op[Any]]) -> list[Any]:
        self.crash_point.tick()
        outcomes = super().write(ops)
        self.crash_point.tick()
        return outcomes


def open_ledger(folder: Path, life: CrashPoint) -> tuple[Ledger, Database]:
    database = CrashingDatabase.open(folder / "ledger.db")
    assert isinstance(database, CrashingDatabase)
    database.crash_point = life
    redactor = Redactor()
    return Ledger(database, Blobs(folder / "blobs", redactor, sync=False), redactor), database


def mark_owner_dead(folder: Path) -> None:
    """Make a dead process the owner of the running calls in the ledger."""
    me = process_identity.this_process()
    gone = f"{me.started.rpartition(':')[0]}:0"
    with Ledger.open(folder / "ledger.db") as ledger:
        ledger.run(
            lambda tx: tx.execute("UPDATE open_calls SET pid_start = ? WHERE state = 'running'", (gone,)).rowcount
        )


class ConversationFile:
    """A conversation stored on disk."""

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
        """Edit the conversation like a person in another program."""
        shelf = self.read()
        edit(MemoryUser(shelf))
        self.write(shelf)

    def open(self, life: CrashPoint) -> MemoryConversation:
        def saved(shelf: ConversationStore) -> None:
            life.tick()
            self.write(shelf)
            life.tick()

        return MemoryConversation(self.read(), on_change=saved)


class ExecutionLog:
    """An oracle outside the process: which calls ran, and how often."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def tools(self, life: CrashPoint, *, check: Callable[[Call], None] | None = None) -> list[Tool]:
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


class ReplayModel:
    """A model that chooses its reply by the number of earlier ones, and checks the request."""

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
        for event in self._replies[turn] if turn < len(self._replies) else scripted_reply("Done."):
            yield event


class PersistentState:
    """What survives a crash: the conversation, the ledger and the execution log."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.conversation_file = ConversationFile(folder / "talk.json")
        self.executions = ExecutionLog(folder / "executed")

    async def run_process(
        self,
        model: Any,
        work: Callable[[Loop], Any],
        *,
        life: CrashPoint | None = None,
        check: Callable[[Call], None] | None = None,
        document: Path | None = None,
        **options: Any,
    ) -> Any:
        """Run one simulated process."""
        asyncio.get_running_loop().set_exception_handler(_ignore_deaths)
        life = life or CrashPoint()
        ledger, database = open_ledger(self.folder, life)
        try:
            tools = self.executions.tools(life, check=check)
            runtime = Runtime(
                tools=tools,
                ledger=ledger,
                config=CONFIG,
                nobody="pending",
                workspace=Workspace(root=self.folder, document=document),
            )
            caller = Caller(document=None if document is None else str(document))
            async with runtime:
                conversation = self.conversation_file.open(life)
                return await work(Loop(runtime, model, conversation, Settings(), caller=caller, **options))
        finally:
            database.close()

    def advance(
        self, model: Any, life: CrashPoint | None = None, work: Callable[[Loop], Any] | None = None, **options: Any
    ) -> Outcome | None:
        """The outcome; None if the process crashed."""
        with suppress(ProcessCrash):
            return asyncio.run(self.run_process(model, work or (lambda loop: loop.advance()), life=life, **options))
        mark_owner_dead(self.folder)
        return None


def _ignore_deaths(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Ignore exceptions in tasks of a crashed process."""
    if not isinstance(context.get("exception"), ProcessCrash):
        loop.default_exception_handler(context)

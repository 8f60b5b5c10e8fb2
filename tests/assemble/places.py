"""A project with a document in it, and what the tests of opened documents ask of one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from holdfast.agent.events import Outcome
from holdfast.assemble.chat import Chat, open_chat
from holdfast.contract.message import ToolResult
from tests.agent.scripted import Scripted
from tests.runtime.support import run

T = TypeVar("T")


class Place:
    """A project with a document in it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.document = root / "talk.chat"

    def write(self, text: str) -> Path:
        self.document.write_text(text)
        return self.document

    def drive(self, model: Scripted, look: Callable[[Chat], T] | None = None) -> tuple[Outcome, T | None]:
        async def session() -> tuple[Outcome, T | None]:
            async with open_chat(self.document, model=model) as chat:
                outcome = await chat.loop.advance()
                return outcome, None if look is None else look(chat)

        return run(session())

    def trust(self) -> None:
        async def session() -> None:
            async with open_chat(self.document, model=Scripted()) as chat:
                chat.setting.trust.trust(chat.path, chat.digest, by="ann")

        run(session())


def results(model: Scripted) -> list[ToolResult]:
    return [part for message in model.asked[-1] for part in message.parts if isinstance(part, ToolResult)]

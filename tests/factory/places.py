"""A project with a document in it, and what the tests of opened documents ask of one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from holdfast.agent.events import Outcome
from holdfast.contract.event import WarningRaised
from holdfast.contract.message import ToolResult
from holdfast.factory.chat import ChatSession, open_chat
from tests.agent.scripted import Scripted, said, use
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

    def drive(self, model: Scripted, look: Callable[[ChatSession], T] | None = None) -> tuple[Outcome, T | None]:
        async def session() -> tuple[Outcome, T | None]:
            async with open_chat(self.document, model=model) as chat:
                outcome = await chat.loop.advance()
                return outcome, None if look is None else look(chat)

        return run(session())

    def trust(self) -> None:
        async def session() -> None:
            async with open_chat(self.document, model=Scripted()) as chat:
                chat.project.trust.trust(chat.path, chat.digest, by="ann")

        run(session())


def results(model: Scripted) -> list[ToolResult]:
    return [part for message in model.asked[-1] for part in message.parts if isinstance(part, ToolResult)]


WRITES = '{"path": "Makefile", "content": "%s"}'
"""A protected path: always asked about."""


def asking(text: str = "x") -> Scripted:
    return Scripted(said(use("a", "file.write", WRITES % text)))


def approve(place: Place) -> None:
    place.write(place.document.read_text().replace("status=pending", "status=approved"))


def again(place: Place, **options: object) -> tuple[Outcome, list[str], Scripted]:
    """Drive it on; what was said as a warning."""
    warned: list[str] = []
    model = Scripted()

    def heard(event: object) -> None:
        if isinstance(event, WarningRaised):
            warned.append(event.message)

    async def session() -> Outcome:
        async with open_chat(place.document, model=model, on_event=heard, **options) as chat:  # type: ignore[arg-type]
            return await chat.loop.advance()

    return run(session()), warned, model


def hold(place: Place, model: Scripted | None = None) -> None:
    place.write("@You:\nGo.\n")
    assert place.drive(model or asking())[0].kind == "pending"


def background_lived(self: object, since: float | None = None) -> bool:
    """In place of `Hands.background_alive`: a process that has ended by now."""
    return since is not None

"""A project with a document, and helpers to advance it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from holdfast.agent.events import Outcome
from holdfast.contract.event import WarningRaised
from holdfast.contract.message import ToolResult
from holdfast.factory.chat import ChatSession, open_chat
from tests.agent.scripted_model import ScriptedModel, scripted_reply, use
from tests.runtime.support import run

T = TypeVar("T")


class ChatProject:
    """A project with a document."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.document = root / "talk.chat"

    def write(self, text: str) -> Path:
        self.document.write_text(text)
        return self.document

    def advance(self, model: ScriptedModel, look: Callable[[ChatSession], T] | None = None) -> tuple[Outcome, T | None]:
        async def session() -> tuple[Outcome, T | None]:
            async with open_chat(self.document, model=model) as chat:
                outcome = await chat.loop.advance()
                return outcome, None if look is None else look(chat)

        return run(session())

    def trust(self) -> None:
        async def session() -> None:
            async with open_chat(self.document, model=ScriptedModel()) as chat:
                chat.project.trust.trust(chat.path, chat.digest, by="ann")

        run(session())


def results(model: ScriptedModel) -> list[ToolResult]:
    return [part for message in model.requests[-1] for part in message.parts if isinstance(part, ToolResult)]


WRITES = '{"path": "Makefile", "content": "%s"}'
"""A protected path: always asked about."""


def asking_model(text: str = "x") -> ScriptedModel:
    return ScriptedModel(scripted_reply(use("a", "file.write", WRITES % text)))


def mark_approved(chat_project: ChatProject) -> None:
    chat_project.write(chat_project.document.read_text().replace("status=pending", "status=approved"))


def advance_again(chat_project: ChatProject, **options: object) -> tuple[Outcome, list[str], ScriptedModel]:
    """Open and advance the document again; return the outcome, the warnings and the model."""
    warned: list[str] = []
    model = ScriptedModel()

    def heard(event: object) -> None:
        if isinstance(event, WarningRaised):
            warned.append(event.message)

    async def session() -> Outcome:
        async with open_chat(chat_project.document, model=model, on_event=heard, **options) as chat:  # type: ignore[arg-type]
            return await chat.loop.advance()

    return run(session()), warned, model


def make_pending(chat_project: ChatProject, model: ScriptedModel | None = None) -> None:
    chat_project.write("@You:\nGo.\n")
    assert chat_project.advance(model or asking_model())[0].kind == "pending"


def process_was_alive(self: object, since: float | None = None) -> bool:
    """Stand-in for `writers_alive`: a process that has ended by now."""
    return since is not None

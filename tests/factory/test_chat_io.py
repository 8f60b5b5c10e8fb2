"""The cost of a turn: each call is prepared once, with few reads and writes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.agent.events import Outcome, PhaseStarted
from holdfast.chat import document_file
from holdfast.factory.chat import open_chat
from holdfast.runtime.pipeline import Pipeline
from tests.agent.scripted_model import ScriptedModel, scripted_reply, use
from tests.factory.chat_project import ChatProject
from tests.runtime.support import run


def _counting(count: Counter[str], what: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def counted(*args: Any, **options: Any) -> Any:
        count[what] += 1
        return function(*args, **options)

    return counted


@pytest.mark.spec("U1", "U4")
def test_a_turn_with_one_write_prepares_it_once(chat_project: ChatProject, monkeypatch: pytest.MonkeyPatch) -> None:
    count: Counter[str] = Counter()
    before_the_answer: list[int] = []
    read = Path.read_bytes

    def read_bytes(path: Path) -> bytes:
        count["side file read"] += path.suffix == ".json" and path.parent.name == "chats"
        return read(path)

    def note_request(event: object) -> None:
        if event == PhaseStarted("send"):
            before_the_answer.append(count["document written"])

    monkeypatch.setattr(document_file, "replace", _counting(count, "document written", document_file.replace))
    monkeypatch.setattr(Path, "read_bytes", read_bytes)
    monkeypatch.setattr(Pipeline, "_propose", _counting(count, "proposed", Pipeline._propose))  # pyright: ignore[reportPrivateUsage]
    chat_project.write("@You:\nwrite it\n")
    model = ScriptedModel(
        scripted_reply(use("a1", "file.write", '{"path": "b9.txt", "content": "hello"}')), scripted_reply("Done.")
    )

    async def session() -> Outcome:
        async with open_chat(chat_project.document, model=model, on_event=note_request) as chat:
            return await chat.loop.advance()

    assert run(session()).kind == "done"
    assert (chat_project.root / "b9.txt").read_text() == "hello"
    assert count["proposed"] == 1
    # The reply that asks for the call, and its result; then the model's last words.
    assert before_the_answer == [0, 2]
    assert count["document written"] == 3
    assert count["side file read"] <= 3

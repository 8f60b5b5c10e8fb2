"""Guard-rails in a document: enabled by any layer, with small output limits, and only narrowing."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.factory.chat import open_chat
from tests.agent.scripted_model import ScriptedModel, scripted_reply, use
from tests.factory.chat_project import ChatProject, results
from tests.runtime.support import run

ON: dict[str, Any] = {"guardrails.enabled": True}


def drive(chat_project: ChatProject, model: ScriptedModel, flags: dict[str, Any] | None = None) -> str:
    async def session() -> str:
        async with open_chat(chat_project.document, model=model, flags=flags) as chat:
            return (await chat.loop.advance()).kind

    return run(session())


@pytest.mark.spec("B2", "M4")
def test_with_guard_rails_outputs_are_limited_for_a_small_model(chat_project: ChatProject) -> None:
    (chat_project.root / "long.py").write_text("line\n" * 500)
    (chat_project.root / "needle.py").write_text("find_me = 1\n")
    (chat_project.root / "needle.weird").write_text("find_me = 2\n")
    chat_project.write("@You:\nWhere is find_me defined?\n")
    model = ScriptedModel(scripted_reply(use("s", "code.search", '{"query": "find_me"}')))
    drive(chat_project, model, ON)
    searched = results(model)[0].output
    assert "needle.py" in searched and "needle.weird" not in searched
    chat_project.write("@You:\nExplain long.py\n")
    model = ScriptedModel()
    drive(chat_project, model, ON)
    assert results(model)[0].output.count("line\n") == 200


@pytest.mark.spec("M4")
def test_without_guard_rails_outputs_are_not_limited(chat_project: ChatProject) -> None:
    chat_project.write("@You:\nread long.py\n")
    (chat_project.root / "long.py").write_text("line\n" * 500)
    model = ScriptedModel(scripted_reply("I need not."))
    assert drive(chat_project, model) == "done"
    assert "shell.exec" in model.tools[0] and len(model.requests) == 1
    assert model.requests[0][-1].text == "read long.py"


@pytest.mark.spec("M4", "A2")
def test_an_untrusted_project_can_enable_guard_rails_but_not_disable_them(chat_project: ChatProject) -> None:
    (chat_project.root / "needle.py").write_text("find_me = 1\n")
    (chat_project.root / "holdfast.toml").write_text("[guardrails]\nenabled = true\n")
    chat_project.write("@You:\nWhere is find_me defined?\n")
    model = ScriptedModel(scripted_reply("In needle.py."))
    drive(chat_project, model)
    assert model.tools == [[]]  # the search shows it, so the model only answers
    (chat_project.root / "holdfast.toml").write_text("[guardrails]\nenabled = false\nsurfaces = false\n")
    user = chat_project.root.parent / "config" / "holdfast" / "config.toml"
    user.parent.mkdir(parents=True)
    user.write_text("[guardrails]\nenabled = true\n")
    chat_project.write("@You:\nWhere is find_me used?\n")
    model = ScriptedModel(scripted_reply("Nowhere."))
    drive(chat_project, model)
    assert model.tools == [[]]


@pytest.mark.spec("M4", "P6")
def test_a_surface_shows_no_tool_that_the_document_lacks(chat_project: ChatProject) -> None:
    chat_project.write('```toml\ntools.deny = ["git.diff"]\n```\n\n@You:\nWhat was the last commit?\n')
    model = ScriptedModel(scripted_reply(use("w", "file.write", '{"path": "b.txt", "content": "x"}')))
    drive(chat_project, model, ON)
    assert model.tools[0] == ["git.log", "git.status", "output.read"]
    assert not (chat_project.root / "b.txt").exists()

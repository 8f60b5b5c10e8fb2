"""Guard-rails as a document gets them: switched on from anywhere, with the small caps, and only ever narrower."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.factory.chat import open_chat
from tests.agent.scripted import Scripted, said, use
from tests.factory.places import Place, results
from tests.runtime.support import run

ON: dict[str, Any] = {"guardrails.enabled": True}


def drive(place: Place, model: Scripted, flags: dict[str, Any] | None = None) -> str:
    async def session() -> str:
        async with open_chat(place.document, model=model, flags=flags) as chat:
            return (await chat.loop.advance()).kind

    return run(session())


@pytest.mark.spec("B2", "M4")
def test_with_guard_rails_tools_show_as_much_as_a_small_model_has_room_for(place: Place) -> None:
    (place.root / "long.py").write_text("line\n" * 500)
    (place.root / "needle.py").write_text("find_me = 1\n")
    (place.root / "needle.weird").write_text("find_me = 2\n")
    place.write("@You:\nWhere is find_me defined?\n")
    model = Scripted(said(use("s", "code.search", '{"query": "find_me"}')))
    drive(place, model, ON)
    searched = results(model)[0].output
    assert "needle.py" in searched and "needle.weird" not in searched
    place.write("@You:\nExplain long.py\n")
    model = Scripted()
    drive(place, model, ON)
    assert results(model)[0].output.count("line\n") == 200


@pytest.mark.spec("M4")
def test_without_guard_rails_nothing_is_different(place: Place) -> None:
    place.write("@You:\nread long.py\n")
    (place.root / "long.py").write_text("line\n" * 500)
    model = Scripted(said("I need not."))
    assert drive(place, model) == "done"
    assert "shell.exec" in model.tools[0] and len(model.asked) == 1
    assert model.asked[0][-1].text == "read long.py"


@pytest.mark.spec("M4", "A2")
def test_a_project_nobody_trusts_may_switch_them_on_and_not_off(place: Place) -> None:
    (place.root / "holdfast.toml").write_text("[guardrails]\nenabled = true\n")
    place.write("@You:\nHello there.\n")
    model = Scripted(said("Hello."))
    drive(place, model)
    assert model.tools == [[]]
    (place.root / "holdfast.toml").write_text("[guardrails]\nenabled = false\nsurfaces = false\n")
    user = place.root.parent / "config" / "holdfast" / "config.toml"
    user.parent.mkdir(parents=True)
    user.write_text("[guardrails]\nenabled = true\n")
    place.write("@You:\nHello again.\n")
    model = Scripted(said("Hello."))
    drive(place, model)
    assert model.tools == [[]]


@pytest.mark.spec("M4", "P6")
def test_a_surface_shows_nothing_that_the_document_does_not_have(place: Place) -> None:
    denied = '["file.write", "file.edit", "file.read", "code.search", "file.find"]'
    place.write(f"```toml\ntools.deny = {denied}\n```\n\n@You:\nlist src please, and write b.txt\n")
    model = Scripted(said(use("w", "file.write", '{"path": "b.txt", "content": "x"}')))
    drive(place, model, ON)
    assert model.tools[0] == ["file.list", "output.read"]
    assert not (place.root / "b.txt").exists()

"""Relative paths of built-in tools begin at the project root, from wherever the call is made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast import Result, Runtime
from holdfast.factory.chat import open_chat
from holdfast.factory.runtime import build_runtime, load_project
from holdfast.tools import builtin_tools
from tests.agent.scripted import Scripted
from tests.factory.places import Place
from tests.runtime.support import run

RUNS: dict[str, Any] = {"approval.require_approval": False, "sandbox.undo": "off"}


def filled(place: Place) -> Path:
    """A folder of the project with files of the same name as those at the root."""
    for name in ("a.py", "docs/a.py", "docs/deep/b.py"):
        path = place.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"needle of {name}\n")
    return place.root / "docs"


async def all_calls(runtime: Runtime) -> None:
    found = await runtime.call("code.search", {"query": "needle"})
    listed = await runtime.call("file.find", {"pattern": "*.py"})
    assert sorted(listed.output.splitlines()) == ["a.py", "docs/a.py", "docs/deep/b.py"]
    for name in listed.output.splitlines():
        assert f"{name} (1 match)\n  1: needle of {name}" in found.output
        assert (await runtime.call("file.read", {"path": name})).output == f"needle of {name}"
    inner = await runtime.call("code.search", {"query": "needle", "path": "docs/deep"})
    assert inner.output.startswith("docs/deep/b.py (1 match)") or "\ndocs/deep/b.py (1 match)" in inner.output
    inside = (await runtime.call("file.list", {"path": "docs", "recursive": True})).structured
    assert isinstance(inside, dict)
    entries: Any = inside["entries"]
    assert [item["path"] for item in entries if item["kind"] == "file"][:2] == ["docs/a.py", "docs/deep/b.py"]
    assert (await runtime.call("file.list", {"path": "docs"})).output.startswith("docs/deep/\ndocs/a.py\n")
    assert (await runtime.call("file.write", {"path": "new.txt", "content": "x"})).success
    root = runtime.workspace.root
    assert root is not None and (root / "new.txt").exists()
    assert await _printed(runtime, {"command": "pwd"}) == str(root)
    assert await _printed(runtime, {"command": "pwd", "cwd": "docs"}) == str(root / "docs")


async def _printed(runtime: Runtime, args: dict[str, Any]) -> str:
    result: Result = await runtime.call("shell.exec", args)
    return result.output


@pytest.mark.spec("N5")
def test_a_call_made_in_a_folder_of_the_project_names_paths_from_the_root(place: Place) -> None:
    async def session() -> None:
        async with build_runtime(load_project(filled(place), RUNS)) as runtime:
            await all_calls(runtime)

    run(session(), 120)


@pytest.mark.spec("N5")
def test_a_document_in_a_folder_names_paths_from_the_root_it_lies_in(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = filled(place) / "talk.chat"
    document.write_text("@You:\n@./a.py\n")
    monkeypatch.chdir(tmp_path)
    model = Scripted()

    async def session() -> None:
        async with open_chat(document, model=model, flags=RUNS) as chat:
            assert chat.runtime.workspace.root == place.root
            await all_calls(chat.runtime)
            await chat.loop.advance()

    run(session(), 120)
    assert "needle of docs/a.py" in str(model.asked[0]), "what a person writes is taken from the document"


@pytest.mark.spec("N5")
def test_the_schemas_say_where_paths_begin() -> None:
    said = {
        f"{tool.name} {name}": str(field.get("description", ""))
        for tool in builtin_tools()
        if tool.touches is not None or tool.name in ("shell.exec", "process.start")
        for name, field in tool.input_schema["properties"].items()  # pyright: ignore
        if name in ("path", "cwd")
    }
    assert len(said) >= 8
    assert {name for name, text in said.items() if "relative to the project root" not in text} == set()

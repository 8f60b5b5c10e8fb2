"""Relative paths of built-in tools start at the project root, wherever the call is made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast import Result, Runtime
from holdfast.factory.chat import open_chat
from holdfast.factory.runtime import build_runtime, load_project
from holdfast.tools import builtin_tools
from tests.agent.scripted_model import ScriptedModel
from tests.factory.chat_project import ChatProject
from tests.runtime.support import run

RUNS: dict[str, Any] = {"approval.require_approval": False, "sandbox.undo": "off"}


def filled(chat_project: ChatProject) -> Path:
    """A subfolder with files of the same names as those at the root."""
    for name in ("a.py", "docs/a.py", "docs/deep/b.py"):
        path = chat_project.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"needle of {name}\n")
    return chat_project.root / "docs"


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
def test_paths_of_a_call_in_a_subfolder_are_relative_to_the_root(chat_project: ChatProject) -> None:
    async def session() -> None:
        async with build_runtime(load_project(filled(chat_project), RUNS)) as runtime:
            await all_calls(runtime)

    run(session(), 120)


@pytest.mark.spec("N5")
def test_paths_in_a_document_in_a_subfolder_are_relative_to_the_root(
    chat_project: ChatProject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = filled(chat_project) / "talk.chat"
    document.write_text("@You:\n@./a.py\n")
    monkeypatch.chdir(tmp_path)
    model = ScriptedModel()

    async def session() -> None:
        async with open_chat(document, model=model, flags=RUNS) as chat:
            assert chat.runtime.workspace.root == chat_project.root
            await all_calls(chat.runtime)
            await chat.loop.advance()

    run(session(), 120)
    assert "needle of docs/a.py" in str(model.requests[0]), "what a person writes is taken from the document"


@pytest.mark.spec("N5")
def test_the_schemas_say_what_paths_are_relative_to() -> None:
    said = {
        f"{tool.name} {name}": str(field.get("description", ""))
        for tool in builtin_tools()
        if tool.touches is not None or tool.name in ("shell.exec", "process.start")
        for name, field in tool.input_schema["properties"].items()  # pyright: ignore
        if name in ("path", "cwd")
    }
    assert len(said) >= 8
    assert {name for name, text in said.items() if "relative to the project root" not in text} == set()

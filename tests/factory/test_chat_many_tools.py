"""A document with very many tools: the tools of a request, also from another process."""

from __future__ import annotations

import pytest

from holdfast.contract.message import ToolUse
from holdfast.contract.tool_finder import TOOL_SEARCH
from holdfast.tools import builtin_tools
from tests.agent.scripted_model import ScriptedModel, scripted_reply
from tests.factory.chat_project import ChatProject, results

pytestmark = pytest.mark.spec("R9")
FIXED = sorted(tool.name for tool in builtin_tools() if tool.enabled and {"minimal", "coding"} & {*tool.profiles})
"""The built-in tools of the default profile."""
CREATE = "mcp:github:create_issue"


def configure(chat_project: ChatProject, more: str = "") -> None:
    folder = chat_project.root.parent / "config" / "holdfast"
    folder.mkdir(parents=True, exist_ok=True)
    text = f"[tools]\nmodules = ['tests.factory.many_tools']\nallow = ['mcp:*']\n{more}"
    (folder / "config.toml").write_text(text)


def searching(query: str, limit: int) -> ToolUse:
    return ToolUse("a", TOOL_SEARCH, f'{{"query": "{query}", "limit": {limit}}}')


def test_a_document_with_many_tools_sends_those_it_searched_for(chat_project: ChatProject) -> None:
    configure(chat_project)
    chat_project.write("@You:\nGo.\n")
    model = ScriptedModel(
        scripted_reply(searching("create issue github", 2)), scripted_reply(ToolUse("b", CREATE, "{}"))
    )
    assert chat_project.advance(model)[0].kind == "done"
    assert TOOL_SEARCH in FIXED
    assert model.tools[0] == FIXED
    loaded = model.tools[1][len(FIXED) :]
    assert loaded[0] == CREATE and len(loaded) == 2
    assert model.tools[2] == model.tools[1] == [*FIXED, *loaded]
    assert results(model)[-1].output == "done"


def test_a_reopened_document_sends_the_same_tools(chat_project: ChatProject) -> None:
    configure(chat_project)
    chat_project.write("@You:\nGo.\n")
    first = ScriptedModel(
        scripted_reply(searching("archive a channel", 3)), scripted_reply(searching("create issue github", 2))
    )
    assert chat_project.advance(first)[0].kind == "done"
    chat_project.write(chat_project.document.read_text().rstrip() + "\nGo on.\n")
    second = ScriptedModel()
    assert chat_project.advance(second)[0].kind == "done"
    assert len(first.tools[-1]) == len(FIXED) + 5
    assert second.tools == [first.tools[-1]]


def test_the_tools_of_a_removed_search_are_no_longer_loaded(chat_project: ChatProject) -> None:
    configure(chat_project)
    chat_project.write("@You:\nGo.\n")
    first = ScriptedModel(scripted_reply(searching("create issue github", 2)))
    assert chat_project.advance(first)[0].kind == "done"
    assert len(first.tools[-1]) == len(FIXED) + 2
    chat_project.write("@You:\nSomething else.\n")
    second = ScriptedModel()
    chat_project.advance(second)
    assert second.tools == [FIXED]


def test_a_denied_tool_is_not_found(chat_project: ChatProject) -> None:
    configure(chat_project, "deny = ['mcp:github:*']\n")
    chat_project.write("@You:\nGo.\n")
    model = ScriptedModel(scripted_reply(searching("create issue github", 25)))
    assert chat_project.advance(model)[0].kind == "done"
    assert not [name for name in model.tools[1] if "github" in name]
    assert "github:" not in results(model)[0].output


def test_at_the_threshold_all_tools_are_sent(chat_project: ChatProject) -> None:
    there = len(FIXED) - 1 + 150
    configure(chat_project, f"search_threshold = {there}\n")
    chat_project.write("@You:\nGo.\n")
    model = ScriptedModel()
    chat_project.advance(model)
    assert len(model.tools[0]) == there and TOOL_SEARCH not in model.tools[0]
    configure(chat_project, f"search_threshold = {there - 1}\n")
    chat_project.write("@You:\nGo.\n")
    model = ScriptedModel()
    chat_project.advance(model)
    assert model.tools[0] == FIXED


def written(frontmatter: str) -> str:
    return f"```lua\n{frontmatter}\n```\n\n@You:\nGo.\n"


def test_a_document_that_names_only_server_tools_can_still_search_them(chat_project: ChatProject) -> None:
    configure(chat_project, "search_threshold = 5\n")
    chat_project.write(written('flemma.opt.tools = { "mcp:github:*" }'))
    model = ScriptedModel(scripted_reply(searching("create issue", 2)))
    assert chat_project.advance(model)[0].kind == "done"
    assert model.tools[0] == [TOOL_SEARCH]
    assert model.tools[1][:2] == [TOOL_SEARCH, CREATE] and not results(model)[0].error


@pytest.mark.parametrize(
    "frontmatter", [f'flemma.opt.tools:remove("{TOOL_SEARCH}")', 'flemma.opt.tools:remove("tool.*")']
)
def test_a_document_without_tool_search_sends_every_tool(chat_project: ChatProject, frontmatter: str) -> None:
    configure(chat_project)
    chat_project.write(written(frontmatter))
    model = ScriptedModel(scripted_reply(searching("create issue", 2)))
    chat_project.advance(model)
    assert len(model.tools[0]) == len(FIXED) - 1 + 150 and TOOL_SEARCH not in model.tools[0]
    assert results(model)[0].error

"""A document with very many tools: what its model is sent, and that another process sends the same."""

from __future__ import annotations

import pytest

from holdfast.contract.message import ToolUse
from holdfast.contract.tool_finder import TOOL_SEARCH
from holdfast.tools import builtin_tools
from tests.agent.scripted import Scripted, said
from tests.factory.places import Place, results

pytestmark = pytest.mark.spec("R9")
FIXED = sorted(tool.name for tool in builtin_tools() if tool.enabled)
CREATE = "mcp:github:create_issue"


def configure(place: Place, more: str = "") -> None:
    folder = place.root.parent / "config" / "holdfast"
    folder.mkdir(parents=True, exist_ok=True)
    text = f"[tools]\nmodules = ['tests.factory.crowd']\nallow = ['mcp:*']\n{more}"
    (folder / "config.toml").write_text(text)


def searching(query: str, limit: int) -> ToolUse:
    return ToolUse("a", TOOL_SEARCH, f'{{"query": "{query}", "limit": {limit}}}')


def test_a_document_with_many_tools_is_sent_what_it_searched_for(place: Place) -> None:
    configure(place)
    place.write("@You:\nGo.\n")
    model = Scripted(said(searching("create issue github", 2)), said(ToolUse("b", CREATE, "{}")))
    assert place.drive(model)[0].kind == "done"
    assert TOOL_SEARCH in FIXED
    assert model.tools[0] == FIXED
    loaded = model.tools[1][len(FIXED) :]
    assert loaded[0] == CREATE and len(loaded) == 2
    assert model.tools[2] == model.tools[1] == [*FIXED, *loaded]
    assert results(model)[-1].output == "done"


def test_a_document_that_is_opened_again_sends_the_same(place: Place) -> None:
    configure(place)
    place.write("@You:\nGo.\n")
    first = Scripted(said(searching("archive a channel", 3)), said(searching("create issue github", 2)))
    assert place.drive(first)[0].kind == "done"
    place.write(place.document.read_text().rstrip() + "\nGo on.\n")
    second = Scripted()
    assert place.drive(second)[0].kind == "done"
    assert len(first.tools[-1]) == len(FIXED) + 5
    assert second.tools == [first.tools[-1]]


def test_a_search_taken_out_of_the_document_is_not_loaded_any_more(place: Place) -> None:
    configure(place)
    place.write("@You:\nGo.\n")
    first = Scripted(said(searching("create issue github", 2)))
    assert place.drive(first)[0].kind == "done"
    assert len(first.tools[-1]) == len(FIXED) + 2
    place.write("@You:\nSomething else.\n")
    second = Scripted()
    place.drive(second)
    assert second.tools == [FIXED]


def test_a_denied_tool_is_not_found(place: Place) -> None:
    configure(place, "deny = ['mcp:github:*']\n")
    place.write("@You:\nGo.\n")
    model = Scripted(said(searching("create issue github", 25)))
    assert place.drive(model)[0].kind == "done"
    assert not [name for name in model.tools[1] if "github" in name]
    assert "github:" not in results(model)[0].output


def test_as_many_tools_as_the_threshold_are_all_sent(place: Place) -> None:
    there = len(FIXED) - 1 + 150
    configure(place, f"search_threshold = {there}\n")
    place.write("@You:\nGo.\n")
    model = Scripted()
    place.drive(model)
    assert len(model.tools[0]) == there and TOOL_SEARCH not in model.tools[0]
    configure(place, f"search_threshold = {there - 1}\n")
    place.write("@You:\nGo.\n")
    model = Scripted()
    place.drive(model)
    assert model.tools[0] == FIXED


def written(frontmatter: str) -> str:
    return f"```lua\n{frontmatter}\n```\n\n@You:\nGo.\n"


def test_a_document_that_names_only_tools_of_servers_can_still_search_them(place: Place) -> None:
    configure(place, "search_threshold = 5\n")
    place.write(written('flemma.opt.tools = { "mcp:github:*" }'))
    model = Scripted(said(searching("create issue", 2)))
    assert place.drive(model)[0].kind == "done"
    assert model.tools[0] == [TOOL_SEARCH]
    assert model.tools[1][:2] == [TOOL_SEARCH, CREATE] and not results(model)[0].error


@pytest.mark.parametrize(
    "frontmatter", [f'flemma.opt.tools:remove("{TOOL_SEARCH}")', 'flemma.opt.tools:remove("tool.*")']
)
def test_a_document_that_takes_the_search_away_is_sent_everything(place: Place, frontmatter: str) -> None:
    configure(place)
    place.write(written(frontmatter))
    model = Scripted(said(searching("create issue", 2)))
    place.drive(model)
    assert len(model.tools[0]) == len(FIXED) - 1 + 150 and TOOL_SEARCH not in model.tools[0]
    assert results(model)[0].error

"""With very many tools a model is sent the built-in ones and those it searched for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast.agent.result_history import ResultHistory
from holdfast.agent.surface import MAX_LOADED, Surface, ToolCatalog, ToolLoader
from holdfast.contract.message import Message, Text, ToolResult, ToolUse
from holdfast.contract.result import Result
from holdfast.contract.tool_finder import TOOL_SEARCH
from holdfast.models.text_protocol.text_model import TextModel
from holdfast.tools import builtin_tools
from holdfast.tools.tool_search import TOOL_SEARCH_TOOL
from tests.agent.many_tools_harness import BUILTIN, FAKE_TOOLS, TOOL_COUNT, ManyToolsHarness, searching, word
from tests.agent.scripted_model import ScriptedModel, scripted_reply
from tests.runtime.support import runtime_in

pytestmark = pytest.mark.spec("R9")


CATALOG = ToolCatalog(
    [tool for tool in (*builtin_tools(), *FAKE_TOOLS) if tool is not TOOL_SEARCH_TOOL], TOOL_SEARCH_TOOL
)


def test_the_first_request_has_the_built_in_tools_and_tool_search(tmp_path: Path) -> None:
    harness = ManyToolsHarness(tmp_path)
    assert harness.advance().kind == "done"
    assert TOOL_SEARCH in BUILTIN
    assert harness.sent == [BUILTIN]


def test_tools_found_by_a_search_follow_in_the_order_they_were_loaded(tmp_path: Path) -> None:
    harness = ManyToolsHarness(
        tmp_path,
        scripted_reply(searching("a", word(90))),
        scripted_reply(searching("b", word(7))),
        scripted_reply(searching("c", word(90))),
        scripted_reply(ToolUse("d", "mcp:x:tool_90", "{}")),
    )
    assert harness.advance().kind == "done"
    first, second = [*BUILTIN, "mcp:x:tool_90"], [*BUILTIN, "mcp:x:tool_90", "mcp:x:tool_7"]
    assert harness.sent == [BUILTIN, first, second, second, second]
    assert harness.results()[-1].output == "mcp:x:tool_90 ran"


def test_the_best_match_of_a_search_is_loaded_first(tmp_path: Path) -> None:
    harness = ManyToolsHarness(tmp_path, scripted_reply(searching("a", f"{word(31)} tool_80", 3)))
    harness.advance()
    loaded = harness.sent[1][len(BUILTIN) :]
    assert loaded[:2] == ["mcp:x:tool_80", "mcp:x:tool_31"] and len(loaded) == 3


def test_the_results_of_two_searches_in_one_reply_are_loaded_in_order(tmp_path: Path) -> None:
    harness = ManyToolsHarness(tmp_path, scripted_reply(searching("a", word(9)), searching("b", word(3))))
    harness.advance()
    assert harness.sent[1] == [*BUILTIN, "mcp:x:tool_9", "mcp:x:tool_3"]


def test_another_process_sends_the_same_tools(tmp_path: Path) -> None:
    harness = ManyToolsHarness(
        tmp_path, scripted_reply(searching("a", word(90))), scripted_reply(searching("b", word(7)))
    )
    assert harness.advance().kind == "done"
    harness.user.say("Go on.")
    assert harness.advance().kind == "done"
    assert harness.sent[-2:] == [[*BUILTIN, "mcp:x:tool_90", "mcp:x:tool_7"]] * 2


def test_at_the_threshold_all_tools_are_sent_and_above_it_they_are_not(tmp_path: Path) -> None:
    there = len(BUILTIN) - 1 + len(("note", "ask")) + TOOL_COUNT
    harness = ManyToolsHarness(tmp_path / "equal", threshold=there)
    harness.advance()
    everything = sorted({*BUILTIN, "note", "ask", *(tool.name for tool in FAKE_TOOLS)} - {TOOL_SEARCH})
    assert harness.sent == [everything] and len(everything) == there
    harness = ManyToolsHarness(tmp_path / "more", threshold=there - 1)
    harness.advance()
    assert harness.sent == [BUILTIN]


def test_built_in_tools_are_sent_even_above_the_threshold(tmp_path: Path) -> None:
    harness = ManyToolsHarness(tmp_path, scripted_reply(searching("a", word(90))), threshold=1)
    harness.advance()
    assert harness.sent == [BUILTIN, [*BUILTIN, "mcp:x:tool_90"]]


def test_a_denied_tool_is_neither_found_nor_loaded(tmp_path: Path) -> None:
    harness = ManyToolsHarness(tmp_path, scripted_reply(searching("a", word(90))), deny=("mcp:x:tool_90",))
    harness.advance()
    assert harness.sent == [BUILTIN, BUILTIN]
    assert "tool_90" not in harness.results()[0].output


def test_a_tool_that_is_denied_later_is_no_longer_loaded(tmp_path: Path) -> None:
    harness = ManyToolsHarness(tmp_path, scripted_reply(searching("a", word(90))))
    harness.advance()
    harness.deny = ("mcp:x:tool_90",)
    harness.user.say("Go on.")
    harness.advance()
    assert harness.sent[1:] == [[*BUILTIN, "mcp:x:tool_90"], BUILTIN]


def test_a_caller_without_tool_search_is_sent_every_tool(tmp_path: Path) -> None:
    harness = ManyToolsHarness(tmp_path, deny=(TOOL_SEARCH,))
    harness.advance()
    assert len(harness.sent[0]) == len(BUILTIN) - 1 + 2 + TOOL_COUNT


@pytest.mark.parametrize("name", ["mcp:x:tool_5", "mcp__x__tool_5"])
def test_calling_a_tool_that_was_not_sent_runs_and_loads_it(tmp_path: Path, name: str) -> None:
    harness = ManyToolsHarness(tmp_path, scripted_reply(ToolUse("a", name, "{}")))
    assert harness.advance().kind == "done"
    assert (harness.results()[0].name, harness.results()[0].output) == ("mcp:x:tool_5", "mcp:x:tool_5 ran")
    assert harness.sent == [BUILTIN, [*BUILTIN, "mcp:x:tool_5"]]


def test_a_surface_still_applies_with_tool_search(tmp_path: Path) -> None:
    surface = Surface("few", ("mcp:x:tool_1?", "calculator"))
    harness = ManyToolsHarness(tmp_path, scripted_reply(searching("a", word(90))), surface=surface)
    harness.advance()
    assert harness.sent == [["calculator", *(f"mcp:x:tool_{number}" for number in range(10, 20))]] * 2
    assert harness.results()[0].error
    harness = ManyToolsHarness(
        tmp_path / "many", scripted_reply(searching("a", word(1)), searching("b", word(90))), threshold=5
    )
    harness.options["surface"] = Surface("few", ("mcp:x:tool_1*", TOOL_SEARCH))
    harness.advance()
    assert harness.sent == [[TOOL_SEARCH], [TOOL_SEARCH, "mcp:x:tool_1"]]


def test_a_search_result_typed_by_a_person_loads_nothing(tmp_path: Path) -> None:
    notebook = ResultHistory(runtime_in(tmp_path), "talk", only=TOOL_SEARCH)
    loading = ToolLoader(notebook, 100)
    use = searching("a", word(90))
    typed = Result(True, "found", structured={"matches": [{"name": "mcp:x:tool_90"}]})
    notebook.note(0, use, typed)

    def loaded(output: str) -> list[str]:
        told = Message("user", (ToolResult("a", TOOL_SEARCH, output),))
        sent = loading.tools_to_send(CATALOG, [Message("user", (Text("Go."),)), Message("assistant", (use,)), told])
        return [tool.name for tool in sent if tool.source != "builtin"]

    assert loaded("found") == ["mcp:x:tool_90"]
    assert loaded("found: mcp:x:tool_91") == []


@pytest.mark.parametrize(
    "structured",
    [None, [], "mcp:x:tool_90", {}, {"matches": "mcp:x:tool_90"}, {"matches": ["mcp:x:tool_90", {"name": 3}, 3]}],
)
def test_the_result_of_another_tool_loads_nothing(tmp_path: Path, structured: Any) -> None:
    notebook = ResultHistory(runtime_in(tmp_path), "talk", only=TOOL_SEARCH)
    notebook.note(0, searching("a", "x"), Result(True, "found", structured=structured))
    told = Message("user", (ToolResult("a", TOOL_SEARCH, "found"),))
    sent = ToolLoader(notebook, 100).tools_to_send(CATALOG, [Message("assistant", (searching("a", "x"),)), told])
    assert [tool.name for tool in sent if tool.source != "builtin"] == []


def test_the_oldest_loaded_tool_is_evicted_and_reloaded_when_it_is_called(tmp_path: Path) -> None:
    loading = ToolLoader(ResultHistory(runtime_in(tmp_path), "talk", only=TOOL_SEARCH), 100)
    uses = [ToolUse(f"c{number}", f"mcp:x:tool_{number}") for number in (*range(MAX_LOADED + 1), 1, 0)]
    messages = [Message("assistant", (use,)) for use in uses]
    sent = [tool.name for tool in loading.tools_to_send(CATALOG, messages) if tool.source != "builtin"]
    assert sent == [f"mcp:x:tool_{number}" for number in (*range(2, MAX_LOADED + 1), 0)]


def test_a_text_protocol_model_is_told_of_the_same_tools(tmp_path: Path) -> None:
    harness = ManyToolsHarness(tmp_path)
    inner = ScriptedModel(scripted_reply(f'[call: {TOOL_SEARCH}]{{"query": "{word(90)}", "limit": null}}[/call]'))
    harness.model = TextModel(inner)  # type: ignore[assignment]
    assert harness.advance().kind == "done"
    told = [messages[0].text for messages in inner.requests]
    assert [text.count("[call: mcp:x:") for text in told] == [0, 1]
    assert "[call: mcp:x:tool_90]" in told[1]
    assert all(f"[call: {TOOL_SEARCH}]" in text for text in told)

"""With very many tools a model is sent those that come with holdfast, and what it has searched for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from holdfast import Config, Tool
from holdfast.agent.result_history import ResultHistory
from holdfast.agent.surface import MAX_LOADED, Surface, ToolCatalog, ToolLoader
from holdfast.config.config import ApprovalConfig, ToolsConfig
from holdfast.contract.message import Message, Text, ToolResult, ToolUse
from holdfast.contract.result import Result
from holdfast.contract.tool_finder import TOOL_SEARCH
from holdfast.models.text_protocol.text_model import TextModel
from holdfast.tools import builtin_tools
from holdfast.tools.tool_search import TOOL_SEARCH_TOOL
from tests.agent.scripted import Scripted, Stage, said, saying
from tests.runtime.support import runtime_in

pytestmark = pytest.mark.spec("R9")
COUNT = 150


def fake(name: str, description: str = "") -> Tool:
    return saying(name, f"{name} ran").with_(description=description, source="mcp:x")


def word(number: int) -> str:
    """One word that only this tool has."""
    return "only" + "".join("abcdefghij"[int(digit)] for digit in str(number))


FAKES = [fake(f"mcp:x:tool_{number}", f"Does {word(number)}.") for number in range(COUNT)]
BUILTIN = sorted(tool.name for tool in builtin_tools() if tool.enabled)
CROWD = ToolCatalog([tool for tool in (*builtin_tools(), *FAKES) if tool is not TOOL_SEARCH_TOOL], TOOL_SEARCH_TOOL)


def searching(use_id: str, query: str, limit: int | None = None) -> ToolUse:
    limited = "null" if limit is None else str(limit)
    return ToolUse(use_id, TOOL_SEARCH, f'{{"query": "{query}", "limit": {limited}}}')


class Crowded(Stage):
    """A stage with many tools."""

    def __init__(self, folder: Path, *replies: Any, threshold: int = 100, deny: Sequence[str] = (), **options: Any):
        folder.mkdir(exist_ok=True)
        super().__init__(folder, *replies, tools=(*builtin_tools(), *FAKES), **options)
        self.threshold, self.deny = threshold, tuple(deny)

    def config(self) -> Config:
        tools = ToolsConfig(allow=("mcp:*",), deny=self.deny, search_threshold=self.threshold)
        return Config(tools=tools, approval=ApprovalConfig(auto_approve=("note",), presets={}))

    @property
    def sent(self) -> list[list[str]]:
        return self.model.tools


def test_the_first_request_holds_what_comes_with_holdfast_and_the_search(tmp_path: Path) -> None:
    stage = Crowded(tmp_path)
    assert stage.advance().kind == "done"
    assert TOOL_SEARCH in BUILTIN
    assert stage.sent == [BUILTIN]


def test_what_a_search_found_follows_in_the_order_of_loading(tmp_path: Path) -> None:
    stage = Crowded(
        tmp_path,
        said(searching("a", word(90))),
        said(searching("b", word(7))),
        said(searching("c", word(90))),
        said(ToolUse("d", "mcp:x:tool_90", "{}")),
    )
    assert stage.advance().kind == "done"
    first, second = [*BUILTIN, "mcp:x:tool_90"], [*BUILTIN, "mcp:x:tool_90", "mcp:x:tool_7"]
    assert stage.sent == [BUILTIN, first, second, second, second]
    assert stage.results()[-1].output == "mcp:x:tool_90 ran"


def test_the_best_match_of_a_search_is_loaded_first(tmp_path: Path) -> None:
    stage = Crowded(tmp_path, said(searching("a", f"{word(31)} tool_80", 3)))
    stage.advance()
    loaded = stage.sent[1][len(BUILTIN) :]
    assert loaded[:2] == ["mcp:x:tool_80", "mcp:x:tool_31"] and len(loaded) == 3


def test_two_searches_of_one_reply_are_loaded_in_their_order(tmp_path: Path) -> None:
    stage = Crowded(tmp_path, said(searching("a", word(9)), searching("b", word(3))))
    stage.advance()
    assert stage.sent[1] == [*BUILTIN, "mcp:x:tool_9", "mcp:x:tool_3"]


def test_another_process_sends_the_same(tmp_path: Path) -> None:
    stage = Crowded(tmp_path, said(searching("a", word(90))), said(searching("b", word(7))))
    assert stage.advance().kind == "done"
    stage.person.say("Go on.")
    assert stage.advance().kind == "done"
    assert stage.sent[-2:] == [[*BUILTIN, "mcp:x:tool_90", "mcp:x:tool_7"]] * 2


def test_exactly_as_many_tools_as_the_threshold_are_all_sent_and_one_more_is_not(tmp_path: Path) -> None:
    there = len(BUILTIN) - 1 + len(("note", "ask")) + COUNT
    stage = Crowded(tmp_path / "equal", threshold=there)
    stage.advance()
    everything = sorted({*BUILTIN, "note", "ask", *(tool.name for tool in FAKES)} - {TOOL_SEARCH})
    assert stage.sent == [everything] and len(everything) == there
    stage = Crowded(tmp_path / "more", threshold=there - 1)
    stage.advance()
    assert stage.sent == [BUILTIN]


def test_what_comes_with_holdfast_is_sent_even_if_that_alone_is_more(tmp_path: Path) -> None:
    stage = Crowded(tmp_path, said(searching("a", word(90))), threshold=1)
    stage.advance()
    assert stage.sent == [BUILTIN, [*BUILTIN, "mcp:x:tool_90"]]


def test_a_tool_that_is_denied_is_neither_found_nor_loaded(tmp_path: Path) -> None:
    stage = Crowded(tmp_path, said(searching("a", word(90))), deny=("mcp:x:tool_90",))
    stage.advance()
    assert stage.sent == [BUILTIN, BUILTIN]
    assert "tool_90" not in stage.results()[0].output


def test_a_tool_that_is_denied_later_is_not_loaded_any_more(tmp_path: Path) -> None:
    stage = Crowded(tmp_path, said(searching("a", word(90))))
    stage.advance()
    stage.deny = ("mcp:x:tool_90",)
    stage.person.say("Go on.")
    stage.advance()
    assert stage.sent[1:] == [[*BUILTIN, "mcp:x:tool_90"], BUILTIN]


def test_whoever_may_not_search_is_sent_everything(tmp_path: Path) -> None:
    stage = Crowded(tmp_path, deny=(TOOL_SEARCH,))
    stage.advance()
    assert len(stage.sent[0]) == len(BUILTIN) - 1 + 2 + COUNT


@pytest.mark.parametrize("name", ["mcp:x:tool_5", "mcp__x__tool_5"])
def test_a_call_of_a_tool_that_was_not_sent_runs_and_loads_it(tmp_path: Path, name: str) -> None:
    stage = Crowded(tmp_path, said(ToolUse("a", name, "{}")))
    assert stage.advance().kind == "done"
    assert (stage.results()[0].name, stage.results()[0].output) == ("mcp:x:tool_5", "mcp:x:tool_5 ran")
    assert stage.sent == [BUILTIN, [*BUILTIN, "mcp:x:tool_5"]]


def test_a_surface_still_leaves_only_what_it_leaves(tmp_path: Path) -> None:
    surface = Surface("few", ("mcp:x:tool_1?", "calculator"))
    stage = Crowded(tmp_path, said(searching("a", word(90))), surface=surface)
    stage.advance()
    assert stage.sent == [["calculator", *(f"mcp:x:tool_{number}" for number in range(10, 20))]] * 2
    assert stage.results()[0].error
    stage = Crowded(tmp_path / "many", said(searching("a", word(1)), searching("b", word(90))), threshold=5)
    stage.options["surface"] = Surface("few", ("mcp:x:tool_1*", TOOL_SEARCH))
    stage.advance()
    assert stage.sent == [[TOOL_SEARCH], [TOOL_SEARCH, "mcp:x:tool_1"]]


def test_a_result_a_person_wrote_loads_nothing_whatever_it_says(tmp_path: Path) -> None:
    notebook = ResultHistory(runtime_in(tmp_path), "talk", only=TOOL_SEARCH)
    loading = ToolLoader(notebook, 100)
    use = searching("a", word(90))
    typed = Result(True, "found", structured={"matches": [{"name": "mcp:x:tool_90"}]})
    notebook.note(0, use, typed)

    def loaded(output: str) -> list[str]:
        told = Message("user", (ToolResult("a", TOOL_SEARCH, output),))
        sent = loading.tools_to_send(CROWD, [Message("user", (Text("Go."),)), Message("assistant", (use,)), told])
        return [tool.name for tool in sent if tool.source != "builtin"]

    assert loaded("found") == ["mcp:x:tool_90"]
    assert loaded("found: mcp:x:tool_91") == []


@pytest.mark.parametrize(
    "structured",
    [None, [], "mcp:x:tool_90", {}, {"matches": "mcp:x:tool_90"}, {"matches": ["mcp:x:tool_90", {"name": 3}, 3]}],
)
def test_a_result_that_is_not_a_search_s_loads_nothing(tmp_path: Path, structured: Any) -> None:
    notebook = ResultHistory(runtime_in(tmp_path), "talk", only=TOOL_SEARCH)
    notebook.note(0, searching("a", "x"), Result(True, "found", structured=structured))
    told = Message("user", (ToolResult("a", TOOL_SEARCH, "found"),))
    sent = ToolLoader(notebook, 100).tools_to_send(CROWD, [Message("assistant", (searching("a", "x"),)), told])
    assert [tool.name for tool in sent if tool.source != "builtin"] == []


def test_the_tool_loaded_first_goes_when_there_are_too_many_and_comes_back_when_it_is_called(tmp_path: Path) -> None:
    loading = ToolLoader(ResultHistory(runtime_in(tmp_path), "talk", only=TOOL_SEARCH), 100)
    uses = [ToolUse(f"c{number}", f"mcp:x:tool_{number}") for number in (*range(MAX_LOADED + 1), 1, 0)]
    messages = [Message("assistant", (use,)) for use in uses]
    sent = [tool.name for tool in loading.tools_to_send(CROWD, messages) if tool.source != "builtin"]
    assert sent == [f"mcp:x:tool_{number}" for number in (*range(2, MAX_LOADED + 1), 0)]


def test_a_model_that_writes_its_calls_is_told_of_the_same_tools(tmp_path: Path) -> None:
    stage = Crowded(tmp_path)
    inner = Scripted(said(f'[call: {TOOL_SEARCH}]{{"query": "{word(90)}", "limit": null}}[/call]'))
    stage.model = TextModel(inner)  # type: ignore[assignment]
    assert stage.advance().kind == "done"
    told = [messages[0].text for messages in inner.asked]
    assert [text.count("[call: mcp:x:") for text in told] == [0, 1]
    assert "[call: mcp:x:tool_90]" in told[1]
    assert all(f"[call: {TOOL_SEARCH}]" in text for text in told)


def test_what_follows_from_the_tools_is_worked_out_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []

    class Counted(ToolCatalog):
        def __init__(self, tools: Sequence[Tool], search: Tool | None) -> None:
            made.append(len(tools))
            super().__init__(tools, search)

    monkeypatch.setattr("holdfast.agent.loop_context.ToolCatalog", Counted)
    stage = Crowded(tmp_path, said(searching("a", word(90))), said(searching("b", word(7))))
    stage.options["surface"] = Surface("most", ("mcp:x:*",))
    assert stage.advance().kind == "done"
    assert stage.sent[-1] == [TOOL_SEARCH, "mcp:x:tool_90", "mcp:x:tool_7"]
    assert made == [COUNT]

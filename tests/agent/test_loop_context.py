"""State that the phases of the loop share: the cached tool catalog and event handlers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from holdfast import Tool
from holdfast.agent.events import AgentEvent
from holdfast.agent.surface import Surface, ToolCatalog
from holdfast.contract.tool_finder import TOOL_SEARCH
from tests.agent.many_tools_harness import TOOL_COUNT, ManyToolsHarness, searching, word
from tests.agent.scripted_model import LoopHarness, scripted_reply, use


def test_the_tool_catalog_is_cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []

    class Counted(ToolCatalog):
        def __init__(self, tools: Sequence[Tool], search: Tool | None) -> None:
            made.append(len(tools))
            super().__init__(tools, search)

    monkeypatch.setattr("holdfast.agent.loop_context.ToolCatalog", Counted)
    harness = ManyToolsHarness(
        tmp_path, scripted_reply(searching("a", word(90))), scripted_reply(searching("b", word(7)))
    )
    harness.options["surface"] = Surface("most", ("mcp:x:*",))
    assert harness.advance().kind == "done"
    assert harness.sent[-1] == [TOOL_SEARCH, "mcp:x:tool_90", "mcp:x:tool_7"]
    assert made == [TOOL_COUNT]


@pytest.mark.spec("U1")
def test_a_failing_event_handler_does_not_affect_a_call(tmp_path: Path) -> None:
    def broken(event: AgentEvent) -> None:
        raise BrokenPipeError

    harness = LoopHarness(tmp_path, scripted_reply(use("a1")), on_event=broken)
    assert harness.advance().kind == "done"
    assert [result.output for result in harness.results()] == ["noted x"]

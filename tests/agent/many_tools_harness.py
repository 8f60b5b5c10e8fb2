"""A loop harness with more tools than fit into one request."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from holdfast import Config, Tool
from holdfast.config.config import ApprovalConfig, ToolsConfig
from holdfast.contract.message import ToolUse
from holdfast.contract.tool_finder import TOOL_SEARCH
from holdfast.tools import builtin_tools
from tests.agent.scripted_model import LoopHarness, fixed_tool

TOOL_COUNT = 150


def fake_tool(name: str, description: str = "") -> Tool:
    return fixed_tool(name, f"{name} ran").with_(description=description, source="mcp:x")


def word(number: int) -> str:
    """A word that only this tool contains."""
    return "only" + "".join("abcdefghij"[int(digit)] for digit in str(number))


FAKE_TOOLS = [fake_tool(f"mcp:x:tool_{number}", f"Does {word(number)}.") for number in range(TOOL_COUNT)]


BUILTIN = sorted(tool.name for tool in builtin_tools() if tool.enabled and {"minimal", "coding"} & {*tool.profiles})
"""The built-in tools of the default profile."""


def searching(use_id: str, query: str, limit: int | None = None) -> ToolUse:
    limited = "null" if limit is None else str(limit)
    return ToolUse(use_id, TOOL_SEARCH, f'{{"query": "{query}", "limit": {limited}}}')


class ManyToolsHarness(LoopHarness):
    """A harness with many tools."""

    def __init__(self, folder: Path, *replies: Any, threshold: int = 100, deny: Sequence[str] = (), **options: Any):
        folder.mkdir(exist_ok=True)
        super().__init__(folder, *replies, tools=(*builtin_tools(), *FAKE_TOOLS), **options)
        self.threshold, self.deny = threshold, tuple(deny)

    def config(self) -> Config:
        tools = ToolsConfig(allow=("mcp:*",), deny=self.deny, search_threshold=self.threshold)
        return Config(tools=tools, approval=ApprovalConfig(auto_approve=("note",), presets={}))

    @property
    def sent(self) -> list[list[str]]:
        return self.model.tools

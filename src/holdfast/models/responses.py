"""OpenAI's Responses API, with one difference from pydantic-ai: `strict` is sent only where a tool asks for it.

Heavy to import; only `clients` does, when a request is made.
"""

from __future__ import annotations

from typing import Any, cast

from openai.types.responses import FunctionToolParam
from pydantic_ai.models import ToolVisibility
from pydantic_ai.models.openai import OpenAIResponsesModel
from pydantic_ai.tools import ToolDefinition


class Responses(OpenAIResponsesModel):
    def _map_tool_definition(self, f: ToolDefinition, *, visibility: ToolVisibility) -> FunctionToolParam:
        tool: dict[str, Any] = dict(super()._map_tool_definition(f, visibility=visibility))
        if not f.strict:
            del tool["strict"]
        return cast(FunctionToolParam, tool)

"""Registers and calls plain functions with each contender; holdfast is one entry of the same dict.

Each function imports its contender itself, because it runs in an environment that holds only that contender.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

from measure import Call

Functions = Sequence[Callable[..., Any]]
"""Plain functions, async or sync, with type hints and a docstring; the first one is called `add`."""


@dataclass(frozen=True)
class Routes:
    """The ways to call `add` with JSON text, and to list every tool for a model."""

    by_name: Call
    direct: Call | None = None
    listing: Callable[[], Any] | None = None


Build = Callable[[Functions, AsyncExitStack], Awaitable[Routes]]


async def holdfast(functions: Functions, stack: AsyncExitStack) -> Routes:
    from holdfast import Runtime, tool

    runtime = Runtime(tools=[tool(effects=())(function) for function in functions])
    await stack.enter_async_context(runtime)
    return Routes(lambda text: runtime.call("add", text), listing=lambda: runtime.tool_list("openai"))


async def strands_agents(functions: Functions, stack: AsyncExitStack) -> Routes:
    from strands import tool
    from strands.tools.registry import ToolRegistry

    registry = ToolRegistry()
    registry.process_tools([tool(function) for function in functions])
    tools = registry.registry

    async def call(text: str) -> Any:
        use = {"toolUseId": "1", "name": "add", "input": json.loads(text)}
        last = None
        async for event in tools["add"].stream(use, {}):
            last = event
        return last

    return Routes(call, listing=registry.get_all_tool_specs)


async def openai_agents(functions: Functions, stack: AsyncExitStack) -> Routes:
    from agents import function_tool
    from agents.models.chatcmpl_converter import Converter
    from agents.tool_context import ToolContext

    tools = [function_tool(function) for function in functions]
    add = tools[0]
    shared = ToolContext(None, tool_name="add", tool_call_id="1", tool_arguments="")

    def call(text: str) -> Awaitable[Any]:
        return add.on_invoke_tool(ToolContext(None, tool_name="add", tool_call_id="1", tool_arguments=text), text)

    return Routes(
        call,
        direct=lambda text: add.on_invoke_tool(shared, text),
        listing=lambda: [Converter.tool_to_openai(tool) for tool in tools],
    )


async def pydantic_ai(functions: Functions, stack: AsyncExitStack) -> Routes:
    from pydantic_ai import FunctionToolset, RunContext, RunUsage
    from pydantic_ai.messages import ToolCallPart
    from pydantic_ai.models.test import TestModel
    from pydantic_ai.tool_manager import ToolManager

    toolset = FunctionToolset(list(functions))
    context = RunContext(deps=None, model=TestModel(), usage=RunUsage())
    add = (await toolset.get_tools(context))["add"]
    manager = await ToolManager(toolset).for_run_step(context)
    validate = add.args_validator.validate_json
    return Routes(
        lambda text: manager.handle_call(ToolCallPart("add", text, tool_call_id="1")),
        direct=lambda text: toolset.call_tool("add", validate(text), context, add),
        listing=lambda: toolset.get_tools(context),
    )


async def mcp(functions: Functions, stack: AsyncExitStack) -> Routes:
    from mcp.server import MCPServer
    from mcp.server.mcpserver import Context
    from mcp.server.mcpserver.tools import Tool

    server = MCPServer("bench")
    for function in functions:
        server.add_tool(function)
    add, context = Tool.from_function(functions[0]), Context()
    return Routes(
        lambda text: server.call_tool("add", json.loads(text)),
        direct=lambda text: add.run(json.loads(text), context),
        listing=server.list_tools,
    )


async def smolagents(functions: Functions, stack: AsyncExitStack) -> Routes:
    from smolagents import Model, ToolCallingAgent, tool
    from smolagents.models import get_tool_json_schema

    class Silent(Model):
        """Never asked: the tools are called by hand."""

    tools = [tool(function) for function in functions]
    agent = ToolCallingAgent(tools=tools, model=Silent(), add_base_tools=False)

    async def by_name(text: str) -> Any:
        return agent.execute_tool_call("add", json.loads(text))

    async def direct(text: str) -> Any:
        return tools[0](**json.loads(text))

    return Routes(by_name, direct, listing=lambda: [get_tool_json_schema(tool) for tool in tools])


async def fastmcp(functions: Functions, stack: AsyncExitStack) -> Routes:
    from fastmcp import FastMCP

    server = FastMCP("bench")
    for function in functions:
        server.tool(function)
    add = await server.get_tool("add")
    return Routes(
        lambda text: server.call_tool("add", json.loads(text)),
        direct=lambda text: add.run(json.loads(text)),
        listing=server.list_tools,
    )


async def langchain_core(functions: Functions, stack: AsyncExitStack) -> Routes:
    from langchain_core.tools import tool
    from langchain_core.utils.function_calling import convert_to_openai_tool

    tools = [tool(function) for function in functions]
    add = tools[0]
    return Routes(
        lambda text: add.ainvoke(json.loads(text)),
        listing=lambda: [convert_to_openai_tool(tool) for tool in tools],
    )


async def inspect_ai(functions: Functions, stack: AsyncExitStack) -> Routes:
    from inspect_ai.model import ChatMessageAssistant, execute_tools
    from inspect_ai.tool import ToolCall, ToolDef

    tools = [ToolDef(function, name=function.__name__) for function in functions]

    def call(text: str) -> Awaitable[Any]:
        wanted = ToolCall(id="1", function="add", arguments=json.loads(text))
        return execute_tools([ChatMessageAssistant(content="", tool_calls=[wanted])], tools)

    return Routes(call)


CONTENDERS: dict[str, Build] = {
    "holdfast": holdfast,
    "strands-agents": strands_agents,
    "openai-agents": openai_agents,
    "pydantic-ai": pydantic_ai,
    "mcp": mcp,
    "smolagents": smolagents,
    "fastmcp": fastmcp,
    "langchain-core": langchain_core,
    "inspect-ai": inspect_ai,
}
SYNC_ONLY = frozenset({"smolagents"})
ASYNC_ONLY = frozenset({"inspect-ai"})

"""The client the conformance suite looks at: a runtime with one MCP server, a person who says yes, and calls of tools.

Everything on the wire is the bridge's; this only configures it as a person would. The suite starts a program for each
scenario, `conformance_relay.py`, which passes the scenario on to the process of the test: the SDK is loaded once.
"""

from __future__ import annotations

from typing import Any

import httpx2

from holdfast.config.config import Config, McpConfig, McpOAuth, McpServer
from holdfast.contract.call import Answer, PendingCall
from holdfast.contract.elicitation import Elicitation, ElicitationReply, FormRequest, Question, UrlRequest
from holdfast.contract.json import Args, Json
from holdfast.contract.tool import Tool
from holdfast.mcp.client.bridge import Bridge
from holdfast.runtime.runtime import Runtime
from tests.attached import attached

ABOUT_US = "https://conformance-test.local/client-metadata.json"
"""The address the suite expects a client to be described at."""
SAMPLES: dict[str, Json] = {"string": "text", "integer": 1, "number": 1.5, "boolean": True, "array": []}


async def says_yes(held: PendingCall) -> Answer:
    return Answer(kind="approve", by="person")


async def replies(elicitation: Elicitation) -> tuple[ElicitationReply, ...]:
    return tuple([await reply_to(question) for question in elicitation.questions])


async def reply_to(question: Question) -> ElicitationReply:
    if isinstance(question, UrlRequest):
        async with httpx2.AsyncClient(follow_redirects=True) as browser:
            await browser.get(question.url)
        return ElicitationReply(action="accept")
    if isinstance(question, FormRequest):
        return ElicitationReply(action="accept", content={})
    return ElicitationReply(action="decline")


def server_at(url: str, context: dict[str, Any]) -> McpServer:
    login = McpOAuth(
        client_id=context.get("client_id"),
        client_secret=context.get("client_secret"),
        client_metadata_url=ABOUT_US,
    )
    return McpServer(url=url, oauth=login, start_timeout=60, timeout=60)


def arguments_for(tool: Tool, tools: list[Tool]) -> Args:
    """The least its schema asks for; where that is any object, the schema of another tool as it came."""
    schema: dict[str, Any] = dict(tool.input_schema)
    others: list[Json] = [dict(other.input_schema) for other in tools if other is not tool]
    kinds = {name: schema["properties"][name].get("type", "string") for name in schema.get("required", ())}
    return {name: others[0] if kind == "object" else SAMPLES[kind] for name, kind in kinds.items()}


def without_nulls(arguments: dict[str, Json]) -> Args:
    """The suite gives null for what is not there; its own schemas do not allow that, so it would not be sent."""
    return {name: value for name, value in arguments.items() if value is not None}


async def act(url: str, context: dict[str, Any]) -> list[str]:
    """Call what the scenario names, else every tool there is, all at once; what came of it, for a person to read."""
    servers = {"t": server_at(url, context)}
    runtime = attached(Runtime(config=Config(mcp=McpConfig(servers=servers)), asker=says_yes), elicitor=replies)
    bridge = Bridge(runtime, servers, pins=None, state=None)
    bridge.attach()
    async with runtime:
        await runtime.pipeline.wait_for_sources()
        named = [(f"mcp:t:{call['name']}", without_nulls(call["arguments"])) for call in context.get("toolCalls", ())]
        tools = [tool for tool in runtime.visible() if tool.name.startswith("mcp:t:")]
        results = await runtime.call_many(named or [(tool.name, arguments_for(tool, tools)) for tool in tools])
        said = [f"{status.state}: {status.reason}" for status in bridge.status()]
    told = [(result.output if result.success else result.error) or "" for result in results]
    return [*said, *runtime.warnings(), *told]

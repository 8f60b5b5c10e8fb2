"""Requests for resources, prompts and completions: each is answered by the tools that say they answer it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, Protocol

import mcp_types as types
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from holdfast.contract.result import Result
from holdfast.contract.tool import Tool
from holdfast.contract.vocabulary import Failure, State
from holdfast.doors.mcp.content import complete
from holdfast.doors.mcp.listing import ANSWERS

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext
    from mcp.server.lowlevel.server import Server

    from holdfast.contract.call import Caller
    from holdfast.doors.mcp.exchange import Exchange
    from holdfast.doors.mcp.listing import Listing
    from holdfast.runtime.runtime import Runtime

    Ctx = ServerRequestContext[Any, Any]

_LISTS: Final = {
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
    "prompts/list": "prompts",
}
_SINGLE: Final[dict[str, Any]] = {
    "resources/read": types.ReadResourceRequestParams,
    "resources/subscribe": types.SubscribeRequestParams,
    "resources/unsubscribe": types.UnsubscribeRequestParams,
    "prompts/get": types.GetPromptRequestParams,
    "completion/complete": types.CompleteRequestParams,
}
_CACHEABLE: Final = frozenset({*_LISTS, "resources/read"})
_EMPTY: Final = frozenset({"resources/subscribe", "resources/unsubscribe"})
_OURS: Final = frozenset({"_meta", "inputResponses", "requestState"})
_NO_RESOURCE: Final = -32002
"""What the handshake protocols say of a resource that is not there."""
_MAX_PAGES: Final = 100
_NOT_THIS_ONE: Final = frozenset({State.FAILED, State.INVALID})
"""Ends after which another tool may know better."""


class Rounder(Protocol):
    """What is needed of the door."""

    def caller_of(self, ctx: Ctx) -> Caller: ...
    def open(self, ctx: Ctx) -> Exchange: ...
    def call(self, exchange: Exchange, name: str, args: Any) -> Awaitable[Result]: ...
    async def round(self, exchange: Exchange, ctx: Ctx) -> Result | types.InputRequiredResult: ...
    async def next_round(self, ctx: Ctx, params: Any) -> Result | types.InputRequiredResult: ...


class Requests:
    """Handlers exist only for what a tool answers, so that nothing is promised that is not there."""

    def __init__(self, runtime: Runtime, door: Rounder) -> None:
        self._runtime = runtime
        self._door = door
        self.registered: frozenset[str] = frozenset()

    def register(self, server: Server[Any], listing: Listing) -> None:
        self._listing = listing
        said = (name for tool in self._runtime.registry.list() for name in tool.capabilities)
        answered = {name.removeprefix(ANSWERS) for name in said if name.startswith(ANSWERS)}
        for method in answered & _LISTS.keys():
            server.add_request_handler(method, types.PaginatedRequestParams, self._handler(method, self._list))
        for method in answered & _SINGLE.keys():
            server.add_request_handler(method, _SINGLE[method], self._handler(method, self._first))
        self.registered = frozenset(answered)

    def _handler(
        self, method: str, work: Callable[[Exchange, str, list[Tool], dict[str, Any]], Awaitable[Result]]
    ) -> Callable[[Ctx, Any], Awaitable[Any]]:
        async def handle(ctx: Ctx, params: Any) -> Any:
            modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
            if modern and getattr(params, "request_state", None) is not None:
                outcome = await self._door.next_round(ctx, params)
            else:
                await self._runtime.pipeline.wait_for_sources()
                exchange = self._door.open(ctx)
                exchange.given = dict(getattr(params, "input_responses", None) or {}) if modern else {}
                tools = self._listing.shown(exchange.caller).answering.get(method, [])
                args = {key: value for key, value in (ctx.params or {}).items() if key not in _OURS}
                exchange.begin(work(exchange, method, tools, args))
                outcome = await self._door.round(exchange, ctx)
            if isinstance(outcome, types.InputRequiredResult):
                return outcome
            return _answer(method, outcome, ctx)

        return handle

    async def _list(self, exchange: Exchange, method: str, tools: list[Tool], args: dict[str, Any]) -> Result:
        """All of them, one after the other; the pages of a single one are its own."""
        if len(tools) == 1:
            return await self._door.call(exchange, tools[0].name, args)
        items: list[Any] = []
        for tool in tools:
            args = {}
            for _ in range(_MAX_PAGES):
                result = await self._door.call(exchange, tool.name, args)
                if not result.success:
                    return result
                page: Any = result.structured if isinstance(result.structured, dict) else {}
                items.extend(page.get(_LISTS[method], ()))
                if not page.get("nextCursor"):
                    break
                args = {"cursor": page["nextCursor"]}
        return Result(True, structured={_LISTS[method]: items})

    async def _first(self, exchange: Exchange, method: str, tools: list[Tool], args: dict[str, Any]) -> Result:
        result = Result(False, error=f"Nothing here answers {method}.", state=State.FAILED, failure=Failure.TOOL_ERROR)
        for tool in tools:
            result = await self._door.call(exchange, tool.name, args)
            if result.state not in _NOT_THIS_ONE:
                break  # what waits for a person or was refused by one must not be covered by somebody else's answer
        return result


def _answer(method: str, result: Result, ctx: Ctx) -> dict[str, Any]:
    if not result.success:
        raise _error(method, result, ctx)
    if method in _EMPTY:
        return {}
    answer = dict(result.structured) if isinstance(result.structured, dict) else {}
    if method in _CACHEABLE:
        answer = {"ttlMs": 0, "cacheScope": "private", **answer}
    return complete(answer) if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS else answer


def _error(method: str, result: Result, ctx: Ctx) -> MCPError:
    """Not there, or not now: the first has a code of its own, which has changed with the protocol."""
    if result.state not in _NOT_THIS_ONE:
        return MCPError(types.INTERNAL_ERROR, result.text, {"state": result.state.value, "call": result.call_id})
    if method == "resources/read":
        uri = str((ctx.params or {}).get("uri", ""))
        code = types.INVALID_PARAMS if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS else _NO_RESOURCE
        return MCPError(code, result.text, {"uri": uri})
    return MCPError(types.INVALID_PARAMS, result.text)

"""The MCP server of a runtime: identifies callers, lists tools, and sends every request through the pipeline."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from typing import Any, Final
from weakref import WeakKeyDictionary, WeakSet

import anyio
import mcp_types as types
from mcp.server.connection import Connection, allowed_log_levels
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ToolsListChanged,
)
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from msgspec.structs import replace

from holdfast import __version__
from holdfast.contract.call import Caller
from holdfast.contract.enums import Failure, State
from holdfast.contract.names import mcp_server_name
from holdfast.contract.result import Result
from holdfast.contract.tool import Tool
from holdfast.mcp.server.client_request import STATE_SECONDS, ClientRequest, sealing_key, unseal_state
from holdfast.mcp.server.notifications import LEVELS, ClientNotifier
from holdfast.mcp.server.request_table import PendingRetries, RequestTable
from holdfast.mcp.server.tool_list import ANSWERS, ToolPages, answers_requests
from holdfast.mcp.server.wire import clean_answers, complete, to_wire
from holdfast.runtime.runtime import Runtime
from holdfast.text.escape import escape

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
"""Error code of the handshake protocols for a missing resource."""
_MAX_PAGES: Final = 100
_NOT_THIS_ONE: Final = frozenset({State.FAILED, State.INVALID})
"""End states after which the next tool is tried."""


class RequestHandlers:
    """Registers handlers for the methods that some tool answers, so that no capability is advertised without one."""

    def __init__(self, runtime: Runtime, server: McpServer) -> None:
        self._runtime = runtime
        self._server = server
        self.registered: frozenset[str] = frozenset()

    def register(self, server: Server[Any]) -> None:
        said = (name for tool in self._runtime.registry.list() for name in tool.capabilities)
        answered = {name.removeprefix(ANSWERS) for name in said if name.startswith(ANSWERS)}
        for method in answered & _LISTS.keys():
            server.add_request_handler(method, types.PaginatedRequestParams, self._handler(method, self._list))
        for method in answered & _SINGLE.keys():
            server.add_request_handler(method, _SINGLE[method], self._handler(method, self._first))
        self.registered = frozenset(answered)

    def _handler(
        self, method: str, work: Callable[[ClientRequest, str, list[Tool], dict[str, Any]], Awaitable[Result]]
    ) -> Callable[[Ctx, Any], Awaitable[Any]]:
        async def handle(ctx: Ctx, params: Any) -> Any:
            modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
            if modern and getattr(params, "request_state", None) is not None:
                outcome = await self._server.next_round(ctx, params)
            else:
                await self._runtime.pipeline.wait_for_sources()
                exchange = self._server.open(ctx)
                exchange.given = dict(getattr(params, "input_responses", None) or {}) if modern else {}
                tools = ToolPages(self._runtime.visible(exchange.caller)).answering.get(method, [])
                args = {key: value for key, value in (ctx.params or {}).items() if key not in _OURS}
                exchange.begin(work(exchange, method, tools, args))
                outcome = await self._server.round(exchange, ctx)
            if isinstance(outcome, types.InputRequiredResult):
                return outcome
            return _answer(method, outcome, ctx)

        return handle

    async def _list(self, exchange: ClientRequest, method: str, tools: list[Tool], args: dict[str, Any]) -> Result:
        """The merged lists of all tools. A single tool's pages are passed through."""
        if len(tools) == 1:
            return await self._server.call(exchange, tools[0].name, args)
        items: list[Any] = []
        for tool in tools:
            args = {}
            for _ in range(_MAX_PAGES):
                result = await self._server.call(exchange, tool.name, args)
                if not result.success:
                    return result
                page: Any = result.structured if isinstance(result.structured, dict) else {}
                items.extend(page.get(_LISTS[method], ()))
                if not page.get("nextCursor"):
                    break
                args = {"cursor": page["nextCursor"]}
        return Result(True, structured={_LISTS[method]: items})

    async def _first(self, exchange: ClientRequest, method: str, tools: list[Tool], args: dict[str, Any]) -> Result:
        result = Result(False, error=f"No tool answers {method}.", state=State.FAILED, failure=Failure.TOOL_ERROR)
        for tool in tools:
            result = await self._server.call(exchange, tool.name, args)
            if result.state not in _NOT_THIS_ONE:
                break  # a call that is pending or was rejected must not be hidden by another tool's result
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
    """The error of a failed request: "not found" has its own code, which differs between protocol versions."""
    if result.state not in _NOT_THIS_ONE:
        return MCPError(types.INTERNAL_ERROR, result.text, {"state": result.state.value, "call": result.call_id})
    if method == "resources/read":
        uri = str((ctx.params or {}).get("uri", ""))
        code = types.INVALID_PARAMS if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS else _NO_RESOURCE
        return MCPError(code, result.text, {"uri": uri})
    return MCPError(types.INVALID_PARAMS, result.text)


NAME: Final = "holdfast"
INSTRUCTIONS: Final = (
    "Every call is judged by the policy of the project and recorded. A call that needs approval waits for a person: "
    "it is asked for here where the client can, and can be answered elsewhere with `holdfast approve ID`."
)
ASKS: Final = "asks:"
"""Prefix of a capability that names what the client must support: elicitation, sampling or roots."""
_MAX_WARNED: Final = 10_000
_MAX_NAME: Final = 100
_BURST_SECONDS: Final = 0.05
"""Debounces list-changed notifications: seconds."""
_TELL_SECONDS: Final = 5.0
"""Seconds that one client that does not read can delay notifications to the others."""
_CHANGES: Final = {"tools": ToolsListChanged, "prompts": PromptsListChanged, "resources": ResourcesListChanged}
_UNKNOWN: Final = frozenset({Failure.UNKNOWN_TOOL, Failure.NOT_ALLOWED})

Ctx = ServerRequestContext[Any, Any]


class _Server(Server[Any]):
    def create_initialization_options(
        self, notification_options: NotificationOptions | None = None, *args: Any, **kwargs: Any
    ) -> InitializationOptions:
        """Advertise list-changed notifications on every transport."""
        told = notification_options or NotificationOptions(True, True, True)
        return super().create_initialization_options(told, *args, **kwargs)


class McpServer:
    """Use it as `async with McpServer(runtime) as server:`; while it is open, clients are asked about pending calls."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._rounds = RequestTable(runtime)
        self._parked = PendingRetries(runtime)
        self._levels: WeakKeyDictionary[Connection, str] = WeakKeyDictionary()
        self._connections: WeakSet[Connection] = WeakSet()
        self._warned: set[tuple[str | None, str | None, str]] = set()
        """Warnings that each client has received."""
        self._bus = InMemorySubscriptionBus()
        self._listen = ListenHandler(self._bus)
        self._telling: asyncio.Task[None] | None = None
        self._untold = False
        self._requests = RequestHandlers(runtime, self)
        self.server = self._make_server()

    async def __aenter__(self) -> McpServer:
        runtime = self._runtime
        self._requests.register(self.server)
        self._attached = runtime.attach(self._rounds.ask, elicitor=self._rounds.elicit, nobody="pending")
        self._stop_watching = runtime.events.listen(self._rounds.watch)
        self._loop = asyncio.get_running_loop()
        self._changes = runtime.registry.on_change(self._changed)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._changes.remove()
        self._listen.close()
        if self._telling is not None:
            self._telling.cancel()
        await self._rounds.close()
        self._stop_watching()
        self._attached.remove()

    def caller_of(self, ctx: Ctx) -> Caller:
        """The caller of a request. A client's name can narrow its rights, never widen them."""
        own = self._runtime.caller
        info = _client_of(ctx)
        session = _connection_of(ctx).session_id
        return replace(
            own,
            interface="mcp",
            agent=own.agent or (info.name[:_MAX_NAME] or None if info else None),
            session=self._runtime.session if session is None else hashlib.sha256(session.encode()).hexdigest()[:12],
        )

    def open(self, ctx: Ctx) -> ClientRequest:
        """Open a new request."""
        return ClientRequest(ctx, self.caller_of(ctx), _approver(ctx))

    def call(self, exchange: ClientRequest, name: str, args: Any) -> Awaitable[Result]:
        """Start a call for a request, and register it so that its user can be asked."""
        runtime, ctx = self._runtime, exchange.ctx
        call_id = runtime.pipeline.new_call_id()
        tool = runtime.registry.find(name)
        self._rounds.enter(exchange, call_id, name if tool is None else tool.name)
        caller = exchange.caller
        given_id = str(ctx.request_id)[:_MAX_NAME]
        return runtime.call(name, args, caller=caller, request=caller.session, given_id=given_id, call_id=call_id)

    async def round(self, exchange: ClientRequest, ctx: Ctx) -> Result | types.InputRequiredResult:
        """Run one round: until the request has a response or must ask a question."""
        teller = ClientNotifier(ctx, self._levels_of(ctx))
        self._tell_warnings(exchange.caller, teller)
        return await self._rounds.drive(exchange, ctx, teller)

    def _tell_warnings(self, caller: Caller, teller: ClientNotifier) -> None:
        """Send each client, once, the warnings about tools and configuration."""
        for warning in self._runtime.warnings():
            key = (caller.agent, caller.session, warning)
            if key not in self._warned:
                if len(self._warned) >= _MAX_WARNED:
                    self._warned.clear()
                self._warned.add(key)
                teller.log("warning", "holdfast", warning)

    async def next_round(self, ctx: Ctx, params: Any) -> Result | types.InputRequiredResult:
        """Continue a request with the client's answers. The SDK has verified that the state belongs to this request."""
        state = unseal_state(params.request_state)
        responses: dict[str, Any] = params.input_responses or {}
        exchange = await self._rounds.find(state)
        if exchange is None:
            exchange = self.open(ctx)
            exchange.root = state.root
            exchange.begin(self._rounds.settle(exchange, state, responses))
        else:
            exchange.ctx = ctx
            exchange.receive(state, responses)
        return await self.round(exchange, ctx)

    def _make_server(self) -> Server[Any]:
        server = _Server(
            NAME,
            version=__version__,
            instructions=INSTRUCTIONS,
            get_tool_input_schema=self._schema_of,
            on_subscriptions_listen=self._listen,
        )
        security = RequestStateSecurity(
            keys=[sealing_key(self._runtime.workspace.state)], ttl=STATE_SECONDS, bind_principal=_principal
        )
        server.middleware.insert(0, clean_answers)
        server.middleware.append(RequestStateBoundary(security, default_audience=NAME))
        server.add_request_handler("tools/list", types.PaginatedRequestParams, self._list_tools)
        server.add_request_handler("tools/call", types.CallToolRequestParams, self._call_tool)
        server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, self._set_level)
        server.add_notification_handler("notifications/initialized", types.NotificationParams, self._initialized)
        return server

    async def _list_tools(self, ctx: Ctx, params: types.PaginatedRequestParams) -> dict[str, Any]:
        await self._runtime.pipeline.wait_for_sources()
        try:
            page = ToolPages(self._runtime.visible(self.caller_of(ctx))).page(params.cursor)
        except ValueError as error:
            raise MCPError(types.INVALID_PARAMS, str(error)) from error
        return complete(page) if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS else page

    async def _call_tool(self, ctx: Ctx, params: types.CallToolRequestParams) -> Any:
        modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
        tool = self._runtime.registry.find(params.name)
        if tool is not None and answers_requests(tool):
            raise MCPError(types.INVALID_PARAMS, f"There is no tool '{params.name[:_MAX_NAME]}'.")
        if modern and tool is not None:
            _check_capabilities(tool, ctx)
        key = self._parked.key_of(self.caller_of(ctx), tool, params.arguments or {}) if _is_told_apart(ctx) else ""
        if modern and params.request_state is not None:
            outcome = await self.next_round(ctx, params)
        else:
            outcome = await self.round(self._begun(ctx, params, tool, key), ctx)
        if not isinstance(outcome, Result):
            return outcome
        self._parked.ended(key, outcome)
        if outcome.failure in _UNKNOWN:
            raise MCPError(types.INVALID_PARAMS, outcome.text, {"name": params.name[:_MAX_NAME]})
        foreign = tool is not None and mcp_server_name(tool.source) is not None
        return to_wire(outcome, modern=modern, limit=self._runtime.config.output.max_bytes if foreign else None)

    def _begun(self, ctx: Ctx, params: types.CallToolRequestParams, tool: Tool | None, key: str) -> ClientRequest:
        """A request with a new call, or joined to the pending call of the same request."""
        args = params.arguments or {}
        exchange = self.open(ctx)
        waiting = self._parked.find(key, exchange.caller, tool, args)
        if waiting is None:
            exchange.given = dict(params.input_responses or {}) if exchange.modern else {}
            work = self.call(exchange, params.name, args)
            exchange.root = exchange.calls[0]
        elif (found := self._rounds.of_call(waiting)) is not None:
            return found
        else:
            exchange.root, exchange.joined = waiting, True
            work = self._rounds.rejoin(exchange, waiting)
            self._rounds.enter(exchange, waiting, "" if tool is None else tool.name)
        exchange.begin(work)
        return exchange

    async def _set_level(self, ctx: Ctx, params: types.SetLevelRequestParams) -> dict[str, Any]:
        self._levels[_connection_of(ctx)] = params.level
        return {}

    async def _initialized(self, ctx: Ctx, _params: types.NotificationParams) -> None:
        connection = _connection_of(ctx)
        if connection.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            self._connections.add(connection)
            connection.exit_stack.callback(self._connections.discard, connection)

    def _levels_of(self, ctx: Ctx) -> frozenset[str]:
        if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
            return allowed_log_levels(ctx.protocol_version, ctx.meta)
        level = self._levels.get(_connection_of(ctx), "info")
        return frozenset(LEVELS[LEVELS.index(level) :])

    def _schema_of(self, name: str) -> dict[str, Any] | None:
        tool = self._runtime.registry.find(name)
        return None if tool is None else dict(tool.input_schema)

    def _changed(self) -> None:
        """Schedule a notification. The registry changes in any thread, and many tools at once."""
        self._loop.call_soon_threadsafe(self._tell_of_changes)

    def _tell_of_changes(self) -> None:
        self._untold = True
        if self._telling is None or self._telling.done():
            self._telling = asyncio.create_task(self._tell_all())

    async def _tell_all(self) -> None:
        while self._untold:
            await asyncio.sleep(_BURST_SECONDS)
            self._untold = False
            for kind in self._lists():
                await self._bus.publish(_CHANGES[kind]())
            for connection in list(self._connections):
                with anyio.move_on_after(_TELL_SECONDS):
                    for kind in self._lists():
                        await connection.notify(f"notifications/{kind}/list_changed", None)

    def _lists(self) -> list[str]:
        return ["tools", *(kind for kind in ("prompts", "resources") if f"{kind}/list" in self._requests.registered)]


def _check_capabilities(tool: Tool, ctx: Ctx) -> None:
    """Refuse a tool that must ask its user if the client cannot answer."""
    declared = ctx.session.client_capabilities
    wanted = {name.removeprefix(ASKS) for name in tool.capabilities if name.startswith(ASKS)}
    missing = sorted(kind for kind in wanted if getattr(declared, kind, None) is None)
    if missing:
        text = f"Tool '{tool.name}' needs {' and '.join(missing)}, and this client did not declare that capability."
        data: dict[str, Any] = {"requiredCapabilities": {kind: {} for kind in missing}}
        raise MCPError(types.MISSING_REQUIRED_CLIENT_CAPABILITY, text, data)


def _connection_of(ctx: Ctx) -> Connection:
    return ctx.session._connection  # pyright: ignore[reportPrivateUsage] - the SDK has no other way to it


def _client_of(ctx: Ctx) -> types.Implementation | None:
    params = ctx.session.client_params
    return None if params is None else params.client_info


def _is_told_apart(ctx: Ctx) -> bool:
    """Whether this client can be told apart from others with its name: over HTTP only a session identifies it."""
    return ctx.request is None or _connection_of(ctx).session_id is not None


def _principal(ctx: Ctx) -> str:
    info = _client_of(ctx)
    return "" if info is None else info.name


def _approver(ctx: Ctx) -> str:
    info = _client_of(ctx)
    who = "a client" if info is None else escape(f"{info.name} {info.version}".strip()[:_MAX_NAME])
    return f"{who} over MCP"

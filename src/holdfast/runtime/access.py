"""Tool access by caller, and the cached plan of a call: everything that does not depend on its arguments."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import Callable
from typing import Any, Final

from msgspec import Struct

from holdfast.config.config import ToolsConfig
from holdfast.contract.call import Caller, Decision
from holdfast.contract.context import Context
from holdfast.contract.enums import Failure, Risk, State, Verdict
from holdfast.contract.json import Args
from holdfast.contract.names import mcp_server_name
from holdfast.contract.result import Result
from holdfast.contract.tool import Tool, is_async, parameters_by_position, takes_callback
from holdfast.contract.tool_finder import TOOL_SEARCH
from holdfast.registry.provider_lists import Format, ProviderListCache, ToolList
from holdfast.registry.registry import Registry
from holdfast.rules.decider import Confirmations
from holdfast.rules.policy import Policy
from holdfast.runtime.cancellation import ThreadPool
from holdfast.runtime.middleware import After, Before, Middleware
from holdfast.runtime.results import failed

_threads: Final = ThreadPool()
_MAX_PLANS: Final = 16_384
_MAX_TIMEOUT: Final = 10.0**9


class ToolAccess:
    """The tools that registry and policy give a caller."""

    def __init__(self, registry: Registry, policy: Policy, config: ToolsConfig, *, shared: bool) -> None:
        """`shared`: the state is on disk, so messages can refer to the `holdfast` command."""
        self._shared = shared
        self.registry = registry
        self.policy = policy
        self._config = config
        self._listing = ProviderListCache(registry)

    def is_enabled(self, tool: Tool, caller: Caller | None = None) -> bool:
        """Whether the tool is enabled, or named by the configuration or the caller."""
        if tool.enabled or any(name in self._config.allow for name in tool.names):
            return True
        return caller is not None and caller.only is not None and tool.name in caller.only

    def visible(self, caller: Caller) -> list[Tool]:
        """The tools a caller may see, sorted. `tool.search` is left out: a surface with many tools adds it."""
        return list(self._listing.tools(caller, lambda: self._visible(caller)))

    def _visible(self, caller: Caller) -> list[Tool]:
        return [tool for tool in self._permitted(caller) if tool.unavailable is None or tool.unavailable() is None]

    def _permitted(self, caller: Caller) -> list[Tool]:
        shown = (tool for tool in self.registry.list() if tool.name != TOOL_SEARCH and self.is_enabled(tool, caller))
        return self.policy.compile(caller).visible(shown)

    def unavailable(self, caller: Caller) -> list[tuple[Tool, str]]:
        """The tools that a caller would also see if something were installed, sorted, each with what is missing."""
        checked = ((tool, tool.unavailable()) for tool in self._permitted(caller) if tool.unavailable is not None)
        return [(tool, reason) for tool, reason in checked if reason is not None]

    def waiting_for_root(self, caller: Caller) -> list[Tool]:
        """The tools that a caller would also see in a project, sorted."""
        waiting = (tool for tool in self.registry.list_all() if self.registry.hidden_without_root(tool.name) is tool)
        shown = self.policy.compile(caller).visible(tool for tool in waiting if self.is_enabled(tool, caller))
        return sorted(shown, key=lambda tool: tool.name)

    def usable(self, name: str, caller: Caller) -> Tool | None:
        """The tool with that name if the caller may use it, else None."""
        tool = self.registry.find(name)
        if tool is None or (tool.unavailable is not None and tool.unavailable() is not None):
            return None
        return tool if self.is_enabled(tool, caller) and self.policy.compile(caller).allows(tool) else None

    def tool_list(self, format: Format, caller: Caller) -> ToolList:  # noqa: A002
        """The tool list for a provider's API. The same object is returned until the tools change."""
        return self._listing.get(format, caller, lambda: self.visible(caller))

    def find(self, name: str, caller: Caller) -> Tool | Result:
        """The tool, or the refusal of every call by that name."""
        tool = self.registry.find(name)
        if tool is None or not self.is_enabled(tool, caller):
            return self.unknown_tool(name, caller)
        if self.policy.compile(caller).allows(tool):
            if tool.unavailable is not None and (reason := tool.unavailable()) is not None:
                return failed(f"Tool '{name}' cannot be used here: {reason}", State.INVALID, Failure.UNAVAILABLE)
            return tool
        text = f"Tool '{name}' is not allowed by tool policy"
        return failed(text, State.DENIED, Failure.NOT_ALLOWED)

    def unknown_tool(self, name: str, caller: Caller) -> Result:
        hidden = self.registry.hidden_without_root(name)
        if hidden is not None and self.policy.compile(caller).allows(hidden):
            how = "Create one with `holdfast init`" if self._shared else "Give the runtime one: Runtime(root=...)"
            text = f"Tool '{name}' needs a project, and there is none here. {how}."
            return failed(text, State.INVALID, Failure.UNKNOWN_TOOL)
        close = self.registry.suggest(name, self.visible(caller))
        listed = "`holdfast tools`" if self._shared else "`runtime.visible()`"
        hint = f" Did you mean '{close}'?" if close else f" {listed} lists the available tools."
        return failed(f"There is no tool '{name[:80]}'.{hint}", State.INVALID, Failure.UNKNOWN_TOOL)


class CallPlan(Struct, frozen=True, eq=False, kw_only=True):
    """What is known about every call of one tool by one caller."""

    tool: Tool
    execute: Callable[[Args, Any], Any] | None
    is_valid: Callable[[Args], bool]
    open_schema: bool
    """The schema allows properties it does not name, so NaN and infinity must be looked for when parsing."""
    before: tuple[Before, ...]
    after: tuple[After, ...]
    decision: Decision | None
    """The decision, if no argument can change it."""
    immediate_approval: Decision | None
    """Set if every call may run at once: the decision is static, and the tool proposes nothing and claims no paths."""
    timeout: float | None
    timeout_unit: float
    """Seconds in one unit of the `timeout` argument; 0 if the tool has no such argument."""
    missing_scope: str | None
    mutates: bool
    direct: bool
    """`execute` runs in the event loop: it is a coroutine function, or declared as non-blocking."""
    logged: frozenset[Risk]
    """Risks at which a run is logged."""
    proposes_direct: bool
    applies_direct: bool

    def timeout_of(self, args: Args) -> float | None:
        """The timeout in seconds: of the call's `timeout` argument, else of the tool, else the default."""
        asked = args.get("timeout")
        if isinstance(asked, int | float) and not isinstance(asked, bool) and asked > 0:
            return min(asked, _MAX_TIMEOUT) * self.timeout_unit
        return self.timeout


class CallPlans:
    """The cache of plans, by name and caller. A change of tools, middleware or rules clears it."""

    def __init__(
        self,
        access: ToolAccess,
        middleware: Middleware,
        confirmations: Confirmations,
        static_decision: Callable[[Tool, Caller], Decision | None],
        *,
        default_timeout: float,
        plan_mode: bool,
    ) -> None:
        self._access = access
        self.registry = access.registry
        self._middleware = middleware
        self._confirmations = confirmations
        self._static_decision = static_decision
        self._default_timeout = default_timeout
        self._plan_mode = plan_mode
        self._known: dict[tuple[str, Caller], CallPlan] = {}
        middleware.on_change(self.clear)
        access.registry.on_change(self.clear)

    def clear(self) -> None:
        self._known.clear()

    def find(self, name: str, caller: Caller) -> CallPlan | Result:
        """The plan, or the refusal of every call by that name."""
        plan = self._known.get((name, caller))
        if plan is None:
            plan = self._compile(name, caller)
            if isinstance(plan, CallPlan):  # refusals are not cached: made-up names must not fill the memory
                if len(self._known) >= _MAX_PLANS:
                    self._known.clear()
                self._known[name, caller] = plan
        return plan

    def _compile(self, name: str, caller: Caller) -> CallPlan | Result:
        tool = self._access.find(name, caller)
        if isinstance(tool, Result):
            return tool
        spellings, inline = (*tool.names, tool.api_name), tool.runs == "inline"
        decision = self._static_decision(tool, caller)
        at_once = tool.propose is None and tool.touches is None and not tool.definition_only
        approved = decision is not None and decision.verdict is Verdict.APPROVE
        only_planned = self._plan_mode and tool.mutates
        return CallPlan(
            tool=tool,
            execute=_as_two_argument_function(tool),
            is_valid=tool.schema.is_valid,
            open_schema=not tool.schema.closed,
            before=self._middleware.before(spellings),
            after=self._middleware.after(spellings),
            decision=decision,
            immediate_approval=decision if at_once and approved and not only_planned else None,
            timeout=tool.timeout if tool.timeout is not None else self._default_timeout,
            timeout_unit=_timeout_unit(tool, name),
            missing_scope=next((scope for scope in tool.required_secret_scopes if scope not in caller.scopes), None),
            mutates=tool.mutates,
            direct=inline or is_async(tool.execute) or takes_callback(tool.execute),
            logged=frozenset(risk for risk in Risk if self._confirmations.outcome(tool, risk, caller).action == "log"),
            proposes_direct=inline or is_async(tool.propose),
            applies_direct=inline or is_async(tool.apply),
        )


def _as_two_argument_function(tool: Tool) -> Callable[[Args, Any], Any] | None:
    """The tool's `execute` as a function of arguments and context, whatever signature it has."""
    function = tool.execute
    if function is None:
        return None
    if takes_callback(function):
        return _callback_to_coroutine(function, direct=tool.runs == "inline" or is_async(function))
    positional = parameters_by_position(function)
    if positional is None or len(positional) > 1:
        return function
    return lambda args, _: function(args)


def _timeout_unit(tool: Tool, name_used: str) -> float:
    """Seconds in one unit of the `timeout` argument. An MCP server's tool defines its own `timeout`: ignored here."""
    if mcp_server_name(tool.source) is not None:
        return 0.0
    properties = tool.input_schema.get("properties")
    if not isinstance(properties, dict) or "timeout" not in properties:
        return 0.0
    return 1.0 if name_used in tool.timeout_in_seconds else 0.001


def _callback_to_coroutine(function: Callable[..., Any], *, direct: bool) -> Callable[[Args, Context], Any]:
    """`execute(args, ctx, callback)` as a coroutine function.

    The function may call the callback later, and may return a function that cancels the work. The first result counts,
    whether it is returned or passed to the callback.
    """

    async def execute(args: Args, ctx: Context) -> Any:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()

        def callback(result: Any = None) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: no one waits for the result
                loop.call_soon_threadsafe(_set_result, answer, result)

        def begin() -> Any:
            value = function(args, ctx, callback)
            return _cancel_on_stop(value, ctx) if callable(value) else value

        value = begin() if direct else await _threads.run(begin)
        if inspect.isawaitable(value):
            value = await value
            value = _cancel_on_stop(value, ctx) if callable(value) else value
        return await answer if value is None else value

    return execute


def _set_result(answer: asyncio.Future[Any], result: Any) -> None:
    if not answer.done():
        answer.set_result(result)


def _cancel_on_stop(cancel: Callable[[], object], ctx: Context) -> None:
    """Call `cancel` once when the call is stopped, or now if it was stopped already."""
    left = [cancel]

    def once() -> None:
        if left:
            left.pop()()

    ctx.on_cancel(once)
    if ctx.cancelled:
        once()

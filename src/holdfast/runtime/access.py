"""Which tools a caller may use, and what is known of a call before its arguments are."""

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
    """Registry and policy together: the tools there are for a caller."""

    def __init__(self, registry: Registry, policy: Policy, config: ToolsConfig, *, shared: bool) -> None:
        """`shared` says that state is kept on disk, so that the `holdfast` command sees the same."""
        self._shared = shared
        self.registry = registry
        self.policy = policy
        self._config = config
        self._listing = ProviderListCache(registry)

    def is_enabled(self, tool: Tool, caller: Caller | None = None) -> bool:
        """A tool that is switched off is there for those who name it."""
        if tool.enabled or any(name in self._config.allow for name in tool.names):
            return True
        return caller is not None and caller.only is not None and tool.name in caller.only

    def visible(self, caller: Caller) -> list[Tool]:
        """The tools a caller may see, sorted. `tool.search` is not one of them: whoever lists very many adds it."""
        return list(self._listing.tools(caller, lambda: self._visible(caller)))

    def _visible(self, caller: Caller) -> list[Tool]:
        shown = (tool for tool in self.registry.list() if tool.name != TOOL_SEARCH and self.is_enabled(tool, caller))
        return self.policy.compile(caller).visible(shown)

    def waiting_for_root(self, caller: Caller) -> list[Tool]:
        """The tools a caller would see if there were a project, sorted."""
        waiting = (tool for tool in self.registry.list_all() if self.registry.hidden_without_root(tool.name) is tool)
        shown = self.policy.compile(caller).visible(tool for tool in waiting if self.is_enabled(tool, caller))
        return sorted(shown, key=lambda tool: tool.name)

    def usable(self, name: str, caller: Caller) -> Tool | None:
        """The tool of that name, if the caller may use it."""
        tool = self.registry.find(name)
        allowed = tool is not None and self.is_enabled(tool, caller) and self.policy.compile(caller).allows(tool)
        return tool if allowed else None

    def tool_list(self, format: Format, caller: Caller) -> ToolList:  # noqa: A002
        """The tool list for a provider's API. Unchanged tools give the same object again."""
        return self._listing.get(format, caller, lambda: self.visible(caller))

    def find(self, name: str, caller: Caller) -> Tool | Result:
        """The tool, or the refusal every call by that name gets."""
        tool = self.registry.find(name)
        if tool is None or not self.is_enabled(tool, caller):
            return self.unknown_tool(name, caller)
        if self.policy.compile(caller).allows(tool):
            return tool
        text = f"Tool '{name}' is not allowed by tool policy"
        return failed(text, State.DENIED, Failure.NOT_ALLOWED)

    def unknown_tool(self, name: str, caller: Caller) -> Result:
        hidden = self.registry.hidden_without_root(name)
        if hidden is not None and self.policy.compile(caller).allows(hidden):
            how = "`holdfast init` makes one" if self._shared else "give the runtime one: Runtime(root=...)"
            text = f"Tool '{name}' needs a project, and there is none here; {how}."
            return failed(text, State.INVALID, Failure.UNKNOWN_TOOL)
        close = self.registry.suggest(name, self.visible(caller))
        listed = "`holdfast tools`" if self._shared else "`runtime.visible()`"
        hint = f" Did you mean '{close}'?" if close else f" {listed} lists the tools there are."
        return failed(f"There is no tool '{name[:80]}'.{hint}", State.INVALID, Failure.UNKNOWN_TOOL)


class CallPlan(Struct, frozen=True, eq=False, kw_only=True):
    """One tool for one kind of caller."""

    tool: Tool
    execute: Callable[[Args, Any], Any] | None
    is_valid: Callable[[Args], bool]
    open_schema: bool
    """The schema lets through values it does not name, so that infinity must be looked for."""
    before: tuple[Before, ...]
    after: tuple[After, ...]
    decision: Decision | None
    """The verdict, when no argument can change it."""
    immediate_approval: Decision | None
    """The approval of a tool that runs at once: no argument can change it, nothing is proposed, no path is taken."""
    timeout: float | None
    timeout_unit: float
    """What one unit of a `timeout` argument is in seconds; 0 when the tool has no such argument."""
    missing_scope: str | None
    mutates: bool
    direct: bool
    """`execute` may be called in the event loop: it is a coroutine function or promises not to block."""
    logged: frozenset[Risk]
    """Executions at these risks go to the log."""
    proposes_direct: bool
    applies_direct: bool

    def timeout_of(self, args: Args) -> float | None:
        """Seconds this call may take: by its own `timeout` argument, else by the tool or the default."""
        asked = args.get("timeout")
        if isinstance(asked, int | float) and not isinstance(asked, bool) and asked > 0:
            return min(asked, _MAX_TIMEOUT) * self.timeout_unit
        return self.timeout


class CallPlans:
    """The cache of plans. Anything that could change one empties it."""

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
        """The plan, or the refusal every call by that name gets."""
        plan = self._known.get((name, caller))
        if plan is None:
            plan = self._compile(name, caller)
            if isinstance(plan, CallPlan):  # refusals are not kept: a stranger's names must not fill the memory
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
    """`execute(args)` and `execute(args, ctx, callback)` as functions of arguments and context."""
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
    """Seconds in one of the call's own `timeout`; what a tool from elsewhere means by that word is its own affair."""
    if mcp_server_name(tool.source) is not None:
        return 0.0
    properties = tool.input_schema.get("properties")
    if not isinstance(properties, dict) or "timeout" not in properties:
        return 0.0
    return 1.0 if name_used in tool.timeout_in_seconds else 0.001


def _callback_to_coroutine(function: Callable[..., Any], *, direct: bool) -> Callable[[Args, Context], Any]:
    """`execute(args, ctx, callback)` as a coroutine function: it may finish later, and return a function that cancels.

    The first result counts, be it handed to the callback or returned.
    """

    async def execute(args: Args, ctx: Context) -> Any:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()

        def callback(result: Any = None) -> None:
            with contextlib.suppress(RuntimeError):  # the loop has been closed: nobody waits any more
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
    """Let a stop of the call cancel the work, once, also if it came before there was something to cancel."""
    left = [cancel]

    def once() -> None:
        if left:
            left.pop()()

    ctx.on_cancel(once)
    if ctx.cancelled:
        once()

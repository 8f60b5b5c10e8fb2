"""`Runtime`: all of it, assembled. Registers tools, takes calls, answers for what is held, tells what happens."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from base64 import b32encode
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from msgspec import Struct

from holdfast.config.model import Config
from holdfast.contract.call import Call, Caller, Decision, HeldCall, Proposal
from holdfast.contract.errors import CallError, GrantRefused, HoldfastError, UnknownCall
from holdfast.contract.event import Event, Inquired, Warned
from holdfast.contract.finding import TOOL_SEARCH, ToolFinder
from holdfast.contract.inquiry import CANCELLED, Inquirer, Inquiry, Reply
from holdfast.contract.processes import Processes
from holdfast.contract.result import Result
from holdfast.contract.tool import Tool
from holdfast.contract.values import Args
from holdfast.contract.vocabulary import Failure, State, Verdict
from holdfast.registry.listing import Format, Listing, ToolList
from holdfast.registry.registry import Registry
from holdfast.registry.sources import WAITING
from holdfast.rules.caps import Cap
from holdfast.rules.gate import Gate
from holdfast.rules.hooks import Hooks
from holdfast.rules.policy import Policy, PolicyRules, check_names
from holdfast.rules.skills import SkillPermissions, read_skills
from holdfast.rules.standard import DocumentPolicy
from holdfast.runtime import intake, judging
from holdfast.runtime.answers import Answers
from holdfast.runtime.arguments import Arguments
from holdfast.runtime.bus import QUEUE_LIMIT, Bus, Subscription
from holdfast.runtime.context import RunContext
from holdfast.runtime.desk import Asker, Desk, Nobody
from holdfast.runtime.gating import grants_in, standard_gate
from holdfast.runtime.hands import Hands
from holdfast.runtime.middleware import After, Before, HookHandle, Middleware
from holdfast.runtime.pipeline import Origin, Pipeline
from holdfast.runtime.plans import Plans
from holdfast.runtime.refusals import words_of
from holdfast.runtime.secrets import Secrets
from holdfast.runtime.telemetry import Telemetry
from holdfast.store.redact import Redactor

if TYPE_CHECKING:
    from holdfast.rules.explain import Explanation
    from holdfast.rules.grants import StoredGrants, Width
    from holdfast.sandbox.sandbox import Sandbox
    from holdfast.store.grants import Grant, Scope
    from holdfast.store.ledger import Ledger

T = TypeVar("T")
_LOG: Final = logging.getLogger("holdfast")


class Request(Struct, frozen=True):
    """One call of a batch."""

    tool: str
    args: Any = None
    given_id: str | None = None


class Runtime(Answers):
    """The one path every call takes. Use it as `async with Runtime(tools=[...]) as runtime:`."""

    def __init__(
        self,
        tools: Iterable[Any] = (),
        *,
        config: Config | None = None,
        registry: Registry | None = None,
        gate: Gate | None = None,
        grants: StoredGrants | None = None,
        ledger: Ledger | None = None,
        root: Path | None = None,
        cwd: Path | None = None,
        state: Path | None = None,
        document: Path | None = None,
        asker: Asker | None = None,
        nobody: Nobody = "deny",
        inquirer: Inquirer | None = None,
        caller: Caller | None = None,
        sandbox: Sandbox | None = None,
        services: Mapping[type[Any], Any] | None = None,
        document_policy: DocumentPolicy | None = None,
        caps: Sequence[Cap] = (),
        plan: bool = False,
        skills: Mapping[str, SkillPermissions] | None = None,
    ) -> None:
        self.config = config or Config()
        self.root = root = None if root is None else root.resolve()
        self.cwd = str(cwd or root or Path.cwd())
        self.document = document
        self.ledger = ledger
        self.asker = asker
        self.nobody: Nobody = nobody
        self.inquirer = inquirer
        self.planning = plan
        """Whether calls that would change something are only proposed."""
        self.session = b32encode(os.urandom(5)).decode().lower()
        self.redactor = Redactor() if ledger is None else ledger.redactor
        self.secrets = Secrets(self.config.secrets, self.redactor.add, root or Path(self.cwd))
        self.caller = (
            Caller(session=self.session, scopes=self.secrets.scopes) if caller is None else intake.caller(caller)
        )
        self._chosen_ids = intake.ChosenIds(ledger)
        self._last_caller = (self.caller, self.caller)
        """The caller that was given last, and the same as it was taken."""
        self.registry = registry or Registry(
            default_timeout=self.config.tools.default_timeout,
            strict_check=self.config.tools.strict_check,
            has_root=root is not None,
        )
        known = read_skills(self.config.tools.skills) if skills is None else skills
        self.policy = Policy(PolicyRules.of(self.config.tools, known, self.config.mcp.servers))
        self.registry.set_policy(self.policy)
        self.hooks = Hooks(self.config.hooks)
        self.grants = grants or (grants_in(ledger) if ledger is not None else None)
        self.hands = Hands(self, sandbox, state)
        self.gate = gate or standard_gate(self, document_policy, caps)
        limits = self.config.output
        self.surely_short = min(limits.max_bytes // 4, limits.max_lines, (limits.max_output_bytes or 1 << 30) // 4)
        """Characters below which no output can be too long, in bytes or in lines."""
        self.bus = Bus()
        self.plans = Plans(self)
        self.middleware = Middleware(self.plans.forget)
        self.pipeline = Pipeline(self)
        self.desk = Desk(self)
        self.loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0
        self._origin = Origin(self.caller, self.cwd)
        self._services = dict(services or {})
        self._listing = Listing(self.registry)
        self._telemetry: Telemetry | None = Telemetry.find()
        self.calls = 0
        self._closers: list[Callable[[], None]] = []
        self._leaving: list[Callable[[], Awaitable[None]]] = []
        self._desk_ledger: Ledger | None = ledger
        self.registry.on_change(self.plans.forget)
        self.gate.chain.on_change(self.plans.forget)
        for tool in tools:
            self.registry.register(tool)

    async def __aenter__(self) -> Runtime:
        self.attach()
        if self.ledger is not None:
            self.ledger.recover()
        await self.registry.start()
        await self.desk.resume()
        return self

    async def __aexit__(self, *_: object) -> None:
        async with AsyncExitStack() as leaving:  # the last one first, whatever becomes of the others
            for close in self._closers:
                leaving.callback(close)
            leaving.callback(self.bus.close)
            for leave in self._leaving:
                leaving.push_async_callback(leave)
            leaving.callback(self.registry.stop)
            leaving.push_async_callback(self.pipeline.executor.stop_all)

    def on_close(self, close: Callable[[], None]) -> None:
        """Call a function when the runtime is left: whoever opened something for it has it closed."""
        self._closers.append(close)

    def on_leave(self, leave: Callable[[], Awaitable[None]]) -> None:
        """Await a function when the runtime is left, after every call has ended and before anything is closed."""
        self._leaving.append(leave)

    def register(self, what: Any, definition: Any = None, /, *, replace: bool = False) -> Any:
        """Add tools in any form the registry knows; returns a handle with `remove()`."""
        return self.registry.register(what, definition, replace=replace)

    def middleware_for(self, tool: str, *, before: Before | None = None, after: After | None = None) -> HookHandle:
        """Hooks around one tool, or around all with `""`."""
        return self.middleware.add(tool, before=before, after=after)

    def call(
        self,
        name: str,
        args: Arguments = None,
        *,
        caller: Caller | None = None,
        request: str | None = None,
        given_id: str | None = None,
        cwd: str | None = None,
        call_id: str | None = None,
    ) -> Coroutine[Any, Any, Result]:
        """Ask for one action: `await runtime.call("add", {"a": 1})`. Whatever happens is in the result.

        `call_id` is one that `new_call_id` gave, for a caller that must know the call before it begins.
        """
        name = name[: intake.MAX_TEXT] if type(name) is str else words_of(name, type(name).__name__)
        if caller is None and request is None and given_id is None and cwd is None and call_id is None:
            origin = self._origin
        else:
            origin = self._origin
            try:
                origin = Origin(self.caller, self.cwd, call_id=self._chosen_ids.take(call_id))
                origin = Origin(
                    self._checked(caller),
                    intake.folder(cwd, self.cwd),
                    None,
                    intake.optional_text(request, "The request of a call"),
                    intake.optional_text(given_id, "The given id of a call"),
                    origin.call_id,
                )
            except CallError as error:
                return self.pipeline.refuse(name, error, origin)
        work = self.pipeline.run(name, args, origin)
        return work if self._telemetry is None else self._telemetry.span(name, origin.given_id or "", work)

    def _checked(self, caller: Caller | None) -> Caller:
        """Programs tend to give the same caller again, so that it is not looked at twice."""
        if caller is None or caller is self.caller:
            return self.caller
        if caller is not self._last_caller[0]:
            self._last_caller = (caller, intake.caller(caller))
        return self._last_caller[1]

    def new_call_id(self) -> str:
        """An id no other call has."""
        self.calls += 1
        return f"{self.session}-{self.calls}"

    async def call_many(
        self, requests: Sequence[Request | tuple[str, Any]], *, caller: Caller | None = None, request: str | None = None
    ) -> list[Result]:
        """Calls of one turn: together, up to `tools.max_concurrent`; results in the order of the calls."""
        limit = asyncio.Semaphore(self.config.tools.max_concurrent)

        async def one(item: Request) -> Result:
            async with limit:
                return await self.call(item.tool, item.args, caller=caller, request=request, given_id=item.given_id)

        made = [item if isinstance(item, Request) else Request(*item) for item in requests]
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(item)) for item in made]
        return [task.result() for task in tasks]

    async def call_nested(self, name: str, args: Args, parent: RunContext) -> Result:
        """A call by a tool: the whole path again, with the rights of the call it is nested in."""
        above = parent.call_record
        if parent.cancelled:
            text = f"Tool '{name}' was not called: the call that asks for it has been stopped."
            return Result(False, error=text, state=State.CANCELLED, failure=Failure.CANCELLED)
        return await self.pipeline.run(name, args, Origin(above.caller, above.cwd, parent))

    async def inquire(self, inquiry: Inquiry) -> tuple[Reply, ...]:
        """Put questions to the person behind the door; where nobody is, each is cancelled."""
        if not self.bus.idle:
            self.bus.emit(Inquired(inquiry.call_id, inquiry))
        if self.inquirer is None:
            return (CANCELLED,) * len(inquiry.questions)
        try:
            return await self.inquirer(inquiry)
        except Exception as error:
            self.warn(f"What '{inquiry.asked_by}' asked could not be put to anybody: {words_of(error, 'an error')}")
            return (CANCELLED,) * len(inquiry.questions)

    def cancel(self, call_id: str) -> bool:
        """Stop a running call or withdraw a held one; it still gets its result. False if there is no such call."""
        try:
            known = intake.known_call_id(call_id)
        except UnknownCall:
            return False
        return self.pipeline.cancel(known) or self.desk.cancel(known)

    def allow(self, held: HeldCall, scope: Scope, *, by: str = "program", width: Width = "exact") -> Grant:
        """Remember a yes to calls like this one, narrowly. Raises `GrantRefused` if it would be too wide, and
        `StaleApproval` if the call is not what was shown any more: a rule is for what somebody has seen."""
        tool = self.registry.find(held.call.tool)
        if tool is None or self.grants is None:
            raise GrantRefused(
                f"'{held.call.tool}' cannot be allowed here: this runtime does not know it, or keeps no ledger."
            )
        by = intake.text(by, "The name of who allows it")
        self.desk.check_current(tool, held)
        return self.grants.remember(
            judging.question_about(self, tool, held.call, held.proposal), scope, by, width=width
        )

    @property
    def sandbox(self) -> Sandbox:
        return self.hands.sandbox

    async def undo(self, call_id: str, *, by: str = "program", partial: bool = False) -> Result:
        """Put back what a call changed on disk, all of it or nothing; raises `UndoRefused` where it cannot be."""
        call_id, by = intake.known_call_id(call_id), intake.text(by, "The name of who asks")
        return await asyncio.to_thread(self.hands.undo, call_id, by=by, partial=partial)

    def use_tracer(self, tracer: Any) -> None:
        """Record spans with this OpenTelemetry tracer instead of the global one."""
        self._telemetry = Telemetry(tracer)

    def subscribe(self, limit: int = QUEUE_LIMIT) -> Subscription:
        """Watch what happens: `async for event in runtime.subscribe()`."""
        return self.bus.subscribe(limit)

    def visible(self, caller: Caller | None = None) -> list[Tool]:
        """The tools a caller may see, sorted. `tool.search` is not one of them: whoever lists very many adds it."""
        who = caller or self.caller
        return list(self._listing.tools(who, lambda: self._visible(who)))

    def usable(self, name: str, caller: Caller | None = None) -> Tool | None:
        """The tool of that name, if the caller may use it."""
        tool, who = self.registry.find(name), caller or self.caller
        allowed = tool is not None and self.is_enabled(tool, who) and self.policy.compile(who).allows(tool)
        return tool if allowed else None

    def warnings(self) -> list[str]:
        """What is odd about the tools and the names the policy uses; ask when the sources are ready."""
        return [*self.registry.warnings, *check_names(self.policy.rules, self.registry.list())]

    def tool_list(self, format: Format, caller: Caller | None = None) -> ToolList:  # noqa: A002
        """The tool list for a provider's API. Unchanged tools give the same object again."""
        who = caller or self.caller
        return self._listing.get(format, who, lambda: self.visible(who))

    async def wait_for_sources(self) -> None:
        """Until every source of tools has reported or timed out."""
        if not self.registry.ready:
            self.bus.emit(Warned("", WAITING))
            await self.registry.wait_ready()

    async def judge(self, name: str, args: Arguments = None, *, caller: Caller | None = None) -> Decision | None:
        """What would be decided about a call, with nothing run or recorded; None if it would end before that."""
        from holdfast.runtime.explaining import judge_call

        return await judge_call(self, name, args, self._checked(caller))

    async def explain(self, name: str, args: Arguments = None, *, caller: Caller | None = None) -> Explanation:
        """Who decides about a call and why, without making it."""
        from holdfast.runtime.explaining import explain_call

        return await explain_call(self, name, args, self._checked(caller))

    def offer(self, protocol: type[T], helper: T) -> None:
        """Give tools a long-lived helper, found by its protocol."""
        self._services[protocol] = helper

    def service(self, protocol: type[T]) -> T:
        found: Any = self._services.get(protocol)
        if found is None and protocol is Processes:
            found = self._services[protocol] = self.hands.processes
        if found is None and protocol is ToolFinder:
            from holdfast.runtime.finding import Finder

            found = self._services[protocol] = Finder(self)
        if found is None:
            raise HoldfastError(f"This runtime was given no {protocol.__name__}; pass it as `services`.")
        return found

    # What the rooms of the runtime ask of it.

    def is_enabled(self, tool: Tool, caller: Caller | None = None) -> bool:
        """A tool that is switched off is there for those who name it."""
        if tool.enabled or any(name in self.config.tools.allow for name in tool.names):
            return True
        return caller is not None and caller.only is not None and tool.name in caller.only

    async def decide(self, tool: Tool, call: Call, proposal: Proposal | None) -> Decision:
        try:
            await self.hands.try_out(tool)
            return self.gate.decide(judging.question_about(self, tool, call, proposal))
        except HoldfastError as error:
            return Decision(Verdict.DENY, "judging", str(error))

    def use_grant(self, tool: Tool, call: Call, proposal: Proposal | None) -> bool:
        """Use up the grant an approval rests on; False if it is gone by now."""
        return self.grants is not None and self.grants.use(judging.question_about(self, tool, call, proposal))

    def touched(self, tool: Tool, call: Call) -> tuple[Path, ...]:
        return judging.touched(self, tool, call)

    def _visible(self, caller: Caller) -> list[Tool]:
        shown = (tool for tool in self.registry.list() if tool.name != TOOL_SEARCH and self.is_enabled(tool, caller))
        return self.policy.compile(caller).visible(shown)

    def suggest(self, name: str, caller: Caller) -> str | None:
        return self.registry.suggest(name, self.visible(caller))

    def ledger_for_held(self) -> Ledger:
        """Held calls always have a ledger: without one of its own the runtime keeps them in memory."""
        if self._desk_ledger is None:
            from holdfast.store.ledger import Ledger

            self._desk_ledger = Ledger.in_memory(redact=self.redactor)
        return self._desk_ledger

    def redact(self, text: str) -> str:
        return self.redactor(text)

    def log(self, message: str) -> None:
        _LOG.info("%s", self.redact(message))

    def warn(self, message: str) -> None:
        clean = self.redact(message)
        _LOG.warning("%s", clean)
        self.emit_from_anywhere(Warned("", clean))

    def report(self, error: Exception) -> None:
        """A fault of holdfast itself goes to the log with its traceback."""
        _LOG.error("A call failed inside holdfast; please report this.", exc_info=error)

    def emit_from_anywhere(self, event: Event) -> None:
        """Emit from the loop's thread or from a tool's thread."""
        if threading.get_ident() == self._thread or self.loop is None:
            self.bus.emit(event)
        else:
            self.loop.call_soon_threadsafe(self.bus.emit, event)

    def attach(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()

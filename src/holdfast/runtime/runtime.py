"""`Runtime`: builds the parts that handle calls, and is the façade that programs and interfaces use.

A call takes this way through the modules:

- `Runtime.call` checks the input and makes a `CallRequest`.
- `CallLifecycle.run` (`call_lifecycle`) takes it to its result, with the three steps of `Pipeline` (`pipeline`):
  - `prepare` finds the tool, validates the arguments and runs `before` middleware;
  - `decide` asks the approval chain and the caps (`approvals`);
  - `perform` runs the tool (`executor`), runs `after` middleware and records the result.
- A call that needs approval becomes pending (`pending`) until an attached interface (`interfaces`) or another process
  answers; then it is prepared again, and runs only if it is still what was approved.
"""

from __future__ import annotations

import asyncio
import os
from base64 import b32encode
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from inspect import iscoroutinefunction
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args

from msgspec import Struct
from msgspec.structs import replace

from holdfast.config.config import Config
from holdfast.contract.call import Answer, Call, Caller, Decision, PendingCall
from holdfast.contract.elicitation import Elicitor
from holdfast.contract.enums import Failure, State
from holdfast.contract.errors import CallError, ConfigError, HoldfastError, NotPending, UnknownCall
from holdfast.contract.json import Args
from holdfast.contract.result import Result
from holdfast.contract.tool import Tool, suggest_choices
from holdfast.contract.widening import Widening
from holdfast.fs.replace import make_private_folder
from holdfast.net.network import Network
from holdfast.net.network_log import NETWORK_LOG, NetworkLog
from holdfast.registry.provider_lists import Format, ToolList
from holdfast.registry.registry import Registry
from holdfast.rules.decider import Cap, Confirmations, Decider
from holdfast.rules.from_config import DocumentPolicy
from holdfast.rules.policy import Policy, PolicyRules, check_agent, check_names
from holdfast.rules.skill_file import SkillPermissions
from holdfast.runtime import input_checks
from holdfast.runtime.access import CallPlans, ToolAccess
from holdfast.runtime.approvals import Approvals, standard_decider
from holdfast.runtime.call_lifecycle import CallLifecycle
from holdfast.runtime.commands import Commands
from holdfast.runtime.context import Environment, RunContext
from holdfast.runtime.dry_run import DryRun
from holdfast.runtime.events import QUEUE_LIMIT, Events, Subscription, Telemetry
from holdfast.runtime.grant_coverage import CoveredCall, GrantCoverage
from holdfast.runtime.input_checks import Arguments
from holdfast.runtime.interfaces import Asker, AttachedInterface, Interfaces, Nobody, OnAnswered
from holdfast.runtime.live_calls import LiveCalls
from holdfast.runtime.middleware import After, Before, Middleware, MiddlewareHandle
from holdfast.runtime.pending import PendingCalls, PendingExpiry
from holdfast.runtime.pipeline import CallRequest, Pipeline
from holdfast.runtime.results import (
    awaiting_program,
    failed,
    limit_attachments,
    message_of,
    parse_result_dict,
    still_pending,
    to_result,
)
from holdfast.runtime.secrets import Secrets
from holdfast.runtime.services import Services
from holdfast.runtime.workspace import Workspace
from holdfast.sandbox.hidden_files import pattern_problems
from holdfast.store.redact import Redactor

if TYPE_CHECKING:
    from holdfast.rules.decider import DecisionExplanation
    from holdfast.rules.grants import GrantMatcher, Width
    from holdfast.sandbox.sandbox import Sandbox
    from holdfast.store.ledger import Grant, Ledger, Scope


class Rules(Struct, frozen=True, kw_only=True):
    """Rules for the calls of a runtime, beyond its configuration."""

    decider: Decider | None = None
    """A program's own chain and caps, instead of the standard ones."""
    grants: GrantMatcher | None = None
    document: DocumentPolicy | None = None
    caps: Sequence[Cap] = ()
    """Added to the built-in ones."""
    skills: Mapping[str, SkillPermissions] | None = None
    plan: bool = False
    """Plan mode: calls that would change something are only proposed."""
    clock: Callable[[], float] | None = None
    """Measures when pending calls and approvals expire; `time.time` by default."""


class Request(Struct, frozen=True):
    """One call of a batch."""

    tool: str
    args: Any = None
    given_id: str | None = None


class Runtime:
    """Runs calls of tools: `async with Runtime(tools=[...]) as runtime: await runtime.call("add", {"a": 1})`.

    Its parts are attributes: `registry`, `approvals`, `pending`, `grant_coverage`, `pipeline`, `lifecycle`, `ledger`,
    `events`, `sandbox`, `interfaces`, `services` and `secrets`.
    """

    def __init__(
        self,
        tools: Iterable[Any] = (),
        *,
        config: Config | None = None,
        root: Path | None = None,
        ledger: Ledger | None = None,
        asker: Asker | None = None,
        nobody: Nobody = "deny",
        caller: Caller | None = None,
        registry: Registry | None = None,
        workspace: Workspace | None = None,
        rules: Rules | None = None,
    ) -> None:
        """`nobody` says what happens to a call that needs approval when no interface answers. `workspace` replaces
        `root`, and can add a document, a state folder and a sandbox."""
        self.config = config = _config(config)
        check_agent(config)
        rules = rules or Rules()
        self.workspace = workspace = _workspace(workspace, root, ledger)
        self.ledger = ledger
        self.plan_mode = rules.plan
        """Calls that would change something are only proposed."""
        self.session = b32encode(os.urandom(5)).decode().lower()
        self.redactor = Redactor() if ledger is None else ledger.redactor
        self.events = Events(self.redactor)
        self.secrets = Secrets(config.secrets, self.redactor.add, workspace.root or Path(workspace.cwd))
        own = Caller(agent=config.agent, skill=config.skill, session=self.session, scopes=self.secrets.scopes)
        self.caller = own if caller is None else input_checks.check_caller(caller)
        self._chosen_ids = input_checks.ChosenCallIds(ledger)
        self._last_caller = (self.caller, self.caller)
        """The caller that was given last, as given and as checked."""
        self._name_warnings: list[str] = []
        self._name_warnings_revision = -1
        """Warnings about unknown names, and the registry revision they belong to."""
        self._live: asyncio.Task[None] | None = None
        self._closers: list[Callable[[], None]] = []
        self._async_closers: list[Callable[[], Awaitable[None]]] = []
        self.registry = registry or Registry(
            default_timeout=config.tools.default_timeout,
            strict_check=config.tools.strict_check,
            has_root=workspace.root is not None,
        )
        skills = _skills(config) if rules.skills is None else rules.skills
        policy = Policy(PolicyRules.of(config.tools, skills, config.mcp.servers))
        self.registry.set_policy(policy)
        self.access = ToolAccess(self.registry, policy, config.tools, shared=workspace.state is not None)
        self.commands = Commands(
            config, workspace, ledger, self.redactor, self.events, self._closers.append, lambda: self.network
        )
        self.services = Services(self.commands, self.access, end_with_call=self.caller.interface == "cli")
        self.services.provide(Network, self._open_network)
        self.interfaces = Interfaces(self.events, nobody)
        if asker is not None:
            self.interfaces.attach(asker)
        confirmations = Confirmations(config.confirmation)
        grants = rules.grants or (None if ledger is None else _grants_in(ledger))
        decider = rules.decider or standard_decider(
            config, self.registry, confirmations, self.commands, grants, rules.document, rules.caps
        )
        self.approvals = Approvals(decider, self.registry, self.commands, grants, self.session)
        self.middleware = Middleware()
        expiry = PendingExpiry(config) if rules.clock is None else PendingExpiry(config, rules.clock)
        self.pending = PendingCalls(ledger, self.redactor, self.events, self.interfaces, expiry)
        plans = CallPlans(
            self.access,
            self.middleware,
            confirmations,
            self.approvals.static_decision,
            default_timeout=config.tools.default_timeout,
            plan_mode=rules.plan,
        )
        self.approvals.chain.on_change(plans.clear)
        environment = Environment(
            config=config,
            workspace=workspace,
            ledger=ledger,
            redactor=self.redactor,
            events=self.events,
            secrets=self.secrets,
            commands=self.commands,
            service=self.services.get,
            elicit=self.interfaces.elicit,
            call=self._call_nested,
        )
        self.pipeline = Pipeline(
            plans,
            self.approvals,
            self.pending,
            self.interfaces,
            environment,
            session=self.session,
            plan_mode=rules.plan,
        )
        self.lifecycle = CallLifecycle(
            self.pipeline, self.approvals, self.pending, self.interfaces, environment, plan_mode=rules.plan
        )
        self.grant_coverage = GrantCoverage(self.approvals, self.pending, self.lifecycle)
        self.dry_run = DryRun(self.pipeline, self.access, self.approvals)
        self.telemetry: Telemetry | None = Telemetry.find()
        """Records OpenTelemetry spans; None if the program does not use OpenTelemetry."""
        if isinstance(tools, Tool) or callable(tools):
            raise CallError("The tools of a runtime must be a list: Runtime(tools=[...]).")
        for tool in tools:
            self.registry.register(tool)

    async def __aenter__(self) -> Runtime:
        await self.start()
        if self.ledger is not None:
            await self.lifecycle.resume_all()
        return self

    async def start(self) -> None:
        """Start the sources of tools, and end the calls of dead processes. Approved calls are not resumed."""
        self.events.use_running_loop()
        if self.ledger is not None:
            self.ledger.recover()
        await self.registry.start()
        self.registry.on_ready(self._report_names)
        if self.workspace.state is not None and self._live is None:
            live = LiveCalls(self.workspace.state, self.events, self.pipeline.executor.running.keys, self.cancel)
            self._live = asyncio.create_task(live.run())

    async def __aexit__(self, *_: object) -> None:
        # An exit stack runs the last callback first, and every one of them even if others fail: stop the calls, then
        # the sources of tools, then what was registered with `on_close`.
        async with AsyncExitStack() as stack:
            if self._live is not None:
                stack.callback(self._live.cancel)
            for close in self._closers:
                stack.callback(close)
            stack.callback(self.events.close)
            for async_close in self._async_closers:
                stack.push_async_callback(async_close)
            stack.callback(self.registry.stop)
            stack.push_async_callback(self.pipeline.executor.stop_all)

    @property
    def network(self) -> Network:
        """The network rules and the network log, for everything that this runtime connects to."""
        return self.services.get(Network)

    def _open_network(self) -> Network:
        config, state = self.config.network, self.workspace.state
        if state is None:
            return Network(hosts=config.hosts, private=config.private)
        with suppress(OSError):  # reported by the first connection, which cannot be logged
            make_private_folder(state)
        network = Network(hosts=config.hosts, private=config.private, log=NetworkLog(state / NETWORK_LOG))
        self.on_close(network.close)
        return network

    @property
    def sandbox(self) -> Sandbox:
        return self.commands.sandbox

    # Calls

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
        """Run one call: `await runtime.call("add", {"a": 1})`. Failures are in the result, not raised.

        `call_id` comes from `pipeline.new_call_id`, for a caller that must know the id before the call starts.
        """
        if caller is request is given_id is cwd is call_id is None and type(name) is str and len(name) < 200:
            # The common case, kept fast: nothing else was given, so there is nothing to check.
            asked = CallRequest(name, args, self.caller, self.workspace.cwd)
        else:
            known = None
            try:
                known = self._chosen_ids.claim(call_id)
                cwd = input_checks.check_cwd(cwd, self.workspace.cwd)
                asked = CallRequest.checked(name, args, self._check_caller(caller), cwd, request, given_id, known)
            except CallError as error:
                plain = CallRequest.checked(name, None, self.caller, self.workspace.cwd, call_id=known)
                return self.pipeline.refuse(plain, error)
        work = self.lifecycle.run(asked)
        return work if self.telemetry is None else self.telemetry.span(asked.name, asked.given_id or "", work)

    def _check_caller(self, caller: Caller | None) -> Caller:
        # Programs usually pass the same caller for every call: it is checked once.
        if caller is None or caller is self.caller:
            return self.caller
        if caller is not self._last_caller[0]:
            self._last_caller = (caller, input_checks.check_caller(caller))
        return self._last_caller[1]

    async def call_many(
        self,
        requests: Sequence[Request | tuple[str, Any]],
        *,
        caller: Caller | None = None,
        request: str | None = None,
    ) -> list[Result]:
        """Run calls concurrently, up to `tools.max_concurrent`; returns the results in the order of the requests."""
        limit = asyncio.Semaphore(self.config.tools.max_concurrent)

        async def one(item: Request) -> Result:
            async with limit:
                return await self.call(item.tool, item.args, caller=caller, request=request, given_id=item.given_id)

        made = [_request(item) for item in requests]
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(item)) for item in made]
        return [task.result() for task in tasks]

    def _call_nested(self, name: str, args: Args, parent: RunContext) -> Awaitable[Result]:
        return self.lifecycle.run_nested(name, args, parent)

    def cancel(self, call_id: str) -> bool:
        """Stop a running call or withdraw a pending one; it still gets a result. False if there is no such call."""
        try:
            known = input_checks.check_call_id(call_id)
        except UnknownCall:
            return False
        return self.pipeline.cancel(known) or self.pending.cancel(known)

    def _dry_run_request(
        self, name: str, args: Arguments, caller: Caller | None, call_id: str, given_id: str | None = None
    ) -> CallRequest:
        name = input_checks.check_text(name, "The name of a tool")
        given_id = input_checks.check_optional_text(given_id, "The given id of a call")
        return CallRequest(
            name, args, self._check_caller(caller), self.workspace.cwd, given_id=given_id, call_id=call_id, stages=[]
        )

    async def judge(
        self, name: str, args: Arguments = None, *, caller: Caller | None = None, given_id: str | None = None
    ) -> Decision:
        """The decision a call would get; nothing is run or recorded. If a stage before the approval chain refuses the
        call, the decision is its denial."""
        asked = self._dry_run_request(name, args, caller, "judged", given_id)
        decision, _ = await self.dry_run.judge(asked)
        return decision

    async def explain(self, name: str, args: Arguments = None, *, caller: Caller | None = None) -> DecisionExplanation:
        """The decision a call would get, with every step that leads to it; without arguments, for the tool alone."""
        asked = self._dry_run_request(name, args, caller, "explain")
        return await self.dry_run.explain(asked)

    async def undo(self, call_id: str, *, by: str = "program", partial: bool = False) -> Result:
        """Restore the files a call changed: all of them, or none and `UndoRefused`. `partial` restores those it can."""
        call_id, by = input_checks.check_call_id(call_id), input_checks.check_text(by, "The name of who asks")
        return await asyncio.to_thread(
            self.commands.undo, call_id, by=by, partial=partial, interface=self.caller.interface
        )

    # Pending calls

    async def answer(self, call_id: str, answer: Answer, *, digest: str | None = None) -> Result:
        """Answer a pending call. If it is approved and no other process waits to run it, it runs here.

        A call that needs two people stays pending after the first approval. The same identity cannot approve it
        twice: `AlreadyApproved`.
        """
        call_id = input_checks.check_call_id(call_id)
        answered = await self.lifecycle.answer(call_id, answer, digest)
        if answered.state is State.PENDING:
            return still_pending(answered, shared=self.pending.shared)
        if answered.state is not State.APPROVED:
            return self.pending.result(call_id) or Result(False, state=answered.state, call_id=call_id)
        ran = await self.lifecycle.resume(answered)
        if ran is not None:
            return ran
        text = awaiting_program(answered)
        return failed(text, State.APPROVED, Failure.AWAITING_PROGRAM, call_id)

    async def approve(
        self,
        call_id: str,
        *,
        by: str = "program",
        args: Args | None = None,
        digest: str | None = None,
        widen: Widening | None = None,
    ) -> Result:
        """Approve what was shown (`digest`), or what is pending now. `args` replace the arguments; `widen` lets this
        one call reach more than the sandbox allows."""
        kind = "approve" if args is None else "edit"
        return await self.answer(call_id, Answer(kind=kind, by=by, args=args, widen=widen), digest=digest)

    async def reject(self, call_id: str, message: str = "", *, by: str = "program") -> Result:
        """Reject a pending call. The model sees the message."""
        return await self.answer(call_id, Answer(kind="reject", by=by, message=message))

    async def respond(self, call_id: str, output: str, *, by: str = "program", success: bool = True) -> Result:
        """Give the result of a pending call in the tool's place."""
        return await self.answer(call_id, Answer(kind="respond", by=by, message=output, success=success))

    async def resolve(self, request_id: str, call_id: str, result: Result | str | Mapping[str, Any]) -> Result:
        """Give the result of a pending call by the ids the client knows: a `Result`, text, or a dict
        `{content, is_error, metadata?}`. Structured content, metadata and attachments are kept."""
        request_id, call_id = (
            input_checks.check_text(request_id, "The request"),
            input_checks.check_text(call_id, "The id of a call"),
        )
        asked = [pending.call for pending in self.pending.list() if pending.call.request == request_id]
        found = [call.id for call in asked if call_id in (call.id, call.given_id)]
        if not found:
            raise UnknownCall(f"No call '{call_id}' of request '{request_id}' is pending.")
        # Models and clients choose ids: they may choose one twice, or one that another call in the ledger has.
        if len({*found, *self.pending.ledger.calls_with_given_id(call_id, request_id)}) > 1:
            raise UnknownCall(f"Several calls of request '{request_id}' are named '{call_id}'; give the ledger's id.")
        done = self._check_resolution(next(call for call in asked if call.id == found[0]), result)
        text = done.output if done.success else done.error or "Unknown error"
        answer = input_checks.check_answer(Answer(kind="respond", by="resolve", message=text, success=done.success))
        self.pending.answer(found[0], answer, result=done)
        return self.pending.result(found[0]) or done

    def _check_resolution(self, call: Call, result: object) -> Result:
        """The result, checked like one that a tool returns. Raises `CallError` if it is invalid."""
        try:
            given = result if isinstance(result, Result | str) else parse_result_dict(result)
        except Exception:
            given = None
        if given is None:
            raise CallError(
                f"A call is resolved with a Result, text or {{content, is_error}}, not {type(result).__name__}."
            )
        done = to_result(given, self.registry.find(call.tool) or Tool(name=call.tool), call.id)
        if done.failure is Failure.INVALID_OUTPUT:
            raise CallError(f"Call {call.id} is not resolved: {done.error}")
        return limit_attachments(done, self.config.output) if done.attachments else done

    async def allow(
        self,
        pending: PendingCall,
        scope: Scope,
        *,
        by: str = "program",
        width: Width = "exact",
        expires: float | None = None,
    ) -> Grant:
        """Store a grant for calls like this one, until the Unix time `expires`. Raises `GrantRefused` if the grant
        would be too wide, and `StaleApproval` if the call changed since it was shown: a grant covers only what the
        person has seen."""
        by = input_checks.check_text(by, "The name of who allows it")
        expires = input_checks.check_expiry(expires)
        return self.approvals.remember(await self.lifecycle.as_shown(pending), scope, by, width, expires)

    async def approve_covered(self, grant: Grant, *, by: str, identity: str = "") -> list[CoveredCall]:
        """Approve the pending calls that a stored grant covers, each with an answer of its own that names the grant,
        and run them as `answer` does. Calls that need a person whatever is granted stay pending."""
        grant = input_checks.check_grant(grant)
        answer = Answer(kind="approve", by=by, identity=identity, message=f"covered by grant {grant.id}")
        answer = input_checks.check_answer(answer)
        limit = asyncio.Semaphore(self.config.tools.max_concurrent)

        async def approve(pending: PendingCall) -> CoveredCall | None:
            async with limit:
                try:
                    result = await self.answer(pending.call.id, answer, digest=pending.digest)
                except (NotPending, UnknownCall):
                    return None  # another answer was faster
                except HoldfastError as error:
                    result = failed(str(error), State.PENDING, Failure.STALE, pending.call.id)
            return CoveredCall(pending=pending, result=result)

        covered = await self.grant_coverage.pending_calls(grant)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(approve(pending)) for pending in covered]
        return [done for task in tasks if (done := task.result()) is not None]

    def attach(
        self,
        asker: Asker | None = None,
        *,
        elicitor: Elicitor | None = None,
        on_answered: OnAnswered | None = None,
        nobody: Nobody | None = None,
        by: str = "program",
    ) -> AttachedInterface:
        """Attach an interface. Every attached interface is asked about pending calls; the first valid answer counts,
        and the others' `on_answered` is called.

        `asker` may be async, and returns an `Answer`, True, False, or None if nobody answered.
        """
        return self.interfaces.attach(asker, elicitor=elicitor, on_answered=on_answered, nobody=nobody, by=by)

    # Tools

    def register(self, what: Any, definition: Any = None, /, *, replace: bool = False) -> Any:
        """Add tools in any form the registry accepts; returns a handle with `remove()`."""
        return self.registry.register(what, definition, replace=replace)

    def middleware_for(
        self, tool: str, *, before: Before | None = None, after: After | None = None
    ) -> MiddlewareHandle:
        """Add middleware around one tool, or around all with `""`."""
        return self.middleware.add(tool, before=before, after=after)

    def visible(self, caller: Caller | None = None) -> list[Tool]:
        """The tools a caller may see, sorted. `tool.search` is left out: a surface with many tools adds it."""
        return self.access.visible(self._check_caller(caller))

    def tool_list(self, format: Format, caller: Caller | None = None) -> ToolList:  # noqa: A002
        """The tool list for a provider's API. The same object is returned until the tools change."""
        if not isinstance(cast(object, format), str) or format not in get_args(Format):
            shown = message_of(format, "this")[:40]
            raise CallError(
                f"There is no tool list in the format {shown!r}. {suggest_choices(shown, get_args(Format))}"
            )
        return self.access.tool_list(format, self._check_caller(caller))

    def subscribe(self, limit: int = QUEUE_LIMIT) -> Subscription:
        """Iterate over events: `async for event in runtime.subscribe()`."""
        return self.events.subscribe(limit)

    def warnings(self) -> list[str]:
        """Problems with tools, and names or patterns in the configuration that match nothing.

        Names are checked when all sources are ready. Each warning also goes to the log once.
        """
        return [*self.registry.warnings, *self._unknown_names(), *pattern_problems(self.config.sandbox.read_deny)]

    def _unknown_names(self) -> list[str]:
        if not self.registry.ready:
            return []
        if self._name_warnings_revision != self.registry.revision:
            self._name_warnings_revision = self.registry.revision
            named = self.access.policy.rules.skills
            skills = {name: named[name] for name in self.config.tools.skills if name in named}
            self._name_warnings = check_names(self.config, self.registry.list_all(), skills)
        return self._name_warnings

    def _report_names(self) -> None:
        for warning in self._unknown_names():
            self.events.warn(warning)

    def on_close(self, close: Callable[[], Awaitable[None] | None]) -> None:
        """Call a function when the runtime closes. A coroutine function is awaited after every call has ended and
        before anything else closes."""
        if iscoroutinefunction(close):
            self._async_closers.append(close)
        else:
            self._closers.append(cast(Callable[[], None], close))


def _config(given: object) -> Config:
    if given is None:
        return Config()
    if isinstance(given, Config):
        return given
    kind = type(given).__name__
    raise ConfigError(f"The config of a runtime must be a Config, not {kind}. For a dict use Config.from_dict(...).")


def _skills(config: Config) -> Mapping[str, SkillPermissions]:
    if not config.tools.skills:
        return {}
    from holdfast.rules.skills import read_skills  # most runtimes have no skills

    return read_skills(config.tools.skills)


def _request(item: Any) -> Request:
    if isinstance(item, Request):
        return item
    parts = cast(tuple[Any, ...], item)
    if type(item) is not tuple or len(parts) != 2:
        kind = type(parts).__name__
        raise CallError(f"A request must be a Request, or a tool's name and its arguments, not {kind}.")
    return Request(*parts)


def _workspace(given: Workspace | None, root: Path | None, ledger: Ledger | None) -> Workspace:
    """The workspace with a resolved root, and with the folder of a ledger on disk as its state folder."""
    root = root if given is None else given.root
    root = None if root is None else root.resolve()
    state = None if given is None else given.state
    if state is None and ledger is not None and not ledger.volatile:
        state = ledger.path.parent
    if given is None:
        return Workspace(cwd=str(root or Path.cwd()), root=root, state=state)
    return replace(given, root=root, cwd=given.cwd or str(root or Path.cwd()), state=state)


def _grants_in(ledger: Ledger) -> GrantMatcher:
    from holdfast.rules.grants import GrantMatcher

    return GrantMatcher(ledger.grants)

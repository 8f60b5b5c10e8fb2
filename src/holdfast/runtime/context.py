"""The context that a tool receives while it runs. Its parts are created on first use."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct

from holdfast.config.config import Caps, Config
from holdfast.contract.elicitation import CANCELLED, Elicitation, ElicitationReply, Question
from holdfast.contract.errors import CallError, HoldfastError, PathRefused, SecretUnavailable
from holdfast.contract.event import Output, Progress
from holdfast.contract.json import Args
from holdfast.contract.result import Result
from holdfast.fs import paths
from holdfast.runtime.results import LedgerCallStorage
from holdfast.text.truncate import Truncator

if TYPE_CHECKING:
    from holdfast.contract.call import Call
    from holdfast.contract.tool import Tool
    from holdfast.runtime.cancellation import CancelScope, StopReason
    from holdfast.runtime.commands import Commands, ContextSandbox
    from holdfast.runtime.events import Events
    from holdfast.runtime.path_locks import Claim
    from holdfast.runtime.secrets import Secrets
    from holdfast.runtime.workspace import Workspace
    from holdfast.store.ledger import Ledger
    from holdfast.store.redact import RedactedStream, Redactor

T = TypeVar("T")


class Environment(Struct, frozen=True, kw_only=True, eq=False):
    """The parts of a runtime that contexts use."""

    config: Config
    workspace: Workspace
    ledger: Ledger | None
    redactor: Redactor
    events: Events
    secrets: Secrets
    commands: Commands
    service: Callable[[type[Any]], Any]
    """Finds a service by its protocol."""
    elicit: Callable[[Elicitation], Awaitable[tuple[ElicitationReply, ...]]]
    """Asks a person questions."""
    call: Callable[[str, Args, RunContext], Awaitable[Result]]
    """Makes a nested call."""


class RunContext:
    """Satisfies the `Context` protocol; one per execution."""

    parent: RunContext | None = None
    claims: tuple[Claim, ...] = ()
    _keep: LedgerCallStorage | None = None
    _sandbox: ContextSandbox | None = None
    _redaction: RedactedStream | None = None
    _stopped = False
    _scope: CancelScope | None = None
    _pauses = 0
    streamed = False
    command_ended = False
    """A command of this call was stopped, and all its processes were seen to end."""
    in_ledger = False
    """The call is in the ledger, or about to be written to it."""
    dry_run = False
    granted: tuple[Path, ...] = ()
    """Files in `sandbox.read_deny` that this call may read, because a person approved them."""
    read_secrets = False
    """This call or a nested one read such a file, so its result is not stored."""
    callbacks: Sequence[Callable[[], None]] = ()
    exception: BaseException | None = None
    """What the tool raised."""

    def __init__(
        self, environment: Environment, tool: Tool, call: Call, timeout: float | None, parent: RunContext | None = None
    ) -> None:
        self._environment = environment
        self.tool = tool
        self.call_record = call
        self.timeout = timeout
        if parent is not None:
            self.parent = parent
            self.claims = parent.claims

    @property
    def call_id(self) -> str:
        return self.call_record.id

    @property
    def tool_id(self) -> str:
        return self.call_record.given_id or self.call_record.id

    @property
    def parent_call_id(self) -> str | None:
        return self.call_record.parent

    @property
    def tool_name(self) -> str:
        return self.tool.name

    @property
    def session(self) -> str:
        caller = self.call_record.caller
        return caller.document or caller.session or caller.interface

    @property
    def cwd(self) -> Path:
        return Path(self.call_record.cwd)

    @property
    def root(self) -> Path | None:
        return self._environment.workspace.root

    @property
    def document_dir(self) -> Path | None:
        return self._environment.workspace.document_dir

    @property
    def document_name(self) -> str | None:
        document = self._environment.workspace.document
        return document.name if document is not None else None

    @property
    def path(self) -> ContextPaths:
        return ContextPaths(self.document_dir or self.root or self.cwd, self.root)

    @property
    def sandbox(self) -> ContextSandbox:
        if self._sandbox is None:
            from holdfast.runtime.commands import ContextSandbox

            self._sandbox = ContextSandbox(self._environment.commands, self)
        return self._sandbox

    @property
    def truncate(self) -> Truncator:
        limits = self._environment.config.output
        return Truncator(limits.max_lines, limits.max_bytes)

    @property
    def storage(self) -> LedgerCallStorage:
        if self._keep is None:
            self._keep = LedgerCallStorage(self.call_id, None if self.dry_run else self._environment.ledger)
        return self._keep

    @property
    def caps(self) -> Caps:
        tools, caller = self._environment.config.tools, self.call_record.caller
        layers = (tools.agents.get(caller.agent or ""), tools.providers.get(caller.provider or ""))
        small = tools.caps == "small" or any(layer is not None and layer.caps == "small" for layer in layers)
        return "small" if small else "standard"

    @property
    def cancelled(self) -> bool:
        return self._stopped

    @property
    def stop_reason(self) -> StopReason | None:
        """Why the call was asked to end, if it was."""
        return None if self._scope is None else self._scope.reason

    def attach_scope(self, scope: CancelScope) -> None:
        """Connect the running work, whose clock can be paused from now on."""
        self._scope = scope
        if self._pauses:
            scope.pause()

    def pause(self) -> None:
        """Stop the clock of the call, while it or a nested call waits for a person. Each `pause` needs a `resume`."""
        self._pauses += 1
        if self._scope is not None:
            self._scope.pause()

    def resume(self) -> None:
        self._pauses -= 1
        if self._scope is not None and not self._pauses:
            self._scope.resume()

    def grant(self, paths: tuple[Path, ...]) -> None:
        """Let this call read these files, and withhold its output from the ledger."""
        self.granted = paths
        if paths:
            self.withhold_output()

    def withhold_output(self) -> None:
        """Do not store the results of this call and of the calls it is nested in: they may contain secrets."""
        for ctx in self._with_ancestors():
            ctx.read_secrets = True

    def mark_stopped(self) -> None:
        self._stopped = True

    def warn_blocked(self, seconds: float) -> None:
        """Warn that the tool blocked the event loop for longer than its timeout, which could not end it."""
        self._environment.events.warn(
            f"Tool '{self.tool.name}' blocked the event loop for {seconds:.1f} s; its timeout is {self.timeout:g} s. "
            "Use async I/O, or make it a plain function, which runs in a thread."
        )

    def record_exception(self, error: BaseException) -> None:
        """Store and log an exception of the tool. The traceback goes to the log, not to the model."""
        self.exception = error
        if not self.dry_run and not isinstance(error, HoldfastError | asyncio.CancelledError):
            self._environment.events.tool_raised(self.tool.name, self.call_id, error)

    def config(self) -> Args | None:
        subtree = self._environment.config.tools.settings_of(self.tool.names)
        return None if subtree is None else deepcopy(subtree)  # pyright: ignore[reportReturnType]

    def secret(self, scope: str) -> str:
        if scope not in self.tool.secret_scopes(self.call_record.args):
            raise SecretUnavailable(
                f"Tool '{self.tool.name}' did not declare the secret '{scope}'; add it to required_secret_scopes."
            )
        if scope not in self.tool.required_secret_scopes and scope not in self.call_record.caller.scopes:
            # The pipeline has checked this, but middleware may have changed the arguments since.
            raise SecretUnavailable(f"The secret '{scope}' has not been granted to the caller of '{self.tool.name}'.")
        return f"[secret {scope}]" if self.dry_run else self._environment.secrets.get(scope)

    def on_cancel(self, callback: Callable[[], None]) -> None:
        if not isinstance(self.callbacks, list):
            self.callbacks = []
        self.callbacks.append(callback)

    def progress(self, message: str, done: float | None = None, total: float | None = None) -> None:
        clean = self._environment.redactor(message)
        self._environment.events.emit_from_anywhere(Progress(self.call_id, clean, done, total))

    def stream(self, text: str) -> None:
        if self._environment.events.idle:
            return
        if self._redaction is None:
            self._redaction = self._environment.redactor.stream()
            self.streamed = True
        clean = self._redaction.feed(text)
        if clean:
            self._environment.events.emit_from_anywhere(Output(self.call_id, clean, self.call_record.group))

    def finish_stream(self) -> None:
        if self._redaction is not None and (rest := self._redaction.flush()):
            self._environment.events.emit_from_anywhere(Output(self.call_id, rest, self.call_record.group))

    async def call(self, name: str, args: Args | None = None) -> Result:
        if self.dry_run:
            raise CallError("A tool cannot make calls in a dry run; check `ctx.dry_run` first.")
        return await self._environment.call(name, args or {}, self)

    def call_blocking(self, name: str, args: Args | None = None) -> Result:
        """Like `call`, for tools that run in a thread."""
        loop = self._environment.events.loop
        if loop is None or _running_loop() is loop:
            raise CallError("`call_blocking` is for tools that run in a thread; use `await ctx.call(...)` here.")
        return asyncio.run_coroutine_threadsafe(self.call(name, args), loop).result()

    async def elicit(self, *questions: Question) -> tuple[ElicitationReply, ...]:
        if self.dry_run:
            return (CANCELLED,) * len(questions)
        call = self.call_record
        elicitation = Elicitation(asked_by=self.tool.name, questions=questions, call_id=call.id, group=call.group)
        return await self.wait_for_user(self._environment.elicit(elicitation))

    async def wait_for_user(self, work: Awaitable[T]) -> T:
        """Wait for a person, with the clocks of this call and of those it is nested in paused."""
        stopped = list(self._with_ancestors())
        for ctx in stopped:
            ctx.pause()
        try:
            return await work
        finally:
            for ctx in stopped:
                ctx.resume()

    def _with_ancestors(self) -> Iterator[RunContext]:
        ctx: RunContext | None = self
        while ctx is not None:
            yield ctx
            ctx = ctx.parent

    def service(self, protocol: type[T]) -> T:
        return self._environment.service(protocol)


class ContextPaths:
    __slots__ = ("_base", "_root")

    def __init__(self, base: Path, root: Path | None) -> None:
        self._base = base
        self._root = root

    def resolve(self, path: str) -> Path:
        return paths.resolve(path, self._base)

    def confine(self, path: str, *, mutating: bool = False) -> Path:
        if self._root is None:
            raise PathRefused(
                "There is no project root here. Run in a project (`holdfast init`), or give the Runtime a root."
            )
        return paths.confine(path, root=self._root, base=self._root, mutating=mutating)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None

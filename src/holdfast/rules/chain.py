"""The approval chain: resolvers in priority order; the first one that answers decides.

`ApprovalRequest` is the call being judged, `Confinement` the sandbox it would run in, and `DecisionTrace` the decision
with the answer of every resolver.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping
from inspect import iscoroutinefunction
from itertools import takewhile
from pathlib import Path
from threading import RLock
from typing import Any, Final, Literal, cast

from msgspec import Struct, field
from msgspec.structs import replace

from holdfast.contract.call import Caller, Decision, NamedFile
from holdfast.contract.enums import Risk, Verdict
from holdfast.contract.errors import ConfigError
from holdfast.contract.json import Args, Json
from holdfast.contract.tool import Reach, Tool
from holdfast.contract.widening import Widening
from holdfast.text.escape import escape

Network = Literal["off", "on"] | tuple[str, ...]
"""`off`, `on`, or the hosts that can be reached."""


class Confinement(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The sandbox and network limits of a call. The defaults mean no confinement at all."""

    backend: str | None = None
    """The sandbox backend; None without a sandbox, or for a tool that runs no commands."""
    guarantees: tuple[str, ...] = ()
    """The escape tests that the backend passed."""
    network: Network = "on"
    writable: tuple[str, ...] = ("/",)
    hidden: tuple[str, ...] = ()
    """Paths that cannot be read."""
    patterns: tuple[str, ...] = ()
    """Patterns of unreadable paths, each as `folder: pattern`. The last match wins; `!` makes an exception."""
    protected: tuple[str, ...] = ()
    """Patterns of paths in writable folders that cannot be changed, in addition to the built-in ones."""
    environment: tuple[str, ...] = ()
    """Patterns of the environment variables that are passed on."""
    settings: str | None = None
    """Digest of the shell and the tool's configuration, including variable values; None for tools that run no commands.
    Compared for equality: no other shell or value counts as stricter."""

    def is_within(self, given: Confinement) -> bool:
        """Whether this confinement allows nothing that `given` does not."""
        return (
            set(given.guarantees) <= set(self.guarantees)
            and _network_within(self.network, given.network)
            and _all_inside(self.writable, given.writable)
            and _all_inside(given.hidden, self.hidden)
            and _hides_at_least(self.patterns, given.patterns)
            and set(given.protected) <= set(self.protected)
            and set(self.environment) <= set(given.environment)
            and self.settings == given.settings
        )

    def __str__(self) -> str:
        """One line for the user; empty for a tool that runs no commands while the sandbox is on."""
        if self.backend is None:
            return "with or without a sandbox" if self.writable == UNCONFINED.writable else ""
        network = self.network if isinstance(self.network, str) else ", ".join(self.network) or "off"
        return f"contained by {self.backend} with network {network}, or stricter"


UNCONFINED: Final = Confinement()


def no_confinement() -> Confinement:
    return UNCONFINED


def _network_within(now: Network, given: Network) -> bool:
    if now == "off" or given == "on":
        return True
    return isinstance(now, tuple) and isinstance(given, tuple) and set(now) <= set(given)


def _hides_at_least(now: tuple[str, ...], given: tuple[str, ...]) -> bool:
    """Whether every earlier pattern is still there, in order, and no exception was added."""
    return now[: len(given)] == given and not any(": !" in pattern for pattern in now[len(given) :])


def _all_inside(paths: Iterable[str], folders: Iterable[str]) -> bool:
    return all(any(path == one or path.startswith(f"{one.rstrip('/')}/") for one in folders) for path in paths)


_ANONYMOUS = Caller()


class ApprovalRequest(Struct, frozen=True, kw_only=True):
    """A call to be judged: may it run?"""

    tool: Tool
    args: Args
    call_id: str
    name_used: str
    cwd: str
    caller: Caller
    risk: Risk
    """The risk of the proposal, or of the tool if there is none."""
    paths: tuple[Path, ...]
    """The paths the call touches: absolute, symlinks resolved, one for each path the tool named."""
    root: Path | None
    session: str
    document: str | None = None
    given_id: str | None = None
    """The call id from the model, if it sent one."""
    confinement: Callable[[], Confinement] = no_confinement
    """The confinement of the call; computed on demand because it can be slow."""
    files: Callable[[], tuple[NamedFile, ...]] = tuple
    """The project files that a command that does more than read names; computed on demand."""
    widening: Widening | None = None
    """Access beyond the sandbox policy that the call asks for."""

    @property
    def reach(self) -> Reach | None:
        """The hosts the call contacts; None for a tool that does not name them."""
        return None if self.tool.reaches is None else self.tool.reaches(self.args)

    @classmethod
    def for_tool(cls, tool: Tool, caller: Caller = _ANONYMOUS) -> ApprovalRequest:
        """A request without a call, for static rules, which depend only on the tool and the caller."""
        return cls(
            tool=tool, args={}, call_id="", name_used=tool.name, cwd="", caller=caller,
            risk=tool.risk, paths=(), root=None, session="",
        )  # fmt: skip

    def with_copied_args(self) -> ApprovalRequest:
        """The request with a deep copy of the arguments, for third-party code that might modify them."""
        return replace(self, args=cast(Args, _copy_json(self.args)))


class ResolveContext(Struct, frozen=True):
    """The third argument of a resolver function."""

    request: ApprovalRequest
    bufnr: int | None = None

    @property
    def call_id(self) -> str:
        return self.request.call_id

    @property
    def tool_id(self) -> str:
        """The call id from the model, or the ledger's id if the model sent none."""
        return self.request.given_id or self.request.call_id

    @property
    def names(self) -> tuple[str, ...]:
        """All names of the tool, the canonical one first."""
        return self.request.tool.names

    @property
    def caller(self) -> Caller:
        return self.request.caller

    @property
    def cwd(self) -> str:
        return self.request.cwd

    @property
    def document(self) -> str | None:
        return self.request.document


def _copy_json(value: Json) -> Json:
    if isinstance(value, dict):
        return {key: _copy_json(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_copy_json(item) for item in value]
    return value


CALLBACK_ERRORS: Final = (Exception, SystemExit)
"""Exceptions of third-party code that are handled; `SystemExit` included, so that a callback cannot end the process."""
_MAX_TEXT: Final = 200


def describe_error(error: BaseException) -> str:
    """An exception as one line of limited length; only its type if `str()` fails."""
    try:
        text = " ".join(str(error).split())[:_MAX_TEXT]
    except CALLBACK_ERRORS:
        text = ""
    name = type(error).__name__
    return f"{name}: {text}" if text else name


def describe_value(value: object) -> str:
    """An unexpected value for a message: strings quoted, anything else by its type."""
    if isinstance(value, str):
        return ascii(value[:_MAX_TEXT])
    return "None" if value is None else f"a value of type {type(value).__name__}"


def reason_text(value: object) -> str:
    """The reason given by third-party code, as text."""
    return value if isinstance(value, str) else describe_value(value)


def log_warning(message: str) -> None:
    logging.getLogger("holdfast").warning("%s", escape(message))


OnError = Literal["skip", "ask"]
Resolve = Callable[[str, Args, ResolveContext], object]
"""`resolve(canonical tool name, arguments, context)` returns a verdict or its name, a `Decision`, or None to pass."""

DEFAULT_PRIORITY: Final = 50
DEFAULT_DECISION: Final = Decision(Verdict.ASK, "default", "No rule covers this call, so it needs your approval.")
APPROVAL_URN: Final = "urn:holdfast:approval:"
PASSED: Final = "pass"
FAILED: Final = "failed"
_OWN_URN: Final = "urn:holdfast:"
_SEED_URN: Final = "urn:flemma:approval:"
_VERDICT_WORDS: Final = frozenset(verdict.value for verdict in Verdict)
_MAX_CACHED: Final = 4096


def source_name(source: str) -> str:
    """The source of a decision for display; built-in names without their URN prefix."""
    return source.rpartition(":")[2].replace("-", " ") if source.startswith(_OWN_URN) else source


def reason_with_source(decision: Decision) -> str:
    """The reason of a decision with the resolver that gave it, for the approval prompt."""
    source = f" ({source_name(decision.source)})" if decision.source != DEFAULT_DECISION.source else ""
    return f"{decision.reason}{source}"


def every_tool(tool: Tool) -> bool:
    return True


class Resolver(Struct, frozen=True):
    """One entry of the chain."""

    name: str
    resolve: Resolve
    priority: int = DEFAULT_PRIORITY
    description: str = ""
    static: bool = False
    """Whether the answer depends only on the tool; such a resolver gets no arguments and no caller."""
    applies: Callable[[Tool], bool] = every_tool
    """Tools for which this is false skip the resolver."""
    continue_after_ask: bool = False
    """Whether the chain continues after this resolver asks, so that a later one can still deny."""


class DecisionStep(Struct, frozen=True):
    """The answer of one resolver or cap: approve, ask, deny, pass or failed."""

    source: str
    priority: int | None
    answer: str
    reason: str = ""


class DecisionTrace(Struct, frozen=True):
    """A decision with the steps that led to it."""

    decision: Decision
    steps: tuple[DecisionStep, ...] = ()


class ResolverHandle(Struct, frozen=True):
    """Removes one registration. A resolver that has replaced it since stays."""

    name: str
    remove: Callable[[], bool]


class _Snapshot(Struct, frozen=True):
    """An immutable snapshot of the chain: changes create a new one, so a running judgement never sees half a change."""

    resolvers: tuple[Resolver, ...] = ()
    static_decisions: dict[Tool, Decision | None] = field(default_factory=dict[Tool, "Decision | None"])


class Chain:
    """Registers resolvers and asks them about calls."""

    def __init__(
        self, *, on_error: OnError = "skip", describe_uncovered: Callable[[ApprovalRequest], str] = lambda request: ""
    ) -> None:
        """`describe_uncovered` returns which part of a call no rule covers; empty if unknown."""
        self.on_error: Final = on_error
        self._describe_uncovered = describe_uncovered
        self._entries: dict[str, Resolver] = {}
        self._order = _Snapshot()
        self._revision = 0
        self._listeners: list[Callable[[], None]] = []
        self._lock = RLock()

    @property
    def revision(self) -> int:
        """Counts the changes; a cached decision is valid only for the revision it was made at."""
        return self._revision

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call `listener` after every change, because cached decisions may be stale."""
        self._listeners.append(listener)

    def register(
        self,
        name: str,
        resolver: Resolver | Resolve | Mapping[str, Any],
        *,
        priority: int = DEFAULT_PRIORITY,
        description: str = "",
    ) -> ResolverHandle:
        """Add a resolver, or replace the one with that name. A mapping needs `resolve`; the other fields are
        optional."""
        if not name or ("." in name and not name.startswith("urn:")):
            raise ConfigError(
                f"A resolver cannot be named {describe_value(name)}: dots are for module paths. Use ':' or '_'."
            )
        return self.add(self.build_resolver(name, resolver, priority=priority, description=description))

    @staticmethod
    def build_resolver(
        name: str,
        resolver: Resolver | Resolve | Mapping[str, Any],
        *,
        priority: int = DEFAULT_PRIORITY,
        description: str = "",
    ) -> Resolver:
        """Build a resolver from any form that `register` accepts."""
        if isinstance(resolver, Resolver):
            return replace(resolver, name=name)
        fields: dict[str, Any] = {"priority": priority, "description": description}
        fields |= cast(Mapping[str, Any], resolver) if isinstance(resolver, Mapping) else {"resolve": resolver}
        built = _resolver_from_fields(name, fields)
        _validate_resolver(built)
        return built

    def add(self, resolver: Resolver) -> ResolverHandle:
        """Add a resolver under its own name, which may be a module path."""
        _validate_resolver(resolver)
        added = replace(resolver, name=_canonical_name(resolver.name))
        with self._lock:
            self._replace_entries({**self._entries, added.name: added})

        def remove() -> bool:
            with self._lock:
                return self._entries.get(added.name) is added and self.unregister(added.name)

        return ResolverHandle(added.name, remove)

    def unregister(self, name: str) -> bool:
        with self._lock:
            left = {other: entry for other, entry in self._entries.items() if other != _canonical_name(name)}
            found = len(left) < len(self._entries)
            if found:
                self._replace_entries(left)
            return found

    def get(self, name: str) -> Resolver | None:
        return self._entries.get(_canonical_name(name))

    def has(self, name: str) -> bool:
        return _canonical_name(name) in self._entries

    def get_all(self) -> list[Resolver]:
        """A copy of the resolvers, in the order in which they are asked."""
        return list(self._order.resolvers)

    def count(self) -> int:
        return len(self._entries)

    def judge(self, request: ApprovalRequest) -> DecisionTrace:
        steps = self._run_resolvers(self._order.resolvers, request)
        decision = self._decide(steps)
        if decision == DEFAULT_DECISION and (reason := self._describe_uncovered(request)):
            decision = Decision(DEFAULT_DECISION.verdict, DEFAULT_DECISION.source, reason)
        return DecisionTrace(decision, tuple(steps))

    def static_decision(self, tool: Tool) -> Decision | None:
        """The decision for every call of this tool, or None if it depends on the call."""
        order = self._order
        if tool not in order.static_decisions:
            if len(order.static_decisions) >= _MAX_CACHED:
                order.static_decisions.clear()
            order.static_decisions[tool] = self._static_decision(order.resolvers, tool)
        return order.static_decisions.get(tool)

    def _static_decision(self, resolvers: tuple[Resolver, ...], tool: Tool) -> Decision | None:
        leading = tuple(takewhile(lambda resolver: resolver.static or not _applies(resolver, tool), resolvers))
        steps = self._run_resolvers(leading, ApprovalRequest.for_tool(tool))
        settled = leading == resolvers or (self.on_error == "skip" and any(map(_is_answer, steps)))
        if not settled or any(step.answer == FAILED for step in steps):
            return None
        decision = self._decide(steps)
        if decision == DEFAULT_DECISION and self._describe_uncovered(ApprovalRequest.for_tool(tool)):
            return None  # the reason names parts of the command, so it differs from call to call
        return decision

    def _run_resolvers(self, resolvers: tuple[Resolver, ...], request: ApprovalRequest) -> list[DecisionStep]:
        steps: list[DecisionStep] = []
        for resolver in resolvers:
            steps.append(_run_resolver(resolver, request))
            continues = resolver.continue_after_ask and steps[-1].answer == Verdict.ASK
            if self.on_error == "skip" and _is_answer(steps[-1]) and not continues:
                break
        return steps

    def _decide(self, steps: list[DecisionStep]) -> Decision:
        strict = self.on_error == "ask"
        denies = [step for step in steps if step.answer == Verdict.DENY]
        chosen = next(iter(denies or filter(_is_answer, steps)), None)
        decision = (
            DEFAULT_DECISION if chosen is None else Decision(Verdict(chosen.answer), chosen.source, chosen.reason)
        )
        failure = next((step for step in steps if step.answer == FAILED), None)
        if strict and failure is not None and decision.verdict is Verdict.APPROVE:
            return Decision(Verdict.ASK, failure.source, failure.reason)
        return decision

    def _replace_entries(self, entries: dict[str, Resolver]) -> None:
        self._entries = entries
        self._order = _Snapshot(tuple(sorted(entries.values(), key=lambda entry: (-entry.priority, entry.name))))
        self._revision += 1
        for listener in self._listeners:
            listener()


def _is_answer(step: DecisionStep) -> bool:
    return step.answer in _VERDICT_WORDS


def _applies(resolver: Resolver, tool: Tool) -> bool:
    try:
        return resolver.applies(tool)
    except CALLBACK_ERRORS:
        return True


def _run_resolver(resolver: Resolver, request: ApprovalRequest) -> DecisionStep:
    if not _applies(resolver, request.tool):
        return DecisionStep(resolver.name, resolver.priority, PASSED)
    visible = ApprovalRequest.for_tool(request.tool) if resolver.static else request.with_copied_args()
    try:
        answer = resolver.resolve(visible.tool.name, visible.args, ResolveContext(visible))
        if answer is None:
            return DecisionStep(resolver.name, resolver.priority, PASSED)
        verdict = Verdict.parse(answer.verdict if isinstance(answer, Decision) else answer)
        given = (answer.reason if isinstance(answer, Decision) else "") or resolver.description
    except CALLBACK_ERRORS as error:
        return _failed_step(resolver, f"it raised {describe_error(error)}")
    if verdict is None:
        what = f"it returned {describe_value(cast(object, answer))} instead of approve, ask, deny or None"
        if isinstance(answer, Coroutine):
            cast(Coroutine[object, object, object], answer).close()
        return _failed_step(resolver, what)
    reason = reason_text(given or f"The resolver answered {verdict}.")
    return DecisionStep(resolver.name, resolver.priority, verdict.value, reason)


def _failed_step(resolver: Resolver, what: str) -> DecisionStep:
    log_warning(f"The approval resolver '{source_name(resolver.name)}' failed: {what}.")
    return DecisionStep(resolver.name, resolver.priority, FAILED, f"The resolver failed: {what}.")


def _canonical_name(name: str) -> str:
    return APPROVAL_URN + name.removeprefix(_SEED_URN) if name.startswith(_SEED_URN) else name


def _resolver_from_fields(name: str, fields: Mapping[str, Any]) -> Resolver:
    unknown = sorted(set(fields) - {"name", "resolve", "priority", "description"})
    if unknown:
        raise ConfigError(
            f"The resolver '{name}' has unknown fields {unknown}. Known fields: resolve, priority, description."
        )
    return Resolver(name, cast(Any, fields.get("resolve")), fields["priority"], fields["description"])


def _validate_resolver(resolver: Resolver) -> None:
    if not callable(resolver.resolve) or iscoroutinefunction(resolver.resolve):
        raise ConfigError(f"The resolver '{resolver.name}' needs a synchronous function `resolve(tool, args, ctx)`.")
    if type(resolver.priority) is not int:
        raise ConfigError(f"The priority of the resolver '{resolver.name}' must be an integer.")

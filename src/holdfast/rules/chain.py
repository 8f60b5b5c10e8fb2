"""The approval chain: what is judged, the resolvers in their order, and the decision of the first that answers."""

from __future__ import annotations

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
from holdfast.contract.tool import Tool
from holdfast.contract.widening import Widening

Network = Literal["off", "on"] | tuple[str, ...]
"""Or the hosts that can be reached."""


class Confinement(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The sandbox and the network of a call. The defaults are none: everything can be read, written and reached."""

    backend: str | None = None
    """What contains its commands; None where nothing does, or where it runs none."""
    guarantees: tuple[str, ...] = ()
    """What that backend holds, by the names of the escape tests."""
    network: Network = "on"
    writable: tuple[str, ...] = ("/",)
    hidden: tuple[str, ...] = ()
    """What cannot be read."""
    patterns: tuple[str, ...] = ()
    """Patterns of what cannot be read, each after its folder; the last that matches counts, `!` makes an exception."""
    protected: tuple[str, ...] = ()
    """Patterns of what cannot be changed in a writable folder, beside those that always hold."""
    environment: tuple[str, ...] = ()
    """Patterns of the variables it gets."""
    settings: str | None = None
    """Digest of the shell and of all the tool's configuration, the values of variables among it; None for tools that
    run no commands. It is compared as it is: no other shell or value is stricter."""

    def is_within(self, given: Confinement) -> bool:
        """Whether nothing is possible here that was not possible there."""
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
        """For a person; empty for a tool that runs no commands where the sandbox is on."""
        if self.backend is None:
            return "with or without a sandbox" if self.writable == UNCONFINED.writable else ""
        network = self.network if isinstance(self.network, str) else ", ".join(self.network) or "off"
        return f"contained by {self.backend} with network {network}, or stricter"


UNCONFINED: Final = Confinement()


def unconfined() -> Confinement:
    return UNCONFINED


def _network_within(now: Network, given: Network) -> bool:
    if now == "off" or given == "on":
        return True
    return isinstance(now, tuple) and isinstance(given, tuple) and set(now) <= set(given)


def _hides_at_least(now: tuple[str, ...], given: tuple[str, ...]) -> bool:
    """Nothing was taken away and no exception was added; what is new comes after the rest."""
    return now[: len(given)] == given and not any(": !" in pattern for pattern in now[len(given) :])


def _all_inside(paths: Iterable[str], folders: Iterable[str]) -> bool:
    return all(any(path == one or path.startswith(f"{one.rstrip('/')}/") for one in folders) for path in paths)


_ANONYMOUS = Caller()


class ApprovalRequest(Struct, frozen=True, kw_only=True):
    """May this call run?"""

    tool: Tool
    args: Args
    call_id: str
    name_used: str
    cwd: str
    caller: Caller
    risk: Risk
    """The proposal's, else the tool's."""
    paths: tuple[Path, ...]
    """What the call touches: absolute, symlinks resolved, one for each path the tool named."""
    root: Path | None
    session: str
    document: str | None = None
    given_id: str | None = None
    """The id the model gave the call, if it gave one."""
    confinement: Callable[[], Confinement] = unconfined
    """What would hold the call; found out only where that matters."""
    files: Callable[[], tuple[NamedFile, ...]] = tuple
    """The project files its command names, where it does more than read; read only where that matters."""
    widening: Widening | None = None
    """What its commands may reach beyond the sandbox's policy."""

    @classmethod
    def for_tool(cls, tool: Tool, caller: Caller = _ANONYMOUS) -> ApprovalRequest:
        """The question with no call in it, for rules that look only at the tool, or at tool and caller."""
        return cls(
            tool=tool, args={}, call_id="", name_used=tool.name, cwd="", caller=caller,
            risk=tool.risk, paths=(), root=None, session="",
        )  # fmt: skip

    def with_copied_args(self) -> ApprovalRequest:
        """The same question over a copy of the arguments, for code that might change them."""
        return replace(self, args=cast(Args, _copy_json(self.args)))


class ResolveContext(Struct, frozen=True):
    """The third argument of a resolver."""

    request: ApprovalRequest
    bufnr: int | None = None

    @property
    def call_id(self) -> str:
        return self.request.call_id

    @property
    def tool_id(self) -> str:
        """The id the model gave the call, in every phase; that of the ledger where it gave none."""
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
"""What the code of others may raise without ending ours."""
_MAX_TEXT: Final = 200


def describe_error(error: BaseException) -> str:
    """An exception on one bounded line; one that cannot even be printed is named only."""
    try:
        text = " ".join(str(error).split())[:_MAX_TEXT]
    except CALLBACK_ERRORS:
        text = ""
    name = type(error).__name__
    return f"{name}: {text}" if text else name


def describe_value(value: object) -> str:
    """A value that should not be there: text itself, anything else by its type."""
    if isinstance(value, str):
        return ascii(value[:_MAX_TEXT])
    return "None" if value is None else f"a value of type {type(value).__name__}"


def reason_text(value: object) -> str:
    """The reason somebody else's code gives, which the ledger keeps as text."""
    return value if isinstance(value, str) else describe_value(value)


def log_warning(message: str) -> None:
    import logging

    from holdfast.text.escape import escape

    logging.getLogger("holdfast").warning("%s", escape(message))


OnError = Literal["skip", "ask"]
Resolve = Callable[[str, Args, ResolveContext], object]
"""`(canonical tool name, arguments, context)` to a verdict, its word, a `Decision`, or None to pass."""

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
    """The source of a decision as people read it; names of ours without the prefix that keeps them apart."""
    return source.rpartition(":")[2].replace("-", " ") if source.startswith(_OWN_URN) else source


def reason_with_source(decision: Decision) -> str:
    """A decision for the person who is asked: its reason, and which resolver gave it."""
    whose = f" ({source_name(decision.source)})" if decision.source != DEFAULT_DECISION.source else ""
    return f"{decision.reason}{whose}"


def every_tool(tool: Tool) -> bool:
    return True


class Resolver(Struct, frozen=True):
    """One voice in the chain."""

    name: str
    resolve: Resolve
    priority: int = DEFAULT_PRIORITY
    description: str = ""
    static: bool = False
    """The answer depends on the tool only. Such a resolver is shown no arguments and no caller."""
    applies: Callable[[Tool], bool] = every_tool
    """Tools it never answers about are not shown to it."""
    continue_after_ask: bool = False
    """When it asks, the others are heard all the same: one of them may deny."""


class DecisionStep(Struct, frozen=True):
    """What one resolver or cap said: approve, ask, deny, pass or failed."""

    source: str
    priority: int | None
    answer: str
    reason: str = ""


class DecisionTrace(Struct, frozen=True):
    """A decision and everything that was said on the way to it."""

    decision: Decision
    steps: tuple[DecisionStep, ...] = ()


class ResolverHandle(Struct, frozen=True):
    """Takes back one registration; a resolver that has replaced it stays."""

    name: str
    remove: Callable[[], bool]


class _Snapshot(Struct, frozen=True):
    """The chain at one moment. Changes make a new one, so a judgement under way does not see them."""

    resolvers: tuple[Resolver, ...] = ()
    static_decisions: dict[Tool, Decision | None] = field(default_factory=dict[Tool, "Decision | None"])


class Chain:
    """The registry of resolvers and the judge over them."""

    def __init__(
        self, *, on_error: OnError = "skip", describe_uncovered: Callable[[ApprovalRequest], str] = lambda request: ""
    ) -> None:
        """`describe_uncovered` says which part of a call no rule covers, where that can be told."""
        self.on_error: Final = on_error
        self._describe_uncovered = describe_uncovered
        self._entries: dict[str, Resolver] = {}
        self._order = _Snapshot()
        self._revision = 0
        self._listeners: list[Callable[[], None]] = []
        self._lock = RLock()

    @property
    def revision(self) -> int:
        """Grows with every change."""
        return self._revision

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call a function after every change: what was decided before may not hold any more."""
        self._listeners.append(listener)

    def register(
        self,
        name: str,
        resolver: Resolver | Resolve | Mapping[str, Any],
        *,
        priority: int = DEFAULT_PRIORITY,
        description: str = "",
    ) -> ResolverHandle:
        """Add a resolver, or replace the one of that name. A mapping has `resolve` and may have the other fields."""
        if not name or ("." in name and not name.startswith("urn:")):
            raise ConfigError(
                f"{describe_value(name)} cannot name a resolver: dots are for module paths; write ':' or '_'."
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
        """A resolver from any form that `register` takes, under this name."""
        if isinstance(resolver, Resolver):
            return replace(resolver, name=name)
        fields: dict[str, Any] = {"priority": priority, "description": description}
        fields |= cast(Mapping[str, Any], resolver) if isinstance(resolver, Mapping) else {"resolve": resolver}
        made = _resolver_from_fields(name, fields)
        _validate_resolver(made)
        return made

    def add(self, resolver: Resolver) -> ResolverHandle:
        """Add a finished resolver under its own name, which may be a module path."""
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
        """In the order they are asked. The list is the caller's own."""
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
        """What `judge` decides about every call of this tool, or None when that depends on the call."""
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
        return (
            None
            if decision == DEFAULT_DECISION and self._describe_uncovered(ApprovalRequest.for_tool(tool))
            else decision
        )

    def _run_resolvers(self, resolvers: tuple[Resolver, ...], request: ApprovalRequest) -> list[DecisionStep]:
        steps: list[DecisionStep] = []
        for resolver in resolvers:
            steps.append(_run_resolver(resolver, request))
            goes_on = resolver.continue_after_ask and steps[-1].answer == Verdict.ASK
            if self.on_error == "skip" and _is_answer(steps[-1]) and not goes_on:
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
    asked = ApprovalRequest.for_tool(request.tool) if resolver.static else request.with_copied_args()
    try:
        answer = resolver.resolve(asked.tool.name, asked.args, ResolveContext(asked))
        if answer is None:
            return DecisionStep(resolver.name, resolver.priority, PASSED)
        verdict = Verdict.parse(answer.verdict if isinstance(answer, Decision) else answer)
        given = (answer.reason if isinstance(answer, Decision) else "") or resolver.description
    except CALLBACK_ERRORS as error:
        return _failed_step(resolver, f"it raised {describe_error(error)}")
    if verdict is None:
        what = f"it answered {describe_value(cast(object, answer))} instead of approve, ask, deny or None"
        if isinstance(answer, Coroutine):
            cast(Coroutine[object, object, object], answer).close()
        return _failed_step(resolver, what)
    reason = reason_text(given or f"The resolver answered {verdict}.")
    return DecisionStep(resolver.name, resolver.priority, verdict.value, reason)


def _failed_step(resolver: Resolver, what: str) -> DecisionStep:
    log_warning(f"The approval resolver '{source_name(resolver.name)}' could not answer: {what}.")
    return DecisionStep(resolver.name, resolver.priority, FAILED, f"The resolver could not answer: {what}.")


def _canonical_name(name: str) -> str:
    return APPROVAL_URN + name.removeprefix(_SEED_URN) if name.startswith(_SEED_URN) else name


def _resolver_from_fields(name: str, fields: Mapping[str, Any]) -> Resolver:
    unknown = sorted(set(fields) - {"name", "resolve", "priority", "description"})
    if unknown:
        raise ConfigError(f"The resolver '{name}' has unknown fields {unknown}; give resolve, priority, description.")
    return Resolver(name, cast(Any, fields.get("resolve")), fields["priority"], fields["description"])


def _validate_resolver(resolver: Resolver) -> None:
    if not callable(resolver.resolve) or iscoroutinefunction(resolver.resolve):
        raise ConfigError(f"The resolver '{resolver.name}' needs a plain function `resolve(tool, args, ctx)`.")
    if type(resolver.priority) is not int:
        raise ConfigError(f"The priority of the resolver '{resolver.name}' must be a whole number.")

"""Decides whether a call may run: the approval chain first, then the caps, which can only make it stricter.

Also explains a decision step by step (`policy explain`) and holds the confirmation rules (`[confirmation]`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, Literal

from msgspec import Struct

from holdfast.config.config import Action, Autonomy, ConfirmationConfig
from holdfast.contract.call import Caller, Decision
from holdfast.contract.enums import CHANGED_DEFINITION, NEEDS_CONTAINMENT, RUNS_COMMANDS, Risk, Verdict
from holdfast.contract.errors import ConfigError
from holdfast.contract.names import GROUP_PREFIX
from holdfast.contract.tool import Tool
from holdfast.contract.widening import Widening
from holdfast.rules.chain import (
    CALLBACK_ERRORS,
    DEFAULT_DECISION,
    FAILED,
    PASSED,
    ApprovalRequest,
    Chain,
    DecisionStep,
    DecisionTrace,
    describe_error,
    describe_value,
    every_tool,
    log_warning,
    reason_text,
    source_name,
)
from holdfast.rules.policy import ToolMatcher
from holdfast.rules.shell.parts import JudgedPart

CAP_URN: Final = "urn:holdfast:cap:"
PROTECTED: Final = f"{CAP_URN}protected-path"
MAX_RISK: Final = f"{CAP_URN}max-risk"
CONTAINMENT: Final = f"{CAP_URN}containment"
CHANGED: Final = f"{CAP_URN}changed-definition"
SECRET: Final = f"{CAP_URN}secret-file"
UNHIDDEN: Final = f"{CAP_URN}unhidden-files"
SENDING: Final = f"{CAP_URN}sending"
TWO_PEOPLE: Final = f"{CAP_URN}two-people"


_COMMAND_CAPABILITIES: Final = frozenset({RUNS_COMMANDS, NEEDS_CONTAINMENT})
Containment = Literal["contained", "missing", "refused", "off"]
"""The state of the sandbox: `contained` works; `missing` is wanted but unavailable; `refused` is required but
unavailable."""


class Cap(Struct, frozen=True):
    """Restricts what the chain decided: can turn an approval into ask or deny, never the other way round."""

    name: str
    judge: Callable[[ApprovalRequest], Decision | None]
    """Returns the verdict; None and approve both mean no objection."""
    static: bool = False
    """Whether the answer depends only on the tool, the risk and the caller."""
    applies: Callable[[Tool], bool] = every_tool
    """Tools for which this is false skip the cap."""
    sources: frozenset[str] | None = None
    """The sources whose decisions are capped; None caps all of them."""
    failure: Verdict = Verdict.ASK
    """The verdict when the cap raises: deny for a cap that may deny, so that a failure never loosens anything."""
    parts: Callable[[ApprovalRequest], tuple[JudgedPart, ...]] | None = None
    """The judged parts of a shell command, for explanations."""

    def __post_init__(self) -> None:
        if self.failure is Verdict.APPROVE:
            raise ConfigError(f"The cap '{self.name}' would approve when it fails. Set `failure` to ask or deny.")


def apply_caps(decision: Decision, caps: Iterable[Cap], request: ApprovalRequest) -> DecisionTrace:
    """Apply all caps to a decision."""
    final = decision
    steps: list[DecisionStep] = []
    for cap in caps:
        step = _run_cap(cap, decision, request)
        steps.append(step)
        verdict = cap.failure if step.answer == FAILED else Verdict.parse(step.answer)
        if verdict is not None and _overrides(verdict, final):
            final = Decision(verdict, cap.name, step.reason)
    return DecisionTrace(final, tuple(steps))


def protected_path_cap(is_protected: Callable[[Path], str | None]) -> Cap:
    """Asks about every call that may change a protected path, no matter what approved it.

    `is_protected` returns why a path is protected, or None. Does not apply to tools that only read or name no paths.
    """

    def judge(request: ApprovalRequest) -> Decision | None:
        for path in request.paths:
            if (reason := is_protected(path)) is not None:
                shown = _from_root(path, request.root)
                return Decision(Verdict.ASK, PROTECTED, f"'{shown}' is a protected path: {reason}")
        return None

    return Cap(PROTECTED, judge, applies=lambda tool: tool.mutates and tool.touches is not None)


def _from_root(path: Path, root: Path | None) -> Path:
    """The path relative to the project root, if it is inside it."""
    return path.relative_to(root) if root is not None and path.is_relative_to(root) else path


def max_risk_cap(limit: Risk, sources: Iterable[str]) -> Cap:
    """Asks about a call above the risk limit that was approved without looking at its arguments: by a list, by the
    sandbox, or because the tool is pure."""

    def judge(request: ApprovalRequest) -> Decision | None:
        if request.risk.level <= limit.level:
            return None
        reason = f"Its risk is {request.risk}; only {limit} or lower is approved automatically (approval.max_risk)."
        return Decision(Verdict.ASK, MAX_RISK, reason)

    return Cap(MAX_RISK, judge, static=True, sources=frozenset(sources))


def two_people_cap(risk: Risk) -> Cap:
    """Asks about every call of this risk or more, no matter what approved it: two people must approve it."""

    def judge(request: ApprovalRequest) -> Decision | None:
        if not needs_two_people(request.risk, risk):
            return None
        reason = f"Its risk is {request.risk}, so two people must approve it (approval.two_people)."
        return Decision(Verdict.ASK, TWO_PEOPLE, reason)

    return Cap(TWO_PEOPLE, judge, static=True)


def needs_two_people(risk: Risk, configured: Risk | None) -> bool:
    """Whether a call of this risk needs two people with this `approval.two_people`."""
    return configured is not None and risk.level >= configured.level


def containment_cap(containment: Callable[[], Containment]) -> Cap:
    """Asks about commands if the sandbox is wanted but unavailable; denies them if it is required.

    Asks about a tool whose input may run programs whenever it would run without a sandbox.
    """

    def judge(request: ApprovalRequest) -> Decision | None:
        state = containment()
        if state == "contained" or (state == "off" and NEEDS_CONTAINMENT not in request.tool.capabilities):
            return None
        if state == "refused":
            reason = "A sandbox is required (sandbox.mode), but none works here. Run `holdfast doctor` to see why."
            return Decision(Verdict.DENY, CONTAINMENT, reason)
        reason = "It would run without a sandbox: " + (
            "none works here. Run `holdfast doctor` to see why."
            if state == "missing"
            else 'sandbox.mode is "off", and its input could make it run programs.'
        )
        return Decision(Verdict.ASK, CONTAINMENT, reason)

    return Cap(
        CONTAINMENT,
        judge,
        applies=lambda tool: not _COMMAND_CAPABILITIES.isdisjoint(tool.capabilities),
        failure=Verdict.DENY,
    )


def secret_file_cap(secrets: Callable[[ApprovalRequest], tuple[Path, ...]]) -> Cap:
    """Asks about every call that reads or changes a file that may contain secrets, no matter what approved it."""

    def judge(request: ApprovalRequest) -> Decision | None:
        for path in secrets(request):
            shown = path.relative_to(request.root) if request.root and path.is_relative_to(request.root) else path
            reason = f"'{shown}' may contain secrets (sandbox.read_deny)."
            return Decision(Verdict.ASK, SECRET, reason)
        return None

    return Cap(SECRET, judge, applies=lambda tool: tool.touches is not None)


def exposed_files_cap(why: Callable[[str], str]) -> Cap:
    """Asks about a command if some files in `sandbox.read_deny` cannot be hidden from it.

    `why` returns the reason for a call id; empty if everything is hidden.
    """

    def judge(request: ApprovalRequest) -> Decision | None:
        reason = why(request.call_id)
        if not reason:
            return None
        text = f"It may be able to read files listed in sandbox.read_deny: {reason}."
        return Decision(Verdict.ASK, UNHIDDEN, text)

    return Cap(UNHIDDEN, judge, applies=lambda tool: not _COMMAND_CAPABILITIES.isdisjoint(tool.capabilities))


def sending_cap() -> Cap:
    """Asks about every request that can change something at a host, no matter what approved it."""

    def judge(request: ApprovalRequest) -> Decision | None:
        reach = request.reach
        if reach is None or not reach.sends:
            return None
        where = " and ".join(reach.hosts) or "another host"
        return Decision(Verdict.ASK, SENDING, f"It can change something at {where}, so it is asked about each time.")

    return Cap(SENDING, judge, applies=lambda tool: tool.reaches is not None)


def changed_definition_cap() -> Cap:
    """Asks about every call of a tool whose definition is new or has changed: earlier approvals were for another
    tool."""

    def judge(request: ApprovalRequest) -> Decision | None:
        return Decision(Verdict.ASK, CHANGED, "You have not reviewed the current definition of this tool.")

    return Cap(CHANGED, judge, static=True, applies=lambda tool: CHANGED_DEFINITION in tool.capabilities)


def _run_cap(cap: Cap, decision: Decision, request: ApprovalRequest) -> DecisionStep:
    if cap.sources is not None and decision.source not in cap.sources:
        return DecisionStep(cap.name, None, PASSED)
    try:
        answer: object = cap.judge(request) if cap.applies(request.tool) else None
        verdict = Verdict.parse(answer.verdict) if isinstance(answer, Decision) else None
        what = f"it returned {describe_value(answer)}"
    except CALLBACK_ERRORS as error:
        answer, verdict, what = error, None, f"it raised {describe_error(error)}"
    if answer is None or verdict is Verdict.APPROVE:
        return DecisionStep(cap.name, None, PASSED)
    if verdict is None or not isinstance(answer, Decision):
        reason = f"The cap '{source_name(cap.name)}' failed: {what}."
        log_warning(reason)
        return DecisionStep(cap.name, None, FAILED, reason)
    return DecisionStep(cap.name, None, verdict.value, reason_text(answer.reason))


def _overrides(verdict: Verdict, current: Decision) -> bool:
    """Whether a cap's verdict replaces the current decision: it is stricter, or as strict and gives a better reason."""
    if verdict.strictness > current.verdict.strictness:
        return True
    return current.source == DEFAULT_DECISION.source and verdict is current.verdict


class Decider:
    """The approval chain and the caps of one configuration."""

    def __init__(
        self, chain: Chain, caps: Iterable[Cap] = (), needs: Callable[[ApprovalRequest], Widening | None] | None = None
    ) -> None:
        """`needs` returns the access beyond the sandbox policy that command rules give a call; None if no rule gives
        any."""
        self.chain = chain
        self.caps = tuple(caps)
        self.needs = needs

    def judge(self, request: ApprovalRequest) -> DecisionTrace:
        """Decide, and record the answer of every resolver and cap."""
        trace = self.chain.judge(request)
        capped = apply_caps(trace.decision, self.caps, request)
        return DecisionTrace(capped.decision, (*trace.steps, *capped.steps))

    def decide(self, request: ApprovalRequest) -> Decision:
        """Decide, using the cached decision where it depends only on the tool."""
        decision = self.chain.static_decision(request.tool) or self.chain.judge(request).decision
        return apply_caps(decision, self.caps, request).decision

    def static_decision(self, tool: Tool, caller: Caller) -> Decision | None:
        """The decision for every call of this tool by this caller, or None if it depends on the call.

        Valid until `chain.revision` changes. For a two-phase tool only a denial is static: each proposal has its own
        risk.
        """
        decision = self.chain.static_decision(tool)
        if decision is None or decision.verdict is Verdict.DENY:
            return decision
        try:
            caps = [cap for cap in self.caps if cap.applies(tool)]
        except Exception:
            return None  # the failing cap must be applied, and reported, at every call
        if caps and (tool.propose is not None or not all(cap.static for cap in caps)):
            return None
        return apply_caps(decision, caps, ApprovalRequest.for_tool(tool, caller)).decision


NOT_ASKED = "not asked"
AVAILABLE = "available"


class ExplainedStep(Struct, frozen=True, kw_only=True):
    """One step of an explanation: the policy, a resolver or a cap."""

    stage: str
    source: str
    answer: str
    reason: str = ""
    priority: int | None = None
    decided: bool = False


class DecisionExplanation(Struct, frozen=True, kw_only=True):
    tool: str
    decision: Decision
    steps: tuple[ExplainedStep, ...]
    parts: tuple[JudgedPart, ...] = ()
    """The parts of a shell command with the verdict on each."""
    depends: bool = False
    """Whether the tool was judged without arguments, and arguments could change the decision."""


def explain(
    policy: Decision | None, chain: Chain, caps: Iterable[Cap], request: ApprovalRequest
) -> DecisionExplanation:
    """Decide as the runtime would, and return every step.

    `policy` is the tool policy's decision for the caller; if it denies, no resolver and no cap is asked.
    """
    steps: list[ExplainedStep] = []
    caps = tuple(caps)
    if policy is not None:
        steps.append(policy_step(policy))
        if policy.verdict is Verdict.DENY:
            steps += skipped_steps(chain, caps)
            return DecisionExplanation(tool=request.tool.name, decision=policy, steps=tuple(steps))
    trace = chain.judge(request)
    capped = apply_caps(trace.decision, caps, request)
    decision = capped.decision
    steps += _chain_steps(chain, trace, decision)
    steps += [_explained_step("cap", step, decision) for step in capped.steps]
    parts = tuple(part for cap in caps for part in _judged_parts(cap, request))
    return DecisionExplanation(tool=request.tool.name, decision=decision, steps=tuple(steps), parts=parts)


def policy_step(policy: Decision) -> ExplainedStep:
    """The step of the tool policy: whether the caller can use the tool at all."""
    refused = policy.verdict is Verdict.DENY
    answer = policy.verdict.value if refused else AVAILABLE
    return ExplainedStep(stage="policy", source=policy.source, answer=answer, reason=policy.reason, decided=refused)


def _judged_parts(cap: Cap, request: ApprovalRequest) -> tuple[JudgedPart, ...]:
    try:
        return () if cap.parts is None else cap.parts(request)
    except CALLBACK_ERRORS:
        return ()  # the step of this cap reports the failure


def _chain_steps(chain: Chain, trace: DecisionTrace, decision: Decision) -> list[ExplainedStep]:
    asked = {step.source: step for step in trace.steps}
    steps: list[ExplainedStep] = []
    for resolver in chain.get_all():
        step = asked.get(resolver.name, DecisionStep(resolver.name, resolver.priority, NOT_ASKED, resolver.description))
        steps.append(_explained_step("chain", step, decision))
    if trace.decision.source == DEFAULT_DECISION.source:
        default = DecisionStep(DEFAULT_DECISION.source, None, DEFAULT_DECISION.verdict, trace.decision.reason)
        steps.append(_explained_step("chain", default, decision))
    return steps


def skipped_steps(chain: Chain, caps: Iterable[Cap]) -> list[ExplainedStep]:
    resolvers = [
        ExplainedStep(stage="chain", source=entry.name, answer=NOT_ASKED, priority=entry.priority)
        for entry in chain.get_all()
    ]
    return resolvers + [ExplainedStep(stage="cap", source=cap.name, answer=NOT_ASKED) for cap in caps]


def _explained_step(stage: str, step: DecisionStep, decision: Decision) -> ExplainedStep:
    return ExplainedStep(
        stage=stage, source=step.source, answer=step.answer, reason=step.reason, priority=step.priority,
        decided=step.source == decision.source,
    )  # fmt: skip


CONFIRMATION: Final = f"{CAP_URN}confirmation"
CANCELLED: Final = "Tool execution cancelled by user"
"""The result of a call whose confirmation was refused."""

_ACTIONS: Final[tuple[Action, ...]] = ("silent", "log", "confirm")
_FREEDOM: Final[dict[Autonomy, int]] = {"cautious": 0, "standard": 1, "autonomous": 2}
_WILD: Final = frozenset("*?[]")


class ConfirmationOutcome(Struct, frozen=True):
    action: Action
    reason: str


class Confirmations:
    """The configured confirmation actions. The most specific pattern wins; of equally specific ones the stricter."""

    def __init__(self, config: ConfirmationConfig | None = None) -> None:
        given = config or ConfirmationConfig()
        self.autonomy: Final = given.autonomy
        self._patterns = tuple((pattern, ToolMatcher((pattern,)), action) for pattern, action in given.actions.items())

    def outcome(self, tool: Tool, risk: Risk, caller: Caller) -> ConfirmationOutcome:
        action, why = self._configured(tool)
        level = most_cautious(self.autonomy, caller.autonomy)
        return ConfirmationOutcome(
            action_at_autonomy(action, level, risk), f"{why}, autonomy is {level}, risk is {risk}."
        )

    def cap(self) -> Cap:
        """A cap that asks wherever the action is `confirm`, no matter what approved the call."""

        def judge(request: ApprovalRequest) -> Decision | None:
            outcome = self.outcome(request.tool, request.risk, request.caller)
            return Decision(Verdict.ASK, CONFIRMATION, outcome.reason) if outcome.action == "confirm" else None

        return Cap(CONFIRMATION, judge, static=True)

    def _configured(self, tool: Tool) -> tuple[Action, str]:
        matching = [
            (_specificity(pattern), _ACTIONS.index(action), pattern)
            for pattern, names, action in self._patterns
            if names.match(tool) is not None
        ]
        if not matching:
            return "silent", "No confirmation rule matches the tool"
        _, strictness, pattern = max(matching)
        return _ACTIONS[strictness], f"The confirmation rule '{pattern}' says {_ACTIONS[strictness]}"


def action_at_autonomy(action: Action, level: Autonomy, risk: Risk) -> Action:
    """The confirmation action at an autonomy level.

    cautious: one step stricter, and medium or high risk always needs confirmation. standard: as configured.
    autonomous: confirm becomes log, except for high risk. High risk is logged at every level.
    """
    strictness = _ACTIONS.index(action)
    if level == "cautious":
        strictness = 2 if risk.level >= Risk.MEDIUM.level else min(strictness + 1, 2)
    elif level == "autonomous" and risk is not Risk.HIGH:
        strictness = min(strictness, 1)
    return _ACTIONS[max(strictness, 1) if risk is Risk.HIGH else strictness]


def most_cautious(configured: Autonomy, asked: Autonomy | None) -> Autonomy:
    """The stricter of two levels: a caller can ask for more caution than configured, never for less."""
    return configured if asked is None or _FREEDOM[configured] <= _FREEDOM[asked] else asked


def _specificity(pattern: str) -> tuple[int, int]:
    """Sort key: a name beats a group, a group beats a pattern, a longer literal beats a shorter one."""
    if pattern.startswith(GROUP_PREFIX):
        return (1, 0)
    literal = sum(letter not in _WILD for letter in pattern)
    return (0, literal) if literal < len(pattern) else (2, 0)

"""Chain and caps together: the one place that says whether a call may run.

Caps come after the chain and can only tighten.
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
from holdfast.rules.policy import GROUP_PREFIX, ToolMatcher
from holdfast.rules.shell.verdicts import JudgedPart

CAP_URN: Final = "urn:holdfast:cap:"
PROTECTED: Final = f"{CAP_URN}protected-path"
MAX_RISK: Final = f"{CAP_URN}max-risk"
CONTAINMENT: Final = f"{CAP_URN}containment"
CHANGED: Final = f"{CAP_URN}changed-definition"
SECRET: Final = f"{CAP_URN}secret-file"
UNHIDDEN: Final = f"{CAP_URN}unhidden-files"


_COMMAND_CAPABILITIES: Final = frozenset({RUNS_COMMANDS, NEEDS_CONTAINMENT})
Containment = Literal["held", "missing", "refused", "off"]
"""What the sandbox can do for a command now: `missing` is wanted and not there, `refused` is required and not there."""


class Cap(Struct, frozen=True):
    """A limit on what the chain may decide."""

    name: str
    judge: Callable[[ApprovalRequest], Decision | None]
    """None has nothing against the call; approve means the same."""
    static: bool = False
    """The answer depends only on the tool, the risk and the caller."""
    applies: Callable[[Tool], bool] = every_tool
    """Tools this cap can never answer about are not shown to it."""
    sources: frozenset[str] | None = None
    """Only decisions of these sources are capped; None: all."""
    failure: Verdict = Verdict.ASK
    """What a cap that raises stands for: deny for one that may deny."""
    parts: Callable[[ApprovalRequest], tuple[JudgedPart, ...]] | None = None
    """What it makes of the parts of a call, for explanations."""

    def __post_init__(self) -> None:
        if self.failure is Verdict.APPROVE:
            raise ConfigError(f"The cap '{self.name}' would approve when it fails; let it ask or deny.")


def apply_caps(decision: Decision, caps: Iterable[Cap], request: ApprovalRequest) -> DecisionTrace:
    """The decision under all caps, and what each of them said."""
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
    """Asks about every call that may change a protected path, whoever approved it.

    `is_protected` gives the reason a path is protected, or None. Tools that only read, or name no paths, are not
    concerned.
    """

    def judge(request: ApprovalRequest) -> Decision | None:
        for path in request.paths:
            if (reason := is_protected(path)) is not None:
                shown = _from_root(path, request.root)
                return Decision(Verdict.ASK, PROTECTED, f"'{shown}' is a protected path: {reason}")
        return None

    return Cap(PROTECTED, judge, applies=lambda tool: tool.mutates and tool.touches is not None)


def _from_root(path: Path, root: Path | None) -> Path:
    """The path as a person names it: from the project root, where it lies below it."""
    return path.relative_to(root) if root is not None and path.is_relative_to(root) else path


def max_risk_cap(limit: Risk, sources: Iterable[str]) -> Cap:
    """Asks about a call above the limit that was approved without being looked at: by a list, the sandbox, purity."""

    def judge(request: ApprovalRequest) -> Decision | None:
        if request.risk.level <= limit.level:
            return None
        reason = f"Its risk is {request.risk}, and without a person at most {limit} is approved (approval.max_risk)."
        return Decision(Verdict.ASK, MAX_RISK, reason)

    return Cap(MAX_RISK, judge, static=True, sources=frozenset(sources))


def containment_cap(containment: Callable[[], Containment]) -> Cap:
    """Asks about every command where a sandbox is wanted and none works, and denies it where one is required.

    A tool whose material may run programs is asked about wherever it would not be contained.
    """

    def judge(request: ApprovalRequest) -> Decision | None:
        state = containment()
        if state == "held" or (state == "off" and NEEDS_CONTAINMENT not in request.tool.capabilities):
            return None
        if state == "refused":
            reason = "A sandbox is required (sandbox.mode) and none works here; `holdfast doctor` says why."
            return Decision(Verdict.DENY, CONTAINMENT, reason)
        reason = "It would run without a sandbox: " + (
            "none works here; `holdfast doctor` says why."
            if state == "missing"
            else 'sandbox.mode is "off", and what it reads could make it run programs.'
        )
        return Decision(Verdict.ASK, CONTAINMENT, reason)

    return Cap(
        CONTAINMENT,
        judge,
        applies=lambda tool: not _COMMAND_CAPABILITIES.isdisjoint(tool.capabilities),
        failure=Verdict.DENY,
    )


def secret_file_cap(secrets: Callable[[ApprovalRequest], tuple[Path, ...]]) -> Cap:
    """Asks about every call that reads or changes a file that may hold secrets, whoever approved it."""

    def judge(request: ApprovalRequest) -> Decision | None:
        for path in secrets(request):
            shown = path.relative_to(request.root) if request.root and path.is_relative_to(request.root) else path
            reason = f"'{shown}' may hold secrets (sandbox.read_deny)."
            return Decision(Verdict.ASK, SECRET, reason)
        return None

    return Cap(SECRET, judge, applies=lambda tool: tool.touches is not None)


def exposed_files_cap(why: Callable[[str], str]) -> Cap:
    """Asks about every command from which not everything can be hidden that should be; `why` answers for one call."""

    def judge(request: ApprovalRequest) -> Decision | None:
        reason = why(request.call_id)
        if not reason:
            return None
        text = f"It may read files that sandbox.read_deny names: {reason}."
        return Decision(Verdict.ASK, UNHIDDEN, text)

    return Cap(UNHIDDEN, judge, applies=lambda tool: not _COMMAND_CAPABILITIES.isdisjoint(tool.capabilities))


def changed_definition_cap() -> Cap:
    """Asks about every call of a tool whose definition has changed, or is new: what was approved was another tool."""

    def judge(request: ApprovalRequest) -> Decision | None:
        return Decision(Verdict.ASK, CHANGED, "You have not seen its definition as it is now.")

    return Cap(CHANGED, judge, static=True, applies=lambda tool: CHANGED_DEFINITION in tool.capabilities)


def _run_cap(cap: Cap, decision: Decision, request: ApprovalRequest) -> DecisionStep:
    if cap.sources is not None and decision.source not in cap.sources:
        return DecisionStep(cap.name, None, PASSED)
    try:
        answer: object = cap.judge(request) if cap.applies(request.tool) else None
        verdict = Verdict.parse(answer.verdict) if isinstance(answer, Decision) else None
        what = f"it answered {describe_value(answer)}"
    except CALLBACK_ERRORS as error:
        answer, verdict, what = error, None, f"it raised {describe_error(error)}"
    if answer is None or verdict is Verdict.APPROVE:
        return DecisionStep(cap.name, None, PASSED)
    if verdict is None or not isinstance(answer, Decision):
        reason = f"The cap '{source_name(cap.name)}' could not judge: {what}."
        log_warning(reason)
        return DecisionStep(cap.name, None, FAILED, reason)
    return DecisionStep(cap.name, None, verdict.value, reason_text(answer.reason))


def _overrides(verdict: Verdict, current: Decision) -> bool:
    """Stricter, or as strict as a decision that nobody made: a reason is better than none."""
    if verdict.strictness > current.verdict.strictness:
        return True
    return current.source == DEFAULT_DECISION.source and verdict is current.verdict


class Decider:
    """Everything that decides about calls, for one configuration."""

    def __init__(
        self, chain: Chain, caps: Iterable[Cap] = (), needs: Callable[[ApprovalRequest], Widening | None] | None = None
    ) -> None:
        """`needs`: what rules let the command of a call reach beyond the sandbox's policy; None: no rule says so."""
        self.chain = chain
        self.caps = tuple(caps)
        self.needs = needs

    def judge(self, request: ApprovalRequest) -> DecisionTrace:
        """The decision with what every resolver and every cap said."""
        heard = self.chain.judge(request)
        capped = apply_caps(heard.decision, self.caps, request)
        return DecisionTrace(capped.decision, (*heard.steps, *capped.steps))

    def decide(self, request: ApprovalRequest) -> Decision:
        """The same decision, without asking what is known of the tool already."""
        decision = self.chain.static_decision(request.tool) or self.chain.judge(request).decision
        return apply_caps(decision, self.caps, request).decision

    def static_decision(self, tool: Tool, caller: Caller) -> Decision | None:
        """What `judge` decides about every call of this tool by this caller, or None when that depends on the call.

        Good until `chain.revision` changes. A two-phase tool is left open unless it is denied: its proposals have
        risks of their own.
        """
        decision = self.chain.static_decision(tool)
        if decision is None or decision.verdict is Verdict.DENY:
            return decision
        try:
            caps = [cap for cap in self.caps if cap.applies(tool)]
        except Exception:
            return None  # a cap that fails is heard, and counts, at every call
        if caps and (tool.propose is not None or not all(cap.static for cap in caps)):
            return None
        return apply_caps(decision, caps, ApprovalRequest.for_tool(tool, caller)).decision


NOT_ASKED = "not asked"
AVAILABLE = "available"


class ExplainedStep(Struct, frozen=True, kw_only=True):
    """One stop on the way: the policy, a resolver or a cap."""

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
    """What a shell command is made of, and what the rules say about each part."""
    depends: bool = False
    """Whether the tool was judged without arguments, and these could change the decision."""


def explain(
    policy: Decision | None, chain: Chain, caps: Iterable[Cap], request: ApprovalRequest
) -> DecisionExplanation:
    """Judge as the runtime would, and keep everything that was said.

    `policy` is what the tool policy says of this caller. When it denies, nobody else is asked.
    """
    steps: list[ExplainedStep] = []
    caps = tuple(caps)
    if policy is not None:
        steps.append(policy_step(policy))
        if policy.verdict is Verdict.DENY:
            steps += skipped_steps(chain, caps)
            return DecisionExplanation(tool=request.tool.name, decision=policy, steps=tuple(steps))
    heard = chain.judge(request)
    capped = apply_caps(heard.decision, caps, request)
    decision = capped.decision
    steps += _chain_steps(chain, heard, decision)
    steps += [_explained_step("cap", step, decision) for step in capped.steps]
    parts = tuple(part for cap in caps for part in _judged_parts(cap, request))
    return DecisionExplanation(tool=request.tool.name, decision=decision, steps=tuple(steps), parts=parts)


def policy_step(policy: Decision) -> ExplainedStep:
    """What the tool policy says of a tool: whether it can be called at all."""
    refused = policy.verdict is Verdict.DENY
    answer = policy.verdict.value if refused else AVAILABLE
    return ExplainedStep(stage="policy", source=policy.source, answer=answer, reason=policy.reason, decided=refused)


def _judged_parts(cap: Cap, request: ApprovalRequest) -> tuple[JudgedPart, ...]:
    try:
        return () if cap.parts is None else cap.parts(request)
    except CALLBACK_ERRORS:
        return ()  # the step of this cap says that it failed


def _chain_steps(chain: Chain, heard: DecisionTrace, decision: Decision) -> list[ExplainedStep]:
    asked = {step.source: step for step in heard.steps}
    steps: list[ExplainedStep] = []
    for resolver in chain.get_all():
        step = asked.get(resolver.name, DecisionStep(resolver.name, resolver.priority, NOT_ASKED, resolver.description))
        steps.append(_explained_step("chain", step, decision))
    if heard.decision.source == DEFAULT_DECISION.source:
        default = DecisionStep(DEFAULT_DECISION.source, None, DEFAULT_DECISION.verdict, heard.decision.reason)
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
"""What a call is told whose confirmation was refused."""

_ACTIONS: Final[tuple[Action, ...]] = ("silent", "log", "confirm")
_FREEDOM: Final[dict[Autonomy, int]] = {"cautious": 0, "standard": 1, "autonomous": 2}
_WILD: Final = frozenset("*?[]")


class ConfirmationOutcome(Struct, frozen=True):
    action: Action
    reason: str


class Confirmations:
    """The configured actions. The most specific pattern counts; between equals the stricter action."""

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
        """Confirm means: a person is asked, whoever approved."""

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
            return "silent", "No confirmation rule names the tool"
        _, strictness, pattern = max(matching)
        return _ACTIONS[strictness], f"The confirmation rule '{pattern}' says {_ACTIONS[strictness]}"


def action_at_autonomy(action: Action, level: Autonomy, risk: Risk) -> Action:
    """The action at this autonomy level.

    cautious: one step stricter, and medium or high risk is always confirmed. standard: as configured.
    autonomous: confirm becomes log, except for high risk. At every level high risk is at least logged.
    """
    strictness = _ACTIONS.index(action)
    if level == "cautious":
        strictness = 2 if risk.level >= Risk.MEDIUM.level else min(strictness + 1, 2)
    elif level == "autonomous" and risk is not Risk.HIGH:
        strictness = min(strictness, 1)
    return _ACTIONS[max(strictness, 1) if risk is Risk.HIGH else strictness]


def most_cautious(configured: Autonomy, asked: Autonomy | None) -> Autonomy:
    """A caller may ask for more caution than is configured, never for less."""
    return configured if asked is None or _FREEDOM[configured] <= _FREEDOM[asked] else asked


def _specificity(pattern: str) -> tuple[int, int]:
    """A name before a group before a pattern; of patterns the one that spells out more."""
    if pattern.startswith(GROUP_PREFIX):
        return (1, 0)
    literal = sum(letter not in _WILD for letter in pattern)
    return (0, literal) if literal < len(pattern) else (2, 0)

"""Why a call was approved, asked about or denied: everyone who had a say, and who decided."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from holdfast.contract.call import Decision
from holdfast.contract.vocabulary import Verdict
from holdfast.rules.chain import DEFAULT, NO_ANSWER, RAISED, Chain, Judgement, Question, Step
from holdfast.rules.gate import Cap, apply_caps
from holdfast.rules.shell.verdicts import JudgedPart
from holdfast.text.visible import visible

NOT_ASKED = "not asked"


class ExplainedStep(Struct, frozen=True, kw_only=True):
    """One stop on the way: the policy, a resolver or a cap."""

    stage: str
    source: str
    answer: str
    reason: str = ""
    priority: int | None = None
    decided: bool = False


class Explanation(Struct, frozen=True, kw_only=True):
    tool: str
    decision: Decision
    steps: tuple[ExplainedStep, ...]
    parts: tuple[JudgedPart, ...] = ()
    """What a shell command is made of, and what the rules say about each part."""

    def as_lines(self) -> list[str]:
        """Plain text, safe to print; the line that decided is marked with `>`."""
        answers = max(len(step.answer) for step in self.steps) if self.steps else 0
        lines = [f"{self.tool}: {self.decision.verdict} ({self.decision.source})", f"  {self.decision.reason}"]
        for step in self.steps:
            mark = ">" if step.decided else " "
            place = step.stage if step.priority is None else f"{step.stage} {step.priority}"
            lines.append(f"{mark} {place:<10} {step.answer:<{answers}}  {step.source}  {step.reason}".rstrip())
        return [visible(line) for line in (*lines, *map(_part_line, self.parts))]


def explain(policy: Decision | None, chain: Chain, caps: Iterable[Cap], question: Question) -> Explanation:
    """Judge as the runtime would, and keep everything that was said.

    `policy` is what the tool policy says of this caller. When it denies, nobody else is asked.
    """
    steps: list[ExplainedStep] = []
    caps = tuple(caps)
    if policy is not None:
        refused = policy.verdict is Verdict.DENY
        answer = policy.verdict.value
        steps.append(
            ExplainedStep(stage="policy", source=policy.source, answer=answer, reason=policy.reason, decided=refused)
        )
        if refused:
            steps += nobody_asked(chain, caps)
            return Explanation(tool=question.tool.name, decision=policy, steps=tuple(steps))
    heard = chain.judge(question)
    capped = apply_caps(heard.decision, caps, question)
    decision = capped.decision
    steps += _chain_steps(chain, heard, decision)
    steps += [_explained("cap", step, decision) for step in capped.steps]
    parts = tuple(part for cap in caps if cap.parts is not None for part in _parts(cap, question))
    return Explanation(tool=question.tool.name, decision=decision, steps=tuple(steps), parts=parts)


def _parts(cap: Cap, question: Question) -> tuple[JudgedPart, ...]:
    try:
        return cap.parts(question) if cap.parts is not None else ()
    except RAISED:
        return ()  # the step of this cap says that it failed


def _part_line(part: JudgedPart) -> str:
    where = f" in {part.inside}" if part.inside else ""
    return f"  {part.kind:<11} {part.verdict or NO_ANSWER:<7}  {part.text}{where}  {part.reason}".rstrip()


def _chain_steps(chain: Chain, heard: Judgement, decision: Decision) -> list[ExplainedStep]:
    asked = {step.source: step for step in heard.steps}
    steps: list[ExplainedStep] = []
    for resolver in chain.get_all():
        step = asked.get(resolver.name, Step(resolver.name, resolver.priority, NOT_ASKED, resolver.description))
        steps.append(_explained("chain", step, decision))
    if heard.decision == DEFAULT:
        steps.append(_explained("chain", Step(DEFAULT.source, None, DEFAULT.verdict, DEFAULT.reason), decision))
    return steps


def nobody_asked(chain: Chain, caps: Iterable[Cap]) -> list[ExplainedStep]:
    resolvers = [
        ExplainedStep(stage="chain", source=entry.name, answer=NOT_ASKED, priority=entry.priority)
        for entry in chain.get_all()
    ]
    return resolvers + [ExplainedStep(stage="cap", source=cap.name, answer=NOT_ASKED) for cap in caps]


def _explained(stage: str, step: Step, decision: Decision) -> ExplainedStep:
    return ExplainedStep(
        stage=stage,
        source=step.source,
        answer=step.answer,
        reason=step.reason,
        priority=step.priority,
        decided=step.source == decision.source,
    )

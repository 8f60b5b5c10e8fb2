"""What a call would meet, stage by stage, without making it."""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.contract.call import Decision
from holdfast.contract.errors import UnknownTool
from holdfast.contract.vocabulary import Verdict
from holdfast.rules.chain import Question
from holdfast.rules.gate import ExplainedStep, Explanation, nobody_asked
from holdfast.rules.gate import explain as explain_decision
from holdfast.runtime.access import ToolAccess
from holdfast.runtime.approvals import Approvals
from holdfast.runtime.pipeline import CallRequest, Pipeline


async def explain(pipeline: Pipeline, access: ToolAccess, approvals: Approvals, request: CallRequest) -> Explanation:
    """The same dry run as `judge`, with everything that was said. Without arguments the tool alone is judged."""
    tool = access.registry.find(request.name)
    if tool is None:
        raise UnknownTool(access.unknown(request.name, request.caller).error or request.name)
    policy = access.policy.compile(request.caller).why(tool)
    if request.arguments is None:
        return explain_decision(policy, approvals.chain, approvals.caps, Question.about(tool, request.caller))
    decision, prepared = await pipeline.dry_run(request)
    if policy.verdict is Verdict.DENY:
        return explain_decision(policy, approvals.chain, approvals.caps, Question.about(tool, request.caller))
    if prepared is None:
        said = ExplainedStep(stage="policy", source=policy.source, answer=policy.verdict.value, reason=policy.reason)
        silent = nobody_asked(approvals.chain, approvals.caps)
        return Explanation(tool=tool.name, decision=decision, steps=(said, _step(decision), *silent))
    question = approvals.question(tool, prepared.call, prepared.proposal)
    told = explain_decision(policy, approvals.chain, approvals.caps, question)
    if told.decision == decision:
        return told
    steps = (*(replace(step, decided=False) for step in told.steps), _step(decision))
    return replace(told, decision=decision, steps=steps)


def _step(decision: Decision) -> ExplainedStep:
    """The stage that ends the call."""
    return ExplainedStep(
        stage=decision.source, source=decision.source, answer=decision.verdict.value, reason=decision.reason,
        decided=True,
    )

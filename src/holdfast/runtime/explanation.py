"""What a call would meet, stage by stage, without making it."""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.contract.call import Decision
from holdfast.contract.enums import Verdict
from holdfast.contract.errors import HoldfastError, UnknownTool
from holdfast.rules.chain import ApprovalRequest
from holdfast.rules.decider import DecisionExplanation, ExplainedStep, policy_step, skipped_steps
from holdfast.rules.decider import explain as explain_decision
from holdfast.runtime.access import ToolAccess
from holdfast.runtime.approvals import Approvals
from holdfast.runtime.pipeline import CallRequest, Pipeline, Prepared


async def explain(
    pipeline: Pipeline, access: ToolAccess, approvals: Approvals, request: CallRequest
) -> DecisionExplanation:
    """The same dry run as `judge`, with everything that was said. A tool that cannot be called without arguments is
    judged alone where none are given."""
    tool = access.registry.find(request.name)
    if tool is None:
        raise UnknownTool(access.unknown_tool(request.name, request.caller).error or request.name)
    policy = access.policy.compile(request.caller).decide(tool)
    alone = ApprovalRequest.for_tool(tool, request.caller)
    decision, prepared = await pipeline.dry_run(request)
    if policy.verdict is Verdict.DENY:
        return explain_decision(policy, approvals.chain, approvals.caps, alone)
    if request.arguments is None and decision.source == "validate":
        told = explain_decision(policy, approvals.chain, approvals.caps, alone)
        return replace(told, depends=approvals.static_decision(tool, request.caller) is None)
    approval_request = None if prepared is None else _approval_request(approvals, prepared)
    if approval_request is None:
        silent = skipped_steps(approvals.chain, approvals.caps)
        return DecisionExplanation(
            tool=tool.name, decision=decision, steps=(policy_step(policy), _step(decision), *silent)
        )
    told = explain_decision(policy, approvals.chain, approvals.caps, approval_request)
    if told.decision == decision:
        return told
    steps = (*(replace(step, decided=False) for step in told.steps), _step(decision))
    return replace(told, decision=decision, steps=steps)


def _approval_request(approvals: Approvals, prepared: Prepared) -> ApprovalRequest | None:
    """None for a call that cannot be put to the chain: the dry run says why."""
    try:
        return approvals.approval_request(prepared.plan.tool, prepared.call, prepared.proposal)
    except HoldfastError:
        return None


def _step(decision: Decision) -> ExplainedStep:
    """The stage that ends the call."""
    return ExplainedStep(
        stage=decision.source,
        source=decision.source,
        answer=decision.verdict.value,
        reason=decision.reason,
        decided=True,
    )

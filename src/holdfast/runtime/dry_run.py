"""Dry runs: the decision a call would get, and how it comes about, with nothing run and nothing recorded."""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.contract.call import Decision
from holdfast.contract.enums import Verdict
from holdfast.contract.errors import HoldfastError, UnknownTool
from holdfast.contract.result import Result
from holdfast.rules.chain import ApprovalRequest
from holdfast.rules.decider import DecisionExplanation, ExplainedStep, policy_step, skipped_steps
from holdfast.rules.decider import explain as explain_decision
from holdfast.runtime.access import ToolAccess
from holdfast.runtime.approvals import Approvals
from holdfast.runtime.pipeline import CallRequest, Pipeline, Prepared


class DryRun:
    """Takes a request through the same stages as a call."""

    def __init__(self, pipeline: Pipeline, access: ToolAccess, approvals: Approvals) -> None:
        self._pipeline = pipeline
        self._access = access
        self._approvals = approvals

    async def judge(self, request: CallRequest) -> tuple[Decision, Prepared | None]:
        """The decision, and the prepared call if no stage ends it before the decision."""
        prepared = await self._pipeline.prepare(request)
        if isinstance(prepared, Result):
            assert request.stages
            verdict = Verdict.APPROVE if prepared.success else Verdict.DENY
            reason = "It is answered without running." if prepared.success else prepared.error or "Unknown error"
            return Decision(verdict, request.stages[-1].name, reason), None
        decision = self._pipeline.apply_mode(prepared.plan, prepared.call.args, await self._pipeline.decide(prepared))
        if decision.verdict is Verdict.APPROVE:  # a call that needs approval runs no code of the tool before it
            refusal = await self._pipeline.run_checks(prepared)
            if refusal is not None:
                return Decision(Verdict.DENY, "run", refusal.error or "Unknown error"), prepared
        return decision, prepared

    async def explain(self, request: CallRequest) -> DecisionExplanation:
        """The decision with every step that led to it.

        If the tool needs arguments and none are given, only the tool is judged.
        """
        access, chain, caps = self._access, self._approvals.chain, self._approvals.caps
        tool = access.registry.find(request.name)
        if tool is None:
            raise UnknownTool(access.unknown_tool(request.name, request.caller).error or request.name)
        policy = access.policy.compile(request.caller).decide(tool)
        tool_only = ApprovalRequest.for_tool(tool, request.caller)
        decision, prepared = await self.judge(request)
        if policy.verdict is Verdict.DENY:
            return explain_decision(policy, chain, caps, tool_only)
        if request.arguments is None and decision.source == "validate":
            explanation = explain_decision(policy, chain, caps, tool_only)
            return replace(explanation, depends=self._approvals.static_decision(tool, request.caller) is None)
        approval_request = None if prepared is None else self._approval_request(prepared)
        if approval_request is None:
            steps = (policy_step(policy), _last_step(decision), *skipped_steps(chain, caps))
            return DecisionExplanation(tool=tool.name, decision=decision, steps=steps)
        explanation = explain_decision(policy, chain, caps, approval_request)
        if explanation.decision == decision:
            return explanation
        steps = (*(replace(step, decided=False) for step in explanation.steps), _last_step(decision))
        return replace(explanation, decision=decision, steps=steps)

    def _approval_request(self, prepared: Prepared) -> ApprovalRequest | None:
        """None if the chain cannot judge the call; `judge` has the reason."""
        try:
            return self._approvals.approval_request(prepared.plan.tool, prepared.call, prepared.proposal)
        except HoldfastError:
            return None


def _last_step(decision: Decision) -> ExplainedStep:
    """The step of the stage that ends the call."""
    return ExplainedStep(
        stage=decision.source,
        source=decision.source,
        answer=decision.verdict.value,
        reason=decision.reason,
        decided=True,
    )

"""Who would decide about a call, and why, without making it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.contract.call import Call, Caller, Decision, Proposal
from holdfast.contract.errors import ArgumentsError, UnknownTool
from holdfast.contract.result import Result
from holdfast.contract.vocabulary import Verdict
from holdfast.rules.explain import Explanation, explain
from holdfast.rules.question import Question
from holdfast.runtime.arguments import Arguments, read_arguments
from holdfast.runtime.context import RunContext
from holdfast.runtime.judging import question_about
from holdfast.runtime.plans import Plan
from holdfast.runtime.refusals import PLANNING

if TYPE_CHECKING:
    from holdfast.runtime.runtime import Runtime


async def explain_call(runtime: Runtime, name: str, arguments: Arguments, caller: Caller) -> Explanation:
    """Everything up to the decision: arguments are validated and two-phase tools propose, but nothing runs.

    Without arguments the tool alone is judged.
    """
    tool = runtime.registry.find(name)
    if tool is None:
        raise UnknownTool(runtime.plans.unknown(name, caller).error or name)
    policy = runtime.policy.compile(caller).why(tool)
    args = tool.schema.accept(read_arguments(arguments)) if arguments is not None else {}
    call = Call(
        id="explain", tool=tool.name, name_used=name, args=args, caller=caller, cwd=runtime.cwd, group="explain"
    )
    proposal = None
    plan = runtime.plans.find(name, caller)
    if arguments is not None and policy.verdict is not Verdict.DENY and isinstance(plan, Plan):
        proposal = await runtime.pipeline.propose(plan, RunContext(runtime, tool, call, plan.timeout))
    if arguments is None:
        question = Question.about(tool, caller)
    else:
        question = question_about(runtime, tool, call, proposal if isinstance(proposal, Proposal) else None)
    return explain(policy, runtime.gate.chain, runtime.gate.caps, question)


async def judge_call(runtime: Runtime, name: str, arguments: Arguments, caller: Caller) -> Decision | None:
    """The decision alone; None for a call that would end before one is made, or without anybody's leave."""
    plan = runtime.plans.find(name, caller)
    if isinstance(plan, Result) or plan.missing_scope is not None:
        return None
    try:
        args = plan.tool.schema.accept(read_arguments(arguments))
    except ArgumentsError:
        return None
    call = Call(
        id="judged", tool=plan.tool.name, name_used=name, args=args, caller=caller, cwd=runtime.cwd, group="judged"
    )
    proposal = await runtime.pipeline.propose(plan, RunContext(runtime, plan.tool, call, plan.timeout))
    if isinstance(proposal, Result):
        return None
    if runtime.planning and plan.mutates:
        return PLANNING
    return await runtime.decide(plan.tool, call, proposal)

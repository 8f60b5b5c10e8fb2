"""A tool with a changed definition needs approval, no matter what approves it."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.config.config import ApprovalConfig, Preset
from holdfast.contract.call import Caller, Decision
from holdfast.contract.enums import AUTO_APPROVED_IF_SANDBOXED, CHANGED_DEFINITION, Verdict
from holdfast.contract.json import Args
from holdfast.contract.tool import Tool
from holdfast.rules.chain import DEFAULT_DECISION, ApprovalRequest, Chain, ResolveContext
from holdfast.rules.decider import CHANGED, Decider, apply_caps, changed_definition_cap, explain
from holdfast.rules.from_config import standard_caps, standard_chain
from holdfast.rules.resolvers import CATCH_ALL, CONFIG, GRANTS, PURE, SANDBOX
from holdfast.store.entries import Grant

from .approval_requests import approval_request, tool

NAME = "mcp:server:tool"
HELD = Decision(Verdict.ASK, CHANGED, "You have not reviewed the current definition of this tool.")


class Granted:
    def find(self, request: ApprovalRequest) -> Grant:
        return Grant(id="g1", tool=request.tool.name, pattern={}, scope="user", by="ada", created=0.0)


def trusting(name: str, args: Args, ctx: ResolveContext) -> bool:
    return True


def described(*capabilities: str, **fields: Any) -> Tool:
    return tool(NAME, capabilities=frozenset(capabilities), **fields)


def approvers() -> list[tuple[str, ApprovalConfig, dict[str, Any], Tool]]:
    """Every resolver that approves automatically, with a tool it approves."""
    sandboxed = ApprovalConfig(auto_approve_sandboxed=True)
    return [
        (CONFIG, ApprovalConfig(auto_approve=(NAME,)), {}, described()),
        (CONFIG, ApprovalConfig(auto_approve=("*",)), {}, described()),
        (CONFIG, ApprovalConfig(auto_approve=("$m",), presets={"$m": Preset(approve=("mcp:*",))}), {}, described()),
        (CONFIG, ApprovalConfig(), {"function": trusting}, described()),
        (GRANTS, ApprovalConfig(), {"grants": Granted()}, described()),
        (SANDBOX, sandboxed, {"sandbox_verified": lambda: True}, described(AUTO_APPROVED_IF_SANDBOXED)),
        (PURE, ApprovalConfig(), {}, described(effects=())),
        (CATCH_ALL, ApprovalConfig(require_approval=False), {}, described()),
    ]


APPROVERS = approvers()


@pytest.mark.spec("K2", "A18")
@pytest.mark.parametrize(("source", "approval", "more", "about"), APPROVERS, ids=[item[0] for item in APPROVERS])
def test_no_resolver_can_approve_a_tool_whose_definition_has_changed(
    source: str, approval: ApprovalConfig, more: dict[str, Any], about: Tool
) -> None:
    chain = standard_chain(approval, **more)
    decider = Decider(chain, standard_caps(approval, chain))
    unchanged = decider.decide(approval_request(about))
    assert (unchanged.verdict, unchanged.source) == (Verdict.APPROVE, source)
    now = described(*about.capabilities, CHANGED_DEFINITION, effects=about.effects)
    assert decider.decide(approval_request(now)) == decider.judge(approval_request(now)).decision == HELD
    assert decider.static_decision(now, Caller()) in (None, HELD)


@pytest.mark.spec("K2", "A18")
def test_a_denial_stays_and_a_prompt_gets_the_changed_definition_as_reason() -> None:
    asked = approval_request(described(CHANGED_DEFINITION))
    denied = Decision(Verdict.DENY, "list", "denied")
    assert apply_caps(denied, [changed_definition_cap()], asked).decision == denied
    assert apply_caps(DEFAULT_DECISION, [changed_definition_cap()], asked).decision == HELD


@pytest.mark.spec("K2", "A10")
def test_an_explanation_names_the_changed_definition() -> None:
    approval = ApprovalConfig(require_approval=False)
    chain = standard_chain(approval)
    explanation = explain(None, chain, standard_caps(approval, chain), approval_request(described(CHANGED_DEFINITION)))
    assert explanation.decision == HELD
    steps = {step.source: (step.answer, step.decided) for step in explanation.steps}
    assert (steps[CATCH_ALL], steps[CHANGED]) == (("approve", False), ("ask", True))


@pytest.mark.spec("K2")
def test_an_unchanged_tool_is_not_capped() -> None:
    caps = standard_caps(ApprovalConfig(), Chain())
    yes = Decision(Verdict.APPROVE, "list", "listed")
    assert apply_caps(yes, caps, approval_request(described())).decision == yes

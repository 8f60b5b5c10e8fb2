"""Explaining a decision."""

from __future__ import annotations

import msgspec
import pytest

from holdfast.config.config import ApprovalConfig, ConfirmationConfig
from holdfast.contract.call import Decision
from holdfast.contract.enums import Verdict
from holdfast.contract.json import Args
from holdfast.rules.chain import Chain, ResolveContext
from holdfast.rules.decider import CONFIRMATION, Confirmations, Decider, DecisionExplanation, explain
from holdfast.rules.from_config import standard_chain
from holdfast.rules.resolvers import CATCH_ALL, CONFIG, PURE

from .approval_requests import READ, SHELL, WRITE, approval_request

ALLOWED = Decision(Verdict.APPROVE, "tools.profile", "the profile 'coding' has it")


def answers(explanation: DecisionExplanation) -> list[tuple[str, str, str, bool]]:
    return [(step.stage, step.source, step.answer, step.decided) for step in explanation.steps]


@pytest.mark.spec("A10")
def test_an_explanation_lists_every_resolver_and_marks_the_deciding_one() -> None:
    chain = standard_chain(ApprovalConfig(require_approval=False))
    chain.register("third", lambda name, args, ctx: None)
    explanation = explain(ALLOWED, chain, [Confirmations().cap()], approval_request(SHELL))
    assert explanation.decision == Decision(Verdict.APPROVE, CATCH_ALL, "Approval is switched off.")
    assert answers(explanation) == [
        ("policy", "tools.profile", "available", False),
        ("chain", CONFIG, "pass", False),
        ("chain", "third", "pass", False),
        ("chain", PURE, "pass", False),
        ("chain", CATCH_ALL, "approve", True),
        ("cap", CONFIRMATION, "pass", False),
    ]


@pytest.mark.spec("A10")
def test_resolvers_after_the_deciding_one_are_not_asked() -> None:
    explanation = explain(ALLOWED, standard_chain(ApprovalConfig(require_approval=False)), [], approval_request(READ))
    assert answers(explanation)[1:] == [
        ("chain", CONFIG, "approve", True),
        ("chain", PURE, "not asked", False),
        ("chain", CATCH_ALL, "not asked", False),
    ]


@pytest.mark.spec("A10")
def test_the_default_decides_if_no_resolver_answers() -> None:
    explanation = explain(None, Chain(), [], approval_request(SHELL))
    assert answers(explanation) == [("chain", "default", "ask", True)]


@pytest.mark.spec("A10", "A18")
def test_a_deciding_cap_is_marked_and_the_overruled_approval_stays_visible() -> None:
    confirmations = Confirmations(ConfirmationConfig(actions={"write": "confirm"}))
    explanation = explain(None, standard_chain(ApprovalConfig()), [confirmations.cap()], approval_request(WRITE))
    assert answers(explanation) == [
        ("chain", CONFIG, "approve", False),
        ("chain", PURE, "not asked", False),
        ("cap", CONFIRMATION, "ask", True),
    ]


@pytest.mark.spec("A10")
def test_if_the_policy_denies_no_resolver_and_no_cap_is_asked() -> None:
    asked: list[str] = []
    chain = Chain()
    chain.register("spy", lambda name, args, ctx: asked.append(name))
    refused = Decision(Verdict.DENY, "tools.deny", "'bash' in tools.deny removes 'shell.exec'")
    explanation = explain(refused, chain, [Confirmations().cap()], approval_request(SHELL))
    assert explanation.decision == refused
    assert asked == []
    assert answers(explanation) == [
        ("policy", "tools.deny", "deny", True),
        ("chain", "spy", "not asked", False),
        ("cap", CONFIRMATION, "not asked", False),
    ]


@pytest.mark.spec("A10")
def test_a_failed_resolver_shows_why_it_failed() -> None:
    def broken(name: str, args: Args, ctx: ResolveContext) -> object:
        raise LookupError("nothing here")

    chain = Chain(on_error="ask")
    chain.register("broken", broken)
    chain.register("kind", lambda name, args, ctx: "approve")
    explanation = explain(None, chain, [], approval_request())
    assert answers(explanation) == [("chain", "broken", "failed", True), ("chain", "kind", "approve", False)]
    assert explanation.steps[0].reason == "The resolver failed: it raised LookupError: nothing here."


@pytest.mark.spec("A10")
def test_the_explanation_has_the_decision_of_the_decider() -> None:
    chain = standard_chain(ApprovalConfig())
    confirmations = Confirmations(ConfirmationConfig(autonomy="cautious"))
    for about in (READ, WRITE, SHELL):
        explanation = explain(None, chain, [confirmations.cap()], approval_request(about))
        assert explanation.decision == Decider(chain, [confirmations.cap()]).decide(approval_request(about))


@pytest.mark.spec("A10")
def test_the_explanation_is_json() -> None:
    explanation = explain(ALLOWED, standard_chain(ApprovalConfig()), [Confirmations().cap()], approval_request(READ))
    assert msgspec.json.decode(msgspec.json.encode(explanation), type=DecisionExplanation) == explanation

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
def test_everyone_in_the_chain_is_shown_and_who_decided() -> None:
    chain = standard_chain(ApprovalConfig(require_approval=False))
    chain.register("third", lambda name, args, ctx: None)
    told = explain(ALLOWED, chain, [Confirmations().cap()], approval_request(SHELL))
    assert told.decision == Decision(Verdict.APPROVE, CATCH_ALL, "Approval is switched off.")
    assert answers(told) == [
        ("policy", "tools.profile", "available", False),
        ("chain", CONFIG, "pass", False),
        ("chain", "third", "pass", False),
        ("chain", PURE, "pass", False),
        ("chain", CATCH_ALL, "approve", True),
        ("cap", CONFIRMATION, "pass", False),
    ]


@pytest.mark.spec("A10")
def test_those_after_the_one_that_decided_were_not_asked() -> None:
    told = explain(ALLOWED, standard_chain(ApprovalConfig(require_approval=False)), [], approval_request(READ))
    assert answers(told)[1:] == [
        ("chain", CONFIG, "approve", True),
        ("chain", PURE, "not asked", False),
        ("chain", CATCH_ALL, "not asked", False),
    ]


@pytest.mark.spec("A10")
def test_when_nobody_answered_the_default_decided() -> None:
    told = explain(None, Chain(), [], approval_request(SHELL))
    assert answers(told) == [("chain", "default", "ask", True)]


@pytest.mark.spec("A10", "A18")
def test_a_cap_that_decided_is_marked_and_the_overruled_approval_stays_visible() -> None:
    confirmations = Confirmations(ConfirmationConfig(actions={"write": "confirm"}))
    told = explain(None, standard_chain(ApprovalConfig()), [confirmations.cap()], approval_request(WRITE))
    assert answers(told) == [
        ("chain", CONFIG, "approve", False),
        ("chain", PURE, "not asked", False),
        ("cap", CONFIRMATION, "ask", True),
    ]


@pytest.mark.spec("A10")
def test_a_policy_that_denies_ends_it_and_nobody_else_is_asked() -> None:
    asked: list[str] = []
    chain = Chain()
    chain.register("spy", lambda name, args, ctx: asked.append(name))
    refused = Decision(Verdict.DENY, "tools.deny", "'bash' in tools.deny removes 'shell.exec'")
    told = explain(refused, chain, [Confirmations().cap()], approval_request(SHELL))
    assert told.decision == refused
    assert asked == []
    assert answers(told) == [
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
    told = explain(None, chain, [], approval_request())
    assert answers(told) == [("chain", "broken", "failed", True), ("chain", "kind", "approve", False)]
    assert told.steps[0].reason == "The resolver failed: it raised LookupError: nothing here."


@pytest.mark.spec("A10")
def test_the_explanation_is_the_decision_the_gate_makes() -> None:
    chain = standard_chain(ApprovalConfig())
    confirmations = Confirmations(ConfirmationConfig(autonomy="cautious"))
    for about in (READ, WRITE, SHELL):
        told = explain(None, chain, [confirmations.cap()], approval_request(about))
        assert told.decision == Decider(chain, [confirmations.cap()]).decide(approval_request(about))


@pytest.mark.spec("A10")
def test_the_explanation_is_json() -> None:
    told = explain(ALLOWED, standard_chain(ApprovalConfig()), [Confirmations().cap()], approval_request(READ))
    assert msgspec.json.decode(msgspec.json.encode(told), type=DecisionExplanation) == told

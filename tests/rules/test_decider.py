"""Caps and the decider: no approval bypasses a cap."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.config.config import ApprovalConfig, ConfirmationConfig
from holdfast.contract.call import Caller, Decision, Proposal
from holdfast.contract.context import Context
from holdfast.contract.enums import Risk, Verdict
from holdfast.contract.errors import ConfigError
from holdfast.contract.json import Args
from holdfast.contract.tool import Reach, Tool
from holdfast.rules.chain import DEFAULT_DECISION, ApprovalRequest, Chain, ResolveContext
from holdfast.rules.decider import (
    CHANGED,
    CONFIRMATION,
    MAX_RISK,
    PROTECTED,
    SENDING,
    Cap,
    Confirmations,
    Decider,
    apply_caps,
    max_risk_cap,
    protected_path_cap,
    sending_cap,
    two_people_cap,
)
from holdfast.rules.from_config import SHELL_PARTS, standard_caps, standard_chain
from holdfast.rules.resolvers import CONFIG, GRANTS, PURE

from .approval_requests import CALCULATOR, EDIT, READ, REQUEST, SHELL, UNKNOWN, WRITE, approval_request, tool

YES = Decision(Verdict.APPROVE, "list", "listed")


def answering(verdict: Verdict, name: str = "cap") -> Cap:
    return Cap(name, lambda request: Decision(verdict, "elsewhere", "a reason"))


def protected(path: Path) -> str | None:
    return "git obeys it" if ".git" in path.parts else None


def fails(request: ApprovalRequest) -> Decision | None:
    raise OSError("gone")


@pytest.mark.spec("A18")
def test_the_strictest_cap_wins_and_is_named() -> None:
    caps = [answering(Verdict.ASK, "one"), answering(Verdict.DENY, "two"), answering(Verdict.ASK, "three")]
    judged = apply_caps(YES, caps, approval_request())
    assert judged.decision == Decision(Verdict.DENY, "two", "a reason")
    assert [(step.source, step.answer) for step in judged.steps] == [("one", "ask"), ("two", "deny"), ("three", "ask")]


@pytest.mark.spec("A18")
@pytest.mark.parametrize("verdict", list(Verdict))
def test_no_cap_can_loosen_a_decision(verdict: Verdict) -> None:
    denied = Decision(Verdict.DENY, "list", "denied")
    assert apply_caps(denied, [answering(verdict)], approval_request()).decision == denied


@pytest.mark.spec("A18")
def test_caps_without_objections_keep_the_decision() -> None:
    silent = Cap("silent", lambda request: None)
    assert apply_caps(YES, [silent, answering(Verdict.APPROVE)], approval_request()).decision == YES


@pytest.mark.spec("A18")
def test_a_cap_that_fails_asks_and_one_that_may_deny_denies() -> None:
    assert apply_caps(YES, [Cap("cap", fails)], approval_request()).decision.verdict is Verdict.ASK
    denying = apply_caps(YES, [Cap("cap", fails, failure=Verdict.DENY)], approval_request()).decision
    assert denying == Decision(Verdict.DENY, "cap", "The cap 'cap' failed: it raised OSError: gone.")


@pytest.mark.spec("A18")
def test_a_cap_that_returns_an_invalid_value_asks() -> None:
    cap = Cap("cap", lambda request: "approve")  # pyright: ignore[reportArgumentType, reportReturnType]
    assert apply_caps(YES, [cap], approval_request()).decision.verdict is Verdict.ASK


@pytest.mark.spec("A18")
def test_a_cap_cannot_be_configured_to_approve_when_it_fails() -> None:
    with pytest.raises(ConfigError, match="Set `failure` to ask or deny"):
        Cap("cap", fails, failure=Verdict.APPROVE)


@pytest.mark.spec("A10", "A18")
def test_the_reason_of_a_cap_replaces_the_default_reason() -> None:
    assert apply_caps(DEFAULT_DECISION, [answering(Verdict.ASK)], approval_request()).decision.source == "cap"
    asked = Decision(Verdict.ASK, "function", "the user's function asks")
    assert apply_caps(asked, [answering(Verdict.ASK)], approval_request()).decision == asked


@pytest.mark.spec("A6", "A18")
@pytest.mark.parametrize("about", [WRITE, EDIT, tool("acme.patch", touches=WRITE.touches)])
@pytest.mark.parametrize("source", [CONFIG, GRANTS, "function"])
def test_changing_a_protected_path_always_needs_approval(about: Tool, source: str) -> None:
    asked = approval_request(about, {"path": ".git/hooks/pre-commit"})
    decision = apply_caps(Decision(Verdict.APPROVE, source, ""), [protected_path_cap(protected)], asked).decision
    assert decision.verdict is Verdict.ASK
    assert decision.source == PROTECTED
    assert decision.reason == "'.git/hooks/pre-commit' is a protected path: git obeys it"


@pytest.mark.spec("A6")
def test_reading_a_protected_path_and_changing_another_are_not_capped() -> None:
    caps = [protected_path_cap(protected)]
    assert apply_caps(YES, caps, approval_request(READ, {"path": ".git/config"})).decision == YES
    assert apply_caps(YES, caps, approval_request(WRITE, {"path": "src/main.py"})).decision == YES


@pytest.mark.spec("A6", "A18")
@pytest.mark.parametrize(
    ("limit", "risk", "verdict"),
    [
        (Risk.LOW, Risk.LOW, Verdict.APPROVE),
        (Risk.LOW, Risk.MEDIUM, Verdict.ASK),
        (Risk.MEDIUM, Risk.MEDIUM, Verdict.APPROVE),
        (Risk.MEDIUM, Risk.HIGH, Verdict.ASK),
        (Risk.HIGH, Risk.HIGH, Verdict.APPROVE),
    ],
)
def test_a_list_approves_up_to_the_configured_risk(limit: Risk, risk: Risk, verdict: Verdict) -> None:
    chain = standard_chain(ApprovalConfig(max_risk=limit))
    decider = Decider(chain, standard_caps(ApprovalConfig(max_risk=limit), chain))
    assert decider.decide(approval_request(WRITE, {"path": "a"}, risk=risk)).verdict is verdict


@pytest.mark.spec("E7e")
@pytest.mark.parametrize("source", [CONFIG, PURE, GRANTS, "a program"])
def test_two_people_applies_to_every_approval_from_its_risk_on(source: str) -> None:
    cap = two_people_cap(Risk.MEDIUM)
    for risk, verdict in ((Risk.LOW, Verdict.APPROVE), (Risk.MEDIUM, Verdict.ASK), (Risk.HIGH, Verdict.ASK)):
        request = approval_request(WRITE, risk=risk)
        assert apply_caps(Decision(Verdict.APPROVE, source, ""), [cap], request).decision.verdict is verdict


@pytest.mark.spec("A6")
def test_max_risk_applies_to_approvals_that_ignore_the_arguments() -> None:
    cap = max_risk_cap(Risk.LOW, {CONFIG, PURE})
    for source, verdict in ((CONFIG, Verdict.ASK), (PURE, Verdict.ASK), (GRANTS, Verdict.APPROVE)):
        decision = apply_caps(Decision(Verdict.APPROVE, source, ""), [cap], approval_request(WRITE)).decision
        assert decision.verdict is verdict


@pytest.mark.spec("A6")
def test_max_risk_does_not_apply_to_a_policy_function_that_saw_the_call() -> None:
    def trusting(name: str, args: Args, ctx: ResolveContext) -> bool:
        return True

    approval = ApprovalConfig(max_risk=Risk.LOW)
    chain = standard_chain(approval, function=trusting)
    assert Decider(chain, standard_caps(approval, chain)).decide(approval_request(SHELL)).verdict is Verdict.APPROVE


@pytest.mark.spec("A18")
def test_the_standard_caps_follow_the_configuration() -> None:
    chain = Chain()
    assert [cap.name for cap in standard_caps(ApprovalConfig(), chain)] == [SHELL_PARTS, CHANGED, SENDING]
    caps = standard_caps(
        ApprovalConfig(max_risk=Risk.LOW), chain, confirmations=Confirmations(), is_protected=protected
    )
    assert [cap.name for cap in caps] == [SHELL_PARTS, CHANGED, SENDING, PROTECTED, MAX_RISK, CONFIRMATION]


def decider(**actions: str) -> Decider:
    approval = ApprovalConfig(max_risk=Risk.MEDIUM)
    chain = standard_chain(approval)
    given = {name.replace("_", "."): action for name, action in actions.items()}
    confirmations = Confirmations(ConfirmationConfig(actions=given))  # pyright: ignore[reportArgumentType]
    return Decider(chain, standard_caps(approval, chain, confirmations=confirmations, is_protected=protected))


@pytest.mark.spec("A18")
def test_the_decider_asks_the_chain_first_and_then_the_caps() -> None:
    judged = decider(file_read="confirm").judge(approval_request(READ))
    assert judged.decision.source == CONFIRMATION
    caps = [SHELL_PARTS, CHANGED, SENDING, PROTECTED, MAX_RISK, CONFIRMATION]
    assert [step.source for step in judged.steps] == [CONFIG, *caps]


@pytest.mark.spec("A18")
def test_a_static_decision_equals_the_decision_for_a_call() -> None:
    cautious = Caller(autonomy="cautious")
    for one in (decider(), decider(file_read="confirm"), decider(file_="silent", calculator="log")):
        for about in (READ, WRITE, EDIT, SHELL, CALCULATOR, UNKNOWN):
            for caller in (Caller(), cautious):
                asked = approval_request(about, {"path": ".git/x"}, caller=caller)
                known = one.static_decision(about, caller)
                assert one.decide(asked) == one.judge(asked).decision
                if known is not None:
                    assert known == one.judge(asked).decision


@pytest.mark.spec("A18")
def test_reading_tools_have_static_decisions_and_writing_tools_do_not() -> None:
    assert decider().static_decision(READ, Caller()) is not None
    assert decider().static_decision(CALCULATOR, Caller()) is not None
    assert decider().static_decision(WRITE, Caller()) is None


@pytest.mark.spec("A18", "T6")
def test_a_two_phase_tool_has_no_static_decision() -> None:
    def propose(args: Args, ctx: Context) -> Proposal:
        return Proposal(tool_name="file.read", summary="", risk=Risk.HIGH, payload={})

    reads = frozenset({"fs.read"})
    about = Tool(
        name="file.read", propose=propose, apply=lambda args, ctx: None, effects=reads, presets=("$readonly",),
        source="builtin",
    )  # fmt: skip
    assert decider().static_decision(about, Caller()) is None
    assert decider().decide(approval_request(about, risk=Risk.HIGH)).source == MAX_RISK


@pytest.mark.spec("A18", "B6a")
def test_a_request_that_can_change_something_is_asked_about_whatever_approved_it() -> None:
    judged = apply_caps(YES, [sending_cap()], approval_request(REQUEST, {"host": "a.example", "method": "POST"}))
    assert judged.decision.verdict is Verdict.ASK and "a.example" in judged.decision.reason
    reads = apply_caps(YES, [sending_cap()], approval_request(REQUEST, {"host": "a.example", "method": "GET"}))
    assert reads.decision == YES


@pytest.mark.spec("A18", "B6a")
def test_a_tool_that_cannot_name_its_hosts_is_asked_about() -> None:
    def fails_to_name(args: Args) -> Reach:
        raise ValueError("no host")

    broken = tool("request", effects={"network"}, reaches=fails_to_name)
    assert apply_caps(YES, [sending_cap()], approval_request(broken)).decision.verdict is Verdict.ASK

"""Properties of caps."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.contract.call import Decision
from holdfast.contract.enums import Verdict
from holdfast.rules.chain import ApprovalRequest
from holdfast.rules.decider import Cap, apply_caps

from .approval_requests import approval_request

ANSWERS = [*Verdict, None, "raise", "junk"]
verdicts = st.sampled_from(list(Verdict))


def cap(name: str, answer: object, sources: frozenset[str] | None, failure: Verdict) -> Cap:
    def judge(request: ApprovalRequest) -> Decision | None:
        if answer == "raise":
            raise RuntimeError(name)
        return Decision(answer, name, "") if isinstance(answer, Verdict) else answer  # pyright: ignore

    return Cap(name, judge, sources=sources, failure=failure)


caps = st.lists(
    st.tuples(
        st.sampled_from(ANSWERS),
        st.sampled_from([None, frozenset({"list"}), frozenset({"grant"})]),
        st.sampled_from([Verdict.ASK, Verdict.DENY]),
    ),
    max_size=5,
).map(lambda items: [cap(f"c{place}", *item) for place, item in enumerate(items)])
decisions = st.builds(Decision, verdicts, st.sampled_from(["list", "grant", "default"]), st.just(""))


@pytest.mark.spec("A18")
@given(decisions, caps)
def test_caps_never_loosen(decision: Decision, given_caps: list[Cap]) -> None:
    final = apply_caps(decision, given_caps, approval_request()).decision
    assert final.verdict.strictness >= decision.verdict.strictness


@pytest.mark.spec("A18")
@given(decisions, caps, caps)
def test_more_caps_are_never_less_strict(decision: Decision, some: list[Cap], more: list[Cap]) -> None:
    few = apply_caps(decision, some, approval_request()).decision.verdict
    many = apply_caps(decision, some + more, approval_request()).decision.verdict
    assert many.strictness >= few.strictness


@pytest.mark.spec("A18")
@given(decisions, caps)
def test_the_order_of_caps_does_not_change_the_verdict(decision: Decision, given_caps: list[Cap]) -> None:
    forward = apply_caps(decision, given_caps, approval_request()).decision.verdict
    backward = apply_caps(decision, given_caps[::-1], approval_request()).decision.verdict
    assert forward is backward


@pytest.mark.spec("A18")
@given(decisions, caps)
def test_a_failed_cap_never_leaves_an_approval(decision: Decision, given_caps: list[Cap]) -> None:
    judged = apply_caps(decision, given_caps, approval_request())
    if any(step.answer == "failed" for step in judged.steps):
        assert judged.decision.verdict is not Verdict.APPROVE

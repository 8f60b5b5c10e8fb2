"""The containment cap: without a sandbox nothing runs unasked."""

from __future__ import annotations

import pytest

from holdfast.contract.call import Decision
from holdfast.contract.enums import NEEDS_CONTAINMENT, RUNS_COMMANDS, Verdict
from holdfast.rules.decider import CONTAINMENT, Containment, apply_caps, containment_cap

from .approval_requests import READ, approval_request, tool

YES = Decision(Verdict.APPROVE, "list", "listed")
RUNS = tool("shell.exec", capabilities=frozenset({RUNS_COMMANDS}))
OBEYS = tool("git.status", capabilities=frozenset({NEEDS_CONTAINMENT}))


@pytest.mark.spec("A18", "N1", "N6")
@pytest.mark.parametrize(
    ("state", "runs", "obeys"),
    [
        ("contained", Verdict.APPROVE, Verdict.APPROVE),
        ("off", Verdict.APPROVE, Verdict.ASK),
        ("missing", Verdict.ASK, Verdict.ASK),
        ("refused", Verdict.DENY, Verdict.DENY),
    ],
)
def test_a_command_without_a_sandbox_needs_approval_or_is_denied(
    state: Containment, runs: Verdict, obeys: Verdict
) -> None:
    caps = [containment_cap(lambda: state)]
    assert apply_caps(YES, caps, approval_request(RUNS)).decision.verdict is runs
    assert apply_caps(YES, caps, approval_request(OBEYS)).decision.verdict is obeys
    assert apply_caps(YES, caps, approval_request(READ)).decision == YES


@pytest.mark.spec("A18", "N1")
def test_a_failing_containment_probe_denies() -> None:
    def broken() -> Containment:
        raise OSError("no probe")

    decision = apply_caps(YES, [containment_cap(broken)], approval_request(RUNS)).decision
    assert (decision.verdict, decision.source) == (Verdict.DENY, CONTAINMENT)

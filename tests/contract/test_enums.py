"""Verdicts, risks, effects and exit codes."""

from __future__ import annotations

import pytest

from holdfast.contract.enums import EFFECTS, ENDS, EXIT_CODES, READING_EFFECTS, Risk, State, Verdict


@pytest.mark.parametrize(
    ("word", "verdict"),
    [
        ("approve", Verdict.APPROVE), ("ask", Verdict.ASK), ("deny", Verdict.DENY), ("require_approval", Verdict.ASK),
        ("APPROVE", None), ("", None), (True, None), (None, None), (["approve"], None),
    ],
)  # fmt: skip
def test_only_the_known_words_are_verdicts(word: object, verdict: Verdict | None) -> None:
    assert Verdict.parse(word) is verdict


def test_verdicts_and_risks_are_ordered() -> None:
    assert sorted(Verdict, key=lambda verdict: verdict.strictness) == [Verdict.APPROVE, Verdict.ASK, Verdict.DENY]
    assert sorted(Risk, key=lambda risk: risk.level) == [Risk.LOW, Risk.MEDIUM, Risk.HIGH]


def test_every_state_that_a_command_can_report_has_an_exit_code() -> None:
    assert set(EXIT_CODES) == set(State) - {State.RUNNING}
    assert set(State) - ENDS == {State.PENDING, State.APPROVED, State.RUNNING}
    assert [state for state, code in EXIT_CODES.items() if code == 0] == [State.DONE]


def test_reading_effects_are_effects() -> None:
    assert READING_EFFECTS < EFFECTS

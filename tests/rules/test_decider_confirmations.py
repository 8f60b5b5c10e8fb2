"""Confirmation actions (confirm, log, silent) and autonomy levels."""

from __future__ import annotations

from itertools import product
from typing import get_args

import pytest

from holdfast.config.config import Action, Autonomy, ConfirmationConfig
from holdfast.contract.call import Caller, Decision
from holdfast.contract.enums import Risk, Verdict
from holdfast.contract.tool import Tool
from holdfast.rules.decider import CANCELLED, CONFIRMATION, Confirmations, action_at_autonomy, apply_caps

from .approval_requests import READ, SHELL, UNKNOWN, WRITE, approval_request

ACTIONS: tuple[Action, ...] = get_args(Action)
LEVELS: tuple[Autonomy, ...] = get_args(Autonomy)
YES = Decision(Verdict.APPROVE, "list", "listed")


def action(confirmations: Confirmations, about: Tool, caller: Caller | None = None) -> Action:
    return confirmations.outcome(about, about.risk, caller or Caller()).action


@pytest.mark.spec("A9")
@pytest.mark.parametrize(
    ("level", "risk", "expected"),
    [
        ("cautious", Risk.LOW, ("log", "confirm", "confirm")),
        ("cautious", Risk.MEDIUM, ("confirm", "confirm", "confirm")),
        ("cautious", Risk.HIGH, ("confirm", "confirm", "confirm")),
        ("standard", Risk.LOW, ("silent", "log", "confirm")),
        ("standard", Risk.MEDIUM, ("silent", "log", "confirm")),
        ("standard", Risk.HIGH, ("log", "log", "confirm")),
        ("autonomous", Risk.LOW, ("silent", "log", "log")),
        ("autonomous", Risk.MEDIUM, ("silent", "log", "log")),
        ("autonomous", Risk.HIGH, ("log", "log", "confirm")),
    ],
)
def test_autonomy_shifts_silent_log_and_confirm(level: Autonomy, risk: Risk, expected: tuple[Action, ...]) -> None:
    assert (
        action_at_autonomy("silent", level, risk),
        action_at_autonomy("log", level, risk),
        action_at_autonomy("confirm", level, risk),
    ) == expected


@pytest.mark.spec("A9")
def test_high_risk_is_never_silent_and_more_autonomy_is_never_stricter() -> None:
    order = ("silent", "log", "confirm")
    for configured, risk in product(ACTIONS, Risk):
        strictness = [order.index(action_at_autonomy(configured, level, risk)) for level in LEVELS]
        assert strictness == sorted(strictness, reverse=True)
        assert risk is not Risk.HIGH or min(strictness) >= 1


@pytest.mark.spec("A9")
def test_without_a_confirmation_rule_only_high_risk_is_logged() -> None:
    confirmations = Confirmations()
    assert [action(confirmations, about) for about in (READ, WRITE, SHELL)] == ["silent", "silent", "log"]


@pytest.mark.spec("A9")
@pytest.mark.parametrize("pattern", ["file.write", "write", "file.*", "group:fs", "*"])
def test_a_confirmation_rule_matches_by_name_alias_pattern_or_group(pattern: str) -> None:
    confirmations = Confirmations(ConfirmationConfig(actions={pattern: "confirm"}))
    assert action(confirmations, WRITE) == "confirm"
    assert action(Confirmations(ConfirmationConfig(actions={"shell.*": "confirm"})), WRITE) == "silent"


@pytest.mark.spec("A9")
def test_the_most_specific_pattern_wins_in_any_position() -> None:
    actions: dict[str, Action] = {"*": "confirm", "file.*": "log", "file.read": "silent"}
    for ordered in (actions, dict(reversed(actions.items()))):
        confirmations = Confirmations(ConfirmationConfig(actions=ordered))
        assert [action(confirmations, about) for about in (READ, WRITE, UNKNOWN)] == ["silent", "log", "confirm"]


@pytest.mark.spec("A9")
def test_between_equally_specific_confirmation_rules_the_stricter_wins() -> None:
    confirmations = Confirmations(
        ConfirmationConfig(actions={"read": "log", "file.read": "confirm", "read_file": "silent"})
    )
    assert action(confirmations, READ) == "confirm"


@pytest.mark.spec("A9")
@pytest.mark.parametrize(
    ("configured", "asked", "expected"),
    [
        ("standard", None, "log"),
        ("standard", "cautious", "confirm"),
        ("standard", "autonomous", "log"),
        ("cautious", "autonomous", "confirm"),
        ("autonomous", "standard", "log"),
    ],
)
def test_a_caller_can_only_ask_for_more_caution(configured: Autonomy, asked: Autonomy | None, expected: Action) -> None:
    confirmations = Confirmations(ConfirmationConfig(autonomy=configured, actions={"read": "log"}))
    assert action(confirmations, READ, Caller(autonomy=asked)) == expected


@pytest.mark.spec("A9")
def test_a_confirmation_asks_no_matter_what_approved_the_call() -> None:
    confirmations = Confirmations(ConfirmationConfig(actions={"write": "confirm"}))
    decision = apply_caps(YES, [confirmations.cap()], approval_request(WRITE)).decision
    assert decision.verdict is Verdict.ASK
    assert decision.source == CONFIRMATION
    assert decision.reason == "The confirmation rule 'write' says confirm, autonomy is standard, risk is medium."


@pytest.mark.spec("A9")
@pytest.mark.parametrize("configured", ["log", "silent"])
def test_log_and_silent_do_not_ask(configured: Action) -> None:
    confirmations = Confirmations(ConfirmationConfig(actions={"write": configured}))
    assert apply_caps(YES, [confirmations.cap()], approval_request(WRITE)).decision == YES


@pytest.mark.spec("A9")
def test_the_risk_of_the_proposal_replaces_that_of_the_tool() -> None:
    confirmations = Confirmations(ConfirmationConfig(autonomy="autonomous", actions={"write": "confirm"}))
    caps = [confirmations.cap()]
    assert apply_caps(YES, caps, approval_request(WRITE, risk=Risk.MEDIUM)).decision == YES
    assert apply_caps(YES, caps, approval_request(WRITE, risk=Risk.HIGH)).decision.verdict is Verdict.ASK


@pytest.mark.spec("A9")
def test_a_refused_confirmation_has_a_fixed_message() -> None:
    assert CANCELLED == "Tool execution cancelled by user"

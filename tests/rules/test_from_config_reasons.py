"""The reason shown for a command that no rule covers names the uncovered part."""

from __future__ import annotations

import pytest

from holdfast.config.config import ApprovalConfig, CommandRule
from holdfast.contract.enums import Verdict
from holdfast.rules.chain import DEFAULT_DECISION
from holdfast.rules.decider import Decider
from holdfast.rules.from_config import standard_chain

from .approval_requests import SHELL, approval_request


@pytest.mark.spec("A10", "A11")
@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("npm test | tail -5", "`tail -5` is not covered by a rule."),
        ("npm run build", "`npm run build` is not covered by a rule."),
        ("make a && make b; npm test", "`make a` and `make b` are not covered by a rule."),
        ("a; b; c; d", "`a`, `b` and 2 more parts are not covered by a rule."),
        ("npm test > out.txt", "`> out.txt` is not covered by a rule: it writes to 'out.txt'."),
        ("npm test && echo $(id)", "`echo $(id)` is not covered by a rule."),
    ],
)
def test_the_reason_names_the_part_that_no_rule_covers(command: str, why: str) -> None:
    approval = ApprovalConfig(auto_approve=(), commands=(CommandRule(rule="npm test", verdict="approve"),))
    chain = standard_chain(approval)
    asked = approval_request(SHELL, {"command": command})
    decision = Decider(chain).decide(asked)
    assert (decision.verdict, decision.source) == (Verdict.ASK, DEFAULT_DECISION.source)
    assert decision.reason == why
    assert chain.judge(asked).decision == decision

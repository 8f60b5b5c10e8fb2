"""What the tests of the approval chain share."""

from __future__ import annotations

from holdfast.config.model import ApprovalConfig
from holdfast.contract.tool import Tool
from holdfast.contract.values import Args
from holdfast.contract.vocabulary import Verdict
from holdfast.rules.chain import Chain

from .asking import READ, question


def listed(*names: str, **fields: object) -> ApprovalConfig:
    return ApprovalConfig(auto_approve=names, **fields)  # pyright: ignore[reportArgumentType]


def decided(chain: Chain, about: Tool = READ, args: Args | None = None) -> tuple[str, Verdict]:
    decision = chain.judge(question(about, args)).decision
    return decision.source, decision.verdict

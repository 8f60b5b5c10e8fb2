"""Helpers for the tests of the approval chain."""

from __future__ import annotations

from holdfast.config.config import ApprovalConfig
from holdfast.contract.enums import Verdict
from holdfast.contract.json import Args
from holdfast.contract.tool import Tool
from holdfast.rules.chain import Chain

from .approval_requests import READ, approval_request


def listed(*names: str, **fields: object) -> ApprovalConfig:
    return ApprovalConfig(auto_approve=names, **fields)  # pyright: ignore[reportArgumentType]


def decided(chain: Chain, about: Tool = READ, args: Args | None = None) -> tuple[str, Verdict]:
    decision = chain.judge(approval_request(about, args)).decision
    return decision.source, decision.verdict

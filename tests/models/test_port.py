"""The usage and errors of the `Model` protocol."""

from __future__ import annotations

from decimal import Decimal

import pytest

from holdfast.models.port import ModelError, ModelFault, ProtocolChoice, Usage


@pytest.mark.spec("M1")
def test_usage_adds_up_and_an_unknown_cost_does_not_hide_a_known_one() -> None:
    first = Usage(input=1, output=2, cache_read=3, cache_write=4, thinking=5, cost=Decimal("0.1"))
    assert first + first == Usage(input=2, output=4, cache_read=6, cache_write=8, thinking=10, cost=Decimal("0.2"))
    assert (first + Usage(input=1)).cost == Decimal("0.1")
    assert (Usage() + Usage()).cost is None


@pytest.mark.spec("M1")
def test_an_error_carries_its_fault_the_retry_delay_and_the_tokens_spent() -> None:
    error = ModelError(ModelFault.RATE_LIMIT, "Wait.", retry_after=7.0, usage=Usage(output=1))
    assert (str(error), error.fault, error.retry_after, error.usage) == (
        "Wait.", ModelFault.RATE_LIMIT, 7.0, Usage(output=1),
    )  # fmt: skip


@pytest.mark.spec("M5")
def test_an_error_counts_the_tokens_of_earlier_requests() -> None:
    error = ModelError(ModelFault.CUT, "Cut.")
    error.add_usage(None)
    assert error.usage is None
    error.add_usage(Usage(output=1))
    error.add_usage(Usage(output=2))
    assert error.usage == Usage(output=3)


@pytest.mark.spec("M3")
def test_a_notice_says_how_a_model_calls_tools_and_why() -> None:
    assert ProtocolChoice("text").notice("m") == ""
    assert ProtocolChoice("text", "it is old").notice("m") == "m writes its tool calls as text: it is old."
    assert ProtocolChoice("constrained", "it is old").notice("m") == "m writes its replies as JSON: it is old."
    assert ProtocolChoice("native", "it is new").notice("m") == "m calls tools natively: it is new."

"""The usage and errors of the `Model` protocol."""

from __future__ import annotations

from decimal import Decimal

import pytest

from holdfast.models.port import ModelError, ModelFault, Usage


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

"""Tokens and cost of one reply, as the provider counted them and its price list says."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

from holdfast.models.endpoint import Endpoint
from holdfast.models.port import Usage

if TYPE_CHECKING:
    from pydantic_ai.models import StreamedResponse


def usage_of(stream: StreamedResponse, endpoint: Endpoint) -> Usage:
    counted = stream.usage
    details: dict[str, Any] = counted.details
    thinking = details.get("reasoning_tokens") or details.get("thoughts_tokens") or details.get("thinking_tokens") or 0
    return Usage(
        input=counted.input_tokens,
        output=counted.output_tokens,
        cache_read=counted.cache_read_tokens,
        cache_write=counted.cache_write_tokens,
        thinking=thinking,
        cost=_cost(stream, endpoint),
    )


def _cost(stream: StreamedResponse, endpoint: Endpoint) -> Decimal | None:
    """None where the price is not known: a model that is not listed, a server of one's own, a gateway."""
    if not endpoint.priced or not (stream.usage.input_tokens or stream.usage.output_tokens):
        return None
    try:
        return stream.get().cost().total_price
    except (LookupError, ValueError, AssertionError):
        return None

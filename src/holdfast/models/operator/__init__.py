"""The embedded model: a small grammar of plain requests, turned into calls. No key, no network, nothing learned."""

from __future__ import annotations

from holdfast.models.operator.model import Operator

__all__ = ["Operator"]

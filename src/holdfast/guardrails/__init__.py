"""Guard-rails for small models: what a message asks for, what counts as evidence, and what is done about a slip."""

from __future__ import annotations

from holdfast.guardrails.guard import GuardRails

__all__ = ["GuardRails"]

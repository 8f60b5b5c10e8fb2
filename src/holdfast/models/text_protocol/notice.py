"""How a model is spoken to, and the one line that tells a person."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct


class Chosen(Struct, frozen=True):
    protocol: Literal["native", "text"]
    why: str = ""
    """Where nobody asked for it."""

    def notice(self, name: str) -> str:
        """What a person should know about it; empty where it is as they would expect."""
        return f"{name} writes its tool calls as text: {self.why}." if self.why else ""

"""A provider-neutral script of a reply, which each server turns into its own events."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Say:
    text: str


@dataclass(frozen=True)
class Think:
    text: str
    signature: str = ""


@dataclass(frozen=True)
class Hidden:
    """Redacted thinking."""

    data: str


@dataclass(frozen=True)
class Use:
    id: str
    name: str
    arguments: str


@dataclass(frozen=True)
class Script:
    parts: tuple[Say | Think | Hidden | Use, ...] = field(default=())
    stop: str = ""
    """In the provider's words; empty for what fits the parts."""
    input: int = 25
    cached: int = 0
    written: int = 0
    output: int = 12
    thinking: int = 0

    @property
    def calls(self) -> bool:
        return any(isinstance(part, Use) for part in self.parts)


def pieces(text: str, size: int = 7) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]

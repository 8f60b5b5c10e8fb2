"""What is said about the parts of a command, and about the whole."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from holdfast.contract.vocabulary import Verdict

Kind = Literal["command", "assignment", "redirection", "opaque"]


class JudgedPart(Struct, frozen=True, kw_only=True):
    """A part, what is said about it, and by which rule. Without a verdict nobody has anything to say."""

    kind: Kind
    text: str
    inside: str = ""
    verdict: Verdict | None = None
    rule: str = ""
    reason: str = ""


class ShellJudgement(Struct, frozen=True, kw_only=True):
    parts: tuple[JudgedPart, ...]
    verdict: Verdict | None
    """Approve only if every part is approved; None leaves the command to others."""
    reason: str

    @property
    def rules(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(part.rule for part in self.parts if part.rule))

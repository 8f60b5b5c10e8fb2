"""Events and outcomes of the agent loop, for terminals and as JSON lines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal

from msgspec import Struct

from holdfast.agent.conversation import Slot, Status
from holdfast.contract.event import WarningRaised
from holdfast.contract.message import ToolUse
from holdfast.contract.result import Result
from holdfast.models.port import CallBegun, Retrying, TextDelta, ThinkingDelta, Usage

Phase = Literal["categorise", "execute", "send"]
OutcomeKind = Literal["done", "stepped", "pending", "edited", "stopped", "stale", "failed", "conflict", "cancelled"]

EXIT_CODES: Final[dict[OutcomeKind, int]] = {
    "done": 0, "stepped": 0, "pending": 4, "edited": 4, "stopped": 1, "stale": 1, "failed": 1, "conflict": 1,
    "cancelled": 130,
}  # fmt: skip


class PhaseStarted(Struct, frozen=True, tag_field="event", tag="phase"):
    phase: Phase


class StatusWritten(Struct, frozen=True, tag_field="event", tag="placed"):
    """A placeholder was written."""

    use: ToolUse
    status: Status
    call_id: str | None = None
    """The pending call in the ledger, if there is one."""


class ResultWritten(Struct, frozen=True, tag_field="event", tag="settled"):
    """A result was written."""

    use: ToolUse
    result: Result


class ReplyWritten(Struct, frozen=True, tag_field="event", tag="reply"):
    calls: tuple[ToolUse, ...]
    aborted: str | None = None
    model: str = ""


class GuardrailApplied(Struct, frozen=True, tag_field="event", tag="guarded"):
    """A guard-rail intervened."""

    rule: str
    what: Literal["changed", "refused", "again", "acted", "answered", "stopped"]
    """The reply was corrected, a call refused, the reply retried, a call made or an answer given in the model's place,
    or the model stopped."""
    message: str = ""


class UsageCounted(Struct, frozen=True, tag_field="event", tag="usage"):
    reply: Usage
    total: Usage
    """Of all replies since the loop started to advance."""


class Outcome(Struct, frozen=True, tag_field="event", tag="outcome"):
    """Why the loop returned."""

    kind: OutcomeKind
    message: str = ""
    slots: tuple[Slot, ...] = ()
    """The calls without a result."""
    usage: Usage = Usage()
    exit_code: int = 0


AgentEvent = (
    PhaseStarted | TextDelta | ThinkingDelta | CallBegun | Retrying | StatusWritten | ResultWritten | ReplyWritten
    | GuardrailApplied | UsageCounted | WarningRaised | Outcome
)  # fmt: skip
OnEvent = Callable[[AgentEvent], None]

"""Enums and constants: verdicts, risks, effects, capabilities, states, failures, exit codes."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, Literal, get_args


class Verdict(StrEnum):
    APPROVE = "approve"
    ASK = "ask"
    DENY = "deny"

    @property
    def strictness(self) -> int:
        return list(Verdict).index(self)

    @classmethod
    def parse(cls, word: object) -> Verdict | None:
        """Parse a verdict, None if it is invalid. `require_approval` is an older name for `ask`."""
        if word == "require_approval":
            return cls.ASK
        return cls(word) if isinstance(word, str) and word in cls.__members__.values() else None


class Risk(StrEnum):
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"

    @property
    def level(self) -> int:
        return list(Risk).index(self)


Effect = Literal["fs.read", "fs.write", "process", "network", "external", "person", "secrets"]
EFFECTS: Final[frozenset[str]] = frozenset(get_args(Effect))
READING_EFFECTS: Final[frozenset[str]] = frozenset({"fs.read", "person"})
"""Effects without side effects: a call that has only these can be repeated."""

Profile = Literal["minimal", "messaging", "coding", "full"]
"""The tool sets that a configuration starts from. `minimal` is part of all others; `full` has every tool."""
BuiltInPreset = Literal["$readonly", "$default", "$shell-readonly"]
"""The built-in presets of `auto_approve`. `$default` includes `$readonly`."""

AUTO_APPROVED_IF_SANDBOXED: Final = "can_auto_approve_if_sandboxed"
"""Capability: runs without approval if the sandbox is active and the user enabled this."""
RUNS_COMMANDS: Final = "runs_commands"
"""Capability: runs the shell command in its argument `command`. Command rules apply to it, and it needs approval if a
required sandbox is missing."""
NEEDS_CONTAINMENT: Final = "needs_containment"
"""Capability: its input may make it run programs, so it needs approval without a sandbox."""
ACTS_ON_STATE: Final = "acts_on_state"
"""Capability: what a call does depends on more than its arguments, such as the page that is open, so no approval of it
is remembered."""
CHECKS_IN_DRY_RUN: Final = "checks_in_dry_run"
"""Capability: with `ctx.dry_run` set, `execute` checks its arguments and returns."""
CHANGED_DEFINITION: Final = "changed_definition"
"""Capability: the user has not seen the current definition, so every call needs approval."""


class State(StrEnum):
    """The state of a call. `pending`, `approved` and `running` are not final."""

    PENDING = "pending"
    APPROVED = "approved"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    INVALID = "invalid"
    DENIED = "denied"
    REJECTED = "rejected"
    EXPIRED = "expired"
    TIMED_OUT = "timed_out"
    UNKNOWN = "unknown"
    CANCELLED = "cancelled"


EXIT_CODES: Final[dict[State, int]] = {
    State.DONE: 0,
    State.FAILED: 1,
    State.INVALID: 2,
    State.DENIED: 3,
    State.REJECTED: 3,
    State.EXPIRED: 3,
    State.PENDING: 4,
    State.APPROVED: 4,
    State.TIMED_OUT: 5,
    State.UNKNOWN: 6,
    State.CANCELLED: 130,
}
ENDS: Final = frozenset(EXIT_CODES) - {State.PENDING, State.APPROVED}


class Failure(StrEnum):
    """Why a call failed, for programs; the error message is for people."""

    UNKNOWN_TOOL = "unknown_tool"
    NOT_ALLOWED = "not_allowed"
    UNAVAILABLE = "unavailable"
    BAD_JSON = "bad_json"
    INVALID_ARGUMENTS = "invalid_arguments"
    SECRET_UNAVAILABLE = "secret_unavailable"  # noqa: S105 - a word, not a secret
    DENIED_BY_MIDDLEWARE = "denied_by_middleware"
    DENIED_BY_POLICY = "denied_by_policy"
    NOBODY_TO_ASK = "nobody_to_ask"
    PLANNED = "planned"
    REJECTED = "rejected"
    EXPIRED = "expired"
    AWAITING_APPROVAL = "awaiting_approval"
    AWAITING_ANSWER = "awaiting_answer"
    AWAITING_PROGRAM = "awaiting_program"
    STALE = "stale"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    TOOL_ERROR = "tool_error"
    INVALID_OUTPUT = "invalid_output"
    OUTCOME_UNKNOWN = "outcome_unknown"
    TOO_DEEP = "too_deep"
    LEDGER = "ledger"
    INTERNAL = "internal"

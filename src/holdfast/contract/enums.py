"""The closed word lists of holdfast: verdicts, risks, effects, states, kinds of failure, exit codes."""

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
        """Read a verdict; `require_approval` is the seed's word for ask. None for anything else."""
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
"""Effects that leave nothing changed: a call with only these can be repeated."""

Profile = Literal["minimal", "messaging", "coding", "full"]
"""The sets of tools a configuration begins with. What is in `minimal` is in all of them, and `full` has every tool."""
BuiltInPreset = Literal["$readonly", "$default", "$shell-readonly"]
"""The presets of `auto_approve` that come with holdfast. What is in `$readonly` is in `$default`."""

AUTO_APPROVED_IF_SANDBOXED: Final = "can_auto_approve_if_sandboxed"
"""A capability: where the sandbox held, and the user configured it so, the tool runs without asking."""
RUNS_COMMANDS: Final = "runs_commands"
"""A capability: it runs the shell command in its argument `command`, so the rules about commands apply to it, and
where the sandbox is wanted and missing a person is asked."""
NEEDS_CONTAINMENT: Final = "needs_containment"
"""A capability: what it works on may make it run programs, so that without a sandbox a person is asked."""
CHECKS_IN_DRY_RUN: Final = "checks_in_dry_run"
"""A capability: `execute` may be called with `ctx.dry_run` set, and then checks its arguments and returns."""
CHANGED_DEFINITION: Final = "changed_definition"
"""A capability: a person has not seen how it is described now, and is asked whatever else says yes."""


class State(StrEnum):
    """Where a call is. The last ten are ends (`pending` is a stop, not an end)."""

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
    """Why a result is not a success; typed, so that nobody has to read the sentence."""

    UNKNOWN_TOOL = "unknown_tool"
    NOT_ALLOWED = "not_allowed"
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

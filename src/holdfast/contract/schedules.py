"""Schedules: calls and documents that the daemon runs at given times, with the rights of who made them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from msgspec import Struct

from holdfast.contract.call import Caller
from holdfast.contract.context import Context
from holdfast.contract.json import Args, Identifier

CRON: Final = "cron"
"""The interface of scheduled calls. A call that comes through it cannot change schedules."""
MAX_SCHEDULES: Final = 100
"""Per project."""
MAX_WORK_BYTES: Final = 64 * 1024
"""The size of the arguments or the message of one schedule, as JSON."""


class ScheduledWork(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """When to run, and either a tool with its arguments or a document to advance."""

    expression: str
    """A cron expression of five fields, or a macro such as `@daily`."""
    zone: str
    """The IANA time zone that the expression is read in."""
    tool: str | None = None
    """Canonical name."""
    args: Args | None = None
    document: str | None = None
    """Absolute path."""
    message: str = ""
    """What is said in the document before it is advanced, if it waits for nothing."""


class Schedule(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is scheduled, and with whose rights. It never changes; remove it and add another."""

    id: Identifier
    work: ScheduledWork
    caller: Caller
    """Who made it, with the interface `cron`. A document here is the one whose rules apply."""
    cwd: str
    by: str
    """Who made it: interface and account, such as `cli:ada`."""
    call: Identifier
    """The call that added it."""
    created: float


class ScheduleStatus(Struct, frozen=True, kw_only=True):
    """A schedule with its next and its last run. Times are Unix times."""

    schedule: Schedule
    next_at: float | None
    """None if the expression is never due again."""
    last_at: float | None = None
    last_call: str | None = None
    """The call of the last run; None if a document was advanced."""
    last_state: str = ""
    """The state of that call now, or how advancing the document ended; empty before the first run."""
    last_message: str = ""
    """Why the last run failed, if it did."""
    missed: int = 0
    """How many runs did not take place."""
    missed_note: str = ""
    """Which runs were missed last, and why."""
    running: bool = False


class SchedulePlan(Struct, frozen=True, kw_only=True):
    """Work that a caller may schedule, as it would be stored."""

    work: ScheduledWork
    rights: str
    """Whose rights it would have, in words."""


class Schedules(Protocol):
    """Lists, adds and removes schedules. The methods raise `ScheduleRefused`."""

    def list(self) -> Sequence[ScheduleStatus]:
        """Return all schedules of the project, oldest first."""
        ...

    def check(self, work: ScheduledWork, ctx: Context) -> SchedulePlan:
        """Return the work as it would be stored for this caller: canonical tool, valid arguments, absolute path."""
        ...

    def add(self, work: ScheduledWork, ctx: Context) -> ScheduleStatus:
        """Store the work with the rights of the caller."""
        ...

    def find(self, schedule: str, ctx: Context) -> ScheduleStatus:
        """Return a schedule that the call may remove, by its id."""
        ...

    def remove(self, schedule: str, ctx: Context) -> ScheduleStatus:
        """Remove a schedule. A run that has begun goes on."""
        ...

"""Processes that outlive the call that started them, as tools see them."""

from __future__ import annotations

from typing import Literal, Protocol

from msgspec import Struct

from holdfast.contract.command import Command
from holdfast.contract.context import Context

Signal = Literal["SIGTERM", "SIGKILL", "SIGINT", "SIGHUP"]
ProcessState = Literal["running", "exited", "lost"]


class ProcessInfo(Struct, frozen=True, kw_only=True):
    """A process in the background, now."""

    id: str
    pid: int
    state: ProcessState
    """`lost`: the runtime that started it ended, and it was killed."""
    command: str
    cwd: str
    label: str | None
    detached: bool
    contained: bool
    started: float
    """Seconds since 1970."""
    ended: float | None = None
    exit_code: int | None = None
    signal: str | None = None


class ProcessOutput(Struct, frozen=True, kw_only=True):
    """Lines a process has printed."""

    text: str
    first: int
    """The number of the first line, counted from 1."""
    total_lines: int
    dropped: int
    """Lines from the start that are not kept any more."""


class Processes(Protocol):
    """Starts processes, and knows those it started and those of other runtimes of the project.

    A process is named by its id or its pid; `CallError` for one that holdfast did not start.
    """

    @property
    def end_with_call(self) -> bool:
        """The runtime ends with the call, and what is not detached with it."""
        ...

    async def start(
        self, ctx: Context, command: Command, *, shown: str, label: str | None, detached: bool
    ) -> ProcessInfo:
        """Raises `SandboxRefused` if it cannot be started."""
        ...

    def find(self, name: str | int) -> ProcessInfo: ...
    def list(self) -> list[ProcessInfo]: ...
    def output(self, name: str | int, *, offset: int | None, limit: int) -> ProcessOutput:
        """Lines from number `offset`, or the last ones."""
        ...

    async def kill(self, name: str | int, signal: Signal, *, wait: float) -> ProcessInfo:
        """Send a signal to all of it, and look for at most `wait` seconds whether it ends."""
        ...

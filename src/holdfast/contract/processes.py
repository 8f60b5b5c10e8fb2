"""Background processes, which outlive the call that started them: the protocol for tools."""

from __future__ import annotations

from typing import Literal, Protocol

from msgspec import Struct

from holdfast.contract.command import Command
from holdfast.contract.context import Context

Signal = Literal["SIGTERM", "SIGKILL", "SIGINT", "SIGHUP"]
ProcessState = Literal["running", "exited", "lost"]


class ProcessInfo(Struct, frozen=True, kw_only=True):
    """The current state of a background process."""

    id: str
    pid: int
    state: ProcessState
    """`lost` means that it was killed because its runtime ended."""
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
    """Lines from the output of a process."""

    text: str
    first: int
    """The number of the first line, starting at 1."""
    total_lines: int
    dropped: int
    """The number of lines dropped from the start."""


class Processes(Protocol):
    """Starts background processes and manages all of the project's, including those of other runtimes.

    A process is named by its id or pid. Raises `CallError` for a process that holdfast did not start.
    """

    @property
    def end_with_call(self) -> bool:
        """Whether the runtime ends after this call, which ends all processes that are not detached."""
        ...

    async def start(
        self, ctx: Context, command: Command, *, shown: str, label: str | None, detached: bool
    ) -> ProcessInfo:
        """Start a process. Raises `SandboxRefused` if it cannot be started."""
        ...

    def find(self, name: str | int) -> ProcessInfo: ...
    def list(self) -> list[ProcessInfo]: ...
    def output(self, name: str | int, *, offset: int | None, limit: int) -> ProcessOutput:
        """Return lines starting at number `offset`, or the last lines if it is None."""
        ...

    async def kill(self, name: str | int, signal: Signal, *, wait: float) -> ProcessInfo:
        """Send a signal to the process tree and wait up to `wait` seconds for it to end."""
        ...

"""What a backend makes of a command: everything the process that starts it needs to know, as plain data."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol

from msgspec import Struct, field

from holdfast.contract.command import Change
from holdfast.sandbox.pinned import Opened

FIRST_FD: Final = 3
"""The number of the first open file a process finds beside its three streams."""


class Overlay(Struct, frozen=True, kw_only=True):
    """A folder whose changes go to `upper` instead of to itself."""

    lower: Path
    upper: Path
    work: Path


class Launch(Struct, frozen=True, kw_only=True):
    """One process to start."""

    argv: tuple[str, ...]
    """With the backend's own program first, if it has one. `argv[0]` is an absolute path."""
    cwd: str
    env: dict[str, str]
    rlimits: tuple[tuple[int, int], ...] = ()
    """(resource, limit) pairs, set in the child before it starts."""
    cgroups: tuple[str, ...] = ()
    """Folders of control groups that were made for this process: it is put into them, and they are removed after it."""
    landlock: tuple[tuple[str, int], ...] | None = None
    """(path, access rights) pairs under Landlock; None: not used. See `sandbox.landlock`."""
    landlock_net: bool = False
    """Landlock also refuses TCP, abstract sockets and signals to outsiders."""
    seccomp: bytes = b""
    """A filter the starting process installs itself (for bubblewrap it is in `files` instead)."""
    files: tuple[bytes, ...] = ()
    """Contents handed over as open files, from number 3 on; `{fd0}`, `{fd1}`, … in argv stand for their numbers."""
    opened: Opened = field(default_factory=Opened)
    """Files that are open already: the process finds them after `files`. Whoever starts it closes them here."""
    own_pids: bool = False
    """Killing the first process kills all of them: it is the parent of a process namespace of their own."""
    contained: bool = False
    cleanup: tuple[Callable[[], None], ...] = field(default_factory=tuple[Callable[[], None], ...])
    """To be called, in order, when every process is gone."""


class Changes(Struct, frozen=True, kw_only=True):
    """What a recorded command changed."""

    changes: tuple[Change, ...] = ()
    violations: tuple[str, ...] = ()
    """Protected paths it tried to change; none of them is changed any more."""
    notes: tuple[str, ...] = ()
    """What was done about protected paths, in sentences: what was taken away, and where it is kept."""
    lost: tuple[str, ...] = ()
    """What could not be taken over, and why."""
    kept: str | None = None
    """The folder where that is kept."""


class Recording(Protocol):
    """Watches one command's changes."""

    @property
    def overlays(self) -> tuple[Overlay, ...]: ...
    def finish(self) -> Changes:
        """Called once, in a thread, when every process is gone: keep what was before, take over what is now."""
        ...

    def discard(self) -> None:
        """The command never started."""
        ...

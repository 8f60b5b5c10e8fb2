"""Commands that tools run in the sandbox, and their results."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal

from msgspec import Struct, field


class Command(Struct, frozen=True, kw_only=True):
    """A program with its arguments, to run under the sandbox policy."""

    argv: tuple[str, ...]
    cwd: Path | None = None
    """None means the call's working directory."""
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    """Added to the variables that the policy's allow-list passes through."""
    stdin: bytes = b""
    read_only: bool = False
    """Only its private /tmp is writable and there is no network, regardless of the policy."""
    sees: Literal["system", "project"] = "system"
    """`project` limits the visible file system to system programs and libraries, the project root and `shows`."""
    shows: tuple[Path, ...] = ()
    """More readable paths outside the project."""
    helper: bool = False
    """A fixed program that holdfast runs for itself. It does not inherit the environment."""
    streams: bool = False
    """Publish the output as events while the command runs."""
    merged: bool = True
    """Write stderr to the same pipe as stdout, which preserves the order. Otherwise capture them separately."""
    keeps: Literal["head", "tail"] = "tail"
    max_bytes: int | None = None
    """Output limit of the result. None uses the configured limits and spills the rest to a file."""
    filtered: bool = False
    """The tool filters unreadable files out of the output, so the command may run without hiding them all."""
    undoable: bool = False
    """Record changes in the writable folders for `holdfast undo`."""


_BASH: Final = ("/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash")


def standard_shell() -> str:
    """Return the default shell for commands."""
    return next((path for path in _BASH if Path(path).exists()), "/bin/sh")


class CommandPreview(Struct, frozen=True, kw_only=True):
    """How a command would run, for previews."""

    contained_by: str | None
    """The sandbox backend; None means no sandbox."""
    network: str
    paths: tuple[str, ...] = ()
    """Paths widened for this call, as phrases such as `also reads /data`."""
    undo_note: str | None
    """Why its changes could not be undone; None if they could."""
    undo_only_in: tuple[str, ...] = ()
    """Folders in which changes can be undone, if the command can also write elsewhere."""


class ChangedPath(Struct, frozen=True, kw_only=True):
    """A path that a command changed."""

    path: str
    kind: Literal["created", "modified", "deleted", "mode", "replaced"]
    """`replaced` means that the file type changed, such as a symlink in place of a file."""


class CommandResult(Struct, frozen=True, kw_only=True):
    code: int | None
    """The exit code; None if a signal ended the command."""
    signal: str | None = None
    output: str = ""
    """The captured part of stdout (and stderr, if merged), decoded with replacement characters. Trailing white space is
    stripped if the tail is kept."""
    error_output: str = ""
    total_bytes: int = 0
    total_lines: int = 0
    output_lines: int = 0
    truncated: bool = False
    notice: str = ""
    """If the output was truncated: how much is hidden, and where the full output is."""
    spill: str | None = None
    """File with the full output, if the output was truncated."""
    spilled_bytes: int = 0
    contained: bool = False
    """Whether it ran in a sandbox."""
    network: str = "on"
    writable: tuple[str, ...] = ()
    """The folders a contained command could write to, besides its private ones."""
    changes: tuple[ChangedPath, ...] | None = None
    """Changes in the writable folders; None if they were not recorded."""
    hidden: tuple[str, ...] = ()
    """Existing paths that `sandbox.read_deny` hid from it; those in the project first."""
    together: tuple[str, ...] = ()
    """Calls whose commands ran concurrently. Their changes are recorded and undone together with these."""
    violations: tuple[str, ...] = ()
    """Protected paths it tried to change. None of them changed."""
    notes: tuple[str, ...] = ()
    """Sentences about protected paths: which files were moved away, and where to."""
    stopped: Literal["timeout", "cancelled"] | None = None
    """Why the whole process tree was killed: by the timeout or by the user."""

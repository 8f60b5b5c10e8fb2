"""A command a tool wants run, and what came of it. Who contains it, and how, is the sandbox's business."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal

from msgspec import Struct, field


class Command(Struct, frozen=True, kw_only=True):
    """A program and its arguments, run as the sandbox policy says."""

    argv: tuple[str, ...]
    cwd: Path | None = None
    """None: where the call was made."""
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    """Beside what the policy's allow-list lets through."""
    stdin: bytes = b""
    read_only: bool = False
    """Nothing but its private /tmp is writable, and there is no network, whatever the policy allows."""
    sees: Literal["system", "project"] = "system"
    """`project`: of the file system only what programs need to start, the project root and `shows`."""
    shows: tuple[Path, ...] = ()
    """Paths outside the project that can be read as well."""
    helper: bool = False
    """A fixed program that holdfast itself chose: it gets no variables of the surroundings."""
    streams: bool = False
    """Tell subscribers what it prints while it prints it."""
    merged: bool = True
    """stderr goes where stdout goes, in the order it was printed; otherwise the two are kept apart."""
    keeps: Literal["head", "tail"] = "tail"
    max_bytes: int | None = None
    """How much output is kept in the result; None: the configured limits, and the rest is spilled."""
    filtered: bool = False
    """The tool takes out of what it prints whatever may not be read: it may run where not all of that can be hidden."""
    undoable: bool = False
    """Record what it changes in the writable folders, so that `holdfast undo` can put it back."""


_BASH: Final = ("/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash")


def standard_shell() -> str:
    """The shell that runs commands unless the configuration names another one."""
    return next((path for path in _BASH if Path(path).exists()), "/bin/sh")


class CommandPreview(Struct, frozen=True, kw_only=True):
    """What a person should know before a command runs."""

    contained_by: str | None
    """The sandbox backend; None: it runs bare."""
    network: str
    paths: tuple[str, ...] = ()
    """What else was widened for this call, in words: paths it may read or change."""
    undo_note: str | None
    """Why what it changes could not be undone; None if it could."""
    undo_only_in: tuple[str, ...] = ()
    """It could change more than these folders, and only what it changes in them could be undone."""


class ChangedPath(Struct, frozen=True, kw_only=True):
    """One path a call changed."""

    path: str
    kind: Literal["created", "modified", "deleted", "mode", "replaced"]
    """`replaced`: it is another kind of thing now, such as a symlink where a file was."""


class CommandResult(Struct, frozen=True, kw_only=True):
    """What came of a command."""

    code: int | None
    """The exit code; None if a signal ended it."""
    signal: str | None = None
    output: str = ""
    """The kept part of stdout (and stderr, if merged), decoded with replacement characters. Space at the end is left
    out where the tail is kept."""
    error_output: str = ""
    total_bytes: int = 0
    total_lines: int = 0
    output_lines: int = 0
    truncated: bool = False
    notice: str = ""
    """If it was cut: what is hidden, and where the rest is."""
    spill: str | None = None
    """Where the whole output is kept, if it was cut."""
    spilled_bytes: int = 0
    contained: bool = False
    """It ran in a sandbox."""
    network: str = "on"
    writable: tuple[str, ...] = ()
    """Contained: the folders it could change beside its private ones."""
    changes: tuple[ChangedPath, ...] | None = None
    """What it changed in the writable folders; None if that was not recorded."""
    hidden: tuple[str, ...] = ()
    """What is there and it could not read, by `sandbox.read_deny`; those in the project first."""
    together: tuple[str, ...] = ()
    """Other calls whose commands ran at the same time: their changes are recorded, and undone, with these."""
    violations: tuple[str, ...] = ()
    """Protected paths it tried to change; none of them is changed."""
    notes: tuple[str, ...] = ()
    """What was done about protected paths, in sentences: what was taken away, and where it is kept."""
    stopped: Literal["timeout", "cancelled"] | None = None
    """It was killed, with everything it started, because its time was up or a person said so."""

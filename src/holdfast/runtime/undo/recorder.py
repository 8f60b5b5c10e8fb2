"""The recorder: stores what commands change in their writable folders, so that it can be undone."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from holdfast.contract.command import ChangedPath
from holdfast.contract.errors import HoldfastError
from holdfast.fs.beneath import remove_tree
from holdfast.fs.replace import make_private_folder
from holdfast.fs.temporary import is_orphaned, new_temporary_name
from holdfast.runtime.undo.copy_recorder import CopyLimits, CopyRecording, PackStore, TooLarge, check_size
from holdfast.runtime.undo.overlay_recorder import OverlayRecording
from holdfast.runtime.undo.protected_changes import check_changes, without_documents
from holdfast.sandbox.launch import Changes, Overlay
from holdfast.store.changes import (
    PathChange,
    PathState,
    exclude_other_calls,
    last_entry,
    rebase_on_other_calls,
    record_changes,
    record_concurrent,
    states_from_other_calls,
    to_contract_change,
)

if TYPE_CHECKING:
    from holdfast.config.config import SandboxConfig
    from holdfast.runtime.undo.copy_recorder import CopyLimits
    from holdfast.sandbox.policy import SandboxPolicy
    from holdfast.store.ledger import Ledger


def new_run_folder(state: Path) -> Path:
    """Create a private folder whose name identifies this process."""
    runs = state / "runs"
    make_private_folder(runs)
    run = runs / new_temporary_name()
    run.mkdir(mode=0o700)
    return run


def keep_run_folder(run: Path, call_id: str) -> Path:
    """Move changes that could not be applied to a folder where a person can look at them."""
    kept = run.parent.parent / "kept" / call_id
    make_private_folder(kept.parent)
    run.rename(kept)
    return kept


def remove_stale_runs(state: Path) -> None:
    """Remove the folders of killed processes. Their changes were not applied, or are in the ledger."""
    try:
        runs = list((state / "runs").iterdir())
    except FileNotFoundError:
        return
    for run in runs:
        with suppress(OSError):
            if is_orphaned(run.name, run.stat().st_mtime):
                remove_tree(run)


_finish_lock = threading.Lock()
"""Held while changes are compared, recorded and applied, so that no comparison sees half-applied changes."""


class RecorderSandbox(Protocol):
    """The part of the sandbox that the recorder uses."""

    @property
    def mode(self) -> str: ...
    @property
    def policy(self) -> SandboxPolicy: ...
    def backend(self) -> object | None: ...
    def overlay_works(self, folder: Path, /) -> bool: ...
    def is_protected(self, path: Path, /) -> str | None: ...


class RootRecording(Protocol):
    """The recording of one writable root while a command runs."""

    @property
    def root(self) -> str: ...
    @property
    def content_root(self) -> str:
        """The folder that holds the files as the command changed them."""
        ...

    @property
    def overlay(self) -> Overlay | None: ...
    def changes(self) -> list[PathChange]:
        """The command's changes. The previous content is stored."""
        ...

    def revert(self, refused: list[PathChange]) -> None: ...
    def apply(self, changes: list[PathChange]) -> list[str]:
        """Apply changes to the root; returns a message for each that failed."""
        ...

    def close(self) -> None: ...


class Recorder:
    """Records commands. A runtime has one for each sandbox it uses."""

    def __init__(
        self, ledger: Ledger | None, sandbox: RecorderSandbox, config: SandboxConfig, state: Path | None
    ) -> None:
        self._ledger = ledger
        self._sandbox = sandbox
        self._config = config
        self._state = None if state is None else state / "undo"

    def begin(self, call_id: str, *, overlays: bool = True) -> CommandRecording | None:
        """Start to record a call's command; None if that is not possible. Without `overlays`, other commands can share
        the recording."""
        if self._ledger is None or self._state is None or self._why_never() is not None:
            return None
        remove_stale_runs(self._state)
        run, since = new_run_folder(self._state), last_entry(self._ledger)
        try:
            parts = self._root_recordings(run, self._ledger, overlays=overlays)
        except BaseException:
            remove_tree(run)
            raise
        if parts is None:
            remove_tree(run)
            return None
        return CommandRecording(self._ledger, call_id, self._sandbox, parts, run, since)

    def note(self) -> str | None:
        """Why the changes of a command could not be undone; None if they could."""
        why = self._why_never()
        if why is not None:
            return why
        for root in self._roots():
            if not self._uses_overlay(root) and (why := self._why_not_copied(root)) is not None:
                return why
        if not _is_sandboxed(self._sandbox) and not self._roots():
            return "it runs without a sandbox, and there is no folder in which its changes are recorded"
        return None

    def only_in(self) -> tuple[str, ...]:
        """For a command without a sandbox, the only folders in which its changes can be undone; else empty."""
        return () if _is_sandboxed(self._sandbox) else tuple(map(str, self._roots()))

    def _why_never(self) -> str | None:
        if self._config.undo == "off":
            return 'undo is switched off (sandbox.undo = "off")'
        if self._ledger is None or self._state is None:
            return "there is no ledger to store the previous content"
        for root in self._sandbox.policy.writable:
            if _contains_path(root, self._state):
                return f"{root} contains the folder in which the previous content would be stored"
            if root.exists() and not root.is_dir():
                return f"{root} is a single file, and only folders are recorded"
        return None

    def _why_not_copied(self, root: Path) -> str | None:
        if self._config.undo == "overlay":
            return f"no overlay can be mounted over {root}"
        try:
            check_size(root, self._copy_limits())
        except TooLarge as error:
            return str(error)
        except OSError as error:
            return f"{root} cannot be read ({error.strerror})"
        return None

    def _root_recordings(self, run: Path, ledger: Ledger, *, overlays: bool) -> list[RootRecording] | None:
        parts: list[RootRecording] = []
        copied: list[Path] = []
        for number, root in enumerate(self._roots()):
            if overlays and self._uses_overlay(root):
                parts.append(OverlayRecording(root, run / str(number), ledger.blobs))
            else:
                copied.append(root)
        if copied:
            if self._config.undo == "overlay":
                return None
            found = self._copy_recordings(run, copied, ledger)
            if found is None:
                return None
            parts.extend(found)
        return parts

    def _copy_recordings(self, run: Path, roots: Sequence[Path], ledger: Ledger) -> Sequence[RootRecording] | None:
        assert self._state is not None
        contents = PackStore(self._state / "contents")
        try:
            parts = [CopyRecording(root, ledger.blobs, contents, self._copy_limits()) for root in roots]
        except (TooLarge, OSError):
            return None
        contents.save(key for part in parts for key in part.keys)
        return parts

    def _copy_limits(self) -> CopyLimits:
        return CopyLimits(self._config.undo_max_files, self._config.undo_max_bytes)

    def _uses_overlay(self, root: Path) -> bool:
        return self._config.undo != "copy" and _is_sandboxed(self._sandbox) and self._sandbox.overlay_works(root)

    def _roots(self) -> list[Path]:
        """The existing writable folders, without those inside others."""
        real = {Path(os.path.realpath(root)) for root in self._sandbox.policy.writable}
        there = sorted(root for root in real if root.is_dir())
        return [root for root in there if not any(_contains_path(other, root) for other in there if other != root)]


class CommandRecording:
    """The recording of one command, or of several that run at the same time."""

    def __init__(
        self,
        ledger: Ledger,
        call_id: str,
        sandbox: RecorderSandbox,
        parts: Sequence[RootRecording],
        run: Path,
        since: int,
    ) -> None:
        """`since`: the last ledger entry before the recording began."""
        self._since = since
        self._ledger = ledger
        self._call_id = call_id
        self._sandbox = sandbox
        self._contained = _is_sandboxed(sandbox)
        self._root_recordings = parts
        self._run = run

    @property
    def overlays(self) -> tuple[Overlay, ...]:
        return tuple(part.overlay for part in self._root_recordings if part.overlay is not None)

    def finish(self, calls: Sequence[str] = ()) -> Changes:
        """Store the previous content, refuse protected changes, write the rest to the ledger, and only then apply it.

        The order is write-ahead: a crash after the ledger entry can be undone. `calls`: all calls of the recording,
        the one it was begun for first.
        """
        changes: list[ChangedPath] = []
        violations: list[str] = []
        lost: list[str] = []
        try:
            if len(calls) > 1:
                record_concurrent(self._ledger, calls)
            for part in self._root_recordings:
                with _finish_lock:
                    found = part.changes()
                    others = self._changes_by_others(part, calls)
                    found = exclude_other_calls(part.root, found, others)
                    if part.overlay is None and self._contained:
                        found = without_documents(part.root, found, self._sandbox)
                    judged = check_changes(
                        part.root, found, self._sandbox if self._contained else None, part.content_root
                    )
                    part.revert(judged.refused)
                    allowed = rebase_on_other_calls(part.root, judged.allowed, others)
                    record_changes(self._ledger, self._call_id, part.root, allowed)
                    lost += part.apply(judged.allowed)
                changes += (to_contract_change(part.root, change) for change in judged.allowed)
                violations += judged.violations
        except (OSError, RecursionError, HoldfastError) as error:
            lost.append(str(error) or type(error).__name__)
        kept = str(keep_run_folder(self._run, self._call_id)) if lost else None
        self.discard()
        return Changes(
            changes=tuple(changes),
            violations=tuple(violations),
            lost=tuple(lost),
            kept=kept,
            together=tuple(calls) if len(calls) > 1 else (),
        )

    def _changes_by_others(self, part: RootRecording, calls: Sequence[str]) -> dict[str, PathState]:
        """What other calls, such as file tools, wrote meanwhile in a root that was recorded by copying."""
        if part.overlay is not None:
            return {}
        return states_from_other_calls(self._ledger, self._since, (self._call_id, *calls))

    def discard(self) -> None:
        for part in self._root_recordings:
            part.close()
        remove_tree(self._run)


def _is_sandboxed(sandbox: RecorderSandbox) -> bool:
    return sandbox.mode != "off" and sandbox.backend() is not None


def _contains_path(folder: Path, path: Path) -> bool:
    return Path(os.path.realpath(path)).is_relative_to(folder)

"""Which of a command's changes may be taken over: nothing that something obeys or runs later."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct
from msgspec.structs import replace

from holdfast.fs import git_folder
from holdfast.fs.git_folder import GIT_FOLDER, GIT_NAMES, REPOSITORY_NAMES, RERERE_CACHE, is_git_folder, is_repository
from holdfast.fs.protected_paths import command_symlink_reason, is_conversation_path, is_inert_document
from holdfast.store.changes import PathChange, absolute

if TYPE_CHECKING:
    from holdfast.sandbox.policy import SandboxPolicy


class SandboxRules(Protocol):
    """What must be known of the sandbox."""

    @property
    def policy(self) -> SandboxPolicy: ...
    def is_protected(self, path: Path, /) -> str | None: ...


class CheckedChanges(Struct):
    allowed: list[PathChange]
    refused: list[PathChange]
    violations: list[str]
    """What was refused because something would obey it."""


def check_changes(
    root: str, found: list[PathChange], sandbox: SandboxRules | None, left: str | None = None
) -> CheckedChanges:
    """Which changes may be taken over. A folder is not removed while something protected stays in it.

    `left`: the folder in which the changed files lie, where that is not the root.

    A protected folder that only comes or goes is neither: nothing obeys an empty one, and some are put there, and
    taken away again, to keep a place occupied while a command runs. One for objects is: it completes a repository.
    So is one for recorded resolutions: git applies them once it is there.
    """
    if sandbox is None:
        return CheckedChanges(found, [], [])
    folders = _GitFolders(root, found, sandbox)
    locked: dict[str, str] = {}
    """What is refused, and as what it is reported."""
    kept: list[PathChange] = []
    for change in found:
        reported = folders.locks(change)
        if reported is not None or _is_refused(root, change, sandbox, left or root):
            locked[change.path] = reported or change.path
            kept.append(change)
    stays = {folder for change in kept if change.before.kind != "absent" for folder in _folders_above(change.path)}
    empty = (change.path for change in kept if _is_folder_or_nothing(change) and change.path not in stays)
    nothing = {path for path in empty if path.rpartition("/")[2] not in ("objects", RERERE_CACHE)}
    violations = [change.path for change in kept if change.path not in nothing]
    lost = {
        change.path
        for change in found
        if change.path in stays and change.before.kind == "directory" and change.after.kind != "directory"
    }
    lost.update(violations)
    homeless = {path for path in (*lost, *nothing) if _becomes_folder(path, found)}
    for change in found:
        above = set(_folders_above(change.path))
        if change.path not in lost and not homeless.isdisjoint(above):
            lost.add(change.path)
            locked[change.path] = change.path
            if above.isdisjoint(locked[path] for path in violations):
                violations.append(change.path)
    return CheckedChanges(
        [change for change in found if change.path not in lost and change.path not in nothing],
        [change for change in found if change.path in lost],
        list(dict.fromkeys(absolute(root, locked[path]) for path in violations)),
    )


def without_documents(root: str, found: list[PathChange], sandbox: SandboxRules) -> list[PathChange]:
    """Without documents that were there before: a command in the root itself sees them read-only, and what holdfast or
    a person wrote into them meanwhile is neither taken back nor counted as the command's."""
    extra = sandbox.policy.protected
    return [
        change
        for change in found
        if {change.before.kind, change.after.kind} != {"file"}
        or not is_conversation_path(absolute(root, change.path), extra)
    ]


def _becomes_folder(path: str, found: list[PathChange]) -> bool:
    """Whether what is inside can only be there if the refused folder is."""
    return any(
        change.path == path and change.before.kind != "directory" and change.after.kind == "directory"
        for change in found
    )


def _is_refused(root: str, change: PathChange, sandbox: SandboxRules, left: str) -> bool:
    path = Path(absolute(root, change.path))
    inside = git_folder.path_names_inside_git(path, sandbox.policy.root)
    state = git_folder.sequencer_file(inside)
    if state is not None and change.after.kind in ("absent", "file", "directory"):
        return change.after.kind != "absent" and not git_folder.file_matches_git_format(
            state, absolute(left, change.path)
        )
    if change.before.kind != "directory" and git_folder.is_rerere_cache(inside):
        return True
    if change.before.kind == "absent" and change.after.kind == "file":
        policy = sandbox.policy
        if is_inert_document(path, (policy.root, *policy.writable), policy.protected):
            return False
    if git_folder.is_pointer_name(path) and change.after.kind not in ("directory", "absent"):
        return True
    if "symlink" in (change.before.kind, change.after.kind):
        policy = sandbox.policy
        if command_symlink_reason(path, root=policy.root, extra=policy.protected, writable=policy.writable) is not None:
            return True
    return sandbox.is_protected(path) is not None


class _GitFolders:
    """Folders git takes for repositories whatever their names are: what it obeys in them is locked, and a command
    cannot make one of what was none."""

    def __init__(self, root: str, found: list[PathChange], sandbox: SandboxRules) -> None:
        self._root = root
        self._sandbox = sandbox
        self._changes = {change.path: change for change in found}
        self._known: dict[str, tuple[bool, bool]] = {}

    def locks(self, change: PathChange) -> str | None:
        """The path to report if the change is refused."""
        if GIT_NAMES.isdisjoint(names := change.path.split("/")):
            return None
        for place, name in enumerate(names):
            if is_git_folder(name):
                return None  # the rules for paths know it
            folder = "/".join(names[:place])
            if name not in GIT_NAMES or True not in (known := self._is_git(folder)):
                continue
            if known == (False, True):
                return "/".join(names[: place + 1])
            inside = "/".join((*names[:place], GIT_FOLDER, *names[place:]))
            if _is_refused(self._root, replace(change, path=inside), self._sandbox, self._root):
                return change.path
        return None

    def _is_git(self, folder: str) -> tuple[bool, bool]:
        """Whether it is one before the command, and after it."""
        if folder not in self._known:
            states = [self._is_there(f"{folder}/{name}" if folder else name) for name in REPOSITORY_NAMES]
            before, after = (
                {name for name, state in zip(REPOSITORY_NAMES, states, strict=True) if state[when]} for when in (0, 1)
            )
            self._known[folder] = (is_repository(before), is_repository(after))
        return self._known[folder]

    def _is_there(self, path: str) -> tuple[bool, bool]:
        change = self._changes.get(path)
        if change is None:
            there = os.path.lexists(absolute(self._root, path))
            return there, there
        return change.before.kind != "absent", change.after.kind != "absent"


def _is_folder_or_nothing(change: PathChange) -> bool:
    return {change.before.kind, change.after.kind} == {"absent", "directory"}


def _folders_above(path: str) -> Iterator[str]:
    while path:
        path = path.rpartition("/")[0]
        yield path

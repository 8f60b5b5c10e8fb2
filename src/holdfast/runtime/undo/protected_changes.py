"""Protection of paths against recorded commands: refuses changes to files that other programs execute or obey later."""

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
    """The part of the sandbox that the check uses."""

    @property
    def policy(self) -> SandboxPolicy: ...
    def is_protected(self, path: Path, /) -> str | None: ...


class CheckedChanges(Struct):
    allowed: list[PathChange]
    refused: list[PathChange]
    violations: list[str]
    """The protected paths that the command tried to change."""


def check_changes(
    root: str, found: list[PathChange], sandbox: SandboxRules | None, content_root: str | None = None
) -> CheckedChanges:
    """Divide a command's changes into those that may be applied and those that are refused.

    `content_root` is the folder that holds the changed files, if it is not the root. A folder is not removed while
    something protected stays in it.

    A protected folder that is only created or removed is dropped without a violation: an empty one has no effect, and
    the sandbox creates and removes some as mount points. Exceptions are `objects`, which completes a repository, and
    git's rerere cache, which git uses once it exists.
    """
    if sandbox is None:
        return CheckedChanges(found, [], [])
    folders = _GitFolders(root, found, sandbox)
    reported_as: dict[str, str] = {}
    """The refused paths, and the paths to report for them."""
    protected: list[PathChange] = []
    for change in found:
        reported = folders.refuses(change)
        if reported is not None or _is_refused(root, change, sandbox, content_root or root):
            reported_as[change.path] = reported or change.path
            protected.append(change)
    occupied = {
        folder for change in protected if change.before.kind != "absent" for folder in _folders_above(change.path)
    }
    empty = (change.path for change in protected if _is_folder_or_nothing(change) and change.path not in occupied)
    dropped = {path for path in empty if path.rpartition("/")[2] not in ("objects", RERERE_CACHE)}
    violations = [change.path for change in protected if change.path not in dropped]
    refused = {
        change.path
        for change in found
        if change.path in occupied and change.before.kind == "directory" and change.after.kind != "directory"
    }
    refused.update(violations)
    # The content of a folder that is not created cannot be created either.
    not_created = {path for path in (*refused, *dropped) if _becomes_folder(path, found)}
    for change in found:
        above = set(_folders_above(change.path))
        if change.path not in refused and not not_created.isdisjoint(above):
            refused.add(change.path)
            reported_as[change.path] = change.path
            if above.isdisjoint(reported_as[path] for path in violations):
                violations.append(change.path)
    return CheckedChanges(
        [change for change in found if change.path not in refused and change.path not in dropped],
        [change for change in found if change.path in refused],
        list(dict.fromkeys(absolute(root, reported_as[path]) for path in violations)),
    )


def without_documents(root: str, found: list[PathChange], sandbox: SandboxRules) -> list[PathChange]:
    """The changes without existing conversation documents.

    A command that runs in the root itself sees documents read-only, so holdfast or a person has changed them meanwhile.
    Such a change is neither reverted nor recorded as the command's.
    """
    extra = sandbox.policy.protected
    return [
        change
        for change in found
        if {change.before.kind, change.after.kind} != {"file"}
        or not is_conversation_path(absolute(root, change.path), extra)
    ]


def _becomes_folder(path: str, found: list[PathChange]) -> bool:
    """Whether a command turned the path into a folder."""
    return any(
        change.path == path and change.before.kind != "directory" and change.after.kind == "directory"
        for change in found
    )


def _is_refused(root: str, change: PathChange, sandbox: SandboxRules, content_root: str) -> bool:
    path = Path(absolute(root, change.path))
    inside = git_folder.path_names_inside_git(path, sandbox.policy.root)
    state = git_folder.sequencer_file(inside)
    if state is not None and change.after.kind in ("absent", "file", "directory"):
        return change.after.kind != "absent" and not git_folder.file_matches_git_format(
            state, absolute(content_root, change.path)
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
    """Folders that git recognises as repositories by their content, whatever their names are (bare repositories).

    Protected files in them are refused, and so is turning another folder into a repository.
    """

    def __init__(self, root: str, found: list[PathChange], sandbox: SandboxRules) -> None:
        self._root = root
        self._sandbox = sandbox
        self._changes = {change.path: change for change in found}
        self._known: dict[str, tuple[bool, bool]] = {}

    def refuses(self, change: PathChange) -> str | None:
        """The path to report if the change is refused, else None."""
        if GIT_NAMES.isdisjoint(names := change.path.split("/")):
            return None
        for place, name in enumerate(names):
            if is_git_folder(name):
                return None  # covered by the rules for `.git`
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
        """Whether the folder is a repository before and after the command."""
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

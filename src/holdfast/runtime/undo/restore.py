"""Undo of a call: plans what to restore, refuses paths that changed since, and restores the rest atomically by path."""

from __future__ import annotations

import os
from base64 import b32encode
from collections.abc import Iterable, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from holdfast.contract.call import Call, Caller, Decision
from holdfast.contract.enums import Verdict
from holdfast.contract.errors import HoldfastError, LedgerCorrupt, UndoRefused
from holdfast.contract.result import Result, fail, ok
from holdfast.runtime.undo.tree import BlobSource, PathEdit, Tree, apply_edits, open_file
from holdfast.store.changes import (
    ABSENT,
    NetChange,
    PathChange,
    PathState,
    changing_calls,
    concurrent_with,
    mark_undone,
    net_changes,
    record_changes,
    undone_by,
)
from holdfast.text.diff import unified_diff

if TYPE_CHECKING:
    from holdfast.store.blobs import Blobs
    from holdfast.store.ledger import Ledger

TOOL: Final = "holdfast.undo"
UndoAction = Literal["put_back", "already", "refused"]
_CHANGED: Final = "it has changed since"
_MAX_CANDIDATES: Final = 1000
"""Calls that changed files among which the last one to undo is looked for."""


class PathUndo(Struct, frozen=True, kw_only=True):
    """What undo does to one path."""

    path: str
    root: str
    inside: str
    """The path relative to the root."""
    change: NetChange
    now: PathState
    action: UndoAction
    why: str = ""
    """Why the path is refused."""


class UndoPlan(Struct, frozen=True, kw_only=True):
    call_id: str
    items: tuple[PathUndo, ...]
    undone_by: str | None = None
    """The call that has already undone it."""
    together: tuple[str, ...] = ()
    """Other calls that are undone with it, because their commands shared its recording."""

    @property
    def refused(self) -> list[PathUndo]:
        return [item for item in self.items if item.action == "refused"]

    @property
    def to_put_back(self) -> list[PathUndo]:
        return [item for item in self.items if item.action == "put_back"]


class Undo:
    """Plans and runs the undo of a call. `roots` are the folders in which tools may have changed files."""

    def __init__(self, ledger: Ledger, roots: Iterable[Path], state: Path) -> None:
        self._ledger = ledger
        self._roots = [os.path.realpath(root) for root in roots]
        self._state = state / "undo"

    def plan(self, call_id: str) -> UndoPlan:
        """What would be restored, what would be refused, and why. Changes nothing."""
        if self._ledger.rows("SELECT 1 FROM open_calls WHERE call = ? AND state = 'running'", (call_id,)):
            raise UndoRefused(f"Call {call_id} is still running. Wait for its end or stop it, then undo it.")
        changes = net_changes(self._ledger, call_id)
        items: list[PathUndo] = []
        by_root: dict[str | None, list[NetChange]] = {}
        for change in changes:
            by_root.setdefault(self._root_of(change), []).append(change)
        for root, inside in by_root.items():
            items += _refuse_outside(inside) if root is None else self._plan_in(root, inside)
        items.sort(key=lambda item: item.path.split("/"))
        others = tuple(other for other in concurrent_with(self._ledger, call_id) if other != call_id)
        return UndoPlan(
            call_id=call_id, items=tuple(items), undone_by=undone_by(self._ledger, call_id), together=others
        )

    def run(
        self, plan: UndoPlan, *, by: str, partial: bool = False, interface: str = "cli", cwd: Path | None = None
    ) -> Result:
        """Restore what is planned; without `partial`, everything or nothing. An undo is a call in the ledger, too."""
        check_plan(plan, partial=partial)
        undo_id = f"{b32encode(os.urandom(5)).decode().lower()}-undo"
        call = Call(
            id=undo_id,
            tool=TOOL,
            name_used=TOOL,
            args={"call": plan.call_id},
            caller=Caller(interface=interface),
            cwd=str(cwd or Path.cwd()),
            group=undo_id,
        )
        decision = Decision(Verdict.APPROVE, "urn:holdfast:undo", f"{by} asked for it.")
        self._ledger.begin_now(call, definition_digest="", mutates=True, decision=decision)
        try:
            result = self._put_back(plan, undo_id)
            if result.success:
                mark_undone(self._ledger, plan.call_id, undo_id, by)
        except (OSError, HoldfastError) as error:
            result = fail(f"Nothing was put back: {_reason(error)}")
        result = replace(result, call_id=undo_id)
        self._ledger.end_now(undo_id, result)
        return result

    def _put_back(self, plan: UndoPlan, undo_id: str) -> Result:
        ready = self._prepare(plan, undo_id)
        try:
            for root, steps in ready:
                with Tree(root) as tree:
                    apply_edits(tree, steps, BlobSource(self._ledger.blobs))
        except (OSError, HoldfastError) as error:
            return fail(f"Undo of {plan.call_id} stopped half-way: {_reason(error)} Fix that and run it again.")
        return ok(_summary(plan), structured={"call": plan.call_id, "paths": len(plan.to_put_back)})

    def _prepare(self, plan: UndoPlan, undo_id: str) -> list[tuple[str, list[PathEdit]]]:
        """Store what undo will replace, and record the changes, before anything is changed (write-ahead)."""
        by_root: dict[str, list[PathUndo]] = {}
        for item in plan.to_put_back:
            by_root.setdefault(item.root, []).append(item)
        ready: list[tuple[str, list[PathEdit]]] = []
        for root, items in by_root.items():
            with Tree(root) as tree:
                steps = [self._step(tree, item) for item in items]
            record_changes(
                self._ledger, undo_id, root, [PathChange(step.path, step.now, step.wanted) for step in steps]
            )
            ready.append((root, steps))
        return ready

    def _step(self, tree: Tree, item: PathUndo) -> PathEdit:
        now = tree.state(item.inside, self._ledger.blobs.put_open)
        if not now.same_as(item.now):
            raise UndoRefused(f"{item.path} has changed since the plan was made. Run undo again.")
        return PathEdit(item.inside, now, item.change.before)

    def _root_of(self, change: NetChange) -> str | None:
        if change.root is not None:
            return change.root
        return next((root for root in self._roots if _relative_to(change.path, root) is not None), None)

    def _plan_in(self, root: str, changes: Sequence[NetChange]) -> list[PathUndo]:
        try:
            tree = Tree(root)
        except OSError as error:
            why = f"{root} cannot be opened ({error.strerror})"
            return [_path_undo(change, root, ABSENT, "refused", why) for change in changes]
        with tree:
            items = [self._judge(tree, root, change) for change in changes]
            return _refuse_non_empty(tree, _refuse_without_parent(tree, items))

    def _judge(self, tree: Tree, root: str, change: NetChange) -> PathUndo:
        inside = _relative_to(change.path, root) or ""
        try:
            now = tree.state(inside)
        except OSError as error:
            return _path_undo(change, root, ABSENT, "refused", f"it cannot be read ({error.strerror})")
        if now.same_as(change.before):
            return _path_undo(change, root, now, "already")
        why = self._why_not(change, now)
        return _path_undo(change, root, now, "refused" if why else "put_back", why)

    def _why_not(self, change: NetChange, now: PathState) -> str:
        before, after = change.before, change.after
        if after is None:
            return "the call was interrupted, so the state it left is not known"
        if not (now.same_as(after) or _is_interrupted_state(before, after, now)):
            return _CHANGED
        if before.kind == "other":
            return "it was a socket or a device, which cannot be created again"
        if before.kind == "file" and before.content != now.content:
            if before.blob is None:
                return "its previous content could not be read"
            if not self._ledger.blobs.has(before.blob):
                return "its previous content has been pruned"
        return ""


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        name = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, str | bytes) else ""
        return f"{name}{error.strerror}."
    return str(error)


def _is_interrupted_state(before: PathState, after: PathState, now: PathState) -> bool:
    """Whether this is a state that a killed process leaves.

    Between a folder and a file, nothing is at the path; and a folder has the owner's rights until its content is in
    place.
    """
    if now.kind == "absent":
        swapped = (before.kind == "directory") != (after.kind == "directory")
        return swapped and "absent" not in (before.kind, after.kind)
    return now.kind == "directory" and any(
        state.kind == "directory" and state.mode is not None and state.mode | 0o700 == now.mode
        for state in (before, after)
    )


def _refuse_without_parent(tree: Tree, items: Sequence[PathUndo]) -> list[PathUndo]:
    """Refuse paths whose folder does not exist and is not restored."""
    coming = {item.inside for item in items if item.action == "put_back" and item.change.before.kind == "directory"}
    found: list[PathUndo] = []
    for item in sorted(items, key=lambda item: item.inside.split("/")):
        home = item.inside.rpartition("/")[0]
        has_home = not home or home in coming or tree.state(home).kind == "directory"
        if has_home or item.action != "put_back" or item.change.before.kind == "absent":
            found.append(item)
        else:
            coming.discard(item.inside)
            found.append(replace(item, action="refused", why="its folder is not there any more"))
    return found


def _refuse_non_empty(tree: Tree, items: Sequence[PathUndo]) -> list[PathUndo]:
    """Refuse to remove a folder that holds something which is not removed."""
    by_path = {item.inside: item for item in items}
    for item in sorted(items, key=lambda item: item.inside.split("/"), reverse=True):
        if item.action != "put_back" or item.now.kind != "directory" or item.change.before.kind == "directory":
            continue
        for name in tree.names(item.inside):
            below = by_path.get(f"{item.inside}/{name}")
            if below is None or below.action != "put_back" or below.change.before.kind != "absent":
                why = f"it holds {name}, which stays"
                by_path[item.inside] = replace(item, action="refused", why=why)
                break
    return list(by_path.values())


def _path_undo(change: NetChange, root: str, now: PathState, action: UndoAction, why: str = "") -> PathUndo:
    inside = _relative_to(change.path, root) or ""
    return PathUndo(path=change.path, root=root, inside=inside, change=change, now=now, action=action, why=why)


def _refuse_outside(changes: Iterable[NetChange]) -> list[PathUndo]:
    why = "it lies outside the project and the writable folders"
    return [_path_undo(change, "", ABSENT, "refused", why) for change in changes]


def _relative_to(path: str, root: str) -> str | None:
    if path == root:
        return ""
    folder = root.rstrip("/") + "/"
    return path[len(folder) :] if path.startswith(folder) else None


def check_plan(plan: UndoPlan, *, partial: bool) -> None:
    """Raise `UndoRefused` if the plan cannot be run."""
    if not plan.items:
        raise UndoRefused(f"Call {plan.call_id} changed no files that were recorded; there is nothing to undo.")
    if plan.undone_by is not None and not plan.to_put_back:
        raise UndoRefused(
            f"Call {plan.call_id} was undone already; `holdfast undo {plan.undone_by}` brings its changes back."
        )
    if plan.refused and not (partial and plan.to_put_back):
        raise UndoRefused(_refusal(plan))
    if not plan.to_put_back:
        raise UndoRefused(f"Everything call {plan.call_id} changed is as it was before; there is nothing to undo.")


def _refusal(plan: UndoPlan) -> str:
    if all(item.why == _CHANGED for item in plan.items):
        return f"Every path call {plan.call_id} changed has been changed since, so nothing was put back."
    first = plan.refused[0]
    more = f", and {len(plan.refused) - 1} more" if len(plan.refused) > 1 else ""
    rest = f"`holdfast undo --partial {plan.call_id}` puts back the rest" if plan.to_put_back else "no others are left"
    return f"Nothing was put back: {first.path} cannot be, because {first.why}{more}; {rest}."


def _summary(plan: UndoPlan) -> str:
    count = len(plan.to_put_back)
    left = f"; {len(plan.refused)} left as they are" if plan.refused else ""
    paths = "path" if count == 1 else "paths"
    return f"Put back {count} {paths} that {describe_calls(plan)} had changed{left}."


def describe_calls(plan: UndoPlan) -> str:
    """The ids of the calls that are undone, as text."""
    if not plan.together:
        return f"call {plan.call_id}"
    *some, last = (plan.call_id, *plan.together)
    return f"calls {', '.join(some)} and {last}, which ran at the same time,"


def describe_state(item: PathUndo) -> str:
    """How the path is now, or why it cannot be put back."""
    if item.action == "refused":
        return item.why
    return "as before the call" if item.action == "already" else "as the call left it"


def describe_counts(plan: UndoPlan) -> str:
    already = len(plan.items) - len(plan.to_put_back) - len(plan.refused)
    found = [f"{len(plan.to_put_back):,} to put back"]
    if plan.refused:
        found.append(f"{len(plan.refused):,} that cannot be put back")
    if already:
        found.append(f"{already:,} already as before the call")
    return ", ".join(found)


def display_name(item: PathUndo, root: Path) -> str:
    """The path, relative to the root if it lies below it."""
    return os.path.relpath(item.path, root) if item.path.startswith(f"{root}/") else item.path


def plan_digest(plan: UndoPlan) -> str:
    """A digest of everything that the plan would do. It changes when a file does, so a plan that was shown is bound."""
    return sha256(repr(plan).encode("utf-8", "surrogateescape")).hexdigest()


def last_to_undo(ledger: Ledger) -> str:
    """The last call that changed files and was not undone. Raises `UndoRefused` if there is none."""
    for call_id in changing_calls(ledger, _MAX_CANDIDATES):
        with suppress(LedgerCorrupt):
            if ledger.call(call_id).call.tool != TOOL and undone_by(ledger, call_id) is None:
                return call_id
    raise UndoRefused("No call here has changes to undo. `holdfast changes` lists the calls that changed files.")


MAX_BYTES: Final = 1024 * 1024
"""Larger files are not compared line by line."""


class _Side(Struct, frozen=True):
    text: str | None
    """None: there is no file."""
    problem: str = ""
    """Why the text cannot be shown."""


def diff_of(item: PathUndo, blobs: Blobs, name: str, *, back: bool = False) -> str:
    """The diff of what the call did, or with `back` of what undo does. Lines in brackets describe what is not text."""
    if (folder := _folder_change(item, back=back)) is not None:
        return f"[{name}: a folder, {folder}]\n"
    before = _of_kept(item.change.before, blobs)
    after = _after(item, blobs)
    old, new = (after, before) if back else (before, after)
    lines = [f"[{name}: {problem}]\n" for problem in dict.fromkeys((old.problem, new.problem)) if problem]
    if not lines:
        lines = [unified_diff(old.text, new.text, name)]
    return _mode_line(item, name, back=back) + "".join(lines)


def _folder_change(item: PathUndo, *, back: bool) -> str | None:
    """What happens to a folder that the call created or removed; None for other paths."""
    after = item.change.after
    kinds = (item.change.before.kind, None if after is None else after.kind)
    if kinds == ("absent", "directory"):
        return "will be removed" if back else "made"
    if kinds == ("directory", "absent"):
        return "will be made" if back else "removed"
    return None


def _mode_line(item: PathUndo, name: str, *, back: bool) -> str:
    before, after = item.change.before, item.change.after
    if after is None or before.mode == after.mode or None in (before.mode, after.mode):
        return ""
    old, new = (after.mode, before.mode) if back else (before.mode, after.mode)
    return f"[{name}: mode {old:o} becomes {new:o}]\n"


def _after(item: PathUndo, blobs: Blobs) -> _Side:
    after = item.change.after
    if after is None:
        return _Side("", "the state the call left is not known")
    if after.kind != "file" or (after.content is not None and blobs.has(after.content)):
        return _of_kept(after, blobs)
    if not item.now.same_as(after):
        return _Side("", "it has changed since the call")
    if after.size > MAX_BYTES:
        return _Side("", "too large to compare")
    with Tree(item.root) as tree:
        opened = open_file(*tree.parent(item.inside))
    with open(opened, "rb") as file:  # noqa: PTH123 - a descriptor
        return _side(file.read(MAX_BYTES + 1))


def _of_kept(state: PathState, blobs: Blobs) -> _Side:
    if state.kind == "absent":
        return _Side(None)
    if state.kind == "symlink":
        return _Side(f"symlink to {state.target}\n")
    if state.kind != "file":
        return _Side(f"{state.kind}\n")
    if state.content is None or not blobs.has(state.content):
        return _Side("", "the previous content is not stored")
    if state.size > MAX_BYTES:
        return _Side("", "too large to compare")
    return _side(blobs.read(state.content))


def _side(content: bytes) -> _Side:
    if b"\0" in content[:8000]:
        return _Side("", "binary")
    return _Side(content.decode(errors="replace"))

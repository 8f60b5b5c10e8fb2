"""What a call did to a path, and what undoing it would do, as text for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from holdfast.runtime.undo.states import open_file
from holdfast.runtime.undo.tree import Tree
from holdfast.text.diff import unified_diff

if TYPE_CHECKING:
    from holdfast.runtime.undo.putting_back import Planned
    from holdfast.store.blobs import Blobs
    from holdfast.store.changes import PathState

MAX_BYTES: Final = 1024 * 1024
"""Larger files are not compared line by line."""


class _Side(Struct, frozen=True):
    text: str | None
    """None: there is nothing."""
    odd: str = ""
    """Why the text cannot be shown."""


def diff_of(item: Planned, blobs: Blobs, name: str, *, back: bool = False) -> str:
    """The diff of what the call did; with `back` of what undoing it does. Lines in brackets say what is not text."""
    if (folder := _folder_words(item, back=back)) is not None:
        return f"[{name}: a folder, {folder}]\n"
    before = _of_kept(item.change.before, blobs)
    after = _after(item, blobs)
    old, new = (after, before) if back else (before, after)
    lines = [f"[{name}: {odd}]\n" for odd in dict.fromkeys((old.odd, new.odd)) if odd]
    if not lines:
        lines = [unified_diff(old.text, new.text, name)]
    return _mode_line(item, name, back=back) + "".join(lines)


def _folder_words(item: Planned, *, back: bool) -> str | None:
    """Of a folder that the call made or removed."""
    after = item.change.after
    kinds = (item.change.before.kind, None if after is None else after.kind)
    if kinds == ("absent", "directory"):
        return "will be removed" if back else "made"
    if kinds == ("directory", "absent"):
        return "will be made" if back else "removed"
    return None


def _mode_line(item: Planned, name: str, *, back: bool) -> str:
    before, after = item.change.before, item.change.after
    if after is None or before.mode == after.mode or None in (before.mode, after.mode):
        return ""
    old, new = (after.mode, before.mode) if back else (before.mode, after.mode)
    return f"[{name}: mode {old:o} becomes {new:o}]\n"


def _after(item: Planned, blobs: Blobs) -> _Side:
    after = item.change.after
    if after is None:
        return _Side("", "what the call left there is not known")
    if after.kind != "file" or (after.content is not None and blobs.has(after.content)):
        return _of_kept(after, blobs)
    if not item.now.same_as(after):
        return _Side("", "what the call left there has changed since")
    if after.size > MAX_BYTES:
        return _Side("", "too large to be compared")
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
        return _Side("", "what was there is not kept")
    if state.size > MAX_BYTES:
        return _Side("", "too large to be compared")
    return _side(blobs.read(state.content))


def _side(content: bytes) -> _Side:
    if b"\0" in content[:8000]:
        return _Side("", "binary")
    return _Side(content.decode(errors="replace"))

"""Bringing many paths of a tree from the states they are in to the states they shall have, in an order that works."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import Protocol

from msgspec import Struct

from holdfast.contract.errors import LedgerCorrupt
from holdfast.runtime.undo.states import digest_of_open
from holdfast.runtime.undo.tree import Tree
from holdfast.store.blobs import Blobs
from holdfast.store.changes import PathState


class Step(Struct, frozen=True):
    path: str
    now: PathState
    wanted: PathState


class Source(Protocol):
    """Where the content of files comes from."""

    def place(self, tree: Tree, step: Step) -> None:
        """Put a file with the wanted content, mode and owner in place, whole."""
        ...


class BlobSource:
    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs

    def place(self, tree: Tree, step: Step) -> None:
        reference = step.wanted.content
        assert reference is not None
        with self._blobs.path(reference).open("rb", buffering=0) as file:
            if digest_of_open(file.fileno()) != reference:
                raise LedgerCorrupt(f"The kept content {reference[:12]} was changed since it was kept; do not use it.")
            file.seek(0)
            tree.copy_in(step.path, step.wanted, file.fileno())


def in_order(paths: Iterable[str]) -> list[str]:
    """Folders before what is in them."""
    return sorted(paths, key=lambda path: path.split("/") if path else [])


def settle(tree: Tree, steps: Sequence[Step], source: Source, failed: list[str] | None = None) -> None:
    """Remove what is in the way, the deepest first; then make and fill; then set the modes of folders.

    With `failed` a path that cannot be settled is put there, and the others are settled all the same.
    """
    by_path = {step.path: step for step in steps}
    ordered = [by_path[path] for path in in_order(by_path)]
    for step in reversed(ordered):
        if _must_go(step):
            with _noting(step, failed):
                tree.remove(step.path, folder=step.now.kind == "directory")
    for step in ordered:
        with _noting(step, failed):
            _make(tree, step, source)
    tree.restore_modes()
    for step in reversed(ordered):
        if step.wanted.kind == "directory" and step.wanted.mode is not None:
            with _noting(step, failed):
                tree.set_mode(step.path, step.wanted.mode)


@contextmanager
def _noting(step: Step, failed: list[str] | None) -> Generator[None]:
    try:
        yield
    except OSError as error:
        if failed is None:
            raise
        failed.append(f"{step.path}: {error.strerror or error}")


def _must_go(step: Step) -> bool:
    if step.now.kind == "absent":
        return False
    return step.wanted.kind == "absent" or (step.now.kind == "directory") != (step.wanted.kind == "directory")


def _make(tree: Tree, step: Step, source: Source) -> None:
    now, wanted = step.now, step.wanted
    if wanted.kind == "directory":
        if now.kind != "directory":
            tree.make_folder(step.path, wanted)
    elif wanted.kind == "file":
        if now.kind == "file" and now.content == wanted.content and wanted.mode is not None:
            tree.set_mode(step.path, wanted.mode)
        else:
            source.place(tree, step)
    elif wanted.kind == "symlink":
        tree.make_link(step.path, wanted)
    elif wanted.kind == "fifo":
        tree.make_fifo(step.path, wanted)

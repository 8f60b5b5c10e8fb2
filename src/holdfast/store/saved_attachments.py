"""Copies of attachments for a person: files with a name and an extension, in a private folder beside the ledger.

The ledger keeps the bytes too, under their digest; these copies are what a command prints the path of.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from holdfast.contract.result import Attachment
from holdfast.fs.beneath import NotRegular, read_regular
from holdfast.fs.replace import create_private_once
from holdfast.text.attachments import DIGEST_CHARS, stored_name

FOLDER: Final = "attachments"
_MAX_NAMES: Final = 100


def save_private(state: Path, item: Attachment) -> Path:
    """Save the content under its digest and name, once; return the path. Raises `OSError`."""
    for number in range(1, _MAX_NAMES):
        path = state / FOLDER / stored_name(item, number)
        create_private_once(path, lambda: item.data)
        with suppress(FileNotFoundError, NotRegular):
            if read_regular(path, item.size + 1) == item.data:
                return path  # otherwise a person has changed it
    raise FileExistsError(f"{state / FOLDER} has too many files of this name")


def remove_old(state: Path, older_than: float, *, dry_run: bool = False) -> tuple[int, int]:
    """Remove copies that were saved before; return their number and total size."""
    return _remove(_files(state), lambda path: path.stat().st_mtime < older_than, dry_run=dry_run)


def remove_copies(state: Path, digests: Collection[str]) -> tuple[int, int]:
    """Remove the copies of these contents; return their number and total size."""
    wanted = {digest[:DIGEST_CHARS] for digest in digests}
    return _remove(_files(state), lambda path: path.name[:DIGEST_CHARS] in wanted, dry_run=False)


def _files(state: Path) -> Iterator[Path]:
    found = (state / FOLDER).glob(f"{'[0-9a-f]' * DIGEST_CHARS}-*")
    return (path for path in found if path.is_file() and not path.is_symlink())


def _remove(paths: Iterator[Path], is_wanted: Callable[[Path], bool], *, dry_run: bool) -> tuple[int, int]:
    count = size = 0
    for path in paths:
        with suppress(FileNotFoundError):  # another process removes them too
            if not is_wanted(path):
                continue
            freed = path.stat().st_size
            if not dry_run:
                path.unlink()
            count, size = count + 1, size + freed
    return count, size

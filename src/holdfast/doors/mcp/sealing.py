"""The key that seals what a client carries between two rounds of a request: kept, so that approvals outlive us."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from holdfast.contract.errors import HoldfastError
from holdfast.store.files import make_private_folder

KEY_FILE: Final = "mcp.key"
STATE_SECONDS: Final = 3600.0
"""How long a client may take over a question; after that the call waits in the ledger only."""
_KEY_BYTES: Final = 32


def sealing_key(state: Path | None) -> bytes:
    """The key of this project, made when there is none; without a state folder one that nobody else has."""
    if state is None:
        return os.urandom(_KEY_BYTES)
    path = state / KEY_FILE
    try:
        return _read(path)
    except FileNotFoundError:
        _make(path)
        return _read(path)


def _read(path: Path) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise _unusable(path) from error
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(file.fileno())
        private = stat.S_ISREG(found.st_mode) and not found.st_mode & 0o077 and found.st_uid == os.getuid()
        key = file.read(_KEY_BYTES + 1) if private else b""
    if len(key) != _KEY_BYTES:
        raise _unusable(path)
    return key


def _unusable(path: Path) -> HoldfastError:
    return HoldfastError(
        f"{path} is not a key only you can read; delete it, and a new one is made (open questions are then lost)."
    )


def _make(path: Path) -> None:
    make_private_folder(path.parent)
    new = path.with_name(f".new-{os.urandom(8).hex()}")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(os.urandom(_KEY_BYTES))
            file.flush()
            os.fsync(file.fileno())
        try:
            path.hardlink_to(new)
        except FileExistsError:
            return  # another process was faster, and its key is as good
    finally:
        new.unlink(missing_ok=True)

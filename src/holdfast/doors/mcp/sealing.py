"""The key that seals what a client carries between two rounds of a request: kept, so that approvals outlive us."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from holdfast.contract.errors import HoldfastError
from holdfast.fs.private import make_private_once, read_private

KEY_FILE: Final = "mcp.key"
STATE_SECONDS: Final = 3600.0
"""How long a client may take over a question; after that the call waits in the ledger only."""
_KEY_BYTES: Final = 32


def sealing_key(state: Path | None) -> bytes:
    """The key of this project, made when there is none; without a state folder one that nobody else has."""
    if state is None:
        return _new_key()
    path = state / KEY_FILE
    try:
        return _read(path)
    except FileNotFoundError:
        make_private_once(path, _new_key)
        return _read(path)


def _new_key() -> bytes:
    return os.urandom(_KEY_BYTES)


def _read(path: Path) -> bytes:
    try:
        key = read_private(path, _KEY_BYTES + 1)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise _unusable(path) from error
    if len(key) != _KEY_BYTES:
        raise _unusable(path)
    return key


def _unusable(path: Path) -> HoldfastError:
    return HoldfastError(
        f"{path} is not a key only you can read; delete it, and a new one is made (open questions are then lost)."
    )

"""Digests of the pending calls that this user has been shown, so that an approval can be matched to what was seen."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final

from holdfast.fs.replace import read_private, write_private

if TYPE_CHECKING:
    from holdfast.contract.call import PendingCall

FOLDER: Final = "shown"
_MAX_FILES: Final = 2000
_RECORD: Final = re.compile(r"([0-9a-f]{64})\n([^\n]*)\n")


class ShownCalls:
    """Records of the user who runs this process."""

    def __init__(self, state: Path) -> None:
        self._folder = state / FOLDER / str(os.getuid())

    def record(self, pending: PendingCall) -> None:
        """Record that this user was shown the whole call. On a write error the user has to review it again."""
        with suppress(OSError):
            write_private(self._path(pending.call.id), f"{pending.digest}\n{pending.call.id}\n".encode())
            self._forget_old()

    def digest(self, call_id: str) -> str | None:
        """Return the digest of the call when this user last saw it, or None."""
        try:
            found = _RECORD.fullmatch(read_private(self._path(call_id), 4096).decode())
        except (OSError, UnicodeDecodeError):
            return None
        return found[1] if found is not None and found[2] == call_id else None

    def _path(self, call_id: str) -> Path:
        return self._folder / sha256(call_id.encode("utf-8", "surrogatepass")).hexdigest()[:32]

    def _forget_old(self) -> None:
        files = list(self._folder.iterdir())
        if len(files) > _MAX_FILES:
            for file in sorted(files, key=lambda file: file.stat().st_mtime)[: _MAX_FILES // 2]:
                file.unlink(missing_ok=True)

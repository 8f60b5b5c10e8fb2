"""The user's own ledger, opened lazily: trust and pins are kept there, never in a project."""

from __future__ import annotations

from pathlib import Path
from threading import Lock

from holdfast.store.ledger import Ledger


class UserLedger:
    """Opens the ledger at `path` on first use and creates it with the first entry. Thread-safe."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._ledger: Ledger | None = None
        self._opening = Lock()

    def close(self) -> None:
        with self._opening:
            if self._ledger is not None:
                self._ledger.close()
                self._ledger = None

    def _exists(self) -> bool:
        return self._ledger is not None or self._path.exists()

    def _opened(self) -> Ledger:
        with self._opening:
            if self._ledger is None:
                self._ledger = Ledger.open(self._path)
            return self._ledger

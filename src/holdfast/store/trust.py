"""Files whose exact content the user trusted. Kept in the user's own ledger, never in a project."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from holdfast.store.database import Transaction
from holdfast.store.entries import TrustedContent, TrustRevoked
from holdfast.store.projections import encode_row
from holdfast.store.user_ledger import UserLedger

_decoder: Final = msgspec.json.Decoder(TrustedContent)


class TrustStore(UserLedger):
    def trust(self, path: Path, digest: str, *, by: str) -> None:
        """Trust this content of the file, instead of the content trusted before."""
        ledger = self._opened()
        body = ledger.encode_body(TrustedContent(path=str(path), digest=digest, by=by, at=time.time()))
        content = ledger.read_body(body, TrustedContent)

        def op(tx: Transaction) -> None:
            tx.append("", "trusted", body)
            tx.execute("DELETE FROM trust WHERE path = ?", (content.path,))
            tx.execute(
                "INSERT INTO trust (path, digest, body) VALUES (?, ?, ?)",
                (content.path, content.digest, encode_row(content)),
            )

        ledger.run(op)

    def is_trusted(self, path: Path, digest: str) -> bool:
        return bool(self._rows("SELECT 1 FROM trust WHERE path = ? AND digest = ?", (str(path), digest)))

    def is_known(self, path: Path) -> bool:
        """Whether some content of the file is trusted, perhaps not the present one."""
        return bool(self._rows("SELECT 1 FROM trust WHERE path = ?", (str(path),)))

    def list(self) -> list[TrustedContent]:
        """Return all trusted files. Unreadable rows are skipped; `verify` reports them."""
        found: list[TrustedContent] = []
        for (body,) in self._rows("SELECT body FROM trust ORDER BY path"):
            with suppress(ValueError):
                found.append(_decoder.decode(body))
        return found

    def revoke(self, path: Path, *, by: str) -> bool:
        """Revoke trust in a file; False if it was not trusted."""
        if not self._rows("SELECT 1 FROM trust WHERE path = ?", (str(path),)):
            return False
        ledger = self._opened()
        body = ledger.encode_body(TrustRevoked(str(path), by))

        def op(tx: Transaction) -> bool:
            if tx.execute("DELETE FROM trust WHERE path = ?", (str(path),)).rowcount == 0:
                return False
            tx.append("", "untrusted", body)
            return True

        return ledger.run(op)

    def _rows(self, sql: str, values: tuple[str, ...] = ()) -> list[tuple[str]]:
        if not self._exists():
            return []
        return [(str(row[0]),) for row in self._opened().rows(sql, values)]

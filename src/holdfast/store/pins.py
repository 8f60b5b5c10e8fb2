"""Pinned definitions of MCP tools, so that a server cannot change a tool unnoticed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final

from holdfast.contract.errors import BadJson
from holdfast.contract.json import Json, canonical_json, parse_json
from holdfast.store.database import Transaction
from holdfast.store.entries import ServerUnpinned, ToolPinned
from holdfast.store.ledger import Ledger
from holdfast.store.user_ledger import UserLedger

Row = tuple[Any, ...]

DAMAGED_PIN: Final[dict[str, Json]] = {}
"""Returned for a pin that is corrupted. No tool has this definition, so the current one counts as changed."""
MAX_TOOLS: Final = 20_000
MAX_BYTES: Final = 64 * 1024 * 1024
"""Limits for what is pinned when a server is first seen."""
_ANY: Final = "SELECT 1 FROM pins WHERE server = ? LIMIT 1"


class ToolPins(UserLedger):
    """The definitions that the user has accepted: those of the first contact, and every change approved since."""

    def known(self, server: str, tools: Iterable[str]) -> dict[str, Json]:
        """Return the pinned definitions of these tools, with `DAMAGED_PIN` for one whose digest does not match."""
        return _known(self._opened().rows, server, tools) if self._exists() else {}

    def first_seen(self, server: str, definitions: Mapping[str, Json]) -> dict[str, Json]:
        """Return what is pinned of these tools (trust on first use).

        On first contact with a server everything is pinned, up to the limits. A tool that the server adds later has no
        pin until the user has seen it.
        """
        if not definitions:
            return {}
        ledger = self._opened()
        if list(ledger.rows(_ANY, (server,))):
            return self.known(server, definitions)
        encoded = {tool: canonical_json(definition) for tool, definition in definitions.items()}

        def op(tx: Transaction) -> dict[str, Json]:
            if tx.execute(_ANY, (server,)).fetchone() is not None:  # another process was faster
                return _known(tx.execute, server, definitions)
            pinned: dict[str, Json] = {}
            size = 0
            for tool, raw in encoded.items():
                if len(pinned) < MAX_TOOLS and size + len(raw) <= MAX_BYTES:
                    _put(tx, ledger, server, tool, raw, None)
                    pinned[tool] = definitions[tool]
                    size += len(raw)
            return pinned

        return ledger.run(op)

    def pin(self, server: str, tool: str, definition: Json) -> None:
        """Replace the pinned definition with one that the user has accepted."""
        raw = canonical_json(definition)
        ledger = self._opened()

        def op(tx: Transaction) -> None:
            sql = "SELECT digest FROM pins WHERE server = ? AND tool = ?"
            row = tx.execute(sql, (server, tool)).fetchone()
            tx.execute("DELETE FROM pins WHERE server = ? AND tool = ?", (server, tool))
            _put(tx, ledger, server, tool, raw, str(row[0]) if row else None)

        ledger.run(op)

    def forget(self, server: str) -> bool:
        """Remove all pins of a server, so that its next contact counts as the first. False if it had none."""
        if not self._exists():
            return False
        ledger = self._opened()
        body = ledger.encode_body(ServerUnpinned(server))

        def op(tx: Transaction) -> bool:
            if tx.execute("DELETE FROM pins WHERE server = ?", (server,)).rowcount == 0:
                return False
            tx.append("", "unpinned", body)
            return True

        return ledger.run(op)


def _known(rows: Callable[[str, Sequence[str]], Iterable[Row]], server: str, tools: Iterable[str]) -> dict[str, Json]:
    sql = "SELECT digest, definition FROM pins WHERE server = ? AND tool = ?"
    return {tool: _read(*row) for tool in tools for row in list(rows(sql, (server, tool)))}


def _put(tx: Transaction, ledger: Ledger, server: str, tool: str, raw: bytes, before: str | None) -> None:
    digest = sha256(raw).hexdigest()
    tx.append("", "pinned", ledger.encode_body(ToolPinned(server, tool, digest, before)))
    tx.execute(
        "INSERT INTO pins (server, tool, digest, size, definition) VALUES (?, ?, ?, ?, ?)",
        (server, tool, digest, len(raw), raw.decode()),
    )


def _read(digest: object, definition: object) -> Json:
    try:
        raw = definition.encode() if isinstance(definition, str) else b""
        return parse_json(raw, limit=len(raw)) if sha256(raw).hexdigest() == digest else DAMAGED_PIN
    except (BadJson, UnicodeEncodeError):
        return DAMAGED_PIN

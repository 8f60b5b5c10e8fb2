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
"""Stands for a definition that cannot be read any more: no tool has it, so that the one there is counts as changed."""
MAX_TOOLS: Final = 20_000
MAX_BYTES: Final = 64 * 1024 * 1024
"""How much is remembered of a server when it is first met."""
_ANY: Final = "SELECT 1 FROM pins WHERE server = ? LIMIT 1"


class ToolPins(UserLedger):
    """The definitions of tools that were seen."""

    def known(self, server: str, tools: Iterable[str]) -> dict[str, Json]:
        """The definitions there are of these tools; `DAMAGED` for one that is not what was written."""
        return _known(self._opened().rows, server, tools) if self._exists() else {}

    def first_seen(self, server: str, definitions: Mapping[str, Json]) -> dict[str, Json]:
        """What is pinned of these; the first time that a server is met, all of it is pinned, as far as there is room.

        What a server brings later has no pin before a person has seen it.
        """
        if not definitions:
            return {}
        ledger = self._opened()
        if list(ledger.rows(_ANY, (server,))):
            return self.known(server, definitions)
        encoded = {tool: canonical_json(said) for tool, said in definitions.items()}

        def op(tx: Transaction) -> dict[str, Json]:
            if tx.execute(_ANY, (server,)).fetchone() is not None:  # another process has met it meanwhile
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
        """A person has seen this definition: it replaces the one before."""
        raw = canonical_json(definition)
        ledger = self._opened()

        def op(tx: Transaction) -> None:
            sql = "SELECT digest FROM pins WHERE server = ? AND tool = ?"
            row = tx.execute(sql, (server, tool)).fetchone()
            tx.execute("DELETE FROM pins WHERE server = ? AND tool = ?", (server, tool))
            _put(tx, ledger, server, tool, raw, str(row[0]) if row else None)

        ledger.run(op)

    def forget(self, server: str) -> bool:
        """Whether there was anything to forget; the next definitions are first sights again."""
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

"""Which files a person trusted, with exactly which content. Kept in the user's own ledger, never in a project."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.contract.errors import BadJson
from holdfast.contract.json import Json, canonical_json, parse_json
from holdfast.fs.replace import read_private, write_private
from holdfast.store.database import Transaction
from holdfast.store.entries import Pinned, TrustedContent, Unpinned, Untrusted
from holdfast.store.ledger import Ledger
from holdfast.store.projections import encode

if TYPE_CHECKING:
    from holdfast.contract.call import PendingCall

Row = tuple[Any, ...]

DAMAGED: Final[dict[str, Json]] = {}
"""Stands for a definition that cannot be read any more: no tool has it, so that the one there is counts as changed."""
MAX_TOOLS: Final = 20_000
MAX_BYTES: Final = 64 * 1024 * 1024
"""How much is remembered of a server when it is first met."""
_ANY: Final = "SELECT 1 FROM pins WHERE server = ? LIMIT 1"


class _UserLedger:
    """Opens the ledger at `path` when it is first needed, and creates it with the first entry. For several threads."""

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


class Pins(_UserLedger):
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
        body = ledger.seal(Unpinned(server))

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
    tx.append("", "pinned", ledger.seal(Pinned(server, tool, digest, before)))
    tx.execute(
        "INSERT INTO pins (server, tool, digest, size, definition) VALUES (?, ?, ?, ?, ?)",
        (server, tool, digest, len(raw), raw.decode()),
    )


def _read(digest: object, definition: object) -> Json:
    try:
        raw = definition.encode() if isinstance(definition, str) else b""
        return parse_json(raw, limit=len(raw)) if sha256(raw).hexdigest() == digest else DAMAGED
    except (BadJson, UnicodeEncodeError):
        return DAMAGED


FOLDER: Final = "shown"
_MAX_FILES: Final = 2000
_RECORD: Final = re.compile(r"([0-9a-f]{64})\n([^\n]*)\n")


class Shown:
    """Of the user who runs this process."""

    def __init__(self, state: Path) -> None:
        self._folder = state / FOLDER / str(os.getuid())

    def record(self, held: PendingCall) -> None:
        """This user has just been shown all of the call. Where that cannot be written, they are asked to look again."""
        with suppress(OSError):
            write_private(self._path(held.call.id), f"{held.digest}\n{held.call.id}\n".encode())
            self._forget_old()

    def digest(self, call_id: str) -> str | None:
        """What the call was when this user was last shown it; None if they never were."""
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


__all__ = ["Trust", "TrustedContent"]

_decoder: Final = msgspec.json.Decoder(TrustedContent)


class Trust(_UserLedger):
    """The contents of files that a person trusted."""

    def trust(self, path: Path, digest: str, *, by: str) -> None:
        """Trust this content of this file; what was trusted of it before is not any more."""
        ledger = self._opened()
        body = ledger.seal(TrustedContent(path=str(path), digest=digest, by=by, at=time.time()))
        content = ledger.read_body(body, TrustedContent)

        def op(tx: Transaction) -> None:
            tx.append("", "trusted", body)
            tx.execute("DELETE FROM trust WHERE path = ?", (content.path,))
            tx.execute(
                "INSERT INTO trust (path, digest, body) VALUES (?, ?, ?)",
                (content.path, content.digest, encode(content)),
            )

        ledger.run(op)

    def is_trusted(self, path: Path, digest: str) -> bool:
        return bool(self._rows("SELECT 1 FROM trust WHERE path = ? AND digest = ?", (str(path), digest)))

    def list(self) -> list[TrustedContent]:
        """What cannot be read is left out; `verify` finds it, and it is trusted no more than its digest says."""
        found: list[TrustedContent] = []
        for (body,) in self._rows("SELECT body FROM trust ORDER BY path"):
            with suppress(ValueError):
                found.append(_decoder.decode(body))
        return found

    def revoke(self, path: Path, *, by: str) -> bool:
        """False if the file was not trusted."""
        if not self._rows("SELECT 1 FROM trust WHERE path = ?", (str(path),)):
            return False
        ledger = self._opened()
        body = ledger.seal(Untrusted(str(path), by))

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

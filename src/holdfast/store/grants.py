"""Remembered, scoped yeses: narrow, listed, revocable, and used up exactly once where they are for one use."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from holdfast.contract.errors import GrantRefused
from holdfast.contract.values import Args
from holdfast.store.bodies import Consumed, Grant, Granted, Revoked, Scope
from holdfast.store.database import Transaction
from holdfast.store.derived import encode
from holdfast.store.ledger import Ledger

__all__ = ["Grant", "Grants", "Scope"]

_decoder: Final = msgspec.json.Decoder(Grant)
_Version = tuple[int, int]


class Grants:
    """Grants of scope `user` live in the user's own ledger, which is created with the first; all others here."""

    def __init__(self, ledger: Ledger, user_path: Path | None = None) -> None:
        self._ledger = ledger
        self._user_path = user_path
        self._user: Ledger | None = None
        self._known: dict[Ledger, tuple[_Version, list[Grant]]] = {}

    def with_user(self, path: Path) -> Grants:
        """The same grants and those of the user, kept in the ledger at `path`."""
        return Grants(self._ledger, path)

    def close(self) -> None:
        if self._user is not None:
            self._user.close()

    def add(
        self,
        *,
        tool: str,
        pattern: Args,
        scope: Scope,
        by: str,
        session: str | None = None,
        expires: float | None = None,
    ) -> Grant:
        """Remember a yes. `pattern` says what the arguments must be; `expires` is a time of the clock."""
        if scope == "session" and session is None:
            raise GrantRefused("A grant for a session must name the session; give one, or choose another scope.")
        grant = Grant(
            id=f"g{os.urandom(5).hex()}",
            tool=tool,
            pattern=pattern,
            scope=scope,
            by=by,
            created=time.time(),
            session=session,
            expires=expires,
            uses=1 if scope == "once" else None,
        )
        _write(self._home_of(scope), grant)
        return grant

    def list(self, *, tool: str | None = None, session: str | None = None, every: bool = False) -> list[Grant]:
        """What is allowed now: for one tool, and in one session; `every` gives those of all sessions, expired too."""
        now = time.time()
        return [
            grant
            for ledger in self._ledgers()
            for grant in self._grants_in(ledger)
            if (tool is None or grant.tool == tool)
            and (every or (grant.session in (None, session) and not (grant.expires and grant.expires <= now)))
        ]

    def revoke(self, grant_id: str, *, by: str) -> bool:
        """False if there is no such grant."""
        return any(_revoke(ledger, grant_id, by) for ledger in self._ledgers())

    def consume(self, grant_id: str, call_id: str) -> bool:
        """Use a grant for a call. Of many who try to use the last use, in any process, one gets True."""
        now = time.time()
        for ledger in self._ledgers():
            for grant in self._grants_in(ledger):
                if grant.id == grant_id and not (grant.expires and grant.expires <= now):
                    return grant.uses is None or _consume(ledger, grant_id, call_id)
        return False

    def _ledgers(self) -> tuple[Ledger, ...]:
        if self._user is None and self._user_path is not None and self._user_path.exists():
            self._user = Ledger.open(self._user_path, redact=self._ledger.redactor)
        return (self._ledger,) if self._user is None else (self._ledger, self._user)

    def _home_of(self, scope: Scope) -> Ledger:
        if scope != "user":
            return self._ledger
        if self._user is None and self._user_path is not None:
            self._user = Ledger.open(self._user_path, redact=self._ledger.redactor)
        if self._user is None:
            raise GrantRefused("There is no place to keep grants of the user here; choose the scope project.")
        return self._user

    def _grants_in(self, ledger: Ledger) -> list[Grant]:
        version = (ledger.version()[0], ledger.grant_changes)
        known = self._known.get(ledger)
        if known is None or known[0] != version:
            rows = ledger.rows("SELECT uses, body FROM grants ORDER BY id")
            known = (version, [grant for row in rows if (grant := _read(*row)) is not None])
            self._known[ledger] = known
        return known[1]


def _read(uses: object, body: object) -> Grant | None:
    """A grant that cannot be read allows nothing; `verify` finds it."""
    if not isinstance(body, str) or not (uses is None or isinstance(uses, int)):
        return None
    try:
        return replace(_decoder.decode(body), uses=uses)
    except ValueError:
        return None


def _write(ledger: Ledger, grant: Grant) -> None:
    body = ledger.seal(Granted(grant))
    row = encode(ledger.read_body(body, Granted).grant)

    def op(tx: Transaction) -> None:
        tx.append("", "granted", body)
        tx.execute("INSERT INTO grants (id, uses, body) VALUES (?, ?, ?)", (grant.id, grant.uses, row))

    ledger.run(op)
    ledger.grant_changes += 1


def _revoke(ledger: Ledger, grant_id: str, by: str) -> bool:
    body = ledger.seal(Revoked(grant_id, by))

    def op(tx: Transaction) -> bool:
        if tx.execute("DELETE FROM grants WHERE id = ?", (grant_id,)).rowcount == 0:
            return False
        tx.append("", "revoked", body)
        return True

    done = ledger.run(op)
    ledger.grant_changes += 1
    return done


def _consume(ledger: Ledger, grant_id: str, call_id: str) -> bool:
    body = ledger.seal(Consumed(grant_id, call_id))

    def op(tx: Transaction) -> bool:
        row = tx.execute("SELECT uses FROM grants WHERE id = ?", (grant_id,)).fetchone()
        if row is None:
            return False
        tx.append("", "consumed", body)
        if row[0] > 1:
            tx.execute("UPDATE grants SET uses = uses - 1 WHERE id = ?", (grant_id,))
        else:
            tx.execute("DELETE FROM grants WHERE id = ?", (grant_id,))
        return True

    done = ledger.run(op)
    ledger.grant_changes += 1
    return done

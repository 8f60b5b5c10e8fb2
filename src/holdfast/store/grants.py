"""Remembered, scoped yeses: narrow, listed, revocable, and used up exactly once where they are for one use."""

from __future__ import annotations

import time
from secrets import token_hex
from typing import Final

import msgspec

from holdfast.contract.errors import GrantRefused
from holdfast.contract.values import Args
from holdfast.store.bodies import Consumed, Grant, Granted, Revoked, Scope
from holdfast.store.database import Op, Transaction
from holdfast.store.derived import encode
from holdfast.store.ledger import Ledger

__all__ = ["Grant", "Grants", "Scope"]

_decoder: Final = msgspec.json.Decoder(Grant)


class Grants:
    """Grants of scope `user` are kept in the user's own ledger, all others in the project's."""

    def __init__(self, project: Ledger, user: Ledger | None = None) -> None:
        self._project = project
        self._user = user
        self._ledgers = (project,) if user is None else (project, user)
        self._known: dict[Ledger, tuple[tuple[int, int], list[Grant]]] = {}

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
            raise GrantRefused("A grant for a session must name the session; choose another scope or give one.")
        ledger = self._project if scope != "user" else self._user
        if ledger is None:
            raise GrantRefused("There is no user-level ledger to keep this grant in; choose the scope project.")
        grant = Grant(
            id=f"g{token_hex(5)}",
            tool=tool,
            pattern=pattern,
            scope=scope,
            by=by,
            created=time.time(),
            session=session,
            expires=expires,
            uses=1 if scope == "once" else None,
        )
        ledger.run(_add(ledger, grant))
        return grant

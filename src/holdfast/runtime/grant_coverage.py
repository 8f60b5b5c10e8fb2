"""What a grant covers: the grants offered for a pending call, and the calls that one approves, past and pending.

Only the matcher of `rules.grants` decides what is covered. A call that needs a person whatever is granted, because of
a cap or a confirmation, is covered by nothing. Calls of another document are left to that document, whose rules are
not known here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from holdfast.contract.call import PendingCall
from holdfast.contract.enums import State
from holdfast.contract.errors import GrantRefused, HoldfastError, LedgerError
from holdfast.contract.result import Result
from holdfast.rules.chain import ApprovalRequest
from holdfast.runtime import input_checks
from holdfast.runtime.approvals import Approvals
from holdfast.runtime.call_lifecycle import CallLifecycle
from holdfast.runtime.pending import PendingCalls

if TYPE_CHECKING:
    from holdfast.rules.grants import GrantSpec, Width
    from holdfast.store.ledger import Grant, Scope
    from holdfast.store.queries import CallRecord

COMPARED: Final = 500
"""The number of newest calls of a tool that a preview compares with a grant."""
_LASTING: Final[tuple[Scope, ...]] = ("project", "user")


class GrantOption(Struct, frozen=True, kw_only=True):
    """A grant that a person may create for a pending call."""

    scope: Scope
    width: Width
    spec: GrantSpec


class GrantPreview(Struct, frozen=True, kw_only=True):
    """A grant before it is stored, with the calls it covers."""

    spec: GrantSpec
    past: tuple[CallRecord, ...]
    """Calls that a person was asked about before, and that it would have approved, newest first."""
    compared: int
    """How many past calls of the tool were compared; at most `COMPARED`."""
    pending: tuple[PendingCall, ...]
    """Pending calls that it covers now, oldest first, including the one it was made for."""


class CoveredCall(Struct, frozen=True, kw_only=True):
    """A pending call that was approved because a new grant covers it."""

    pending: PendingCall
    result: Result


class GrantCoverage:
    """Finds the calls that a grant covers."""

    def __init__(self, approvals: Approvals, pending: PendingCalls, lifecycle: CallLifecycle) -> None:
        self._approvals = approvals
        self._pending = pending
        self._lifecycle = lifecycle

    def options(self, pending: PendingCall, by: str, scopes: Sequence[Scope] = _LASTING) -> list[GrantOption]:
        """The grants that may be created for this call: for its hosts, then narrowest first."""
        from holdfast.rules.grants import WIDTHS

        found: list[GrantOption] = []
        for width in WIDTHS:
            for scope in scopes:
                try:
                    spec = self._approvals.grant_for(pending, scope, by, width)
                except HoldfastError:
                    continue
                found.append(GrantOption(scope=scope, width=width, spec=spec))
        return found

    async def preview(
        self, pending: PendingCall, scope: Scope, *, by: str, width: Width = "exact", limit: int = 20
    ) -> GrantPreview:
        """The grant that `Runtime.allow` would store, with the calls it covers, at most `limit` of them past ones.

        Nothing is stored. Raises as `Runtime.allow` does.
        """
        from holdfast.rules.grants import spec_covers

        by = input_checks.check_text(by, "The name of who allows it")
        spec = self._approvals.grant_for(await self._lifecycle.as_shown(pending), scope, by, width)

        def covers(request: ApprovalRequest) -> bool:
            return spec_covers(spec, request)

        past: list[CallRecord] = []
        compared = 0
        unanswered = {item.call.id for item in self._pending.list()}
        for asked in self._pending.ledger.asked_calls(spec.tool, COMPARED):
            if len(past) >= limit:
                break
            if asked.call.id in unanswered or not self._lifecycle.owns(asked.call):
                continue
            await asyncio.sleep(0)  # judging a long command takes time, and other calls must go on
            compared += 1
            if self._approvals.is_covered(asked, covers, files_then=True):
                with suppress(LedgerError):
                    past.append(self._pending.ledger.record(asked.call.id))
        covered = tuple(await self._covered(covers))
        return GrantPreview(spec=spec, past=tuple(past), compared=compared, pending=covered)

    async def pending_calls(self, grant: Grant) -> list[PendingCall]:
        """The pending calls that a stored grant covers, oldest first. Raises `GrantRefused` if it is not in force."""
        from holdfast.rules.grants import matches

        stored = None if self._approvals.grants is None else self._approvals.grants.get(grant.id)
        if stored is None:
            raise GrantRefused(f"There is no grant '{grant.id}'. `holdfast grants` lists the grants.")
        if stored.uses is not None:
            return []  # a grant for once is for the call that comes next
        return await self._covered(lambda request: matches(stored, request))

    async def _covered(self, covers: Callable[[ApprovalRequest], bool]) -> list[PendingCall]:
        found: list[PendingCall] = []
        for pending in self._pending.list():
            await asyncio.sleep(0)
            if pending.state is not State.PENDING or not self._lifecycle.owns(pending.call):
                continue
            if self._approvals.is_covered(pending, covers):
                found.append(pending)
        return found

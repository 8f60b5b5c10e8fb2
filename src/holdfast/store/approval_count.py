"""Counts who approved the current version of a pending call, from its ledger entries.

A call that changed, or was edited, needs every approval again, and so does one whose approvals were used.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from holdfast.contract.call import PendingCall
from holdfast.store.entries import BodyReader, CallAnswered, CallPending

APPROVALS = "SELECT kind, body FROM entries WHERE call = ? AND kind IN ('pending', 'answered') ORDER BY id"


class ApprovalCount(Struct, frozen=True):
    """The approvals of one version of a call."""

    digest: str = ""
    needed: int = 1
    identities: tuple[str, ...] = ()
    complete: bool = False
    """Whether as many different people approved it as needed."""

    def after_pending(self, pending: PendingCall) -> ApprovalCount:
        """The count after the call became pending, for the first time or again."""
        kept = self.identities if pending.digest == self.digest and not self.complete else ()
        return ApprovalCount(pending.digest, pending.approvals_needed, kept)

    def after_answer(self, given: CallAnswered) -> ApprovalCount:
        if given.answer.kind == "edit":
            return replace(self, identities=(), complete=False)
        if given.answer.kind != "approve" or given.digest != self.digest:
            return self
        identities = tuple(dict.fromkeys((*self.identities, given.answer.identity)))
        return replace(self, identities=identities, complete=len(identities) >= self.needed)


def count_approvals(rows: Iterable[tuple[str, str]], read: BodyReader) -> ApprovalCount:
    """Count the approvals of a call; `rows` are the result of `APPROVALS`."""
    count = ApprovalCount()
    for kind, body in rows:
        if kind == "pending":
            count = count.after_pending(read(body, CallPending).pending)
        else:
            count = count.after_answer(read(body, CallAnswered))
    return count

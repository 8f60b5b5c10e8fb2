"""Pending calls at the command line: which one is meant, whether this user was shown it, and whether it has changed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from holdfast.contract.errors import NotPending, StaleApproval
from holdfast.contract.vocabulary import State
from holdfast.doors.cli import screen
from holdfast.doors.cli.failures import UsageProblem
from holdfast.doors.cli.held import SHORT_DIGEST, HeldView
from holdfast.doors.cli.typing_in import Leave, forget_typed_ahead, page, read_line
from holdfast.store.shown import Shown
from holdfast.text.visible import visible

if TYPE_CHECKING:
    from holdfast.contract.call import PendingCall
    from holdfast.store.ledger import Ledger

_DIGEST: Final = re.compile(rf"[0-9a-f]{{{SHORT_DIGEST},64}}")
_NAMED: Final = 5


def find_held(ledger: Ledger, given: str) -> PendingCall:
    """The waiting call that is meant; otherwise an error that says what there is instead."""
    call_id = ledger.find(given)
    held = ledger.held(call_id)
    if held is not None and held.state in (State.PENDING, State.APPROVED):
        return held
    state = ledger.call(call_id).state.replace("_", " ")
    raise NotPending(
        f"Call {call_id} is {state}: it does not wait for an answer; `holdfast ledger show {call_id}` has its story."
    )


def note_shown(state: Path | None, calls: Sequence[PendingCall]) -> None:
    """This user has just been shown all of these calls: `holdfast approve ID` is an approval of what they are now."""
    if state is not None and state.exists():
        shown = Shown(state)
        for held in calls:
            shown.record(held)


def was_shown(ledger: Ledger, held: PendingCall, digest: str | None) -> bool:
    """Whether the person knows this call as it is: they named its digest, or were shown it. If not, they can be asked.

    Raises where nobody can know what they would agree to.
    """
    if digest is not None:
        if not _DIGEST.fullmatch(digest):
            raise UsageProblem(f"A digest has at least {SHORT_DIGEST} hexadecimal digits; `holdfast pending` shows it.")
        if not held.digest.startswith(digest):
            raise _changed(ledger, held, digest)
        return True
    shown = Shown(ledger.path.parent).digest(held.call.id)
    if shown == held.digest:
        return True
    if shown is not None:
        raise _changed(ledger, held, shown)
    if not screen.can_ask():
        raise UsageProblem(
            f"You were not shown call {held.call.id} yet: look at it with `holdfast pending {held.call.id}`, "
            "or name what you approve with --digest."
        )
    return False


def note_unreadable(calls: Sequence[str]) -> None:
    """What cannot be listed, because its record is damaged, is at least named."""
    if calls:
        shown = ", ".join(visible(call_id) for call_id in calls[:_NAMED])
        more = f" and {len(calls) - _NAMED:,} more" if len(calls) > _NAMED else ""
        screen.note(f"Not shown, because it cannot be read: call {shown}{more}; `holdfast doctor` says what to do.")


def _changed(ledger: Ledger, held: PendingCall, digest: str) -> StaleApproval:
    from holdfast.runtime.approvals import what_changed

    call_id = held.call.id
    before = ledger.shown_as(call_id, digest)
    if before is None:
        return StaleApproval(f"Call {call_id} never had that digest; look at it with `holdfast pending {call_id}`.")
    return StaleApproval(
        f"Call {call_id} is not what you were shown: {what_changed(before, held)} changed since; "
        f"look at it again with `holdfast pending {call_id}`."
    )


async def review(held: PendingCall) -> bool:
    """Show all of a call, a screenful at a time, and ask whether to approve it."""
    try:
        await page(HeldView(held).whole())
    except Leave:
        return False
    forget_typed_ahead()
    typed = await read_line("Approve this? [y/N] ")
    return (typed or "").strip().lower() in ("y", "yes")

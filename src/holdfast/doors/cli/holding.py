"""Pending calls at the command line: which one is meant, whether this user was shown it, and whether it has changed."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from holdfast.contract.errors import NotPending, StaleApproval
from holdfast.contract.vocabulary import State
from holdfast.doors.cli import screen
from holdfast.doors.cli.failures import UsageProblem
from holdfast.doors.cli.held import HeldView
from holdfast.store.shown import Shown
from holdfast.text.visible import visible

if TYPE_CHECKING:
    from holdfast.contract.call import HeldCall
    from holdfast.store.ledger import Ledger

SHORT_DIGEST: Final = 12
"""Hexadecimal digits of a digest that people are shown, and the fewest they may give."""
_DIGEST: Final = re.compile(rf"[0-9a-f]{{{SHORT_DIGEST},64}}")
_NAMED: Final = 5


def find_held(ledger: Ledger, given: str) -> HeldCall:
    """The waiting call that is meant; otherwise an error that says what there is instead."""
    call_id = ledger.find(given)
    held = ledger.held(call_id)
    if held is not None and held.state in (State.PENDING, State.APPROVED):
        return held
    state = ledger.call(call_id).state.replace("_", " ")
    raise NotPending(
        f"Call {call_id} is {state}: it does not wait for an answer; `holdfast ledger show {call_id}` has its story."
    )


def note_shown(state: Path | None, calls: Sequence[HeldCall]) -> None:
    """This user has just been shown all of these calls: `holdfast approve ID` is an approval of what they are now."""
    if state is not None and state.exists():
        shown = Shown(state)
        for held in calls:
            shown.record(held)


def check_shown(ledger: Ledger, held: HeldCall, digest: str | None) -> bool:
    """Whether the person agrees to this call as it is: they named its digest, were shown it, or are asked now.

    Raises where nobody can know what they would agree to. False: they were asked, and said no.
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
    return _asked(ledger, held)


def note_unreadable(calls: Sequence[str]) -> None:
    """What cannot be listed, because its record is damaged, is at least named."""
    if calls:
        shown = ", ".join(visible(call_id) for call_id in calls[:_NAMED])
        more = f" and {len(calls) - _NAMED:,} more" if len(calls) > _NAMED else ""
        screen.note(f"Not shown, because it cannot be read: call {shown}{more}; `holdfast doctor` says what to do.")


def _changed(ledger: Ledger, held: HeldCall, digest: str) -> StaleApproval:
    from holdfast.runtime.digest import what_changed

    call_id = held.call.id
    before = ledger.shown_as(call_id, digest)
    if before is None:
        return StaleApproval(f"Call {call_id} never had that digest; look at it with `holdfast pending {call_id}`.")
    return StaleApproval(
        f"Call {call_id} is not what you were shown: {what_changed(before, held)} changed since; "
        f"look at it again with `holdfast pending {call_id}`."
    )


def _asked(ledger: Ledger, held: HeldCall) -> bool:
    from holdfast.doors.cli.typing_in import forget_typed_ahead, read_line

    for line in HeldView(held).whole():
        screen.note(line)
    note_shown(ledger.path.parent, [held])
    forget_typed_ahead()
    typed = asyncio.run(read_line("Approve it? [y/N] "))
    if (typed or "").strip().lower() in ("y", "yes"):
        return True
    screen.note(f"Call {held.call.id} still waits.")
    return False

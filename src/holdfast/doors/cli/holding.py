"""Finding the held call a person means, by its id or by how its id begins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.contract.errors import NotPending, UnknownCall

if TYPE_CHECKING:
    from holdfast.contract.call import HeldCall
    from holdfast.store.ledger import Ledger


def find_held(ledger: Ledger, prefix: str) -> HeldCall:
    """The only waiting call whose id begins so; otherwise an error that says what there is instead."""
    if not prefix:
        raise UnknownCall("The id is empty; `holdfast pending` lists the calls that wait.")
    found = [held for held in ledger.pending() if held.call.id.startswith(prefix)]
    exact = [held for held in found if held.call.id == prefix]
    if len(exact or found) == 1:
        return (exact or found)[0]
    if found:
        ids = ", ".join(held.call.id for held in found[:5])
        raise UnknownCall(f"Several waiting calls begin with '{prefix}': {ids}; give more of the id.")
    record = ledger.call(ledger.find(prefix))
    raise NotPending(
        f"Call {record.call.id} is {record.state.replace('_', ' ')}: it does not wait for an answer; "
        f"`holdfast ledger show {record.call.id}` has its story."
    )

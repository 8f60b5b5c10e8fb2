"""Whose word an approval in the conversation is: what was shown of each call that waits, and who could have typed it.

A conversation may be a file in the project, and a command that runs can find a way to write there. So an approval that
appears while something runs that nobody looks at counts for nothing.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager

from holdfast.agent.conversation import Conversation, Open, Placed, Settled, Slot, Status
from holdfast.agent.standing import Standing, Step, acts_unseen
from holdfast.runtime.runtime import Runtime


class Sight:
    def __init__(self, runtime: Runtime, conversation: Conversation) -> None:
        self._runtime = runtime
        self._conversation = conversation
        self._acting = 0
        self._shown: dict[str, str] = {}
        """What was shown of calls that wait, by call, and does not count while something acts unseen."""

    @property
    def blocked(self) -> bool:
        """Whether something runs that could write into the conversation."""
        return self._acting > 0 or self._runtime.services.writers_alive()

    @contextmanager
    def acting(self, slots: Sequence[Slot]) -> Generator[None]:
        """While these calls run. What was shown of the others is forgotten first, so that it does not count after a
        crash either."""
        if not any(acts_unseen(self._runtime.registry.find(slot.use.name)) for slot in slots):
            yield
            return
        ours = {slot.open.call_id for slot in slots if slot.open is not None}
        others: list[tuple[Slot, Open]] = []
        for slot in self._conversation.slots():
            if slot.open is not None and slot.open.digest and slot.open.call_id not in ours:
                self._shown[slot.open.call_id] = slot.open.digest
                others.append((slot, Open(call_id=slot.open.call_id, digest="")))
        if others:
            self._conversation.remember_all(others)
        self._acting += 1
        try:
            yield
        finally:
            self._acting -= 1

    def show_again(self, standings: Sequence[Standing]) -> None:
        """Nothing runs any more: what waits, and still says so, counts as shown."""
        if not self._shown or self.blocked:
            return
        again = [
            (standing.slot, Open(call_id=opened.call_id, digest=held.digest))
            for standing in standings
            if standing.step is Step.LEAVE
            and (opened := standing.slot.open) is not None
            and (held := standing.held) is not None
            and opened.digest != held.digest
            and self._shown.get(opened.call_id) == held.digest
        ]
        if again:
            self._conversation.remember_all(again)
        self._shown.clear()

    def remember_shown(self, changes: Sequence[Placed | Settled]) -> None:
        """After they were written: an approval of a placeholder is one of what was held when it was written."""
        ledger = self._runtime.pending.ledger
        shown: list[tuple[Slot, Open]] = []
        for change in changes:
            opened = change.slot.open
            if isinstance(change, Placed) and change.status is Status.PENDING and opened is not None:
                held = ledger.held(opened.call_id)
                if held is not None and held.digest != opened.digest:
                    shown.append((change.slot, Open(call_id=opened.call_id, digest=held.digest)))
        if self.blocked:
            self._shown.update((opened.call_id, opened.digest) for _, opened in shown)
        elif shown:
            self._conversation.remember_all(shown)

"""Tests the loop against a small model of its rules, with concurrent edits, other interfaces and crashes.

In any order: no call runs twice; nothing runs without an approval of exactly those arguments by the policy or a person;
nothing is sent while a call has no result; the turn limit holds.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from holdfast import Answer, Call
from holdfast.agent.conversation import Slot, Status
from holdfast.agent.events import AgentEvent, Outcome
from holdfast.agent.loop import Loop
from holdfast.agent.reply import calls_without_result
from holdfast.contract.enums import State
from holdfast.contract.errors import HoldfastError
from holdfast.contract.json import Args
from holdfast.contract.message import Message, ToolUse
from holdfast.models.port import ModelError, ModelEvent, ModelFault
from holdfast.store.ledger import Ledger
from tests.agent.crashing_process import CrashPoint, PersistentState
from tests.agent.scripted_model import results_in, scripted_reply
from tests.soak import rounds

MAX_TURNS = 3
NO_RUN = {Status.PENDING, Status.REJECTED, Status.DENIED, Status.ABORTED}
ARGUMENTS = ['{"n": 1}', '{"n": 2}', '{"n": 1}', '{"n": 2}', "{"]
TOOLS = ["auto", "ask", "auto", "ask", "auto", "ask", "never", "nothing"]

uses = st.builds(ToolUse, st.sampled_from(["a", "b", "c"]), st.sampled_from(TOOLS), st.sampled_from(ARGUMENTS))
replies = st.lists(st.lists(uses, min_size=1, max_size=3), min_size=1, max_size=4)
cuts = st.sampled_from([None, None, None, 0, 1, 2])
crashes = st.none() | st.none() | st.integers(1, 30)
places = st.integers(0, 2)


class Talker:
    """A model that makes these calls turn after turn, then ends; it checks the requests."""

    provider = name = "talker"

    def __init__(
        self,
        machine: LoopMachine,
        turns: Sequence[Sequence[ToolUse]] = (),
        cut: int | None = None,
        *,
        limit: bool = True,
    ) -> None:
        self._machine = machine
        self._turns = [scripted_reply(*calls) for calls in turns]
        self._cut = cut
        self._limit = limit

    async def stream(self, messages: Sequence[Message], tools: Any, settings: Any) -> AsyncIterator[ModelEvent]:
        self._machine.is_sent(messages, limit=self._limit)
        events = self._turns.pop(0) if self._turns else scripted_reply("Done.")
        for place, event in enumerate(events):
            if not self._turns and place == self._cut:
                raise ModelError(ModelFault.CUT, "Cut.")
            yield event


class LoopMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.world = PersistentState(Path(self.folder.name))
        self.document = self.world.folder / "talk.chat"
        self.allowed: dict[str, Any] = {}
        """Calls a person approved, with the arguments they approved."""
        self.refused: set[tuple[str, str | None]] = set()
        """Slots about which a person said anything but yes, when the process began."""
        self.ran: Counter[tuple[str | None, str | None, str]] = Counter()
        self.edited: set[str] = set()
        self.wrong: list[str] = []
        self.world.conversation_file.edit(lambda person: person.say("Go."))

    def teardown(self) -> None:
        try:
            self.come_to_an_end()
        finally:
            self.folder.cleanup()

    # What may happen

    @rule(turns=replies, cut=cuts, crash=crashes)
    def ask(self, turns: list[list[ToolUse]], cut: int | None, crash: int | None) -> None:
        self.say()
        self.advance(turns, False, cut, crash, None)

    @rule(crash=crashes)
    def go_on(self, crash: int | None) -> None:
        self.advance([], False, None, crash, None)

    @rule(
        turns=replies,
        step=st.booleans(),
        cut=cuts,
        crash=crashes,
        cancel_at=st.none() | st.none() | st.integers(1, 12),
    )
    def advance(
        self, turns: list[list[ToolUse]], step: bool, cut: int | None, crash: int | None, cancel_at: int | None
    ) -> None:
        heard = 0

        async def work(loop: Loop) -> Outcome:
            nonlocal cancelling
            cancelling = loop
            return await loop.advance(step=step)

        def watch(event: AgentEvent) -> None:
            nonlocal heard
            heard += 1
            if heard == cancel_at and cancelling is not None:
                cancelling.cancel()

        cancelling: Loop | None = None
        self.go(Talker(self, turns, cut, limit=not step), CrashPoint(crash), work, on_event=watch)

    @precondition(lambda self: self.slots())
    @rule(place=places, crash=crashes)
    def run_one(self, place: int, crash: int | None) -> None:
        slot = self.slot(place)
        self.look_at(running=slot)

        async def work(loop: Loop) -> Outcome:
            return await loop.run_one(slot.use.id)

        self.live(Talker(self), CrashPoint(crash), work)

    @rule()
    def say(self) -> None:
        self.world.conversation_file.edit(lambda person: person.say("Go on."))

    @precondition(lambda self: self.slots())
    @rule(place=places, status=st.sampled_from(list(Status)))
    def set_status(self, place: int, status: Status) -> None:
        self.world.conversation_file.edit(lambda person: person.set_status(self.slot(place).use.id, status))

    @precondition(lambda self: self.slots())
    @rule(place=places)
    def approve(self, place: int) -> None:
        self.set_status(place, Status.APPROVED)

    @precondition(lambda self: self.slots())
    @rule(place=places, text=st.sampled_from(["", "words"]))
    def put_text(self, place: int, text: str) -> None:
        self.world.conversation_file.edit(lambda person: person.put_text(self.slot(place).use.id, text))

    @precondition(lambda self: self.slots())
    @rule(place=places, crash=crashes)
    def write_into_an_approved_one(self, place: int, crash: int | None) -> None:
        self.set_status(place, Status.APPROVED)
        self.put_text(place, "words")
        self.go_on(crash)

    @precondition(lambda self: self.pending() and self.slots())
    @rule(place=places, status=st.sampled_from(sorted(NO_RUN)), crash=crashes)
    def say_yes_there_and_no_here(self, place: int, status: Status, crash: int | None) -> None:
        self.answer_elsewhere(place, "approve", False, None)
        self.set_status(place, status)
        self.go_on(crash)

    @precondition(lambda self: any(slot.text for slot in self.slots()))
    @rule(place=places)
    def remove_fence(self, place: int) -> None:
        self.world.conversation_file.edit(lambda person: person.remove_fence(self.slot(place).use.id))

    @precondition(lambda self: self.slots())
    @rule(place=places, arguments=st.sampled_from(ARGUMENTS))
    def edit_call(self, place: int, arguments: str) -> None:
        self.world.conversation_file.edit(lambda person: person.edit_call(self.slot(place).use.id, arguments))

    @precondition(lambda self: self.slots())
    @rule(place=places, all_of_it=st.booleans())
    def remove(self, place: int, all_of_it: bool) -> None:
        name = self.slot(place).use.id
        self.world.conversation_file.edit(
            lambda person: person.remove_call(name) if all_of_it else person.remove_placeholder(name)
        )

    @precondition(lambda self: self.pending())
    @rule(
        place=places,
        answer=st.sampled_from(["approve", "approve", "edit", "reject", "result"]),
        here=st.booleans(),
        crash=crashes,
    )
    def answer_elsewhere(self, place: int, answer: Any, here: bool, crash: int | None) -> None:
        """`here`: a process of the same document, which runs the call it approves; otherwise it only approves."""
        waiting = self.pending()
        call = waiting[place % len(waiting)]
        args: Args | None = {"n": 3} if answer == "edit" else None

        async def work(loop: Loop) -> None:
            try:
                held = loop.runtime.pending.ledger.find_pending(call.id)
                if held is not None and held.state is State.PENDING and answer in ("approve", "edit"):
                    self.allowed[call.id] = args or held.call.args
                    self.edited |= {call.id} if args else set()
                await loop.runtime.answer(call.id, Answer(kind=answer, by="ann", message="said", args=args))
            except HoldfastError:
                return

        self.refused.clear()
        self.live(Talker(self), CrashPoint(crash), work, document=self.document if here else None)

    # What must hold

    @invariant()
    def nothing_went_wrong(self) -> None:
        assert self.wrong == []
        assert all(count == 1 for count in self.world.executions.executions().values())
        assert all(count == 1 for count in self.ran.values()), self.ran
        told = [result.output for result in self.results() if result.output.startswith("ran ")]
        assert len(told) == len(set(told))
        assert set(told) <= {f"ran {call}" for call in self.world.executions.executions()}

    def runs(self, call: Call) -> None:
        """Check a call that is about to run."""
        slot = (call.request or "", call.given_id)
        if call.tool == "never":
            self.wrong.append("a denied call runs")
        if slot in self.refused:
            self.wrong.append(f"{slot} runs though a person did not let it")
        if call.tool == "ask" and self.allowed.get(call.id) != call.args:
            self.wrong.append(f"{slot} runs with {call.args}, approved was {self.allowed.get(call.id)}")
        if call.id not in self.edited:
            self.ran[(call.request, call.given_id, str(call.args))] += 1

    def is_sent(self, messages: Sequence[Message], *, limit: bool) -> None:
        if calls_without_result(messages):
            self.wrong.append("a call without its result is sent")
        if self.slots():
            self.wrong.append("something is sent while a call waits")
        if limit and self.world.conversation_file.open(CrashPoint()).turns_since_user() >= MAX_TURNS:
            self.wrong.append("more is sent than the limit lets")

    def look_at(self, running: Slot | None = None) -> None:
        """Record the approvals in the conversation when a process starts."""
        self.refused.clear()
        with Ledger.open(self.world.folder / "ledger.db") as ledger:
            for slot in self.slots():
                status = slot.status
                alone = running is not None and running.use.id == slot.use.id
                if alone and status is Status.PENDING and not slot.text:
                    status = Status.APPROVED
                held = None if slot.call is None else ledger.find_pending(slot.call.call_id)
                approved = held is not None and held.state is State.APPROVED
                own = self.world.conversation_file.open(CrashPoint())
                if slot.text or slot.aborted or status in NO_RUN - ({Status.PENDING} if approved else set()):
                    self.refused.add((f"{own.id}:{slot.turn}", slot.use.id))
                elif (
                    held
                    and slot.call
                    and status is Status.APPROVED
                    and (slot.call.digest == held.digest or (alone and not slot.call.digest))
                ):
                    self.allowed[held.call.id] = held.call.args

    # How it is done

    def go(self, model: Talker, life: CrashPoint, work: Any = None, **options: Any) -> Outcome | None:
        self.look_at()
        outcome = self.live(model, life, work, **options)
        if outcome is not None:
            left = self.slots()
            assert (outcome.kind in ("pending", "edited")) <= bool(left), outcome
            assert not (outcome.kind in ("done", "stopped") and left), outcome
        return outcome

    def live(self, model: Talker, life: CrashPoint, work: Any, **options: Any) -> Any:
        options = {"document": self.document, "max_turns": MAX_TURNS, **options}
        return self.world.advance(model, life, work, check=self.runs, **options)

    def slots(self) -> list[Slot]:
        return list(self.world.conversation_file.open(CrashPoint()).slots())

    def slot(self, place: int) -> Slot:
        slots = self.slots()
        return slots[place % len(slots)]

    def pending(self) -> list[Call]:
        path = self.world.folder / "ledger.db"
        if not path.exists():
            return []
        with Ledger.open(path) as ledger:
            return [held.call for held in ledger.pending()]

    def results(self) -> list[Any]:
        return results_in(self.world.conversation_file.open(CrashPoint()).messages())

    def come_to_an_end(self) -> None:
        """Answer everything that is left: then each call has its result, and nothing is pending."""
        for _ in range(6):
            for slot in self.slots():
                if slot.text:
                    self.world.conversation_file.edit(lambda person, name=slot.use.id: person.remove_fence(name))
                else:
                    self.world.conversation_file.edit(
                        lambda person, name=slot.use.id: person.set_status(name, Status.REJECTED)
                    )
            self.world.conversation_file.edit(lambda person: person.say("Come to an end."))
            outcome = self.go(Talker(self), CrashPoint())
            if outcome is not None and outcome.kind == "done":
                break
        else:
            raise AssertionError("it does not end")
        self.nothing_went_wrong()
        assert self.pending() == []
        assert calls_without_result(list(self.world.conversation_file.open(CrashPoint()).messages())) == []


@pytest.mark.spec("U1", "U2", "U3", "U4", "U5", "A13", "D5")
def test_the_invariants_hold_for_any_sequence_of_events() -> None:
    run_state_machine_as_test(
        LoopMachine,
        settings=settings(
            max_examples=rounds(16, 80),
            stateful_step_count=20,
            deadline=None,
            database=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        ),
    )

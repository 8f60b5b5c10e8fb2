"""Who approved a call is in the record, whichever interface they came through."""

from __future__ import annotations

import pytest

from holdfast import Answer, PendingCall, open_runtime
from holdfast.factory.chat import open_chat
from tests.agent.scripted import Scripted, said
from tests.factory.places import Place, approve, asking
from tests.runtime.support import run

pytestmark = pytest.mark.spec("E7a")

MAKEFILE = {"path": "Makefile", "content": "all:\n"}
"""A protected path: always asked about."""


def test_a_program_names_whoever_it_asked(place: Place) -> None:
    async def ann(held: PendingCall) -> Answer:
        return Answer(kind="approve", by="ann")

    async def work() -> None:
        async with open_runtime(place.root, asker=ann) as runtime:
            result = await runtime.call("file.write", MAKEFILE)
            assert runtime.ledger is not None
            record = runtime.ledger.call(result.call_id)
            assert record.answers[0].answer.by == "ann"
            assert record.decisions[-1].source == "person:ann"

    run(work())


def test_a_call_that_was_parked_names_whoever_answered_it(place: Place) -> None:
    async def work() -> None:
        async with open_runtime(place.root, nobody="pending") as runtime:
            held = await runtime.call("file.write", MAKEFILE)
        async with open_runtime(place.root) as runtime:
            await runtime.approve(held.call_id, by="bob")
            assert runtime.ledger is not None
            assert runtime.ledger.call(held.call_id).decisions[-1].source == "person:bob"

    run(work())


def test_a_status_typed_into_a_document_names_whoever_drives_it(place: Place) -> None:
    place.write("@You:\nWrite it.\n")
    place.drive(asking())
    approve(place)

    async def work() -> list[str]:
        async with open_chat(place.document, model=Scripted(said("Done.")), by="cleo") as chat:
            await chat.loop.advance()
            ledger = chat.runtime.ledger
            assert ledger is not None
            return [given.answer.by for call in ledger.calls() for given in ledger.call(call.call.id).answers]

    assert run(work()) == ["cleo"]

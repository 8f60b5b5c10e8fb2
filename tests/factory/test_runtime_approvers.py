"""The ledger records who approved a call, whatever the interface."""

from __future__ import annotations

import pytest

from holdfast import Answer, PendingCall, open_runtime
from holdfast.factory.chat import open_chat
from holdfast.json_output import CallOutput
from holdfast.store.process_identity import os_user, own_identity
from tests.agent.scripted_model import ScriptedModel, scripted_reply
from tests.factory.chat_project import ChatProject, advance_again, asking_model, make_pending, mark_approved
from tests.runtime.support import run

pytestmark = pytest.mark.spec("E7a")

MAKEFILE = {"path": "Makefile", "content": "all:\n"}
"""A protected path: always asked about."""


def test_an_approval_in_a_program_records_the_approver(chat_project: ChatProject) -> None:
    async def ann(held: PendingCall) -> Answer:
        return Answer(kind="approve", by="ann")

    async def work() -> None:
        async with open_runtime(chat_project.root, asker=ann) as runtime:
            result = await runtime.call("file.write", MAKEFILE)
            assert runtime.ledger is not None
            record = runtime.ledger.call(result.call_id)
            assert record.answers[0].answer.by == "ann"
            assert record.decisions[-1].source == "person:ann"

    run(work())


def test_a_pending_call_records_who_answered_it(chat_project: ChatProject) -> None:
    async def work() -> None:
        async with open_runtime(chat_project.root, nobody="pending") as runtime:
            held = await runtime.call("file.write", MAKEFILE)
        async with open_runtime(chat_project.root) as runtime:
            await runtime.approve(held.call_id, by="bob")
            assert runtime.ledger is not None
            assert runtime.ledger.call(held.call_id).decisions[-1].source == "person:bob"

    run(work())


def test_a_status_typed_into_a_document_records_who_runs_it(chat_project: ChatProject) -> None:
    chat_project.write("@You:\nWrite it.\n")
    chat_project.advance(asking_model())
    mark_approved(chat_project)

    async def work() -> list[str]:
        async with open_chat(chat_project.document, model=ScriptedModel(scripted_reply("Done.")), by="cleo") as chat:
            await chat.loop.advance()
            ledger = chat.runtime.ledger
            assert ledger is not None
            return [given.answer.by for call in ledger.calls() for given in ledger.call(call.call.id).answers]

    assert run(work()) == ["cleo"]


@pytest.mark.spec("E7b")
def test_an_answer_records_the_account_whatever_name_was_typed(chat_project: ChatProject) -> None:
    async def work() -> list[Answer]:
        async with open_runtime(chat_project.root, nobody="pending") as runtime:
            held = await runtime.call("file.write", MAKEFILE)
            await runtime.approve(held.call_id, by="the president")
            assert runtime.ledger is not None
            return [given.answer for given in runtime.ledger.call(held.call_id).answers]

    (answer,) = run(work())
    assert answer.by == "the president"
    assert answer.identity == f"os:{os_user()}"


@pytest.mark.spec("E7b")
def test_an_answer_keeps_the_identity_that_its_interface_authenticated(chat_project: ChatProject) -> None:
    async def work() -> CallOutput:
        async with open_runtime(chat_project.root, nobody="pending") as runtime:
            held = await runtime.call("file.write", MAKEFILE)
            edited = Answer(kind="edit", by="Ann", args={**MAKEFILE, "content": "none:\n"}, identity="token:ann")
            await runtime.answer(held.call_id, edited)
            assert runtime.ledger is not None
            return CallOutput.of(runtime.ledger.call(held.call_id))

    shown = run(work())
    assert [(answer["kind"], answer["identity"]) for answer in shown.answers] == [
        ("edit", "token:ann"),
        ("approve", "token:ann"),
    ]
    assert shown.answers[0]["user"] == os_user()


@pytest.mark.spec("E7e")
def test_an_approval_in_a_document_leaves_a_call_for_two_people_pending(chat_project: ChatProject) -> None:
    (chat_project.root / "holdfast.toml").write_text('[approval]\ntwo_people = "low"\n')
    make_pending(chat_project)
    for _ in range(2):
        mark_approved(chat_project)
        outcome, warned, _ = advance_again(chat_project)
        assert outcome.kind == "pending"
        assert any("another person must approve" in text.lower() for text in warned), warned
        assert "status=pending" in chat_project.document.read_text()
        assert not (chat_project.root / "Makefile").exists()

    async def second() -> None:
        async with open_runtime(chat_project.root) as runtime:
            (held,) = runtime.pending.list()
            assert held.approved_by == (own_identity(),)
            await runtime.answer(held.call.id, Answer(kind="approve", by="Bob", identity="token:bob"))

    run(second())
    assert not (chat_project.root / "Makefile").exists(), "it runs where its document is open"
    chat_project.advance(ScriptedModel(scripted_reply("Done.")))
    assert (chat_project.root / "Makefile").read_text() == "x"

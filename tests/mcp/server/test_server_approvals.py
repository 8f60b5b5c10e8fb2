"""Approvals over MCP: the client asks its user, any other interface may answer too, and the first answer counts."""

from __future__ import annotations

import asyncio
from pathlib import Path

import mcp_types as types
import pytest
from msgspec.structs import replace

from holdfast import Answer, Risk
from tests.mcp.server.scripted_clients import BOTH, YES, Person, ask, at, first_round, nobody
from tests.mcp.server.served_runtime import CONFIG, Deeds, Era, running, served, text_of
from tests.mcp.server.test_server import run

pytestmark = [pytest.mark.spec("K3a"), pytest.mark.spec("A13c")]


@BOTH
@pytest.mark.spec("E7a")
def test_a_yes_of_the_clients_person_runs_the_call_and_names_them(tmp_path: Path, era: Era) -> None:
    async def body() -> None:
        deeds, person = Deeds(), Person()
        async with at(tmp_path, era, person, deeds=deeds) as (runtime, client):
            result = await client.call_tool("erase", {"what": "the \x1b[31mlog"})
            assert text_of(result) == "Erased the \x1b[31mlog." and deeds.done == ["the \x1b[31mlog"]
            (message,) = person.seen
            assert "tool erase" in message and "Asked by: tester" in message and "\x1b" not in message
            assert result.meta is not None and runtime.ledger is not None
            record = runtime.ledger.call(result.meta["holdfast/call"])
            assert record is not None and "tester 1.2 over MCP" in str(record)

    run(body())


@BOTH
def test_a_no_reaches_the_model_with_its_message(tmp_path: Path, era: Era) -> None:
    async def body() -> None:
        deeds = Deeds()
        person = Person(types.ElicitResult(action="accept", content={"decision": "reject", "message": "Not today."}))
        async with at(tmp_path, era, person, deeds=deeds) as (_, client):
            result = await client.call_tool("erase", {"what": "all"})
            assert result.is_error and "Not today." in text_of(result) and deeds.done == []
            person.answer = types.ElicitResult(action="decline")
            result = await client.call_tool("erase", {"what": "all"})
            assert result.is_error and result.meta is not None
            assert result.meta["holdfast/state"] == "rejected" and deeds.done == []

    run(body())


@BOTH
def test_where_a_clients_yes_does_not_count_it_is_not_asked_and_not_believed(tmp_path: Path, era: Era) -> None:
    async def body() -> None:
        deeds = Deeds()
        strict = replace(CONFIG, mcp=replace(CONFIG.mcp, client_approves=False))
        async with at(tmp_path, era, nobody, deeds=deeds, config=strict) as (runtime, client):
            result = await client.call_tool("erase", {"what": "all"})
            (held,) = runtime.pending.list()
            assert f"holdfast approve {held.call.id}" in text_of(result) and deeds.done == []
        if era != "legacy":
            other = tmp_path / "other"
            other.mkdir()
            async with at(other, era, nobody) as (_, client):
                key, state = await first_round(client)
            async with at(other, era, nobody, deeds=deeds, config=strict) as (runtime, client):
                outcome = await ask(client, input_responses={key: YES}, request_state=state)
                assert isinstance(outcome, types.CallToolResult) and outcome.is_error and deeds.done == []
                assert len(runtime.pending.list()) == 1

    run(body())


@BOTH
def test_a_dismissed_question_leaves_the_call_waiting(tmp_path: Path, era: Era) -> None:
    async def body() -> None:
        deeds, person = Deeds(), Person(types.ElicitResult(action="cancel"))
        async with at(tmp_path, era, person, deeds=deeds) as (runtime, client):
            result = await client.call_tool("erase", {"what": "all"})
            (held,) = runtime.pending.list()
            assert f"holdfast approve {held.call.id}" in text_of(result)
            assert held.waiter is None and deeds.done == []

    run(body())


@BOTH
def test_an_accepted_form_without_a_decision_is_no_yes(tmp_path: Path, era: Era) -> None:
    async def body() -> None:
        deeds = Deeds()
        for content in ({}, {"decision": "yes"}, {"decision": True}, None):
            said = types.ElicitResult(action="accept", content=content)  # pyright: ignore[reportArgumentType]
            async with running(tmp_path, deeds=deeds) as runtime:
                if era == "legacy":
                    async with served(runtime, era, elicitation_callback=Person(said)) as client:
                        await client.call_tool("erase", {"what": "all"})
                else:
                    async with served(runtime, era, elicitation_callback=nobody) as client:
                        key, state = await first_round(client)
                        again = await ask(client, input_responses={key: said}, request_state=state)
                        assert isinstance(again, types.InputRequiredResult)
                assert deeds.done == []

    run(body())


@BOTH
def test_a_client_that_cannot_ask_waits_a_little_for_another_interface(tmp_path: Path, era: Era) -> None:
    async def body() -> None:
        deeds = Deeds()
        async with running(tmp_path, deeds=deeds) as runtime, served(runtime, era) as client:
            result = await client.call_tool("erase", {"what": "all"})
            (held,) = runtime.pending.list()
            assert result.is_error and f"holdfast approve {held.call.id}" in text_of(result)
            await runtime.approve(held.call.id, by="later")
            assert deeds.done == ["all"]

    run(body())


def test_another_door_that_is_faster_answers_and_the_question_is_withdrawn(tmp_path: Path) -> None:
    async def body() -> None:
        deeds = Deeds()
        asked, withdrawn = asyncio.Event(), asyncio.Event()

        async def slow(*_: object) -> types.ElicitResult:
            asked.set()
            try:
                await asyncio.Event().wait()
            finally:
                withdrawn.set()
            raise AssertionError

        async with at(tmp_path, "legacy", slow, deeds=deeds) as (_, client):
            calling = asyncio.ensure_future(client.call_tool("erase", {"what": "all"}))
            await asked.wait()
            async with running(tmp_path) as other:
                (held,) = other.pending.list()
                await other.approve(held.call.id, by="the terminal")
            assert text_of(await calling) == "Erased all."
            await withdrawn.wait()

    run(body())


@BOTH
def test_a_call_inside_a_call_is_asked_about_too(tmp_path: Path, era: Era) -> None:
    async def body() -> None:
        deeds, person = Deeds(), Person()
        async with at(tmp_path, era, person, deeds=deeds) as (_, client):
            assert text_of(await client.call_tool("around", {})) == "Erased from inside."
            assert deeds.done == ["from inside"] and len(person.seen) == 1

    run(body())


@BOTH
def test_a_secret_is_not_shown_with_the_question(tmp_path: Path, era: Era) -> None:
    async def body() -> None:
        person = Person()
        async with at(tmp_path, era, person) as (runtime, client):
            runtime.redactor.add("key", "s3cr3t-s3cr3t")
            await client.call_tool("erase", {"what": "with s3cr3t-s3cr3t"})
            assert "with" in person.seen[0] and "s3cr3t-s3cr3t" not in person.seen[0]

    run(body())


@BOTH
@pytest.mark.spec("E7e")
def test_a_clients_yes_is_one_of_two_where_two_people_must_approve(tmp_path: Path, era: Era) -> None:
    async def body() -> None:
        deeds, person = Deeds(), Person()
        strict = replace(CONFIG, approval=replace(CONFIG.approval, two_people=Risk.LOW))
        async with at(tmp_path, era, person, deeds=deeds, config=strict) as (runtime, client):
            result = await client.call_tool("erase", {"what": "all"})
            assert "1 of 2 approvals; another person must approve" in text_of(result) and deeds.done == []
            (held,) = runtime.pending.list()
            result = await client.call_tool("erase", {"what": "all"})
            assert "1 of 2 approvals" in text_of(result) and deeds.done == []
            assert [pending.call.id for pending in runtime.pending.list()] == [held.call.id]
            assert len(person.seen) == 1, "who has approved it is not asked again"
            answer = Answer(kind="approve", by="Bob", identity="token:bob")
            assert (await runtime.answer(held.call.id, answer, digest=held.digest)).success
            assert deeds.done == ["all"]

    run(body())

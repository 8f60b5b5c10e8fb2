"""A call that needs approval: the client's person is asked, any other door may answer, and the first answer counts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp import Client, MCPError
from msgspec.structs import replace

from holdfast import Context, Runtime, tool
from holdfast.contract.inquiry import Completion, Form, Speech
from holdfast.contract.vocabulary import State
from holdfast.doors.mcp import rounds
from tests.doors.mcp.serving import CONFIG, ERAS, Deeds, Era, running, served, text_of
from tests.doors.mcp.test_calls import run

pytestmark = [pytest.mark.spec("K3"), pytest.mark.spec("A13c")]

YES = types.ElicitResult(action="accept", content={"decision": "approve"})
BOTH = pytest.mark.parametrize("era", ERAS)


class Person:
    """Answers every question the same way and remembers what was asked."""

    def __init__(self, answer: types.ElicitResult = YES) -> None:
        self.answer = answer
        self.seen: list[str] = []

    async def __call__(self, _: object, params: Any) -> types.ElicitResult:
        self.seen.append(params.message)
        return self.answer


async def ask(client: Client, what: str = "all", **more: Any) -> types.CallToolResult | types.InputRequiredResult:
    """One round, by hand."""
    outcome = await client.session.call_tool("erase", {"what": what}, allow_input_required=True, **more)
    assert isinstance(outcome, types.CallToolResult | types.InputRequiredResult)
    return outcome


async def first_round(client: Client, what: str = "all") -> tuple[str, str]:
    """The key of the question and the sealed state."""
    asked = await ask(client, what)
    assert isinstance(asked, types.InputRequiredResult)
    assert asked.input_requests is not None and asked.request_state is not None
    (key,) = asked.input_requests
    return key, asked.request_state


@asynccontextmanager
async def at(folder: Path, era: Era, person: Any, **options: Any) -> AsyncGenerator[tuple[Runtime, Client]]:
    """A runtime over this folder and a client whose person answers like this."""
    async with running(folder, **options) as runtime, served(runtime, era, elicitation_callback=person) as client:
        yield runtime, client


async def nobody(*_: object) -> types.ElicitResult:
    raise AssertionError("nobody is asked by the client itself")


@BOTH
@pytest.mark.spec("E7a")
def test_a_yes_of_the_clients_person_runs_the_call_and_names_them(tmp_path: Path, era: Era) -> None:
    async def body() -> None:
        deeds, person = Deeds(), Person()
        async with at(tmp_path, era, person, deeds=deeds) as (runtime, client):
            result = await client.call_tool("erase", {"what": "the \x1b[31mlog"})
            assert text_of(result) == "Erased the \x1b[31mlog." and deeds.done == ["the \x1b[31mlog"]
            (message,) = person.seen
            assert "tool erase" in message and "of tester" in message and "\x1b" not in message
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
            (held,) = runtime.pending()
            assert f"holdfast approve {held.call.id}" in text_of(result) and deeds.done == []
        if era != "legacy":
            other = tmp_path / "other"
            other.mkdir()
            async with at(other, era, nobody) as (_, client):
                key, state = await first_round(client)
            async with at(other, era, nobody, deeds=deeds, config=strict) as (runtime, client):
                outcome = await ask(client, input_responses={key: YES}, request_state=state)
                assert isinstance(outcome, types.CallToolResult) and outcome.is_error and deeds.done == []
                assert len(runtime.pending()) == 1

    run(body())


@BOTH
def test_a_dismissed_question_leaves_the_call_waiting(tmp_path: Path, era: Era) -> None:
    async def body() -> None:
        deeds, person = Deeds(), Person(types.ElicitResult(action="cancel"))
        async with at(tmp_path, era, person, deeds=deeds) as (runtime, client):
            result = await client.call_tool("erase", {"what": "all"})
            (held,) = runtime.pending()
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
def test_a_client_that_cannot_ask_waits_a_little_for_another_door(tmp_path: Path, era: Era) -> None:
    async def body() -> None:
        deeds = Deeds()
        async with running(tmp_path, deeds=deeds) as runtime, served(runtime, era) as client:
            result = await client.call_tool("erase", {"what": "all"})
            (held,) = runtime.pending()
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
                (held,) = other.pending()
                await other.approve(held.call.id, by="the terminal")
            assert text_of(await calling) == "Erased all."
            await withdrawn.wait()

    run(body())


def test_in_the_modern_protocol_another_door_is_faster_too(tmp_path: Path) -> None:
    async def body() -> None:
        deeds = Deeds()
        async with at(tmp_path, "auto", nobody, deeds=deeds) as (_, client):
            key, state = await first_round(client)
            async with running(tmp_path) as other:
                (held,) = other.pending()
                await other.reject(held.call.id, "Somebody said no first.", by="the terminal")
            late = await ask(client, input_responses={key: YES}, request_state=state)
            assert isinstance(late, types.CallToolResult)
            assert "Somebody said no first." in text_of(late) and deeds.done == []

    run(body())


def test_an_approval_survives_a_restart_of_the_server(tmp_path: Path) -> None:
    async def body() -> None:
        before, after = Deeds(), Deeds()
        async with at(tmp_path, "auto", nobody, deeds=before) as (_, client):
            key, state = await first_round(client)
        async with at(tmp_path, "auto", nobody, deeds=after) as (_, client):
            result = await ask(client, input_responses={key: YES}, request_state=state)
            assert isinstance(result, types.CallToolResult) and text_of(result) == "Erased all."
            again = await ask(client, input_responses={key: YES}, request_state=state)
            assert isinstance(again, types.CallToolResult) and text_of(again) == "Erased all."
        assert before.done == [] and after.done == ["all"]

    run(body())


def test_after_a_restart_a_missing_answer_is_asked_for_again(tmp_path: Path) -> None:
    async def body() -> None:
        deeds = Deeds()
        async with running(tmp_path) as runtime, served(runtime, "auto", elicitation_callback=nobody) as client:
            _, state = await first_round(client)
        async with at(tmp_path, "auto", nobody, deeds=deeds) as (_, client):
            again = await ask(client, request_state=state)
            assert isinstance(again, types.InputRequiredResult) and again.input_requests is not None
            (key,) = again.input_requests
            done = await ask(client, input_responses={key: YES}, request_state=again.request_state)
            assert isinstance(done, types.CallToolResult) and deeds.done == ["all"]

    run(body())


def test_a_state_that_was_changed_or_belongs_to_another_request_is_refused(tmp_path: Path) -> None:
    async def body() -> None:
        deeds = Deeds()
        async with running(tmp_path, deeds=deeds) as runtime:
            async with served(runtime, "auto", elicitation_callback=nobody) as client:
                key, state = await first_round(client)
                wrong = [
                    ("all", state + "x"),
                    ("all", state[:-4] + "AAAA"),
                    ("all", "v1.AAAA"),
                    ("everything", state),
                ]
                for what, changed in wrong:
                    with pytest.raises(MCPError, match="Invalid or expired requestState"):
                        await ask(client, what, input_responses={key: YES}, request_state=changed)
            async with served(runtime, "auto", name="somebody else", elicitation_callback=nobody) as client:
                with pytest.raises(MCPError, match="Invalid or expired requestState"):
                    await ask(client, input_responses={key: YES}, request_state=state)
        assert deeds.done == []

    run(body())


def test_a_state_sealed_with_another_key_is_refused(tmp_path: Path) -> None:
    async def body() -> None:
        deeds = Deeds()
        async with running(tmp_path) as runtime, served(runtime, "auto", elicitation_callback=nobody) as client:
            key, state = await first_round(client)
        (tmp_path / "mcp.key").unlink()
        async with at(tmp_path, "auto", nobody, deeds=deeds) as (_, client):
            with pytest.raises(MCPError, match="Invalid or expired requestState"):
                await ask(client, input_responses={key: YES}, request_state=state)
        assert deeds.done == []

    run(body())


def test_an_answer_that_comes_before_the_question_approves_nothing(tmp_path: Path) -> None:
    async def body() -> None:
        deeds = Deeds()
        async with at(tmp_path, "auto", nobody, deeds=deeds) as (_, client):
            guesses = {f"approval-{number}": YES for number in range(5)}
            asked = await ask(client, input_responses=guesses)
            assert isinstance(asked, types.InputRequiredResult) and deeds.done == []
            wrong = await ask(client, input_responses={"approval-9": YES}, request_state=asked.request_state)
            assert isinstance(wrong, types.InputRequiredResult) and deeds.done == []

    run(body())


def test_a_repeated_answer_runs_the_call_once(tmp_path: Path) -> None:
    async def body() -> None:
        deeds = Deeds()
        async with at(tmp_path, "auto", nobody, deeds=deeds) as (_, client):
            key, state = await first_round(client)
            rounds = [ask(client, input_responses={key: YES}, request_state=state) for _ in range(4)]
            for result in await asyncio.gather(*rounds):
                assert isinstance(result, types.CallToolResult) and text_of(result) == "Erased all."
        assert deeds.done == ["all"]

    run(body())


@BOTH
def test_a_call_inside_a_call_is_asked_about_too(tmp_path: Path, era: Era) -> None:
    async def body() -> None:
        deeds, person = Deeds(), Person()
        async with at(tmp_path, era, person, deeds=deeds) as (_, client):
            assert text_of(await client.call_tool("around", {})) == "Erased from inside."
            assert deeds.done == ["from inside"] and len(person.seen) == 1

    run(body())


def test_a_call_inside_a_call_that_was_lost_is_not_run_by_its_old_answer(tmp_path: Path) -> None:
    async def body() -> None:
        deeds = Deeds()
        async with running(tmp_path) as runtime, served(runtime, "auto", elicitation_callback=nobody) as client:
            asked = await client.session.call_tool("around", {}, allow_input_required=True)
            assert isinstance(asked, types.InputRequiredResult) and asked.input_requests is not None
        async with at(tmp_path, "auto", nobody, deeds=deeds) as (_, client):
            answers: Any = dict.fromkeys(asked.input_requests, YES)
            late = await client.session.call_tool(
                "around", {}, input_responses=answers, request_state=asked.request_state
            )
            assert deeds.done == [] and "Erased" not in text_of(late)

    run(body())


@tool(effects=("person",))
async def name_it(ctx: Context) -> str:
    """Asks for a name."""
    schema: Any = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    (reply,) = await ctx.inquire(Form(message="Which name?", schema=schema, key="name"))
    return f"{reply.action}: {(reply.content or {}).get('name')} by {reply.by}"


async def _named(runtime: Runtime, era: Era, person: Any) -> str:
    async with served(runtime, era, elicitation_callback=person) as client:
        return text_of(await client.call_tool("name_it", {}))


@BOTH
def test_what_a_tool_asks_goes_to_the_clients_person(tmp_path: Path, era: Era) -> None:
    async def body() -> None:
        async with running(tmp_path, tools=(name_it,)) as runtime:
            person = Person(types.ElicitResult(action="accept", content={"name": "Ada"}))
            assert await _named(runtime, era, person) == "accept: Ada by tester 1.2 over MCP"
            assert await _named(runtime, era, None) == "cancel: None by "

    run(body())


def test_a_question_lost_with_its_server_says_so(tmp_path: Path) -> None:
    async def body() -> None:
        async with at(tmp_path, "auto", nobody, tools=(name_it,)) as (_, client):
            asked = await client.session.call_tool("name_it", {}, allow_input_required=True)
            assert isinstance(asked, types.InputRequiredResult)
        async with at(tmp_path, "auto", nobody, tools=(name_it,)) as (_, client):
            answers: Any = {"name": types.ElicitResult(action="accept", content={"name": "Ada"})}
            result = await client.session.call_tool(
                "name_it", {}, input_responses=answers, request_state=asked.request_state
            )
            assert result.is_error and result.meta is not None
            assert result.meta["holdfast/state"] == State.CANCELLED

    run(body())


def test_of_too_many_open_questions_the_oldest_wait_in_the_ledger_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rounds, "MAX_SUSPENDED", 1)

    async def body() -> None:
        deeds = Deeds()
        async with at(tmp_path, "auto", nobody, deeds=deeds) as (runtime, client):
            key, state = await first_round(client, "first")
            await first_round(client, "second")
            assert len(runtime.pending()) == 2
            done = await ask(client, "first", input_responses={key: YES}, request_state=state)
            assert isinstance(done, types.CallToolResult) and deeds.done == ["first"]

    run(body())


@BOTH
def test_a_question_the_protocol_does_not_know_fails_alone(tmp_path: Path, era: Era) -> None:
    @tool(name="name_it", effects=("person",))
    async def odd(ctx: Context) -> str:
        """Asks with content no client knows."""
        (reply,) = await ctx.inquire(Completion(messages=(Speech("user", {"type": "smell"}),), max_tokens=5))
        return reply.action

    async def body() -> None:
        async with (
            running(tmp_path, tools=(odd,)) as runtime,
            served(runtime, era, sampling_callback=nobody) as client,
        ):
            assert text_of(await client.call_tool("name_it", {})) == "cancel"

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

"""Approvals in the modern protocol, round by round: sealed states, restarts, answers that come twice or too early."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp import Client, MCPError
from msgspec.structs import replace

from holdfast import tool
from holdfast.mcp.server import request_table
from holdfast.mcp.server.server import McpServer
from tests.mcp.server.scripted_clients import BOTH, YES, Person, ask, at, first_round, nobody
from tests.mcp.server.served_runtime import CONFIG, Deeds, Era, running, served, text_of
from tests.mcp.server.test_elicitation import name_it
from tests.mcp.server.test_server import run

pytestmark = [pytest.mark.spec("K3a"), pytest.mark.spec("A13c")]


def test_in_the_modern_protocol_another_door_is_faster_too(tmp_path: Path) -> None:
    async def body() -> None:
        deeds = Deeds()
        async with at(tmp_path, "auto", nobody, deeds=deeds) as (_, client):
            key, state = await first_round(client)
            async with running(tmp_path) as other:
                (held,) = other.pending.list()
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
            request_table = [ask(client, input_responses={key: YES}, request_state=state) for _ in range(4)]
            for result in await asyncio.gather(*request_table):
                assert isinstance(result, types.CallToolResult) and text_of(result) == "Erased all."
        assert deeds.done == ["all"]

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


def test_of_too_many_open_questions_the_oldest_wait_in_the_ledger_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_table, "MAX_SUSPENDED", 1)

    async def body() -> None:
        deeds = Deeds()
        async with at(tmp_path, "auto", nobody, deeds=deeds) as (runtime, client):
            key, state = await first_round(client, "first")
            await first_round(client, "second")
            assert len(runtime.pending.list()) == 2
            done = await ask(client, "first", input_responses={key: YES}, request_state=state)
            assert isinstance(done, types.CallToolResult) and deeds.done == ["first"]

    run(body())


def test_one_of_several_equal_rounds_can_be_cancelled_and_the_others_get_the_result(tmp_path: Path) -> None:
    async def body() -> None:
        begun, go = asyncio.Event(), asyncio.Event()

        @tool(name="slow", effects=("external",))
        async def slow(what: str) -> str:
            """Takes its time."""
            begun.set()
            await go.wait()
            return f"Done {what}."

        async def again(client: Client, state: str | None, answers: Any) -> types.CallToolResult:
            return await client.session.call_tool("slow", {"what": "it"}, input_responses=answers, request_state=state)

        async with at(tmp_path, "auto", nobody, tools=(slow,)) as (_, client):
            asked = await client.session.call_tool("slow", {"what": "it"}, allow_input_required=True)
            assert isinstance(asked, types.InputRequiredResult) and asked.input_requests is not None
            answers: Any = dict.fromkeys(asked.input_requests, YES)
            first = asyncio.ensure_future(again(client, asked.request_state, answers))
            await begun.wait()
            second = asyncio.ensure_future(again(client, asked.request_state, answers))
            await client.call_tool("math--add", {"a": 1, "b": 1})
            first.cancel()
            await client.call_tool("math--add", {"a": 1, "b": 1})
            go.set()
            assert text_of(await second) == "Done it."

    run(body())


def test_a_round_whose_client_can_no_longer_ask_waits_for_another_interface(tmp_path: Path) -> None:
    async def body() -> None:
        deeds = Deeds()
        async with running(tmp_path, deeds=deeds, tools=(name_it,)) as runtime, McpServer(runtime) as interface:
            info = types.Implementation(name="tester", version="1.2")
            asking: Any = nobody
            able = Client(interface.server, mode="auto", client_info=info, elicitation_callback=asking)
            unable = Client(interface.server, mode="auto", client_info=info)
            async with able, unable:
                _, state = await first_round(able)
                late = await ask(unable, request_state=state)
                assert isinstance(late, types.CallToolResult)
                (held,) = runtime.pending.list()
                assert f"holdfast approve {held.call.id}" in text_of(late) and held.waiter is None
                asked = await able.session.call_tool("name_it", {}, allow_input_required=True)
                assert isinstance(asked, types.InputRequiredResult)
                told = await unable.session.call_tool("name_it", {}, request_state=asked.request_state)
                assert text_of(told) == "cancel: None by "

    run(body())


@tool(name="notes.read", effects=("external",), capabilities=("mcp:resources/read",))
async def read(uri: str) -> dict[str, Any]:
    """One of them."""
    return {"contents": [{"uri": uri, "text": "words"}]}


@pytest.mark.parametrize("answered", ["before", "by the round"])
def test_a_request_that_is_no_call_survives_a_restart_too(tmp_path: Path, answered: str) -> None:
    async def body() -> None:
        async with at(tmp_path, "auto", nobody, tools=(read,)) as (_, client):
            asked = await client.session.read_resource("note:1", allow_input_required=True)
            assert isinstance(asked, types.InputRequiredResult) and asked.input_requests is not None
        async with at(tmp_path, "auto", nobody, tools=(read,)) as (runtime, client):
            if answered == "before":
                (held,) = runtime.pending.list()
                await runtime.approve(held.call.id, by="the terminal")
            answers: Any = dict.fromkeys(asked.input_requests, YES)
            result = await client.session.read_resource(
                "note:1", input_responses=answers, request_state=asked.request_state
            )
            (content,) = result.contents
            assert isinstance(content, types.TextResourceContents) and content.text == "words"

    run(body())


@BOTH
@pytest.mark.parametrize("said", ["nothing", "cancel", "decline"])
def test_what_waits_or_was_refused_is_not_covered_by_another_tools_failure(tmp_path: Path, era: Era, said: str) -> None:
    @tool(name="others.read", effects=(), capabilities=("mcp:resources/read",))
    async def other(uri: str) -> dict[str, Any]:
        """Has none."""
        raise ValueError(f"There is no {uri}.")

    async def body() -> None:
        free = replace(CONFIG, approval=replace(CONFIG.approval, auto_approve=("others.read",)))
        person = None if said == "nothing" else Person(types.ElicitResult.model_validate({"action": said}))
        async with at(tmp_path, era, person, tools=(read, other), config=free) as (runtime, client):
            with pytest.raises(MCPError) as raised:
                await client.read_resource("note:1")
            told = raised.value.error
            if said == "decline":
                assert told.data["state"] == "rejected" and runtime.pending.list() == []
            else:
                (held,) = runtime.pending.list()
                assert f"holdfast approve {held.call.id}" in told.message

    run(body())

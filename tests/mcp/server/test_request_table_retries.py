"""A client that asks again for what it was told waits: it gets that call and its one result, and no second deed."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp import Client
from msgspec.structs import replace

from holdfast import Runtime, tool
from holdfast.contract.enums import State
from holdfast.mcp.server import request_table
from holdfast.store.queries import CallFilter
from tests.mcp.server.scripted_clients import BOTH, YES, Person, ask, at, first_round, nobody
from tests.mcp.server.served_runtime import CONFIG, Deeds, Era, running, served, text_of
from tests.mcp.server.test_server import run

pytestmark = [pytest.mark.spec("K3a"), pytest.mark.spec("A13c")]


async def erase(client: Client, what: str = "all") -> types.CallToolResult:
    return await client.call_tool("erase", {"what": what})


def waits(result: types.CallToolResult, runtime: Runtime) -> str:
    """The id of the one call that waits, which the result names."""
    (held,) = runtime.pending.list()
    assert f"holdfast approve {held.call.id}" in text_of(result)
    return held.call.id


@BOTH
def test_asked_again_it_is_the_same_call_and_its_result_is_given_once(tmp_path: Path, era: Era) -> None:
    async def body() -> None:
        deeds = Deeds()
        async with running(tmp_path, deeds=deeds) as runtime, served(runtime, era) as client:
            call = waits(await erase(client), runtime)
            assert waits(await erase(client), runtime) == call
            async with running(tmp_path, deeds=deeds) as other:
                await other.approve(call, by="the terminal")
            done = await erase(client)
            assert text_of(done) == "Erased all." and done.meta is not None and done.meta["holdfast/call"] == call
            assert deeds.done == ["all"]
            assert waits(await erase(client), runtime) != call, "after that it is a new call"

    run(body())


@BOTH
def test_whoever_asks_again_waits_for_the_answer_of_another_interface(tmp_path: Path, era: Era) -> None:
    async def body() -> None:
        deeds = Deeds()
        patient = replace(CONFIG, mcp=replace(CONFIG.mcp, wait=15))
        async with running(tmp_path, deeds=deeds) as runtime, served(runtime, era) as client:
            call = waits(await erase(client), runtime)
            runtime.config = patient
            again = [asyncio.ensure_future(erase(client)) for _ in range(3)]
            await client.call_tool("math--add", {"a": 1, "b": 1})
            assert len(runtime.pending.list()) == 1
            async with running(tmp_path, deeds=deeds) as other:
                await other.approve(call, by="the terminal")
            assert {text_of(result) for result in await asyncio.gather(*again)} == {"Erased all."}
        assert deeds.done == ["all"]

    run(body())


@BOTH
def test_other_arguments_other_tools_and_other_clients_are_other_calls(tmp_path: Path, era: Era) -> None:
    async def body() -> None:
        async with running(tmp_path) as runtime:
            async with served(runtime, era) as client:
                await erase(client)
                await erase(client, "more")
            assert len(runtime.pending.list()) == 2
            async with served(runtime, era, name="somebody else") as client:
                await erase(client)
            assert len(runtime.pending.list()) == 3

    run(body())


@BOTH
def test_after_a_restart_what_waits_is_found_in_the_ledger(tmp_path: Path, era: Era) -> None:
    async def body() -> None:
        async with running(tmp_path) as runtime, served(runtime, era) as client:
            call = waits(await erase(client), runtime)
        deeds = Deeds()
        async with running(tmp_path, deeds=deeds) as runtime:
            async with served(runtime, era, name="somebody else") as client:
                await erase(client)
                assert len(runtime.pending.list()) == 2
            async with served(runtime, era) as client:
                await erase(client)
                assert len(runtime.pending.list()) == 2
                await runtime.approve(call, by="the terminal")
                assert text_of(await erase(client)) == "Erased all." and deeds.done == ["all"]

    run(body())


@BOTH
def test_a_person_who_dismissed_it_is_asked_about_the_same_call_again(tmp_path: Path, era: Era) -> None:
    async def body() -> None:
        deeds, person = Deeds(), Person(types.ElicitResult(action="cancel"))
        async with at(tmp_path, era, person, deeds=deeds) as (runtime, client):
            call = waits(await erase(client), runtime)
            person.answer = YES
            done = await erase(client)
            assert text_of(done) == "Erased all." and done.meta is not None and done.meta["holdfast/call"] == call
            assert len(person.seen) == 2 and deeds.done == ["all"] and runtime.pending.list() == []
            (record,) = [] if runtime.ledger is None else runtime.ledger.calls(wanted=CallFilter(tool="erase"))
            assert "tester 1.2 over MCP" in str(record)

    run(body())


@BOTH
def test_whoever_asks_again_and_goes_leaves_the_call_waiting(tmp_path: Path, era: Era) -> None:
    async def body() -> None:
        async with running(tmp_path) as runtime:
            async with served(runtime, era) as client:
                call = waits(await erase(client), runtime)
                runtime.config = replace(CONFIG, mcp=replace(CONFIG.mcp, wait=15))
                again = asyncio.ensure_future(erase(client))
                await client.call_tool("math--add", {"a": 1, "b": 1})
                again.cancel()
                await client.call_tool("math--add", {"a": 1, "b": 1})
            assert [held.call.id for held in runtime.pending.list()] == [call]

    run(body())


@BOTH
def test_a_no_from_another_door_is_what_whoever_asks_again_gets(tmp_path: Path, era: Era) -> None:
    async def body() -> None:
        deeds = Deeds()
        async with running(tmp_path, deeds=deeds) as runtime, served(runtime, era) as client:
            call = waits(await erase(client), runtime)
            await runtime.reject(call, "Not that.", by="the terminal")
            refused = await erase(client)
            assert refused.is_error and "Not that." in text_of(refused) and deeds.done == []

    run(body())


def test_only_so_many_are_remembered_and_not_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_table, "MAX_PARKED", 1)

    async def body() -> None:
        async with running(tmp_path) as runtime, served(runtime, "legacy") as client:
            await erase(client, "first")
            await erase(client, "second")
            await erase(client, "second")
            assert len(runtime.pending.list()) == 2
            await erase(client, "first")
            assert len(runtime.pending.list()) == 3, "it had been forgotten"
            monkeypatch.setattr(request_table, "PARKED_SECONDS", 0.0)
            await erase(client, "first")
            assert len(runtime.pending.list()) == 4

    run(body())


class Slow:
    """A deed that takes as long as it is let; by its definition it is the one of `Deeds`."""

    def __init__(self) -> None:
        self.begun, self.go = asyncio.Event(), asyncio.Event()

    def tool(self) -> Any:
        @tool(name="erase", effects=("external",))
        async def erase(what: str) -> str:
            """Asks before it does it."""
            self.begun.set()
            await self.go.wait()
            return f"Erased {what}."

        return erase


def test_a_round_for_a_call_that_runs_elsewhere_gets_its_end_and_is_never_told_to_ask_again(tmp_path: Path) -> None:
    async def body() -> None:
        async with at(tmp_path, "auto", nobody) as (_, client):
            key, state = await first_round(client)
        slow = Slow()
        async with running(tmp_path) as other:
            other.registry.register(slow.tool(), replace=True)
            (held,) = other.pending.list()
            approving = asyncio.ensure_future(other.approve(held.call.id, by="the terminal"))
            await slow.begun.wait()
            async with at(tmp_path, "auto", nobody) as (runtime, client):
                early = await ask(client, input_responses={key: YES}, request_state=state)
                assert isinstance(early, types.CallToolResult) and early.meta is not None
                assert early.meta["holdfast/state"] == State.RUNNING
                assert held.call.id in text_of(early) and "again" not in text_of(early)
                runtime.config = replace(CONFIG, mcp=replace(CONFIG.mcp, wait=15))
                late = asyncio.ensure_future(ask(client, request_state=state))
                fresh = asyncio.ensure_future(erase(client))
                await client.call_tool("math--add", {"a": 1, "b": 1})
                slow.go.set()
                for result in (await late, await fresh):
                    assert isinstance(result, types.CallToolResult) and text_of(result) == "Erased all."
                assert runtime.pending.list() == []
            await approving

    run(body())

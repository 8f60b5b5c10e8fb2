"""Requests of a server during a call go to the person at the interface, are checked, and never reach the model."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_types import (
    CreateMessageRequestParams,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    ElicitResult,
    ErrorData,
)

from holdfast import Runtime
from holdfast.contract.elicitation import (
    Elicitation,
    ElicitationReply,
    FormRequest,
    SamplingMessage,
    SamplingRequest,
    UrlRequest,
)
from holdfast.contract.enums import State
from holdfast.contract.json import Args
from holdfast.mcp.client.active_calls import ActiveCalls
from holdfast.mcp.client.server_requests import MAX_MESSAGE, MAX_OPEN, ServerRequests
from holdfast.runtime.context import RunContext
from tests.attached import attached
from tests.mcp.client.bridge_fixtures import bridged, plain, until, wire
from tests.runtime.support import run

pytestmark = pytest.mark.spec("K1")

ANYBODY: Any = None
NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


class Person:
    """Gives the same reply to everything."""

    def __init__(self, reply: ElicitationReply) -> None:
        self.reply = reply
        self.asked: list[Elicitation] = []

    async def __call__(self, elicitation: Elicitation) -> tuple[ElicitationReply, ...]:
        self.asked.append(elicitation)
        return (self.reply,) * len(elicitation.questions)


def _call(tmp_path: Path, tool: str, reply: ElicitationReply) -> tuple[Any, Elicitation, str]:
    """What the server was told, what the person was asked, and the id of the call."""
    person = Person(reply)

    async def work() -> tuple[Any, str]:
        async with bridged(tmp_path, {"p": plain(tmp_path / "p")}, elicitor=person) as (runtime, _):
            result = await runtime.call(f"mcp:p:{tool}")
            assert result.state is State.DONE, result
            return json.loads(result.output), result.call_id

    told, call_id = run(work())
    (elicitation,) = person.asked
    return told, elicitation, call_id


def test_a_form_is_put_to_the_person_for_the_call_and_defaults_fill_what_was_left_out(tmp_path: Path) -> None:
    told, elicitation, call_id = _call(
        tmp_path, "ask", ElicitationReply(action="accept", content={"name": "Ann", "more": "no"})
    )
    assert told == {"action": "accept", "content": {"name": "Ann", "age": 7}}
    assert (elicitation.asked_by, elicitation.call_id, elicitation.group) == ("mcp:p", call_id, call_id)
    (form,) = elicitation.questions
    assert isinstance(form, FormRequest)
    assert form.message == "Who are you?"


@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_a_no_is_sent_as_a_no(tmp_path: Path, action: Any) -> None:
    assert _call(tmp_path, "ask", ElicitationReply(action=action))[0] == {"action": action}


def test_an_answer_that_does_not_fit_the_form_is_not_sent(tmp_path: Path) -> None:
    assert _call(tmp_path, "ask", ElicitationReply(action="accept", content={"name": 7}))[0] == {"action": "cancel"}


def test_a_page_is_shown_as_it_is_and_not_opened(tmp_path: Path) -> None:
    told, elicitation, _ = _call(tmp_path, "visit", ElicitationReply(action="accept"))
    assert told == {"action": "accept"}
    assert elicitation.questions == (UrlRequest(message="Pay", url="https://pay.example/x", id="e1"),)


def test_a_reply_of_a_model_is_asked_of_the_person(tmp_path: Path) -> None:
    given_reply: Args = {"role": "assistant", "content": {"type": "text", "text": "Hello"}, "model": "a person"}
    told, elicitation, _ = _call(tmp_path, "sample", ElicitationReply(action="accept", content=given_reply))
    assert told == given_reply
    speech = SamplingMessage("user", {"type": "text", "text": "Hi"})
    assert elicitation.questions == (SamplingRequest(messages=(speech,), max_tokens=5),)


def test_a_refused_reply_is_an_error_to_the_server(tmp_path: Path) -> None:
    told, _, _ = _call(tmp_path, "sample", ElicitationReply(action="decline"))
    assert told == {"code": -1, "message": "User rejected sampling request"}


def test_roots_are_the_project_and_nobody_is_asked(tmp_path: Path) -> None:
    async def work() -> Any:
        async with bridged(tmp_path, {"p": plain(tmp_path / "p")}) as (runtime, _):
            return json.loads((await runtime.call("mcp:p:roots")).output)

    assert run(work()) == {"roots": [{"uri": tmp_path.as_uri(), "name": tmp_path.name}]}


def test_where_nobody_is_a_server_is_not_offered_to_ask(tmp_path: Path) -> None:
    async def work() -> None:
        async with bridged(tmp_path, {"p": plain(tmp_path / "p")}) as (runtime, _):
            asked = json.loads((await runtime.call("mcp:p:ask")).output)
            assert asked["message"] == "Elicitation not supported"
        hello = next(message for message in wire(tmp_path / "p") if message.get("method") == "initialize")
        assert hello["params"]["capabilities"].keys() == {"roots"}

    run(work())


def test_the_time_of_a_call_stands_still_while_the_person_thinks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stood: list[str] = []
    pause, resume = RunContext.pause, RunContext.resume

    def paused(ctx: RunContext) -> None:
        stood.append("stops")
        pause(ctx)

    def gone_on(ctx: RunContext) -> None:
        stood.append("goes on")
        resume(ctx)

    async def person(elicitation: Elicitation) -> tuple[ElicitationReply, ...]:
        stood.append("asked")
        return (ElicitationReply(action="accept", content={"name": "Ann"}),)

    monkeypatch.setattr(RunContext, "pause", paused)
    monkeypatch.setattr(RunContext, "resume", gone_on)

    async def work() -> None:
        async with bridged(tmp_path, {"p": plain(tmp_path / "p")}, elicitor=person) as (runtime, _):
            assert (await runtime.call("mcp:p:ask")).state is State.DONE

    run(work())
    assert stood == ["stops", "asked", "goes on"]


def test_a_question_is_taken_back_when_its_call_ends(tmp_path: Path) -> None:
    over: list[str] = []

    async def person(elicitation: Elicitation) -> tuple[ElicitationReply, ...]:
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            over.append("taken back")
        raise AssertionError

    asked = asyncio.Event()

    async def work() -> None:
        async with bridged(tmp_path, {"p": plain(tmp_path / "p")}, elicitor=person) as (runtime, _):
            call_id = runtime.pipeline.new_call_id()
            call = asyncio.create_task(runtime.call("mcp:p:ask", call_id=call_id))
            await asked.wait()
            runtime.cancel(call_id)
            assert (await call).state is State.UNKNOWN
            await until(lambda: over)

    run(work())


def test_more_questions_than_a_person_can_have_open_are_refused() -> None:
    async def work() -> None:
        gate = asyncio.Event()

        async def person(elicitation: Elicitation) -> tuple[ElicitationReply, ...]:
            await gate.wait()
            return (ElicitationReply(action="decline"),)

        asking = ServerRequests(attached(Runtime(), elicitor=person), "p", ActiveCalls())
        params = ElicitRequestFormParams(message="?", requested_schema=NAME)
        waiting = [asyncio.create_task(asking.elicit(ANYBODY, params)) for _ in range(MAX_OPEN)]
        await asyncio.sleep(0)
        assert isinstance(await asking.elicit(ANYBODY, params), ErrorData)
        gate.set()
        assert await asyncio.gather(*waiting) == [ElicitResult(action="decline")] * MAX_OPEN
        assert isinstance(await asking.elicit(ANYBODY, params), ElicitResult)

    run(work())


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "javascript:alert(1)",
        "http://far.example/x",
        "https://user:word@far.example/",
        "https:",
        "https://x.example/" + "y" * 5000,
        "https://x.example/\x1b[2J",
    ],
)
def test_an_address_that_should_not_be_opened_is_not_even_shown(url: str) -> None:
    person = Person(ElicitationReply(action="accept"))
    asking = ServerRequests(attached(Runtime(), elicitor=person), "p", ActiveCalls())
    params = ElicitRequestURLParams(message="Open", url=url, elicitation_id="1")
    assert isinstance(run(asking.elicit(ANYBODY, params)), ErrorData)
    assert person.asked == []


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object"},
        {"type": "object", "properties": {"deep": {"type": "object"}}},
        {"type": "object", "properties": {"x": {"type": "no such type"}}},
        {"type": "object", "properties": {"x": {}}},
        {"type": "object", "properties": {"x": True}},
        {"type": "object", "properties": {"x": {"type": ["object", "string"]}}},
        {"type": "object", "properties": {"x": {"type": "array"}}},
        {"type": "object", "properties": {"x": {"type": "array", "items": {"type": "object"}}}},
        {"type": "object", "properties": {"x": {"type": "array", "items": {"type": "string"}}}},
        {"type": "object", "properties": {"x": {"type": "array", "items": {"enum": ["a"]}, "contains": {}}}},
        {"type": "object", "properties": {"x": {"$ref": "#/$defs/o"}}, "$defs": {"o": {"type": "object"}}},
        {"type": "object", "properties": {"x": {"type": "string", "anyOf": [{"type": "object"}, {"const": 1}]}}},
        {"type": "object", "properties": {"x": {"type": "string", "oneOf": "no list"}}},
        {"type": "object", "properties": {"x": {"type": "string", "allOf": [{"minLength": 1}]}}},
        {"type": "object", "properties": {"x": {"type": "string"}}, "patternProperties": {"y": {"type": "object"}}},
        {"type": "object", "properties": {f"x{n}": {"type": "string", "pattern": "(?!a)b"} for n in range(60)}},
        {"properties": {"x": {"type": "string"}}},
        {"type": "object", "properties": {"x": {"type": "string", "$ref": "https://far.example/"}}},
        {"type": "object", "properties": {"x": {"type": "string", "description": "y" * 70_000}}},
    ],
)
def test_a_form_that_is_no_form_is_refused(schema: Any) -> None:
    person = Person(ElicitationReply(action="accept"))
    asking = ServerRequests(attached(Runtime(), elicitor=person), "p", ActiveCalls())
    params = ElicitRequestFormParams(message="?", requested_schema=schema)
    assert isinstance(run(asking.elicit(ANYBODY, params)), ErrorData)
    assert person.asked == []


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ({"type": "string", "format": "email", "maxLength": 20}, "a@b.example"),
        ({"type": "number", "minimum": 1}, 1.5),
        ({"type": "boolean", "default": True}, False),
        ({"type": "string", "enum": ["a", "b"], "enumNames": ["A", "B"]}, "b"),
        ({"enum": ["a", "b"]}, "a"),
        ({"type": "string", "oneOf": [{"const": "a", "title": "A"}, {"const": "b"}]}, "b"),
        ({"type": "array", "maxItems": 2, "items": {"type": "string", "enum": ["a", "b"]}}, ["b"]),
        ({"type": "array", "items": {"anyOf": [{"const": "a", "title": "A"}]}}, ["a"]),
    ],
)
def test_whatever_the_protocol_has_in_a_form_can_be_asked(part: Any, value: Any) -> None:
    asking = ServerRequests(
        attached(Runtime(), elicitor=Person(ElicitationReply(action="accept", content={"x": value}))),
        "p",
        ActiveCalls(),
    )
    params = ElicitRequestFormParams(message="?", requested_schema={"type": "object", "properties": {"x": part}})
    assert run(asking.elicit(ANYBODY, params)) == ElicitResult(action="accept", content={"x": value})


def test_what_fits_a_form_and_not_the_protocol_is_not_sent(caplog: pytest.LogCaptureFixture) -> None:
    runtime = attached(Runtime(), elicitor=Person(ElicitationReply(action="accept", content={"x": [7]})))
    choice = {"type": "array", "items": {"type": "integer", "enum": [7]}}
    params = ElicitRequestFormParams(message="?", requested_schema={"type": "object", "properties": {"x": choice}})
    assert run(ServerRequests(runtime, "p", ActiveCalls()).elicit(ANYBODY, params)) == ElicitResult(action="cancel")
    assert "cannot be sent as a form" in caplog.text


def test_what_is_shown_is_bounded() -> None:
    person = Person(ElicitationReply(action="decline"))
    asking = ServerRequests(attached(Runtime(), elicitor=person), "p", ActiveCalls())
    run(asking.elicit(ANYBODY, ElicitRequestFormParams(message="x" * 100_000, requested_schema=NAME)))
    (form,) = person.asked[0].questions
    assert isinstance(form, FormRequest)
    assert len(form.message) < MAX_MESSAGE + 100
    assert "more characters" in form.message
    long = [{"role": "user", "content": {"type": "text", "text": "x" * 2_000_000}}]
    request = CreateMessageRequestParams.model_validate({"messages": long, "maxTokens": 1})
    assert isinstance(run(asking.sample(ANYBODY, request)), ErrorData)
    assert len(person.asked) == 1


@given(st.dictionaries(st.sampled_from(["name", "age", "other"]), st.one_of(st.text(), st.integers(), st.none())))
def test_what_is_sent_always_fits_the_form(content: Any) -> None:
    schema = {"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer", "default": 1}}}
    asking = ServerRequests(
        attached(Runtime(), elicitor=Person(ElicitationReply(action="accept", content=content))), "p", ActiveCalls()
    )
    answer = run(asking.elicit(ANYBODY, ElicitRequestFormParams(message="?", requested_schema=schema)))
    assert isinstance(answer, ElicitResult)
    fits = isinstance(content.get("name", ""), str) and type(content.get("age", 1)) is int
    if fits:
        assert answer.content == {"age": 1, **{key: content[key] for key in ("name", "age") if key in content}}
    else:
        assert (answer.action, answer.content) == ("cancel", None)


def test_pages_to_visit_before_a_call_are_put_to_the_person() -> None:
    person = Person(ElicitationReply(action="accept"))
    asking = ServerRequests(attached(Runtime(), elicitor=person), "p", ActiveCalls())
    wanted: Any = [{"message": "Log in", "url": "https://in.example/"}, {"url": "file:///x"}, 7]
    assert "opened" in run(asking.visit(wanted))
    assert person.asked[0].questions == (UrlRequest(message="Log in", url="https://in.example/"),)
    assert "no interface can show it" in run(asking.visit("nonsense"))

"""`ConstrainedModel`: each reply is one JSON object, a call or an answer, which the server enforces."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from itertools import pairwise
from typing import Any

import jsonschema
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from holdfast import Tool
from holdfast.contract.message import Aborted, Message, Text, Thinking, ToolResult, ToolUse
from holdfast.models import constrained
from holdfast.models.constrained import ConstrainedModel, ConstrainedReply, instructions, probe_schemas, reply_schema
from holdfast.models.port import (
    CORRECTION_MARK,
    CallBegun,
    Model,
    ModelError,
    ModelEvent,
    ModelFault,
    PartEnded,
    ProtocolChoice,
    ReplyEnded,
    Retrying,
    Settings,
    TextDelta,
    ThinkingDelta,
    Usage,
)
from tests.models.conformance import ModelConformance
from tests.models.exchanges import HELLO, end, hear, parts, run
from tests.models.servers.apis import ANTHROPIC, CHAT
from tests.models.servers.http import Answer, Server, error, serving
from tests.models.servers.script import Say, Script, Think
from tests.models.test_native import after_retries, failing, shown
from tests.models.text_protocol.scripted_model import SHELL, SPENT, TOOLS, Scripted, written
from tests.soak import rounds

TWICE = SPENT + SPENT
CALL = '{"tool": "read_file", "arguments": {"path": "a.py"}}'
READ = ToolUse("call-1", "file.read", '{"path":"a.py"}')
ANSWER = "It says “hello” — ü 🙂\n\t\\ and \u2028 more."
SAID = json.dumps({"answer": ANSWER})
YES = '{"holdfast": true}'
NO_ANSWERS = [
    "", "Hello.", "[]", "5", "{}", '{"answer": 5}', '{"answer": "a", "answer": "b"}', '{"answer": "a", "tool": "x"}',
    '{"tool": "read_file"}', '{"tool": "no.such", "arguments": {}}', '{"tool": "read_file", "arguments": "{}"}',
    '{"tool": "file.read", "arguments": {}}', '{"answer": "a\\ud800"}', '{"answer": "a\udcff"}', '{"answer": "a"} more',
    '{"answer": "a"',
]  # fmt: skip


def heard(*texts: str, tools: Sequence[Tool] = TOOLS, **given: Any) -> tuple[list[ModelEvent], Scripted]:
    inner = Scripted([written(text, **given) for text in texts])
    return run(hear(ConstrainedModel(inner), tools=tools)), inner


@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.spec("M3b")
def test_a_reply_is_a_call_or_an_answer_however_it_is_chunked(size: int) -> None:
    events, inner = heard(CALL, size=size)
    assert events == [CallBegun("call-1", "file.read"), PartEnded(READ), ReplyEnded("tool_use", SPENT, "writer-1b")]
    assert len(inner.asked) == inner.closed == 1
    events, _ = heard(f" \n{SAID}\n", size=size)
    assert parts(events) == [Text(ANSWER)] and shown(events) == ANSWER
    assert end(events) == ReplyEnded("end", SPENT, "writer-1b")


@pytest.mark.spec("M3b")
def test_an_answer_is_shown_while_it_arrives() -> None:
    events, _ = heard(json.dumps({"answer": "word " * 100}), size=1)
    deltas = [event for event in events if isinstance(event, TextDelta)]
    assert len(deltas) > 30 and max(len(delta.text) for delta in deltas) < 40


@pytest.mark.spec("M3b")
def test_the_schema_allows_an_answer_and_each_tool_by_its_name() -> None:
    schema: Any = reply_schema(TOOLS)
    jsonschema.Draft202012Validator.check_schema(schema)
    allowed: Any = jsonschema.Draft202012Validator(schema)
    good: list[Any] = [
        {"answer": "x"},
        {"tool": "read_file", "arguments": {"path": "a"}},
        {"tool": "git_log", "arguments": {}},
    ]
    good += [{"tool": "shell.exec", "arguments": {"command": "ls"}}]
    assert all(map(allowed.is_valid, good))
    bad: list[Any] = [{}, {"answer": 5}, {"answer": "x", "tool": "git_log"}, {"tool": "rm", "arguments": {}}, "x"]
    bad += [{"tool": "read_file", "arguments": {}}, {"tool": "read_file", "arguments": {"file": "a"}}]
    assert not any(map(allowed.is_valid, bad))
    assert reply_schema(()) == schema["anyOf"][0]


@pytest.mark.spec("M3b")
def test_a_tool_with_the_short_name_of_another_keeps_both_apart() -> None:
    other = Tool(name="read_file", description="Reads another file.")
    tools = (*TOOLS, other)
    names = [shape["properties"]["tool"]["const"] for shape in reply_schema(tools)["anyOf"][1:]]
    assert len(set(names)) == len(tools) and {"file.read", "read_file"} <= set(names)
    for name in ("file.read", "read_file"):
        assert f'{{"tool": "{name}", ' in instructions(tools)
        events, inner = heard(json.dumps({"tool": name, "arguments": {}}), tools=tools)
        assert parts(events) == [ToolUse("call-1", name, "{}")] and len(inner.asked) == 1
    inner = Scripted([written(SAID)])
    past = [*HELLO, Message("assistant", (READ,)), Message("user", (ToolResult("call-1", "file.read", "x"),))]
    run(hear(ConstrainedModel(inner), past, tools))
    assert inner.asked[0][0][2].text == CALL.replace("read_file", "file.read")


@pytest.mark.spec("M3b")
def test_the_prompt_has_one_line_for_each_tool() -> None:
    lines = instructions(TOOLS).splitlines()
    assert lines[-len(TOOLS) - 1] == "Tools:"
    assert lines[-1] == '{"tool": "shell.exec", "arguments": {"command": text, "cwd"?: text}} - Run a command.'
    assert instructions(()) == 'Each of your replies is one JSON object: {"answer": TEXT}'


@pytest.mark.spec("M3b")
def test_earlier_replies_are_sent_in_the_form_that_is_wanted() -> None:
    past = (
        Message("system", (Text("Be brief."),)),
        Message("user", (Text("Look."),)),
        Message("assistant", (Thinking("hm"), Text("Wait."), READ, ToolUse("b", "git.log", '{"n": '))),
        Message("user", (ToolResult("call-1", "file.read", "x = 1"), ToolResult("b", "git.log", "no", True))),
        Message("assistant", (Text("It is “1”."), Aborted("Interrupted."))),
        Message("user", (Text("Go on \udcff."),)),
    )
    for system_role in (True, False):
        inner = Scripted([written(SAID)])
        run(hear(ConstrainedModel(inner, system_role=system_role), past, TOOLS))
        sent = inner.asked[0][0]
        assert [message.role for message in sent] == ["system"] * system_role + ["user", "assistant"] * 2 + ["user"]
        assert sent[0].text.startswith("Be brief.\n\nYou work in a project with tools.")
        calls, answer = (message.text for message in sent if message.role == "assistant")
        assert calls == f'{CALL}\n{{"tool": "git_log", "arguments": {{"INVALID_JSON": "{{\\"n\\": "}}}}'
        assert answer == '{"answer": "It is “1”."}'
        assert "=== tool_result: read_file ===\nx = 1\n=== /tool_result ===" in sent[2 + system_role].text


@pytest.mark.parametrize("wrong", NO_ANSWERS)
@pytest.mark.spec("M3b")
def test_any_other_reply_is_corrected_once(wrong: str) -> None:
    events, inner = heard(wrong, SAID)
    (again,) = [event for event in events if isinstance(event, Retrying)]
    assert (again.attempt, again.delay) == (1, 0.0) and "neither a call nor an answer" in again.reason
    assert parts(after_retries(events)) == [Text(ANSWER)] and shown(events) == ANSWER
    assert end(events).usage == TWICE
    before, after = (request[0] for request in inner.asked)
    assert list(after[:-2]) == list(before) and after[-2] == Message("assistant", (Text(wrong),))
    assert after[-1].text.startswith(f"{CORRECTION_MARK} Nothing was run") and '{"answer": TEXT}' in after[-1].text
    caught, events = failing(ConstrainedModel(Scripted([written(wrong)])))
    assert (caught.fault, caught.usage, parts(events)) == (ModelFault.MALFORMED, TWICE, [])
    assert "nothing was run" in str(caught) and 'set `model.protocol` to "text" or "native"' in str(caught)


@pytest.mark.spec("M3b")
def test_without_tools_only_an_answer_is_asked_for() -> None:
    events, inner = heard(CALL, SAID, tools=())
    assert parts(events) == [Text(ANSWER)] and inner.asked[0][2].response_schema == reply_schema(())
    assert inner.last().text.endswith('one JSON object: {"answer": TEXT}')


@pytest.mark.parametrize(
    "form", ["[read_file: a.py]", "<tool_call>" + CALL.replace("tool", "name", 1) + "</tool_call>"]
)
@pytest.mark.spec("M3c")
def test_a_call_inside_an_answer_is_made_or_sent_back(form: str) -> None:
    thought = PartEnded(Thinking("hm"))
    inner = Scripted([[ThinkingDelta("hm"), thought, *written(json.dumps({"answer": f"Let me look.\n{form}"}))]])
    events = run(hear(ConstrainedModel(inner), tools=TOOLS))
    assert parts(after_retries(events)) == [Thinking("hm"), Text("Let me look."), READ]
    assert shown(events) == "Let me look." and end(events).stop == "tool_use"
    events, sent = heard(json.dumps({"answer": f"{form}\n=== tool_result: read_file ===\nhello"}), CALL)
    assert parts(after_retries(events)) == [READ] and end(events).usage == TWICE
    assert sent.last().text.endswith(f"Only the runtime writes results. Reply with the call itself:\n{CALL}")
    broken = json.dumps({"answer": '{"name": "file.read", "arguments": {"path": '})
    caught, _ = failing(ConstrainedModel(Scripted([written(broken)])))
    assert caught.fault is ModelFault.MALFORMED and "wrote a tool call into its answer" in str(caught)


@pytest.mark.spec("M3c")
def test_a_call_in_an_answer_of_a_tool_that_is_no_longer_offered_is_no_answer() -> None:
    model = ConstrainedModel(Scripted([written(SAID), written('{"answer": "[read_file: a.py]"}')]))
    run(hear(model, tools=TOOLS))
    assert parts(after_retries(run(hear(model, tools=())))) == [READ]


@pytest.mark.parametrize("stop", ["max_tokens", "refusal", "other"])
@pytest.mark.spec("M3b")
def test_a_truncated_reply_makes_no_call_and_keeps_its_answer(stop: Any) -> None:
    for text in (CALL, CALL[:-3], "Hello", '{"answer": 5', '{"answer": ["a"]'):
        events, inner = heard(text, stop=stop)
        assert events == [ReplyEnded(stop, SPENT, "writer-1b")] and len(inner.asked) == 1
    events, _ = heard('{"answer": "It says hel', stop=stop)
    assert parts(events) == [Text("It says hel")] and shown(events) == "It says hel" and end(events).stop == stop
    events, _ = heard('{"answer": "a", "answer": "bcd', stop=stop, size=1)
    assert parts(events) == [Text("a")] and shown(events) == "a"


@pytest.mark.spec("M3b")
def test_an_empty_answer_is_an_empty_reply() -> None:
    events, inner = heard('{"answer": ""}')
    assert events == [ReplyEnded("end", SPENT, "writer-1b")] and len(inner.asked) == 1


@pytest.mark.spec("M3b")
def test_the_complete_text_counts_and_must_begin_with_what_was_streamed() -> None:
    half = len(SAID) // 2
    split = [
        PartEnded(Text(SAID[:half])),
        PartEnded(Thinking("hm")),
        TextDelta(SAID[half:-3]),
        PartEnded(Text(SAID[half:])),
    ]
    events = run(hear(ConstrainedModel(Scripted([[*split, ReplyEnded("end", SPENT)]])), tools=TOOLS))
    assert parts(events) == [Thinking("hm"), Text(ANSWER)] and shown(events) == ANSWER
    other = [TextDelta('{"answer": "a'), PartEnded(Text('{"answer": "b"}')), ReplyEnded("end", SPENT)]
    caught, _ = failing(ConstrainedModel(Scripted([other])))
    assert caught.fault is ModelFault.PROTOCOL and "differs from the text it streamed" in str(caught)


@pytest.mark.spec("M1", "M3b")
def test_what_is_complete_when_a_stream_fails_is_kept() -> None:
    cut = ModelError(ModelFault.CUT, "Cut.", usage=SPENT)
    begun: list[ModelEvent | Exception] = [PartEnded(Thinking("hm")), TextDelta('{"answer": "It sa'), cut]
    caught, events = failing(ConstrainedModel(Scripted([begun])))
    assert caught is cut and cut.usage == SPENT
    assert parts(events) == [Thinking("hm")] and shown(events) == "It sa"
    lost = ModelError(ModelFault.NETWORK, "Lost.")
    assert failing(ConstrainedModel(Scripted([written("x"), [lost]])))[0].usage == SPENT
    caught, _ = failing(ConstrainedModel(Scripted([written(SAID)[:-1]])))
    assert (caught.fault, caught.usage) == (ModelFault.CUT, None)


@pytest.mark.spec("M3b")
def test_what_came_before_a_retry_is_forgotten() -> None:
    reply = [*written(SAID)[:4], Retrying(1, 0.5, "Again."), *written(CALL)]
    events = run(hear(ConstrainedModel(Scripted([reply])), tools=TOOLS))
    assert parts(events) == [READ] and shown(events) == ""


_TEXTS = st.one_of(
    st.text(max_size=40).map(lambda text: json.dumps({"answer": text})),
    st.text(max_size=40).map(lambda text: json.dumps({"answer": text}, ensure_ascii=False)),
    st.dictionaries(st.text(max_size=3), st.text(max_size=5), max_size=3).map(
        lambda args: json.dumps({"tool": "read_file", "arguments": args})
    ),
    st.sampled_from((CALL, SAID, *NO_ANSWERS)),
    st.text(max_size=30),
)


@given(_TEXTS, st.lists(st.integers(0, 60), max_size=6), st.booleans())
@example('{"answer": "a\n"}', [13], False)
@example('{"answer": "a\\q"}', [13], False)
@example('{"answer": "a\\ud83d\\ude00"}', [19], False)
@settings(max_examples=rounds(80, 4000), deadline=None)
@pytest.mark.spec("M3b")
def test_the_parts_do_not_depend_on_the_chunks(text: str, cuts: list[int], whole: bool) -> None:
    places = sorted({min(cut, len(text)) for cut in cuts} | {0, len(text)})
    chunks = [text[start:stop] for start, stop in pairwise(places)]

    def read(events: list[ModelEvent]) -> tuple[Any, str, str]:
        reply = ConstrainedReply("m", TOOLS)
        live = [ours for event in events for ours in reply.feed(event)]
        part = reply.read(whole=whole)
        rest = [] if part is None else list(reply.finish(part))
        final = [event.part.text for event in rest if isinstance(event, PartEnded) and isinstance(event.part, Text)]
        return part, shown([*live, *rest]), "".join(final)

    part, seen, final = read([*map(TextDelta, chunks), PartEnded(Text(text))])
    assert part == read([PartEnded(Text(text))])[0]
    if part is not None:
        assert seen == final


@pytest.mark.parametrize(
    "text", ['{"answer": "' + "word " * 4000, '{"tool": "' + "x" * 20_000, " " * 20_000, "[" * 20_000]
)
@pytest.mark.spec("M3b")
def test_a_reply_of_single_characters_takes_linear_time(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    total = 0
    parse = constrained.json.loads

    def count(data: bytes, **options: Any) -> object:
        nonlocal total
        total += len(data)
        return parse(data, **options)

    monkeypatch.setattr(constrained.json, "loads", count)
    reply = ConstrainedReply("m", TOOLS)
    for char in text:
        list(reply.feed(TextDelta(char)))
    assert total < 40 * len(text)


# On the wire


async def _requests(model: Model, server: Server, settings: Settings) -> list[dict[str, Any]]:
    await hear(model, tools=TOOLS, settings=settings)
    for asked in server.asked:
        CHAT.check(asked.json)
    return [asked.json for asked in server.asked]


@pytest.mark.spec("M3b")
def test_a_chat_server_is_sent_the_schema_and_no_tools() -> None:
    async def ask() -> list[dict[str, Any]]:
        async with serving(Answer(CHAT.events(Script((Say(SAID),))))) as server:
            return await _requests(ConstrainedModel(CHAT.open(server)), server, Settings(thinking=None))

    (body,) = run(ask())
    assert body["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "reply", "strict": True, "schema": reply_schema(TOOLS)},
    }
    assert not body.keys() & {"tools", "tool_choice"}
    assert "read_file" in body["messages"][0]["content"] and body["messages"][0]["role"] == "system"


@pytest.mark.spec("M3b")
def test_an_api_without_such_a_parameter_is_asked_without_it() -> None:
    async def ask() -> tuple[list[ModelEvent], dict[str, Any]]:
        async with serving(Answer(ANTHROPIC.events(Script((Say(CALL),))))) as server:
            events = await hear(ConstrainedModel(ANTHROPIC.open(server)), tools=TOOLS)
            return events, server.asked[0].json

    events, body = run(ask())
    ANTHROPIC.check(body)
    assert parts(events) == [READ] and "response_format" not in body


def probed(*answers: Answer, retries: int = 0) -> tuple[bool, Usage, list[dict[str, Any]]]:
    async def ask() -> tuple[bool, Usage, list[dict[str, Any]]]:
        async with serving(*answers) as server:
            enforced, spent = await probe_schemas(CHAT.open(server), Settings(retries=retries, reasoning=None))
            for asked in server.asked:
                CHAT.check(asked.json)
            return enforced, spent, [asked.json for asked in server.asked]

    return run(ask())


def saying(text: str, **script: Any) -> Answer:
    return Answer(CHAT.events(Script((Say(text),), **script)))


@pytest.mark.spec("M3b")
def test_the_probe_asks_for_words_and_allows_only_an_object() -> None:
    enforced, spent, (body,) = probed(saying(f" {YES}\n"))
    assert enforced and spent == Usage(input=25, output=12)
    assert len(body["messages"]) == 1 and 24 in (body.get("max_tokens"), body.get("max_completion_tokens"))
    schema = body["response_format"]["json_schema"]["schema"]
    assert jsonschema.Draft202012Validator(schema).is_valid({"holdfast": True})  # pyright: ignore[reportUnknownMemberType]
    assert "tools" not in body


@pytest.mark.parametrize("text", ["One, two, three.", '{"holdfast": false}', "{}", f"{YES} and", YES[:-1], " "])
@pytest.mark.spec("M3b")
def test_a_server_that_ignores_the_schema_does_not_enforce_it(text: str) -> None:
    assert probed(saying(text))[:2] == (False, Usage(input=25, output=12))
    assert probed(Answer(CHAT.events(Script((Think("Hm, one"),), stop="length"))))[0] is False


@pytest.mark.parametrize(
    "answer",
    [
        error(400, {"error": {"message": "response_format is not supported"}}),
        error(422, {"detail": "extra fields not permitted"}),
        error(404, {"error": {"message": "model 'm' not found"}}),
        error(500, {"error": {"code": 500, "message": "response_format type must be text", "type": "server_error"}}),
        Answer([b"{}"], headers={"content-type": "application/json"}),
    ],
    ids=["400", "422", "404", "500", "no stream"],
)
@pytest.mark.spec("M3b")
def test_a_server_that_rejects_the_schema_does_not_enforce_it(answer: Answer) -> None:
    enforced, _, asked = probed(answer, retries=3)
    assert not enforced and len(asked) == 1


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (error(401, {"error": {"message": "no"}}), ModelFault.AUTH),
        (error(429, {"error": {"message": "slow down"}}), ModelFault.RATE_LIMIT),
        (error(500, {"error": {"message": "out of memory"}}), ModelFault.OVERLOADED),
        (error(503, {"error": {"message": "Loading model"}}), ModelFault.OVERLOADED),
        (Answer(then="cut"), ModelFault.NETWORK),
        (Answer(CHAT.events(Script((Say(YES),)))[:3], then="cut"), ModelFault.CUT),
    ],
)
@pytest.mark.spec("M3b")
def test_a_server_that_cannot_be_asked_is_an_error(answer: Answer, fault: ModelFault) -> None:
    with pytest.raises(ModelError) as caught:
        probed(answer)
    assert caught.value.fault is fault


@pytest.mark.spec("M3b")
def test_the_probe_counts_the_last_attempt() -> None:
    begun = Answer(CHAT.events(Script((Say("One, two"),)))[:3], then="cut")
    enforced, spent, asked = probed(begun, saying(YES), retries=1)
    assert enforced and spent == Usage(input=25, output=12) and len(asked) == 2


@pytest.mark.spec("M3b")
def test_the_choice_is_reported() -> None:
    model = ConstrainedModel(Scripted([written(SAID)]))
    assert model.choice == ProtocolChoice("constrained") and (model.provider, model.name) == ("small", "small:writer")


@asynccontextmanager
async def _scripted(text: str) -> AsyncGenerator[Model]:
    yield ConstrainedModel(Scripted([written(text)]))


class TestAnswering(ModelConformance):
    tools: Sequence[Tool] = TOOLS
    text = SAID

    def opened(self) -> AbstractAsyncContextManager[Model]:
        return _scripted(self.text)


class TestCalling(TestAnswering):
    text = CALL


class TestWithoutTools(TestAnswering):
    tools = ()


class TestServed(ModelConformance):
    tools = (SHELL,)

    @asynccontextmanager
    async def _serving(self) -> AsyncGenerator[Model]:
        script = Script((Think("I should look."), Say('{"tool": "shell.exec", "arguments": {"command": "ls — ü 🙂"}}')))
        async with serving(Answer(CHAT.events(script))) as server:
            yield ConstrainedModel(CHAT.open(server))

    def opened(self) -> AbstractAsyncContextManager[Model]:
        return self._serving()

"""`NativeModel`: calls written as text are made or sent back, and everything else is passed on as it is."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.contract.message import Message, Text, Thinking, ToolUse
from holdfast.models import native, written_calls
from holdfast.models.native import CallPreview, NativeModel
from holdfast.models.port import (
    CORRECTION_MARK,
    CallBegun,
    Model,
    ModelError,
    ModelEvent,
    ModelFault,
    PartEnded,
    ReplyEnded,
    Retrying,
    Settings,
    TextDelta,
    ThinkingDelta,
)
from tests.models.conformance import ModelConformance
from tests.models.exchanges import HELLO, end, hear, parts, run
from tests.models.servers import chat
from tests.models.servers.apis import Api
from tests.models.servers.http import Answer, serving
from tests.models.servers.script import Say, Script, Think, Use
from tests.models.text_protocol.scripted_model import SPENT, TOOLS, Scripted, written
from tests.models.text_protocol.strategies import REPLY
from tests.models.text_protocol.test_parser_complexity import HOSTILE
from tests.soak import rounds, some

CALL = '{"name": "file.read", "arguments": {"path": "a.py"}}'
READ = ToolUse("call-1", "file.read", '{"path":"a.py"}')
BROKEN = '{"name": "file.read", "arguments": {"path": '
CUT = ModelError(ModelFault.CUT, "The connection broke off.", usage=SPENT)
TWICE = SPENT + SPENT


def after_retries(events: Sequence[ModelEvent]) -> list[ModelEvent]:
    """What counts: everything before the last retry is discarded."""
    last = max((place for place, event in enumerate(events) if isinstance(event, Retrying)), default=-1)
    return list(events[last + 1 :])


def shown(events: Sequence[ModelEvent]) -> str:
    return "".join(event.text for event in after_retries(events) if isinstance(event, TextDelta))


def failing(model: Model, tools: Sequence[Any] = TOOLS) -> tuple[ModelError, list[ModelEvent]]:
    heard: list[ModelEvent] = []

    async def ask() -> ModelError:
        try:
            async for event in model.stream(HELLO, tools, Settings()):
                heard.append(event)
        except ModelError as error:
            return error
        raise AssertionError(f"it did not fail: {heard}")

    return run(ask()), heard


FORMS = [
    CALL,
    f"<tool_call>\n{CALL}\n</tool_call>",
    f"```json\n{CALL}\n```",
    "[read_file: a.py]",
    '<function=file--read>{"path": "a.py"}</function>',
    f"[TOOL_CALLS][{CALL}]",
]


@pytest.mark.parametrize("before", ["", "Let me look — ü 🙂.\n\n", "a < b, and `x`:\n", "1. [x] done\n   "])
@pytest.mark.parametrize("size", [1, 5, 1000])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.spec("M3c")
def test_a_reply_that_is_only_a_call_is_one_in_any_form_and_chunks(form: str, size: int, before: str) -> None:
    inner = Scripted([written(f"{before}{form}", size=size)])
    events = run(hear(NativeModel(inner), tools=TOOLS))
    said = [Text(before.rstrip())] if before else []
    assert parts(after_retries(events)) == [*said, READ]
    assert shown(events) == before.rstrip()
    assert CallBegun("call-1", "file.read") in events
    assert (end(events).stop, end(events).usage, len(inner.asked)) == ("tool_use", SPENT, 1)


@pytest.mark.parametrize(
    "wrong", [f"{CALL}\nThe file says: hello.", BROKEN, f"{CALL}\n<tool_response>x</tool_response>"]
)
@pytest.mark.spec("M3c")
def test_an_unclear_call_is_sent_back_once_and_never_an_answer(wrong: str) -> None:
    inner = Scripted([written(wrong), written("It says hello.")])
    events = run(hear(NativeModel(inner), tools=TOOLS))
    (again,) = [event for event in events if isinstance(event, Retrying)]
    assert "nothing was run" in again.reason and (again.attempt, again.delay) == (1, 0.0)
    assert parts(events) == [Text("It says hello.")]
    assert end(events) == ReplyEnded("end", TWICE, "writer-1b")
    sent, tools, _ = inner.asked[1]
    assert tools == TOOLS and list(sent[:-2]) == list(HELLO)
    assert sent[-2] == Message("assistant", (Text(wrong),))
    assert sent[-1].role == "user" and sent[-1].text.startswith(f"{CORRECTION_MARK} Nothing was run")
    assert ("file--read with" in sent[-1].text) == (CALL in wrong)
    assert ("Only the runtime writes results" in sent[-1].text) == ("tool_response" in wrong)


@pytest.mark.spec("M3c")
def test_after_a_correction_the_text_behind_a_call_is_ignored() -> None:
    inner = Scripted([written(f"{CALL}\nIt says hello.")])
    events = run(hear(NativeModel(inner), tools=TOOLS))
    assert parts(after_retries(events)) == [READ] and end(events).usage == TWICE


@pytest.mark.spec("M3c")
def test_a_call_that_cannot_be_read_twice_fails_with_the_tokens_of_both() -> None:
    inner = Scripted([written(BROKEN)])
    error, heard = failing(NativeModel(inner))
    assert error.fault is ModelFault.MALFORMED and "nothing was run" in str(error) and "small:writer" in str(error)
    assert error.usage == TWICE and len(inner.asked) == 2
    assert parts(heard) == [] and inner.closed == 2


@pytest.mark.spec("M3c")
def test_a_call_of_a_tool_that_is_no_longer_offered_is_no_answer() -> None:
    model = NativeModel(Scripted([written("ok"), written(CALL)]))
    run(hear(model, tools=TOOLS))
    assert parts(run(hear(model, tools=()))) == [READ]


@pytest.mark.parametrize("stop", ["max_tokens", "refusal", "other"])
@pytest.mark.spec("M3c")
def test_a_truncated_reply_makes_no_call(stop: Any) -> None:
    inner = Scripted([written(CALL, stop=stop)])
    events = run(hear(NativeModel(inner), tools=TOOLS))
    assert parts(events) == [Text(CALL)] and shown(events) == CALL
    assert end(events).stop == stop and len(inner.asked) == 1


@pytest.mark.spec("M3c")
def test_a_finish_reason_for_calls_without_any_does_not_make_text_an_answer() -> None:
    events = run(hear(NativeModel(Scripted([written(CALL, stop="tool_use")])), tools=TOOLS))
    assert parts(events) == [READ]


@pytest.mark.spec("M3c")
def test_text_beside_native_calls_is_only_text() -> None:
    use = ToolUse("c1", "git.log", "{}")
    reply = [TextDelta(CALL), CallBegun("c1", "git.log"), PartEnded(Text(CALL)), PartEnded(use)]
    events = run(hear(NativeModel(Scripted([[*reply, ReplyEnded("tool_use", SPENT)]])), tools=TOOLS))
    assert events == [*reply, ReplyEnded("tool_use", SPENT)]


@pytest.mark.spec("M1", "M3c")
def test_complete_parts_reach_the_caller_before_the_reply_ends() -> None:
    """A reply that is cancelled keeps its thinking and its text, as without this model."""
    thought = Thinking("hm")
    reply: list[ModelEvent | Exception] = [
        ThinkingDelta("hm"), PartEnded(thought), TextDelta("Hello"), TextDelta(" {x"), CallBegun("c", "git.log"),
        PartEnded(Text("Hello {x")),
    ]  # fmt: skip
    error, heard = failing(NativeModel(Scripted([[*reply, CUT]])))
    assert error is CUT and parts(heard) == [thought, Text("Hello {x")] and shown(heard) == "Hello {x"
    assert [type(event) for event in heard[:3]] == [ThinkingDelta, PartEnded, TextDelta]


@pytest.mark.parametrize("size", [1, 4, 100])
@pytest.mark.spec("M1", "M3c")
def test_a_stream_that_fails_midway_shows_what_had_arrived(size: int) -> None:
    *begun, _ = written(f"Look:\n{CALL}", size=size)
    thought = PartEnded(Thinking("hm"))
    error, heard = failing(NativeModel(Scripted([[thought, *begun, CUT]])))
    assert error.fault is ModelFault.CUT and error.usage == SPENT
    assert parts(heard) == [Thinking("hm"), Text(f"Look:\n{CALL}")] and shown(heard) == f"Look:\n{CALL}"
    *unfinished, _, _ = written(f"Look:\n{CALL}", size=size)
    _, heard = failing(NativeModel(Scripted([[*unfinished, CUT]])))
    assert parts(heard) == [] and shown(heard) == f"Look:\n{CALL}"


@pytest.mark.spec("M3c", "M5")
def test_the_tokens_of_a_correction_that_fails_are_counted_once() -> None:
    lost = ModelError(ModelFault.NETWORK, "Unreachable.")
    error, _ = failing(NativeModel(Scripted([written(BROKEN), [lost]])))
    assert error.fault is ModelFault.NETWORK and error.usage == SPENT
    spent = ModelError(ModelFault.CUT, "Cut.", usage=SPENT)
    assert failing(NativeModel(Scripted([written(BROKEN), [spent]])))[0].usage == TWICE
    unfinished, _ = failing(NativeModel(Scripted([written(BROKEN), written("x")[:-1]])))
    assert (unfinished.fault, unfinished.usage) == (ModelFault.CUT, SPENT)


@pytest.mark.spec("M3c")
def test_what_came_before_a_retry_is_forgotten() -> None:
    again = Retrying(1, 0.5, "Again.")
    *half, _, _ = written(CALL)
    events = run(hear(NativeModel(Scripted([[*half, again, *written("Hello.")]])), tools=TOOLS))
    assert parts(events) == [Text("Hello.")] and shown(events) == "Hello." and again in events


@pytest.mark.spec("M3c")
def test_a_lone_surrogate_in_a_call_is_left_to_the_pipeline() -> None:
    (use,) = parts(run(hear(NativeModel(Scripted([written("[read_file: \udcff]")])), tools=TOOLS)))
    assert isinstance(use, ToolUse) and use.arguments == '{"path": "\\udcff"}'


@pytest.mark.parametrize(
    "answer", ["", " ", "\n", "{}", '{"name": "x"}', "```\nls\n```", "a <b> [c] ~~d~~", "[x](y) {z}"]
)
@pytest.mark.spec("M3c")
def test_an_answer_is_passed_on_as_it_is(answer: str) -> None:
    inner = Scripted([written(answer, size=1)])
    events = run(hear(NativeModel(inner), tools=TOOLS))
    assert parts(events) == [Text(answer)] and shown(events) == answer
    assert end(events) == ReplyEnded("end", SPENT, "writer-1b") and len(inner.asked) == 1


@pytest.mark.spec("M3c")
def test_several_parts_keep_their_order() -> None:
    thoughts = [PartEnded(Thinking("a")), PartEnded(Thinking("b"))]
    texts = [TextDelta("One {"), PartEnded(Text("One {")), thoughts[1], TextDelta("Two"), PartEnded(Text("Two"))]
    reply = [thoughts[0], *texts, ReplyEnded("end", SPENT)]
    events = run(hear(NativeModel(Scripted([reply])), tools=TOOLS))
    assert parts(events) == [Thinking("a"), Text("One {"), Thinking("b"), Text("Two")]
    assert shown(events) == "One {Two"
    call = [thoughts[0], PartEnded(Text("Look.\n")), thoughts[1], TextDelta(CALL), PartEnded(Text(CALL))]
    events = run(hear(NativeModel(Scripted([[*call, ReplyEnded("end", SPENT)]])), tools=TOOLS))
    assert parts(after_retries(events)) == [Thinking("a"), Thinking("b"), Text("Look."), READ]


@pytest.mark.spec("M3c")
def test_an_answer_is_shown_while_it_arrives() -> None:
    def seen(text: str) -> str:
        preview = CallPreview(TOOLS)
        return "".join(map(preview.feed, text))

    assert seen("a < b, [see](x) and {y}.\n[link](z) ok") == "a < b, [see](x) and {y}.\n[link](z) ok"
    assert seen("Use:\n```sh\nls\n```\nThen go on with it.") == "Use:\n```sh\nls\n```\nThen go on with it."
    assert seen('{"a": 1}\nis JSON.') == '{"a": 1}\nis JSON.'
    assert seen(f"Look:\n\n{CALL}") == "Look:"
    assert seen(f"Look:\n  ```json\n{CALL}") == "Look:"
    assert seen("Look. <tool_call>") == "Look."
    assert seen("x" * 500 + " <tool_call> y") == "x" * 500 + " <tool_call> y"


@given(REPLY, st.integers(1, 9), st.sampled_from(("end", "tool_use", "max_tokens", "other")))
@settings(max_examples=rounds(80, 4000), deadline=None)
@pytest.mark.spec("M3c")
def test_any_text_is_an_answer_or_calls_or_sent_back(text: str, size: int, stop: Any) -> None:
    inner = Scripted([written(text, stop=stop, size=size), written("Sorry.")])
    events = after_retries(run(hear(NativeModel(inner), tools=TOOLS)))
    got = parts(events)
    calls = [part for part in got if isinstance(part, ToolUse)]
    is_sent_back = len(inner.asked) == 2
    assert [is_sent_back, bool(calls), not is_sent_back and got == [Text(text)]].count(True) == 1
    assert shown(events) == "".join(part.text for part in got if isinstance(part, Text))
    if calls:
        assert stop in ("end", "tool_use") and end(events).stop == "tool_use"


_PREVIEWED: dict[str, Callable[[int], str]] = {
    **HOSTILE,
    "comparisons": lambda n: "a<b " * (n // 4),
    "tags that do not end": lambda n: "<function=" + "a" * n,
    "mentions": lambda n: "a <tool_call> " * (n // 14),
    "white space": lambda n: " \n" * (n // 2),
    "white space after a brace": lambda n: "{" + " " * n,
    "objects": lambda n: '{"a": 1}\n' * (n // 9),
    "an object that stays open": lambda n: '{"a": "' + "b" * n,
}


@pytest.mark.parametrize("name", some(_PREVIEWED, 20))
@pytest.mark.spec("M3c")
def test_a_reply_of_single_characters_takes_linear_time(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The characters that are looked at again grow with the reply, not with its square."""

    def looked(length: int) -> int:
        total = 0
        finder = written_calls.certain_text

        def count(text: str, tools: Any, start: int) -> int:
            nonlocal total
            total += len(text) - start
            return finder(text, tools, start)

        monkeypatch.setattr(native, "certain_text", count)
        preview = CallPreview(TOOLS)
        seen = "".join(map(preview.feed, _PREVIEWED[name](length)))
        assert seen + preview.rest() == _PREVIEWED[name](length)
        return total

    assert looked(8000) <= 2.5 * looked(4000) + 8000


@asynccontextmanager
async def _scripted(*reply: ModelEvent | Exception) -> AsyncGenerator[Model]:
    yield NativeModel(Scripted([reply]))


class TestAnswering(ModelConformance):
    tools = TOOLS
    text = "There is nothing to do [really]. ```\n[read_file: not/a/call]\n```\n"

    def opened(self) -> AbstractAsyncContextManager[Model]:
        return _scripted(*written(self.text))


class TestCalling(TestAnswering):
    text = f"Let me look — ü 🙂.\n\n<tool_call>{CALL}</tool_call>"


class TestSendingBack(TestAnswering):
    @asynccontextmanager
    async def _twice(self) -> AsyncGenerator[Model]:
        yield NativeModel(Scripted([written(BROKEN), written("It is empty.")]))

    def opened(self) -> AbstractAsyncContextManager[Model]:
        return self._twice()

    def heard(self, messages: Sequence[Message]) -> list[ModelEvent]:
        return after_retries(super().heard(messages))


class _Served(ModelConformance):
    tools = TOOLS
    style: chat.Style = "openai"

    @asynccontextmanager
    async def _serving(self) -> AsyncGenerator[Model]:
        api = Api("openai-chat", "ollama", "m", partial(chat.events, style=self.style), chat.check, "/v1")
        script = Script((Think("I should look."), Say("Let me — ü 🙂."), Use("c1", "file--read", '{"path": "a"}')))
        async with serving(Answer(api.events(script))) as server:
            yield NativeModel(api.open(server))

    def opened(self) -> AbstractAsyncContextManager[Model]:
        return self._serving()


class TestVllm(_Served):
    style = "vllm"


class TestLlamacpp(_Served):
    style = "llamacpp"


class TestOllama(_Served):
    style = "ollama"

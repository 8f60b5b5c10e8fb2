"""A reply becomes its text, its calls in order, and a correct stop reason."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.contract.errors import BadJson
from holdfast.contract.json import parse_json
from holdfast.contract.message import Text, Thinking, ToolUse
from holdfast.models.port import (
    CallBegun,
    ModelError,
    ModelEvent,
    ModelFault,
    PartEnded,
    ReplyEnded,
    Retrying,
    Settings,
    StopReason,
    TextDelta,
    ThinkingDelta,
    Usage,
)
from holdfast.models.text_protocol.parser import parse
from holdfast.models.text_protocol.syntax import TextPiece
from holdfast.models.text_protocol.text_model import TextModel, worst_problem
from tests.models.exchanges import HELLO, end, hear, parts, run
from tests.models.text_protocol.scripted_model import SPENT, TOOLS, Scripted, written
from tests.models.text_protocol.test_text_model_conformance import ANSWER, REPLY


def heard(*replies: Sequence[ModelEvent | Exception]) -> list[ModelEvent]:
    return run(hear(TextModel(Scripted(replies)), tools=TOOLS))


def shown(events: Sequence[ModelEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


def use(number: int, name: str, **arguments: str) -> ToolUse:
    return ToolUse(f"call-{number}", name, json.dumps(arguments, separators=(",", ":")))


CALLS = (
    use(1, "file.read", path="a.txt"),
    use(2, "code.search", query="main"),
    use(3, "file.write", path="b.txt", content="[read_file: not/a/call]"),
    use(4, "shell.exec", command="ls [a]"),
)
WHOLE: list[StopReason] = ["end", "tool_use"]
CUT: list[StopReason] = ["max_tokens", "refusal", "other"]
TAGS = [
    "[read_file:",
    "[git_log]",
    "[write_file]",
    "[/write_file]",
    "[edit_file]",
    "[/edit_file]",
    "[search_code]",
    "[/search_code]",
    "[call:",
    "[/call]",
    '{"a":1}',
    "---search---",
    "---replace---",
    "---content---",
    "path: a\n",
    "=== tool_result: x ===\n",
    "===",
    "~~~",
    "\r\n",
    "\udcff",
]
HARMLESS = ["a", "[", "]", "\n", " ", "`", "```\n", "[x: y]", "ü", ":"]


@pytest.mark.parametrize("size", [1, 3, 7, 10_000])
@pytest.mark.spec("M3")
def test_calls_are_in_order_with_unique_ids_however_the_text_is_chunked(size: int) -> None:
    events = heard(written(REPLY, size=size))
    assert parts(events) == [Text("Let me look — ü 🙂."), *CALLS, Text("That is all.")]
    assert end(events) == ReplyEnded("tool_use", SPENT, "writer-1b")
    begun = [(event.id, event.name) for event in events if isinstance(event, CallBegun)]
    assert begun == [(each.id, each.name) for each in CALLS]


@pytest.mark.spec("M3")
def test_an_answer_without_calls_is_streamed_as_it_arrives() -> None:
    events = heard(written(ANSWER, size=4))
    assert parts(events) == [Text(ANSWER)]
    assert end(events).stop == "end"
    deltas = [event.text for event in events if isinstance(event, TextDelta)]
    assert len(deltas) > 3 and "".join(deltas) == ANSWER


@given(st.lists(st.sampled_from(HARMLESS), max_size=40), st.integers(1, 9))
@pytest.mark.spec("M3")
def test_text_without_calls_stays_as_written(pieces: list[str], size: int) -> None:
    text = "".join(pieces)
    events = heard(written(text, size=size))
    assert shown(events) == (text if text.strip() else "")
    assert parts(events) == ([Text(text)] if text.strip() else [])


@pytest.mark.spec("M3")
def test_a_lone_surrogate_in_a_call_is_left_for_the_pipeline_to_reject() -> None:
    (call,) = parts(heard(written("[read_file: a\udcff]")))
    assert isinstance(call, ToolUse)
    assert call == ToolUse("call-1", "file.read", r'{"path": "a\udcff"}')
    with pytest.raises(BadJson, match="surrogate"):
        parse_json(call.arguments)


@given(st.lists(st.sampled_from([*HARMLESS, *TAGS]), max_size=30), st.integers(1, 9), st.sampled_from([*WHOLE, *CUT]))
@pytest.mark.spec("M3")
def test_any_text_gives_a_reply_or_an_error_and_calls_only_from_complete_replies(
    pieces: list[str], size: int, stop: StopReason
) -> None:
    text = "".join(pieces)
    read = parse(text)
    reply = written(text, size=size, stop=stop)
    if worst_problem(read.problems, cut=stop in CUT):
        with pytest.raises(ModelError, match="nothing was run"):
            heard(reply)
        return
    events = heard(reply)
    said = [part.text for part in parts(events) if isinstance(part, Text)]
    assert shown(events) == "".join(said)
    calls = [(part.name, part.arguments) for part in parts(events) if isinstance(part, ToolUse)]
    if stop in CUT:
        assert end(events).stop == stop
        assert calls == [] and "".join(said) == (text if text.strip() else "")
    else:
        assert [name for name, _ in calls] == [call.name for call in read.calls]
        kept = " ".join(piece.text for piece in read.pieces if isinstance(piece, TextPiece))
        assert " ".join(said).split() == kept.split()


@pytest.mark.spec("M3")
def test_white_space_around_calls_is_dropped() -> None:
    events = heard(written("\n\n[git_status]\n\n[git_log]\n"))
    assert parts(events) == [use(1, "git.status"), use(2, "git.log")]
    assert shown(events) == ""
    events = heard(written("So.  \n\n[git_log] \r\n\n    indented\n  more \n[git_diff]\nEnd. \n", size=1))
    said = [part.text for part in parts(events) if isinstance(part, Text)]
    assert said == ["So.", "    indented\n  more", "End. \n"]
    assert shown(events) == "".join(said)


@pytest.mark.spec("M3")
def test_a_model_that_sends_no_deltas_is_parsed() -> None:
    assert parts(heard([PartEnded(Text(REPLY)), ReplyEnded("end", SPENT)]))[1:-1] == list(CALLS)


@pytest.mark.spec("M3")
def test_thinking_passes_through_and_is_not_parsed_for_calls() -> None:
    thought = Thinking("[read_file: a]", "anthropic", "c2ln")
    events = heard([ThinkingDelta("[read_file: a]"), PartEnded(thought), *written("[git_diff]")])
    assert parts(events) == [thought, use(1, "git.diff")]
    assert ThinkingDelta("[read_file: a]") in events


@pytest.mark.spec("M3")
def test_a_fence_stays_open_across_thinking() -> None:
    reply = [*written("```\n[git_diff]\n")[:-1], PartEnded(Thinking("hm")), *written("[git_log]\n```\n")]
    events = heard(reply)
    assert not [part for part in parts(events) if isinstance(part, ToolUse)]
    assert shown(events) == "```\n[git_diff]\n[git_log]\n```\n"


@pytest.mark.spec("M3")
def test_native_calls_pass_through_and_keep_their_ids() -> None:
    native = ToolUse("call-1", "file.read", '{"path": "n"}')
    begun = [CallBegun("call-1", "file.read"), PartEnded(native)]
    events = heard([*written("[git_log]\n")[:-1], *begun, *written("[git_diff]\n")])
    assert parts(events) == [use(2, "git.log"), native, use(3, "git.diff")]
    assert [event.id for event in events if isinstance(event, CallBegun)] == ["call-2", "call-1", "call-3"]


@pytest.mark.spec("M3")
def test_events_before_a_provider_retry_are_discarded() -> None:
    again = Retrying(1, 0.5, "busy")
    reply = [*written("[git_log] and [edit_file]")[:-1], again, *written("[git_diff]")]
    events = heard(reply)
    assert again in events
    assert parts(events[events.index(again) :]) == [use(1, "git.diff")]


@pytest.mark.parametrize("stop", CUT)
@pytest.mark.parametrize("end_of_it", ["with [/write_file] and", "with [/write_file]", "a\n[/write_file]"])
@pytest.mark.spec("M3")
def test_a_truncated_reply_makes_no_calls_even_if_they_look_complete(end_of_it: str, stop: StopReason) -> None:
    cut = f"[write_file]\npath: a.md\n---content---\n{end_of_it}"
    model = Scripted([written(cut, stop=stop)])
    events = run(hear(TextModel(model), tools=TOOLS))
    assert parts(events) == [Text(cut)]
    assert (end(events).stop, len(model.asked)) == (stop, 1)


@pytest.mark.parametrize("stop", WHOLE)
@pytest.mark.spec("M3")
def test_a_complete_reply_with_calls_stops_with_tool_use(stop: StopReason) -> None:
    assert end(heard(written("[git_log]", stop=stop))).stop == "tool_use"
    assert end(heard(written("Nothing.", stop=stop))).stop == stop


@pytest.mark.parametrize(
    "reply",
    [
        [TextDelta("[git_log]"), PartEnded(Text("nothing here")), ReplyEnded("end", SPENT)],
        [TextDelta("[git_log]"), PartEnded(Text("[git_")), ReplyEnded("end", SPENT)],
        [PartEnded(Text("a")), TextDelta("[git_log]"), ReplyEnded("end", SPENT)],
    ],
)
@pytest.mark.spec("M3")
def test_a_part_that_differs_from_its_deltas_is_a_protocol_fault(reply: list[ModelEvent]) -> None:
    streamed = r"^The final text of small:writer differs from the text it streamed; send again\.$"
    with pytest.raises(ModelError, match=streamed) as caught:
        heard(reply)
    assert caught.value.fault is ModelFault.PROTOCOL


UNCLOSED = [
    ('[call: shell.exec]\n{"command": "ls"}\n', use(1, "shell.exec", command="ls")),
    (
        "[edit_file]\npath: a\n---search---\nb\n---replace---\nc",
        use(1, "file.edit", path="a", search="b", replace="c", mode="first"),
    ),
]


@pytest.mark.parametrize("stop", WHOLE)
@pytest.mark.parametrize(("text", "call"), UNCLOSED)
@pytest.mark.spec("M3")
def test_a_complete_call_without_its_closing_tag_is_made_if_the_model_ended_the_reply(
    text: str, call: ToolUse, stop: StopReason
) -> None:
    events = heard(written(f"So.\n{text}", size=3, stop=stop))
    assert parts(events) == [Text("So."), call]
    assert end(events).stop == "tool_use"


@pytest.mark.parametrize("stop", CUT)
@pytest.mark.parametrize(
    "cut",
    [
        "[write_file]\npath: a\n---content---\nbut",
        "[read_file: a",
        "```\n[git_log]",
        "~~~",
        *(text for text, _ in UNCLOSED),
    ],
)
@pytest.mark.spec("M3")
def test_a_reply_truncated_inside_a_call_is_not_corrected_and_makes_no_calls(cut: str, stop: StopReason) -> None:
    text = f"So.\n[git_log]\n{cut}"
    model = Scripted([written(text, stop=stop)])
    events = run(hear(TextModel(model), tools=TOOLS))
    assert parts(events) == [Text(text)]
    assert shown(events) == text
    assert (end(events).stop, len(model.asked)) == (stop, 1)


@pytest.mark.spec("M3")
def test_a_dropped_reply_has_no_calls_and_raises_the_providers_error() -> None:
    broken = ModelError(ModelFault.CUT, "It broke off.")
    events: list[ModelEvent] = []

    async def ask() -> None:
        model = TextModel(Scripted([[*written("Well.\n[git_log]\nand")[:-2], broken]]))
        async for event in model.stream(HELLO, TOOLS, Settings()):
            events.append(event)

    with pytest.raises(ModelError) as caught:
        run(ask())
    assert caught.value is broken
    assert parts(events) == [] and shown(events) == "Well."


@pytest.mark.spec("M3")
def test_a_stream_without_an_end_event_is_truncated() -> None:
    with pytest.raises(ModelError) as caught:
        heard([TextDelta("He"), PartEnded(Text("He"))])
    assert caught.value.fault is ModelFault.CUT


@pytest.mark.spec("M3")
def test_ten_thousand_calls_are_all_made() -> None:
    events = heard(written("[read_file: a]\n" * 10_000, size=4096))
    calls = [part for part in parts(events) if isinstance(part, ToolUse)]
    assert len({call.id for call in calls}) == 10_000


@pytest.mark.spec("M3")
def test_closing_the_stream_closes_the_inner_stream() -> None:
    async def leave() -> int:
        model = Scripted([written(ANSWER)])
        stream = TextModel(model).stream(HELLO, TOOLS, Settings())
        await anext(stream)
        await stream.aclose()
        return model.closed

    assert run(leave()) == 1


@pytest.mark.spec("M3")
def test_cancellation_ends_the_request_without_another() -> None:
    model = Scripted([written(ANSWER)])
    waiting = asyncio.Event()

    async def stall() -> None:
        async for _ in TextModel(model).stream(HELLO, TOOLS, Settings()):
            waiting.set()
            await asyncio.Event().wait()

    async def ask() -> None:
        task = asyncio.create_task(stall())
        await waiting.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(ask())
    assert len(model.asked) == 1


@pytest.mark.spec("M3")
def test_name_provider_and_usage_are_those_of_the_inner_model() -> None:
    model = TextModel(Scripted([written("Yes.")]))
    assert (model.provider, model.name, model.choice.protocol) == ("small", "small:writer", "text")
    assert end(run(hear(model, tools=TOOLS))).usage == SPENT != Usage()

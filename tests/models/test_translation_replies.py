"""Replies: parts in order, each emitted once complete, with tokens and cost."""

from __future__ import annotations

from decimal import Decimal
from functools import partial
from typing import Any

import pytest

from holdfast.contract.message import Text, Thinking, ToolUse
from holdfast.models.from_config import KNOWN_PROVIDERS
from holdfast.models.port import CallBegun, PartEnded, ReplyEnded, TextDelta, ThinkingDelta
from tests.models.exchanges import end, hear, parts, replied, run
from tests.models.servers import chat
from tests.models.servers.apis import ANTHROPIC, APIS, CHAT, GOOGLE, OPENAI, Api
from tests.models.servers.http import Answer, event, serving
from tests.models.servers.script import Say, Script, Think, Use

EACH = pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
TWO = (Use("call_a", "file--read", '{"path": "a b"}'), Use("call_b", "shell--run", '{"command": "ls"}'))


@EACH
@pytest.mark.spec("M1")
def test_parallel_calls_keep_their_names_and_arguments(api: Api) -> None:
    events = replied(api, Script((Say("Both."), *TWO)))
    assert parts(events) == [
        Text("Both."),
        ToolUse("call_a", "file.read", '{"path": "a b"}'),
        ToolUse("call_b", "shell.run", '{"command": "ls"}'),
    ]
    assert end(events).stop == "tool_use"
    assert [one for one in events if isinstance(one, CallBegun)] == [
        CallBegun("call_a", "file.read"),
        CallBegun("call_b", "shell.run"),
    ]


@pytest.mark.parametrize("style", chat.STYLES)
@pytest.mark.spec("M1")
def test_every_server_style_of_chat_completions_is_understood(style: chat.Style) -> None:
    api = Api("openai-chat", style, "m", partial(chat.events, style=style), chat.check, "/v1")
    events = replied(api, Script((Think("Hm."), Say("Both."), *TWO)))
    assert parts(events)[:2] == [Thinking("Hm."), Text("Both.")]
    assert [part.name for part in parts(events) if isinstance(part, ToolUse)] == ["file.read", "shell.run"]
    assert end(events).usage.input == 25


@pytest.mark.spec("M1")
def test_interleaved_calls_are_reassembled() -> None:
    def delta(index: int, **function: str) -> dict[str, object]:
        head = {"id": f"c{index}", "type": "function"} if "name" in function else {}
        return {"tool_calls": [{"index": index, **head, "function": function}]}

    deltas = [
        delta(0, name="file--read", arguments='{"pa'),
        delta(1, name="shell--run", arguments=""),
        delta(0, arguments='th": 1}'),
        delta(1, arguments='{"b":'),
        delta(1, arguments=" 2}"),
    ]
    base: dict[str, Any] = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    chunks = [event({**base, "choices": [{"index": 0, "delta": one, "finish_reason": None}]}) for one in deltas]
    last: dict[str, Any] = {"index": 0, "delta": {}, "finish_reason": "tool_calls"}
    chunks.append(event({**base, "choices": [last]}))

    async def ask() -> list[object]:
        async with serving(Answer([*chunks, chat.DONE])) as server:
            return [*parts(await hear(CHAT.open(server)))]

    assert run(ask()) == [ToolUse("c0", "file.read", '{"path": 1}'), ToolUse("c1", "shell.run", '{"b": 2}')]


@EACH
@pytest.mark.spec("M1")
def test_text_is_streamed_as_deltas_and_emitted_once_complete(api: Api) -> None:
    long = "Grüße aus dem Süden – 🙂 und noch ein Satz."
    events = replied(api, Script((Think("Kurz nachgedacht.", "s"), Say(long))))
    shown = [one.text for one in events if isinstance(one, TextDelta)]
    assert len(shown) > 3 and "".join(shown) == long
    assert "".join(one.text for one in events if isinstance(one, ThinkingDelta)) == "Kurz nachgedacht."
    assert Text(long) in parts(events)
    assert end(events).stop == "end"


@pytest.mark.parametrize("api", [ANTHROPIC, OPENAI], ids=lambda api: api.name)
@pytest.mark.spec("M1")
def test_a_part_is_emitted_as_soon_as_the_next_one_begins(api: Api) -> None:
    events = replied(api, Script((Say("One."), *TWO)))
    order = [type(one) for one in events if isinstance(one, PartEnded | CallBegun | ReplyEnded)]
    assert order == [PartEnded, CallBegun, PartEnded, CallBegun, PartEnded, ReplyEnded]


@pytest.mark.parametrize("api", [ANTHROPIC, OPENAI], ids=lambda api: api.name)
@pytest.mark.spec("M1")
def test_a_part_is_emitted_before_any_delta_of_the_next_one(api: Api) -> None:
    """A caller that collects the text so far has the right one."""
    events = replied(api, Script((Say("One."), Say("Two."))))
    first, second = (place for place, one in enumerate(events) if isinstance(one, PartEnded))
    assert events[:first] == [TextDelta("One.")] and events[first + 1 : second] == [TextDelta("Two.")]


@EACH
@pytest.mark.spec("M1")
def test_unknown_names_and_invalid_arguments_are_kept_as_written(api: Api) -> None:
    written = '{"path": "a"}' if api.name in ("google", "vertex") else '{"path": '
    events = replied(api, Script((Use("call_a", "made_up", written),)))
    assert parts(events) == [ToolUse("call_a", "made_up", written)]


@pytest.mark.spec("M1")
def test_calls_without_an_id_get_unique_ids() -> None:
    script = Script((Use("", "file--read", "{}"), Use("", "file--read", "{}")))
    ids = [part.id for part in parts(replied(GOOGLE, script)) if isinstance(part, ToolUse)]
    assert len(set(ids)) == 2 and all(one.startswith("call_") for one in ids)


@pytest.mark.parametrize(
    ("api", "stop"),
    [(ANTHROPIC, "max_tokens"), (OPENAI, "max_output_tokens"), (GOOGLE, "MAX_TOKENS"), (CHAT, "length")],
    ids=lambda one: one if isinstance(one, str) else one.name,
)
@pytest.mark.spec("M1")
def test_a_reply_that_ran_out_of_tokens_stops_with_max_tokens(api: Api, stop: str) -> None:
    assert end(replied(api, Script((Say("And so"),), stop=stop))).stop == "max_tokens"


@EACH
@pytest.mark.spec("M5")
def test_usage_is_what_the_provider_reports(api: Api) -> None:
    counted = end(replied(api, Script((Say("Hi."),), input=20, cached=5, output=30, thinking=9))).usage
    assert (counted.input, counted.output, counted.cache_read) == (25, 30, 5)
    assert counted.thinking == (0 if api is ANTHROPIC else 9)
    assert counted.cost is None


@pytest.mark.spec("M5")
def test_cache_writes_are_counted_as_input() -> None:
    counted = end(replied(ANTHROPIC, Script((Say("Hi."),), input=20, cached=5, written=7))).usage
    assert (counted.input, counted.cache_read, counted.cache_write) == (32, 5, 7)


@pytest.mark.parametrize(
    ("api", "model", "cost"),
    [
        (ANTHROPIC, "claude-opus-4-5", Decimal("0.030")),
        (OPENAI, "gpt-5", Decimal("0.01125")),
        (GOOGLE, "gemini-2.5-pro", Decimal("0.01125")),
    ],
    ids=lambda one: one.name if isinstance(one, Api) else None,
)
@pytest.mark.spec("M5")
def test_a_reply_of_a_known_model_has_its_price(api: Api, model: str, cost: Decimal) -> None:
    """1 000 tokens in and 1 000 out, by the published prices per million."""
    usage = end(replied(api, Script((Say("Hi."),), input=1000, output=1000), priced=True, model=model)).usage
    assert usage.cost == cost


@pytest.mark.spec("M5")
def test_no_price_is_claimed_for_local_servers_and_models_nobody_lists() -> None:
    assert end(replied(CHAT, Script((Say("Hi."),)), model="gpt-5")).usage.cost is None
    script = Script((Say("Hi."),))
    made = Api("openai", "openai", "no-such-model", partial(OPENAI.events), OPENAI.check, "/v1")
    assert all(
        not known.keys for name, known in KNOWN_PROVIDERS.items() if name in ("ollama", "vllm", "llamacpp", "lmstudio")
    )
    assert end(replied(made, script)).usage.cost is None

"""Anthropic's Messages API: event order and fields as documented, with pings in between."""

from __future__ import annotations

from functools import cache
from typing import Any

from anthropic.types.beta import BetaRawMessageStreamEvent
from anthropic.types.beta.message_create_params import MessageCreateParamsStreaming
from pydantic import TypeAdapter

from tests.models.servers.http import event
from tests.models.servers.script import Hidden, Say, Script, Think, Use, pieces
from tests.models.servers.sdk_checks import exact, fits


@cache
def _events() -> TypeAdapter[Any]:
    return TypeAdapter(BetaRawMessageStreamEvent)


@cache
def _request() -> TypeAdapter[Any]:
    return TypeAdapter(MessageCreateParamsStreaming)


def check(body: dict[str, Any]) -> None:
    """A tool's schema is arbitrary; the SDK's type would drop unknown fields."""
    tools = [{**tool, "input_schema": {"type": "object"}} for tool in body.get("tools", [])]
    # Older models take a temperature, which the SDK's type no longer has.
    rest = {key: value for key, value in body.items() if key not in ("tools", "temperature")}
    exact(_request(), {**rest, "tools": tools} if tools else rest)


def events(script: Script) -> list[bytes]:
    made: list[dict[str, Any]] = [
        {
            "type": "message_start",
            "message": {
                "id": "msg_01",
                "type": "message",
                "role": "assistant",
                "model": "claude-opus-4-5-20251101",
                "content": [],
                "stop_reason": None,
                "stop_sequence": None,
                "usage": {
                    "input_tokens": script.input,
                    "output_tokens": 1,
                    "cache_read_input_tokens": script.cached,
                    "cache_creation_input_tokens": script.written,
                },
            },
        }
    ]
    for index, part in enumerate(script.parts):
        made += _block(index, part)
    stop = script.stop or ("tool_use" if script.calls else "end_turn")
    made.append(
        {
            "type": "message_delta",
            "delta": {"stop_reason": stop, "stop_sequence": None},
            "usage": {"output_tokens": script.output},
        }
    )
    made.append({"type": "message_stop"})
    for one in made:
        fits(_events(), one)
    stream = [event(one, str(one["type"])) for one in made]
    stream.insert(2, event({"type": "ping"}, "ping"))
    return stream


def _block(index: int, part: Say | Think | Hidden | Use) -> list[dict[str, Any]]:
    start: dict[str, Any]
    deltas: list[dict[str, Any]]
    match part:
        case Say(text):
            start = {"type": "text", "text": ""}
            deltas = [{"type": "text_delta", "text": piece} for piece in pieces(text)]
        case Think(text, signature):
            start = {"type": "thinking", "thinking": "", "signature": ""}
            deltas = [{"type": "thinking_delta", "thinking": piece} for piece in pieces(text)]
            deltas.append({"type": "signature_delta", "signature": signature})
        case Hidden(data):
            start, deltas = {"type": "redacted_thinking", "data": data}, []
        case Use(call, name, arguments):
            start = {"type": "tool_use", "id": call, "name": name, "input": {}}
            deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in ["", *pieces(arguments)]]
    return [
        {"type": "content_block_start", "index": index, "content_block": start},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]

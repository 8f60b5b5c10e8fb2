"""OpenAI's Responses API: items with their parts, sequence numbers, and the whole response at the end."""

from __future__ import annotations

from functools import cache
from typing import Any

from openai.types.responses import ResponseStreamEvent
from openai.types.responses.response_create_params import ResponseCreateParamsStreaming
from pydantic import TypeAdapter

from tests.models.servers.http import event
from tests.models.servers.script import Hidden, Say, Script, Think, Use, pieces
from tests.models.servers.sdk_checks import exact, fits

Fields = dict[str, Any]


@cache
def _events() -> TypeAdapter[Any]:
    return TypeAdapter(ResponseStreamEvent)


@cache
def _request() -> TypeAdapter[Any]:
    return TypeAdapter(ResponseCreateParamsStreaming)


def check(body: dict[str, Any]) -> None:
    """The SDK's type requires `strict` for every function, the API does not: the check fills it in."""
    tools = [{"strict": None, **tool} for tool in body.get("tools", [])]
    exact(_request(), {**body, "tools": tools} if tools else body)


def events(script: Script, model: str = "gpt-5-2025-08-07") -> list[bytes]:
    base: dict[str, Any] = {
        "id": "resp_1",
        "object": "response",
        "created_at": 1_760_000_000,
        "model": model,
        "status": "in_progress",
        "output": [],
        "tools": [],
        "tool_choice": "auto",
        "parallel_tool_calls": True,
    }
    made: list[dict[str, Any]] = [
        {"type": "response.created", "response": base},
        {"type": "response.in_progress", "response": base},
    ]
    items: list[dict[str, Any]] = []
    for place, part in enumerate(script.parts):
        item, between = _item(place, part)
        items.append(item)
        made += between
    status = "incomplete" if script.stop else "completed"
    whole = {
        **base,
        "status": status,
        "output": items,
        "incomplete_details": {"reason": script.stop} if script.stop else None,
        "usage": {
            "input_tokens": script.input + script.cached,
            "output_tokens": script.output,
            "total_tokens": script.input + script.cached + script.output,
            "input_tokens_details": {"cached_tokens": script.cached, "cache_write_tokens": script.written},
            "output_tokens_details": {"reasoning_tokens": script.thinking},
        },
    }
    made.append({"type": f"response.{status}", "response": whole})
    numbered: list[dict[str, Any]] = [{**one, "sequence_number": number} for number, one in enumerate(made)]
    for one in numbered:
        fits(_events(), one)
    return [event(one, one["type"]) for one in numbered]


def _item(place: int, part: Say | Think | Hidden | Use) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    at: dict[str, Any] = {"output_index": place}
    nothing: list[Any] = []
    first: dict[str, Any]
    last: dict[str, Any]
    between: list[dict[str, Any]]
    empty: dict[str, Any]
    full: dict[str, Any]
    match part:
        case Say(text):
            where = {**at, "item_id": f"msg_{place}", "content_index": 0}
            shell = {"id": f"msg_{place}", "type": "message", "role": "assistant"}
            empty, full = ({"type": "output_text", "text": said, "annotations": nothing} for said in ("", text))
            between = [{"type": "response.content_part.added", **where, "part": empty}]
            delta = {"type": "response.output_text.delta", **where, "logprobs": nothing}
            between += [{**delta, "delta": piece} for piece in pieces(text)]
            between.append({"type": "response.output_text.done", **where, "text": text, "logprobs": nothing})
            between.append({"type": "response.content_part.done", **where, "part": full})
            first = {**shell, "status": "in_progress", "content": []}
            last = {**shell, "status": "completed", "content": [full]}
        case Use(call, name, arguments):
            where = {**at, "item_id": f"fc_{place}"}
            shell = {"id": f"fc_{place}", "type": "function_call", "call_id": call, "name": name}
            first = {**shell, "status": "in_progress", "arguments": ""}
            last = {**shell, "status": "completed", "arguments": arguments}
            delta = {"type": "response.function_call_arguments.delta", **where}
            between = [{**delta, "delta": piece} for piece in pieces(arguments)]
            done = {"type": "response.function_call_arguments.done", **where, "name": name, "arguments": arguments}
            between.append(done)
        case Think(text, signature):
            first, last, between = _reasoning(place, text.split("\n\n"), signature)
        case Hidden(data):
            first, last, between = _reasoning(place, [], data)
    added = {"type": "response.output_item.added", **at, "item": first}
    return last, [added, *between, {"type": "response.output_item.done", **at, "item": last}]


def _reasoning(place: int, texts: list[str], encrypted: str) -> tuple[Fields, Fields, list[Fields]]:
    item = f"rs_{place}"
    between: list[dict[str, Any]] = []
    for number, text in enumerate(texts):
        where = {"item_id": item, "output_index": place, "summary_index": number}
        empty, full = ({"type": "summary_text", "text": said} for said in ("", text))
        between.append({"type": "response.reasoning_summary_part.added", **where, "part": empty})
        between += [
            {"type": "response.reasoning_summary_text.delta", **where, "delta": piece} for piece in pieces(text)
        ]
        between.append({"type": "response.reasoning_summary_text.done", **where, "text": text})
        between.append({"type": "response.reasoning_summary_part.done", **where, "part": full})
    summary = [{"type": "summary_text", "text": text} for text in texts]
    shell = {"id": item, "type": "reasoning", "encrypted_content": encrypted}
    return {**shell, "summary": []}, {**shell, "summary": summary}, between

"""Chat completions as documented by OpenAI, and as streamed by vLLM, llama.cpp and Ollama."""

from __future__ import annotations

from functools import cache
from typing import Any, Literal

from openai.types.chat import ChatCompletionChunk
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming
from pydantic import TypeAdapter

from tests.models.servers.http import event
from tests.models.servers.script import Hidden, Say, Script, Think, Use, pieces
from tests.models.servers.sdk_checks import exact, fits

Style = Literal["openai", "vllm", "llamacpp", "ollama"]
STYLES: tuple[Style, ...] = ("openai", "vllm", "llamacpp", "ollama")
DONE = b"data: [DONE]\n\n"


@cache
def _chunk() -> TypeAdapter[Any]:
    return TypeAdapter(ChatCompletionChunk)


@cache
def _request() -> TypeAdapter[Any]:
    return TypeAdapter(CompletionCreateParamsStreaming)


def check(body: dict[str, Any]) -> None:
    """`reasoning_content` is an extension of OpenAI-compatible servers."""
    messages = [{key: value for key, value in one.items() if key != "reasoning_content"} for one in body["messages"]]
    exact(_request(), {**body, "messages": messages})


def events(script: Script, style: Style = "openai") -> list[bytes]:
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": None if style == "llamacpp" else ""}]
    number = 0
    for part in script.parts:
        match part:
            case Say(text):
                deltas += [{"content": piece} for piece in pieces(text)]
            case Think(text):
                field = "reasoning" if style == "ollama" else "reasoning_content"
                deltas += [{field: piece} for piece in pieces(text)]
            case Use():
                deltas += _call(number, part, style)
                number += 1
            case Hidden():
                pass
    stop = script.stop or ("tool_calls" if script.calls else "stop")
    base = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_760_000_000, "model": "local-model"}
    made: list[dict[str, Any]] = [
        {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas
    ]
    made.append({**base, "choices": [{"index": 0, "delta": {}, "finish_reason": stop}]})
    usage = {
        "prompt_tokens": script.input + script.cached,
        "completion_tokens": script.output,
        "total_tokens": script.input + script.cached + script.output,
    }
    if style == "openai":
        usage |= {
            "prompt_tokens_details": {"cached_tokens": script.cached},
            "completion_tokens_details": {"reasoning_tokens": script.thinking},
        }
    made.append({**base, "choices": [], "usage": usage})
    for one in made:
        fits(_chunk(), one)
    return [*(event(one) for one in made), DONE]


def _call(number: int, use: Use, style: Style) -> list[dict[str, Any]]:
    """OpenAI and vLLM send the name first, llama.cpp begins the arguments with it, Ollama sends all at once."""
    head: dict[str, Any] = {"index": number, "id": use.id, "type": "function"}
    parts = pieces(use.arguments)
    match style:
        case "ollama":
            return [{"tool_calls": [{**head, "function": {"name": use.name, "arguments": use.arguments}}]}]
        case "llamacpp":
            first, rest = parts[0], parts[1:]
        case _:
            first, rest = "", parts
    begun = {"tool_calls": [{**head, "function": {"name": use.name, "arguments": first}}]}
    more = [{"tool_calls": [{"index": number, "function": {"arguments": piece}}]} for piece in rest]
    return [begun, *more]

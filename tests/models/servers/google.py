"""`streamGenerateContent` of the Gemini API and Vertex: one response per event, signatures on the parts they sign."""

from __future__ import annotations

import base64
import json
from functools import cache
from typing import Any

from google.genai import types
from pydantic import TypeAdapter

from tests.models.servers.http import event
from tests.models.servers.script import Hidden, Say, Script, Think, Use, pieces
from tests.models.servers.sdk_checks import fits


@cache
def _response() -> TypeAdapter[Any]:
    return TypeAdapter(types.GenerateContentResponse)


_FIELDS = {
    "contents": TypeAdapter[Any](list[types.Content]),
    "systemInstruction": TypeAdapter[Any](types.Content),
    "tools": TypeAdapter[Any](list[types.Tool]),
    "toolConfig": TypeAdapter[Any](types.ToolConfig),
    "generationConfig": TypeAdapter[Any](types.GenerationConfig),
}


def check(body: dict[str, Any]) -> None:
    """Each field is known to the SDK, whose nested models forbid unknown ones."""
    for key, value in body.items():
        _FIELDS[key].validate_python(value)


def events(script: Script, model: str = "gemini-2.5-pro") -> list[bytes]:
    """Gemini signs the part after its thinking: the signature of a `Think` goes with the next part."""
    parts: list[list[dict[str, Any]]] = []
    signature = ""
    for part in script.parts:
        match part:
            case Think(text, sign):
                signature = sign or signature
                parts += [[{"text": piece, "thought": True}] for piece in pieces(text)]
            case Hidden(data):
                signature = data
            case Say(text):
                parts += [[{"text": piece}] for piece in pieces(text)]
                if signature:
                    parts.append([{"text": "", "thoughtSignature": _coded(signature)}])
                signature = ""
            case Use(call, name, arguments):
                made: dict[str, Any] = {"functionCall": {"id": call, "name": name, "args": json.loads(arguments)}}
                if not call:
                    del made["functionCall"]["id"]
                if signature:
                    made["thoughtSignature"] = _coded(signature)
                signature = ""
                parts.append([made])
    usage = {
        "promptTokenCount": script.input + script.cached,
        "cachedContentTokenCount": script.cached,
        "candidatesTokenCount": script.output - script.thinking,
        "thoughtsTokenCount": script.thinking,
        "totalTokenCount": script.input + script.cached + script.output,
    }
    made_all: list[dict[str, Any]] = []
    for number, chunk in enumerate(parts):
        candidate: dict[str, Any] = {"content": {"role": "model", "parts": chunk}, "index": 0}
        if number == len(parts) - 1:
            candidate["finishReason"] = script.stop or "STOP"
        made_all.append(
            {"candidates": [candidate], "usageMetadata": usage, "modelVersion": model, "responseId": "resp-1"}
        )
    for one in made_all:
        fits(_response(), one)
    return [event(one) for one in made_all]


def _coded(signature: str) -> str:
    return base64.b64encode(signature.encode()).decode()

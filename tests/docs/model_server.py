"""A loopback server for the hand-written loops of `docs/python.md`: Chat Completions and Messages, not streamed.

Requests and replies are checked against the types of the official SDKs. The model asks for the weather, then books a
train, then answers.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from anthropic.types import Message as AnthropicMessage
from anthropic.types.message_create_params import MessageCreateParamsNonStreaming
from openai.types.chat import ChatCompletion
from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming
from pydantic import TypeAdapter

CALLS = (("weather", {"city": "Bern"}), ("book", {"train": "ICE 71"}))
RESULTS = ("14 °C and rain in Bern", "booked ICE 71")
ANSWER = "It is raining, so I booked the ICE 71."


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        try:
            reply = {"/chat/completions": _chat_completion, "/v1/messages": _message}[self.path](body)
        except Exception as error:
            self._send(400, {"error": {"type": "invalid_request_error", "message": repr(error)}})
            return
        self._send(200, reply)

    def _send(self, status: int, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Keeps the request log out of the test's output."""


def _chat_completion(body: dict[str, Any]) -> dict[str, Any]:
    TypeAdapter(CompletionCreateParamsNonStreaming).validate_python(body)
    assert {tool["function"]["name"] for tool in body["tools"]} == {"weather", "book"}
    results = [message["content"] for message in body["messages"] if message["role"] == "tool"]
    assert tuple(results) == RESULTS[: len(results)]
    message: dict[str, Any] = {"role": "assistant", "content": ANSWER}
    if len(results) < len(CALLS):
        name, args = CALLS[len(results)]
        call = {"name": name, "arguments": json.dumps(args)}
        message = {"role": "assistant", "content": None}
        message["tool_calls"] = [{"id": f"call_{len(results)}", "type": "function", "function": call}]
    reply: dict[str, Any] = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_760_000_000,
        "model": body["model"],
        "choices": [
            {"index": 0, "message": message, "finish_reason": "tool_calls" if "tool_calls" in message else "stop"}
        ],
    }
    ChatCompletion.model_validate(reply)
    return reply


def _message(body: dict[str, Any]) -> dict[str, Any]:
    TypeAdapter(MessageCreateParamsNonStreaming).validate_python(body)
    assert {tool["name"] for tool in body["tools"]} == {"weather", "book"}
    parts: list[dict[str, Any]] = [
        part for message in body["messages"] if isinstance(message["content"], list) for part in message["content"]
    ]
    results = [part["content"] for part in parts if part["type"] == "tool_result" and not part["is_error"]]
    assert tuple(results) == RESULTS[: len(results)]
    content: list[dict[str, Any]] = [{"type": "text", "text": ANSWER}]
    if len(results) < len(CALLS):
        name, args = CALLS[len(results)]
        content = [{"type": "tool_use", "id": f"toolu_{len(results)}", "name": name, "input": args}]
    reply: dict[str, Any] = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": content,
        "stop_reason": "tool_use" if content[0]["type"] == "tool_use" else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }
    AnthropicMessage.model_validate(reply)
    return reply


@contextmanager
def model_server() -> Generator[str]:
    """The base URL of a running server."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join(60)
        server.server_close()

"""An MCP server of the handshake protocol, written out by hand: it starts in no time and does as it is told.

`python plain.py FOLDER`: what it gets is appended to `wire.jsonl` there; `tools.json` there replaces its tools.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(sys.argv[1])
NOTHING: dict[str, Any] = {"type": "object", "properties": {}}
TOOLS: list[dict[str, Any]] = [
    {
        "name": "echo",
        "description": "Say it again.",
        "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
    },
    *({"name": name, "inputSchema": NOTHING} for name in ("die", "sleep", "busy", "ask", "visit", "sample", "roots")),
    *({"name": name, "inputSchema": NOTHING} for name in ("blocks", "refuse", "fail", "pid", "change", "flood", "log")),
    {
        "name": "typed",
        "inputSchema": NOTHING,
        "outputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
    },
]
BLOCKS: list[dict[str, Any]] = [
    {"type": "text", "text": "one"},
    {"type": "image", "data": "iVBORw==", "mimeType": "image/png"},
    {"type": "audio", "data": "UklGRg==", "mimeType": "audio/wav"},
    {"type": "resource", "resource": {"uri": "file:///../etc/passwd", "mimeType": "text/plain", "text": "inside"}},
    {"type": "resource_link", "uri": "demo://x/../../y", "name": "far"},
    {"type": "text", "text": "two"},
]
FORM = {
    "message": "Who are you?",
    "requestedSchema": {
        "type": "object",
        "properties": {"name": {"type": "string"}, "age": {"type": "integer", "default": 7}},
        "required": ["name"],
    },
}
SAMPLE = {"messages": [{"role": "user", "content": {"type": "text", "text": "Hi"}}], "maxTokens": 5}
asked: dict[str, Any] = {}
client: dict[str, Any] = {}


def send(**message: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def tools() -> list[dict[str, Any]]:
    given = FOLDER / "tools.json"
    return json.loads(given.read_text()) if given.exists() else TOOLS


def say(number: Any, text: str) -> None:
    send(id=number, result={"content": [{"type": "text", "text": text}]})


def call(number: Any, params: dict[str, Any]) -> None:
    name, meta = params["name"], params.get("_meta", {})
    questions = {"ask": ("elicitation/create", FORM), "sample": ("sampling/createMessage", SAMPLE)}
    questions["roots"] = ("roots/list", {})
    questions["visit"] = (
        "elicitation/create",
        {"mode": "url", "message": "Pay", "url": "https://pay.example/x", "elicitationId": "e1"},
    )
    if name in questions:
        method, wanted = questions[name]
        asked[f"q{number}"] = number
        send(id=f"q{number}", method=method, params=wanted)
    elif name == "die":
        os._exit(3)
    elif name == "sleep":
        (FOLDER / "asleep").touch()
    elif name == "busy":
        for step in range(3):
            note = {"progressToken": meta.get("progressToken"), "progress": step, "total": 3, "message": f"step {step}"}
            send(method="notifications/progress", params=note)
        say(number, "done")
    elif name == "blocks":
        send(id=number, result={"content": BLOCKS})
    elif name == "refuse":
        send(id=number, error={"code": -32602, "message": "Not like that"})
    elif name == "fail":
        send(id=number, result={"content": [{"type": "text", "text": "it broke"}], "isError": True})
    elif name == "typed":
        send(id=number, result={"content": [{"type": "text", "text": "5"}], "structuredContent": {"n": 5}})
    elif name == "pid":
        say(number, str(os.getpid()))
    elif name == "change":
        for _ in range(50):
            send(method="notifications/tools/list_changed")
        say(number, "changed")
    elif name == "log":
        for count in range(150):
            send(method="notifications/message", params={"level": "info", "logger": "me", "data": f"line {count}"})
        say(number, "logged")
    elif name == "flood":
        for count in range(20_000):
            send(method="notifications/message", params={"level": "info", "data": count})
        say(number, "flooded")
    else:
        say(number, str(params.get("arguments", {}).get("text", name)))


def answer(message: dict[str, Any]) -> None:
    number, method, params = message.get("id"), message.get("method"), message.get("params", {})
    if method is None:
        if number in asked:
            say(asked.pop(number), json.dumps(message.get("result", message.get("error"))))
    elif method == "initialize":
        client.update(params)
        about = {"name": "plain", "title": "Plain server", "version": "1.0"}
        has = {"tools": {"listChanged": True}, "logging": {}}
        send(id=number, result={"protocolVersion": "2025-11-25", "capabilities": has, "serverInfo": about})
    elif method == "tools/list":
        send(id=number, result={"tools": tools()})
    elif method == "tools/call":
        call(number, params)
    elif number is not None:
        send(id=number, error={"code": -32601, "message": "Method not found"})


def main() -> None:
    with (FOLDER / "wire.jsonl").open("a") as wire:
        for line in sys.stdin:
            wire.write(line)
            wire.flush()
            answer(json.loads(line))


main()

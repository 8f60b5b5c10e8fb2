"""A small MCP server on stdio. It reads its descriptions and its question from files."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def put(**message: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def definitions() -> list[dict[str, Any]]:
    file = Path("description.txt")
    words = file.read_text() if file.exists() else "Say it back."
    wanted = {"text": {"type": "string"}, "count": {"type": "integer"}}
    return [
        {"name": "echo", "description": words, "inputSchema": {"type": "object", "properties": wanted}},
        {"name": "ask", "description": "Asks a person.", "inputSchema": {"type": "object", "properties": {}}},
    ]


def call(name: str, arguments: dict[str, Any]) -> str:
    if name == "echo":
        put(method="notifications/message", params={"level": "info", "data": "nothing to see"})
        put(method="notifications/message", params={"level": "warning", "data": "careful \x1b[31m"})
        return json.dumps(arguments)
    question = json.loads(Path("question.json").read_text())
    put(id="question", **question)
    while True:
        reply = json.loads(sys.stdin.readline())
        if reply.get("id") == "question":
            return json.dumps(reply.get("result") or reply.get("error"))


def answer(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    if method == "initialize":
        about = {"name": "little", "version": "1.0"}
        return {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": about}
    if method == "tools/list":
        return {"tools": definitions()}
    if method == "tools/call":
        return {"content": [{"type": "text", "text": call(params["name"], params.get("arguments") or {})}]}
    return {} if method == "ping" else None


def main() -> None:
    while line := sys.stdin.readline():
        message = json.loads(line)
        if "id" not in message or "method" not in message:
            continue
        result = answer(message["method"], message.get("params") or {})
        if result is None:
            put(id=message["id"], error={"code": -32601, "message": "Method not found"})
        else:
            put(id=message["id"], result=result)


if __name__ == "__main__":
    main()

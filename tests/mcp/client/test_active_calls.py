"""What an HTTP request carries."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2
import pytest

from holdfast.mcp.client.active_calls import expects_response

pytestmark = pytest.mark.spec("K1")


@pytest.mark.parametrize(
    ("method", "message", "patient"),
    [
        ("POST", {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {}}, True),
        ("POST", {"jsonrpc": "2.0", "id": "a", "method": "ping"}, True),
        ("POST", {"jsonrpc": "2.0", "id": 1, "result": {"method": "x"}}, False),
        ("POST", {"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "x"}}, False),
        ("POST", {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"id": 1}}, False),
        ("GET", None, True),
        ("DELETE", None, False),
    ],
)
def test_only_requests_may_take_their_time(method: str, message: Any, patient: bool) -> None:
    request = httpx2.Request(method, "http://127.0.0.1/mcp", json=message)
    assert asyncio.run(expects_response(request)) is patient

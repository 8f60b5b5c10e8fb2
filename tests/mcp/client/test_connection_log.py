"""Log messages of a server: bounded, redacted, and counted when some are dropped."""

from __future__ import annotations

from typing import Any

import pytest
from mcp_types import LoggingMessageNotificationParams

from holdfast import Runtime
from holdfast.contract.event import ServerLogged
from holdfast.mcp.client.active_calls import ActiveCalls
from holdfast.mcp.client.connection import MAX_BYTES, PER_SECOND, ServerLog
from tests.runtime.support import run

pytestmark = pytest.mark.spec("K1")


def test_the_log_is_bounded_redacted_and_says_what_is_missing() -> None:
    now = 0.0
    runtime = Runtime()
    runtime.redactor.add("far", "s3cr3t-value-123")
    journal = ServerLog(runtime, "p", ActiveCalls(), lambda: now)

    async def log(data: Any, logger: str | None = None) -> None:
        await journal.log(LoggingMessageNotificationParams(level="info", logger=logger, data=data))

    async def work() -> list[ServerLogged]:
        nonlocal now
        with runtime.subscribe(10_000) as events:
            for count in range(PER_SECOND + 50):
                await log(count)
            now = 2.0
            await log({"token": "s3cr3t-value-123"}, "me")
            await log("x" * 100_000)
            return [event for event in events.take() if isinstance(event, ServerLogged)]

    events = run(work())
    assert [event.message for event in events[:PER_SECOND]] == [str(count) for count in range(PER_SECOND)]
    missing, secret, long = events[PER_SECOND:]
    assert missing.message.startswith("50 log messages were dropped")
    assert "s3cr3t" not in secret.message
    assert secret.message.startswith('me: {"token":')
    assert len(long.message.encode()) < MAX_BYTES + 10

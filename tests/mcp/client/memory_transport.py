"""A transport of two streams in memory, for tests of what stands on a transport."""

from __future__ import annotations

from typing import Any

import anyio
from mcp.shared.message import SessionMessage


class Streams:
    reason = ""

    async def __aenter__(self) -> tuple[Any, Any]:
        self.to_us, reading = anyio.create_memory_object_stream[Any](10_000)
        writing, self.from_us = anyio.create_memory_object_stream[Any](10_000)
        return reading, writing

    async def __aexit__(self, *_: object) -> None:
        self.to_us.close()
        self.from_us.close()

    def put(self, *messages: Any) -> None:
        for message in messages:
            self.to_us.send_nowait(SessionMessage(message))

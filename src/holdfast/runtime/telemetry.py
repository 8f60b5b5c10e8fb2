"""OpenTelemetry spans by the GenAI conventions, if the program has loaded the SDK; otherwise nothing at all."""

from __future__ import annotations

import sys
from collections.abc import Awaitable
from typing import Any

from holdfast.contract.result import Result


class Telemetry:
    """Wraps calls in spans. Arguments and outputs are not recorded: they may be private."""

    def __init__(self, tracer: Any) -> None:
        self._tracer = tracer

    @classmethod
    def find(cls) -> Telemetry | None:
        if "opentelemetry.sdk.trace" not in sys.modules:
            return None
        from opentelemetry import trace  # pyright: ignore[reportMissingImports]

        return cls(trace.get_tracer("holdfast"))  # pyright: ignore

    async def span(self, name: str, call_id: str, work: Awaitable[Result]) -> Result:
        attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": name,
            "gen_ai.tool.call.id": call_id,
            "gen_ai.tool.type": "function",
        }
        with self._tracer.start_as_current_span(f"execute_tool {name}", attributes=attributes) as span:
            result = await work
            span.set_attribute("holdfast.state", result.state.value)
            if not result.success:
                from opentelemetry.trace import Status, StatusCode  # pyright: ignore[reportMissingImports]

                kind = result.failure.value if result.failure else "failed"
                span.set_attribute("error.type", kind)
                span.set_status(Status(StatusCode.ERROR, kind))  # pyright: ignore
            return result

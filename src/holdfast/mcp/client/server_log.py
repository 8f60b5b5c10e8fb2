"""Turns the log messages of a server into events: bounded, redacted, and attributed to the call they belong to."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING, Final

from holdfast.contract.event import ServerLogged
from holdfast.contract.json import encode_json
from holdfast.mcp.client.active_calls import ActiveCalls
from holdfast.mcp.client.definitions import source_of

if TYPE_CHECKING:
    from mcp_types import LoggingMessageNotificationParams

    from holdfast.runtime.runtime import Runtime

MAX_BYTES: Final = 4 * 1024
PER_SECOND: Final = 100


class ServerLog:
    def __init__(
        self, runtime: Runtime, name: str, active_calls: ActiveCalls, now: Callable[[], float] = monotonic
    ) -> None:
        self._runtime = runtime
        self._source = source_of(name)
        self._active_calls = active_calls
        self._now = now
        self._second = 0.0
        self._told = 0
        self._lost = 0

    async def log(self, params: LoggingMessageNotificationParams) -> None:
        if self._runtime.events.idle or not self._has_room():
            return
        said = params.data if isinstance(params.data, str) else encode_json(params.data).decode()
        text = f"{params.logger[:80]}: {said}" if params.logger else said
        self._tell(params.level, text)

    def _has_room(self) -> bool:
        now = self._now()
        if now - self._second >= 1.0:
            lost, self._lost = self._lost, 0
            self._second, self._told = now, 0
            if lost:
                self._told += 1
                self._tell("warning", f"{lost:,} log messages were dropped: more than {PER_SECOND} per second")
        self._told += 1
        if self._told <= PER_SECOND:
            return True
        self._lost += 1
        return False

    def _tell(self, level: str, text: str) -> None:
        active_call = self._active_calls.current()
        clean = self._runtime.redactor(text)
        raw = clean.encode("utf-8", "replace")
        if len(raw) > MAX_BYTES:
            clean = f"{raw[:MAX_BYTES].decode('utf-8', 'ignore')} […]"
        self._runtime.events.emit_from_anywhere(
            ServerLogged("" if active_call is None else active_call.ctx.call_id, self._source, level, clean)
        )

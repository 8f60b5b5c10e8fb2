"""Calls of tools by commands that wrap them, such as `holdfast memory` and `holdfast cron`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.cli import console
from holdfast.cli.call_runner import refusal_hint, show_result
from holdfast.cli.errors import Cancelled
from holdfast.contract.enums import State
from holdfast.contract.result import Result

if TYPE_CHECKING:
    from holdfast.runtime.runtime import Runtime

T = TypeVar("T")
C = TypeVar("C", bound="ToolCalls")


class ToolCalls:
    """Makes calls of one runtime and shows their results. On a terminal, the person is asked about them."""

    def __init__(self, runtime: Runtime, *, as_json: bool) -> None:
        self.runtime = runtime
        self._as_json = as_json
        self._asker: Any = None
        if console.can_ask():
            from holdfast.cli.approval_prompt import TerminalAsker

            self._asker = TerminalAsker(runtime)
            runtime.attach(self._asker)

    async def make(self, tool: str, /, **args: Any) -> Result:
        return await self.runtime.call(tool, args)

    def show(self, result: Result, tool: str = "") -> int:
        """Print the result and return the exit code. With `tool`, say what would allow a call that is refused."""
        ledger, waits = self.runtime.ledger, result.state in (State.PENDING, State.APPROVED)
        pending = ledger.find_pending(result.call_id) if waits and ledger is not None else None
        return show_result(
            result,
            pending,
            as_json=self._as_json,
            state=self.runtime.workspace.state,
            seen=self._asker is not None and self._asker.asked,
            hint=refusal_hint(self.runtime, tool, result),
        )

    @property
    def unanswered(self) -> bool:
        return self._asker is not None and self._asker.asked and not self._asker.answered


def run_calls(calls: C, work: Callable[[C], Awaitable[T]]) -> T:
    """Start the runtime and do the work in it. Raises `Cancelled` if the person left a question with Ctrl-C."""

    async def bounded() -> T:
        try:
            async with calls.runtime:
                return await work(calls)
        except asyncio.CancelledError:
            if calls.unanswered:
                raise Cancelled from None
            raise

    return asyncio.run(bounded())

"""The executor: calls a tool's function in the event loop, in a thread or in a process, with a timeout."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import Callable, Coroutine
from time import monotonic
from types import CoroutineType
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from msgspec.structs import replace

from holdfast.contract.enums import Failure, State
from holdfast.contract.errors import OutcomeUnknown
from holdfast.contract.json import Args
from holdfast.contract.result import Result
from holdfast.contract.tool import Tool
from holdfast.runtime.cancellation import (
    GRACE_SECONDS,
    CancelScope,
    DriverClosed,
    StopReason,
    ThreadPool,
    WorkStopped,
    drive,
)
from holdfast.runtime.context import RunContext
from holdfast.runtime.results import ABORTED, exception_text, failed, is_well_formed

if TYPE_CHECKING:
    from holdfast.contract.context import Context

Function = Callable[[Args, "Context"], Any]
_threads = ThreadPool()


class RuntimeResult(NamedTuple):
    """A result made by the runtime: its state is trusted, unlike that of a result the tool returns."""

    result: Result


class Executor:
    """Runs tool functions, and stops them."""

    def __init__(self) -> None:
        self.running: dict[str, CancelScope] = {}
        self._idle: asyncio.Event | None = None

    async def call(
        self, tool: Tool, function: Function, args: Args, ctx: RunContext, *, direct: bool, mutates: bool
    ) -> Any:
        """Return what the function returned, or a `RuntimeResult` if it failed or was stopped.

        `direct`: call it in the event loop. Raises only if the caller itself is cancelled or closed.
        """
        if not isinstance(ctx.callbacks, list):
            ctx.callbacks = []  # before a thread of the tool can add to it
        started = monotonic()
        try:
            if direct:
                value = function(args, ctx)
                if type(value) is not CoroutineType:
                    if not inspect.isawaitable(value):
                        return value
                    value = _await(value)
                work = cast(Coroutine[Any, Any, Any], value)
            elif tool.runs == "process":
                from holdfast.runtime.tool_process import run_in_process

                work = run_in_process(tool, args, ctx.cwd)
            else:
                work = _in_thread(function, args, ctx)
            try:
                waited = work.send(None)  # work that finishes in its first step needs no scope and no timer
            except StopIteration as stop:
                return stop.value
        except BaseException as error:
            return _failed_result(ctx, error)
        finally:
            _report_blocking(ctx, monotonic() - started, direct)
        ctx.callbacks.insert(0, ctx.mark_stopped)
        running = CancelScope(ctx.callbacks)
        if ctx.timeout is not None:
            running.deadline(ctx.timeout)
        ctx.attach_scope(running)
        self.running[ctx.call_id] = running
        try:
            return await drive(work, waited, running)
        except WorkStopped as stopped:
            return _stopped_result(stopped, ctx, in_thread=not direct and tool.runs == "thread", mutates=mutates)
        except OutcomeUnknown as error:
            state = State.UNKNOWN if mutates else State.FAILED
            failure = Failure.OUTCOME_UNKNOWN if mutates else Failure.TOOL_ERROR
            return RuntimeResult(failed(str(error), state, failure, ctx.call_id))
        except DriverClosed:
            running.run_callbacks()
            raise GeneratorExit from None
        except asyncio.CancelledError as error:
            # If the task is not being cancelled, the tool raised CancelledError itself: an ordinary failure.
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                running.run_callbacks()
                raise
            return _failed_result(ctx, error)
        except BaseException as error:
            return _failed_result(ctx, error)
        finally:
            _report_blocking(ctx, running.longest_step, direct)
            self.running.pop(ctx.call_id, None)
            if self._idle is not None and not self.running:
                self._idle.set()

    async def stop_all(self) -> None:
        """Stop all running calls, and wait until they have ended or their grace period is over."""
        for call_id in list(self.running):
            if not self.stop(call_id):
                self.running.pop(call_id, None)
        if self.running:
            self._idle = asyncio.Event()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(2 * GRACE_SECONDS):
                    await self._idle.wait()

    def stop(self, call_id: str) -> bool:
        running = self.running.get(call_id)
        if running is None or running.loop_closed:
            return False
        running.stop(StopReason.CANCELLED)
        return True


def _report_blocking(ctx: RunContext, seconds: float, direct: bool) -> None:
    if direct and ctx.timeout is not None and seconds > ctx.timeout:
        ctx.warn_blocked(seconds)


def _stopped_result(stopped: WorkStopped, ctx: RunContext, *, in_thread: bool, mutates: bool) -> RuntimeResult:
    if stopped.reason is StopReason.TIMEOUT:
        assert ctx.timeout is not None
        text = f"Tool '{ctx.call_record.name_used}' timed out after {round(ctx.timeout * 1000)}ms"
        state, failure = State.TIMED_OUT, Failure.TIMEOUT
    else:
        text = ABORTED
        state, failure = State.CANCELLED, Failure.CANCELLED
    if (seen := _observed_result(stopped.value, ctx)) is not None:
        error = f"{text}\n\n{seen.error}" if seen.error else text
        return RuntimeResult(
            replace(seen, success=False, error=error, state=state, failure=failure, call_id=ctx.call_id)
        )
    if in_thread:
        text += "; its thread cannot be stopped and may still be running"
    if mutates:
        text = f"{text.removesuffix('.')}; whether it took effect is not known"
        state = State.UNKNOWN
    return RuntimeResult(failed(text, state, failure, ctx.call_id))


def _observed_result(value: object, ctx: RunContext) -> Result | None:
    """The result that a stopped tool returned, if its outcome is known.

    That is so only if the tool's command was stopped and all its processes were seen to end. The tool's own word is
    not enough: its work may continue elsewhere, or in a nested call.
    """
    if not ctx.command_ended or not isinstance(value, Result) or not is_well_formed(value):
        return None
    return value if value.state in (State.TIMED_OUT, State.CANCELLED) else None


def _failed_result(ctx: RunContext, error: BaseException) -> RuntimeResult:
    ctx.record_exception(error)
    return RuntimeResult(failed(exception_text(error), State.FAILED, Failure.TOOL_ERROR, ctx.call_id))


async def _await(value: Any) -> Any:
    return await value


async def _in_thread(function: Function, args: Args, ctx: RunContext) -> Any:
    value = await _threads.run(function, args, ctx)
    return await cast(Coroutine[Any, Any, Any], value) if inspect.isawaitable(value) else value

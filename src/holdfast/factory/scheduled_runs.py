"""What a schedule that is due does: it makes its call, or advances its document."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from holdfast.contract.call import Caller
from holdfast.contract.enums import State
from holdfast.contract.result import Result
from holdfast.contract.schedules import CRON
from holdfast.factory.chat import Flags, advance_document, open_document_rules
from holdfast.runtime.input_checks import copy_json
from holdfast.runtime.runtime import Runtime
from holdfast.store.schedules import DueRun, RunOutcome


class ScheduledRuns:
    """Runs what is due, in a runtime of the project. Asks nobody: what needs a person stays pending."""

    def __init__(self, runtime: Runtime, flags: Flags | None = None) -> None:
        """`flags` are the options that the runtime was built with; they apply to documents as well."""
        self._runtime = runtime
        self._flags = flags or None

    async def run(self, run: DueRun) -> RunOutcome:
        """Make the call or advance the document. Raises `HoldfastError` if it could not begin."""
        schedule = run.schedule
        if schedule.work.document is not None:
            path, message = Path(schedule.work.document), schedule.work.message
            outcome = await advance_document(path, flags=self._flags, message=message, by=schedule.by, interface=CRON)
            return RunOutcome(state=outcome.kind, message=outcome.message)
        result = await self._call(run)
        call_id = result.call_id or run.call_id
        finished = result.success or result.state in (State.PENDING, State.APPROVED)
        return RunOutcome(state=result.state.value, call=call_id, message="" if finished else result.error or "")

    async def _call(self, run: DueRun) -> Result:
        caller = run.schedule.caller
        if caller.document is None:
            return await _make_call(self._runtime, run, caller)
        # Made in a document: its rules, as they are now, apply beside those of the project.
        async with open_document_rules(Path(caller.document), interface=CRON, flags=self._flags) as runtime:
            return await _make_call(
                runtime, run, replace(caller, document=None, only=_narrower(caller, runtime.caller))
            )


async def _make_call(runtime: Runtime, run: DueRun, caller: Caller) -> Result:
    schedule = run.schedule
    return await runtime.call(
        schedule.work.tool or "",
        copy_json(schedule.work.args or {}),
        caller=caller,
        request=f"{CRON}:{schedule.id}",
        cwd=schedule.cwd,
        call_id=run.call_id,
    )


def _narrower(one: Caller, other: Caller) -> frozenset[str] | None:
    if one.only is None or other.only is None:
        return one.only if other.only is None else other.only
    return one.only & other.only

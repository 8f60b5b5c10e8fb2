"""The schedules of a project, as the tools see them: who may schedule what."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from time import time
from typing import TYPE_CHECKING

from msgspec.structs import replace

from holdfast.contract.call import Caller
from holdfast.contract.context import Context
from holdfast.contract.errors import CallError, InvalidArguments, PathRefused, ScheduleRefused
from holdfast.contract.json import encode_json
from holdfast.contract.schedules import CRON, MAX_WORK_BYTES, Schedule, ScheduledWork, SchedulePlan, ScheduleStatus
from holdfast.contract.tool import Tool
from holdfast.runtime.context import RunContext
from holdfast.runtime.input_checks import copy_json
from holdfast.runtime.runtime import Runtime
from holdfast.store.process_identity import os_user
from holdfast.store.schedules import ScheduleStore, new_schedule_id
from holdfast.text.escape import escape
from holdfast.text.suggest import did_you_mean

if TYPE_CHECKING:
    from holdfast.store.ledger import Ledger


class ProjectSchedules:
    """Satisfies `Schedules`."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    def list(self) -> Sequence[ScheduleStatus]:
        return ScheduleStore(self._ledger()).list()

    def check(self, work: ScheduledWork, ctx: Context) -> SchedulePlan:
        caller = _caller_of(ctx)
        if work.tool is not None:
            checked = self._check_call(work, work.tool, caller)
        else:
            checked = self._check_document(work, work.document or "", caller, ctx)
        size = len(encode_json(checked.args)) + len(checked.message.encode(errors="replace"))
        if size > MAX_WORK_BYTES:
            raise ScheduleRefused(f"The work is {size:,} bytes long; at most {MAX_WORK_BYTES:,} can be scheduled.")
        return SchedulePlan(work=checked, rights=_describe_rights(caller, checked))

    def add(self, work: ScheduledWork, ctx: Context) -> ScheduleStatus:
        checked, caller, new_id = self.check(work, ctx).work, _caller_of(ctx), new_schedule_id()
        schedule = Schedule(
            id=new_id,
            work=checked,
            caller=replace(caller, interface=CRON, session=f"{CRON}-{new_id}"),
            cwd=str(ctx.cwd),
            by=f"{caller.interface}:{os_user()}",
            call=ctx.call_id,
            created=time(),
        )
        return ScheduleStore(self._ledger()).add(schedule, schedule.created)

    def find(self, schedule: str, ctx: Context) -> ScheduleStatus:
        _caller_of(ctx)
        known = {status.schedule.id: status for status in self.list()}
        if schedule in known:
            return known[schedule]
        meant = did_you_mean(schedule, list(known))
        hint = f"Did you mean '{meant}'?" if meant else "`holdfast cron` lists them."
        raise ScheduleRefused(f"There is no schedule '{escape(schedule[:80])}'. {hint}")

    def remove(self, schedule: str, ctx: Context) -> ScheduleStatus:
        found, caller = self.find(schedule, ctx), _caller_of(ctx)
        by = f"{caller.interface}:{os_user()}"
        if not ScheduleStore(self._ledger()).remove(found.schedule.id, by=by, call=ctx.call_id):
            raise ScheduleRefused(f"The schedule '{found.schedule.id}' was removed meanwhile.")
        return found

    def _check_call(self, work: ScheduledWork, name: str, caller: Caller) -> ScheduledWork:
        tool = self._runtime.access.find(name, caller)
        if not isinstance(tool, Tool):
            raise ScheduleRefused(tool.error or f"There is no tool '{escape(name[:80])}'.")
        if tool.in_group(CRON):
            raise ScheduleRefused("A schedule cannot list or change schedules.")
        args = tool.schema.check(copy_json(work.args or {}))
        if isinstance(args, InvalidArguments):
            raise ScheduleRefused(f"The arguments of '{tool.name}' are not valid: {args}.")
        missing = [scope for scope in tool.secret_scopes(args) if scope not in caller.scopes]
        if missing:
            raise ScheduleRefused(f"'{tool.name}' needs the secret '{missing[0]}', which this caller does not have.")
        return replace(work, tool=tool.name, args=args)

    def _check_document(self, work: ScheduledWork, given: str, caller: Caller, ctx: Context) -> ScheduledWork:
        try:
            path = Path(os.path.realpath(ctx.path.confine(given)))
        except PathRefused as error:
            raise ScheduleRefused(str(error)) from None
        if not path.is_file():
            raise ScheduleRefused(f"There is no document '{escape(given[:200])}'.")
        if caller.document != str(path) and not self._is_unrestricted(caller):
            # Advancing a document has the rights of that document, which may be more than the caller's.
            raise ScheduleRefused("An agent, a skill or a document can schedule only its own document.")
        return replace(work, document=str(path))

    def _is_unrestricted(self, caller: Caller) -> bool:
        """Whether the caller has the rights of the project itself, so that a document cannot have more."""
        config = self._runtime.config
        return (
            caller.document is None
            and caller.only is None
            and caller.provider is None
            and caller.autonomy is None
            and (caller.agent, caller.skill) == (config.agent, config.skill)
            and caller.scopes >= frozenset(config.secrets)
        )

    def _ledger(self) -> Ledger:
        if self._runtime.ledger is None:
            raise ScheduleRefused("The ledger is disabled (ledger.enabled = false), so nothing can be scheduled.")
        return self._runtime.ledger


def _caller_of(ctx: Context) -> Caller:
    """Return the caller, who may change schedules. A scheduled call may not: it could multiply or outlive itself."""
    if not isinstance(ctx, RunContext):
        raise CallError("Schedules can be changed only for a runtime's call: pass the context the tool received.")
    caller = ctx.call_record.caller
    if caller.interface == CRON:
        raise ScheduleRefused("A scheduled call cannot change schedules.")
    return caller


def _describe_rights(caller: Caller, work: ScheduledWork) -> str:
    if work.document is not None:
        return "those of the document"
    parts = [
        f"interface {caller.interface}",
        f"agent {caller.agent}" if caller.agent else "",
        f"skill {caller.skill}" if caller.skill else "",
        f"model provider {caller.provider}" if caller.provider else "",
        f"document {caller.document}" if caller.document else "",
        f"autonomy {caller.autonomy}" if caller.autonomy else "",
        f"only {len(caller.only)} tools" if caller.only is not None else "",
        f"secrets {', '.join(sorted(caller.scopes))}" if caller.scopes else "no secrets",
    ]
    return f"those of this caller ({', '.join(filter(None, parts))})"

"""A project in which schedules can be added without approval, and helpers to add and run them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from holdfast.contract.call import Caller
from holdfast.contract.result import Result
from holdfast.contract.schedules import Schedule
from holdfast.factory.chat import Flags
from holdfast.factory.runtime import build_runtime, load_project
from holdfast.factory.scheduled_runs import ScheduledRuns
from holdfast.runtime.runtime import Runtime
from holdfast.store.schedules import RunOutcome, ScheduleStore
from tests.factory.chat_project import ChatProject
from tests.runtime.support import run

T = TypeVar("T")
ALLOWED = '["$default", "cron.*"]'
CONFIG = f"[tools]\nprofile = 'full'\n[approval]\nauto_approve = {ALLOWED}\n"
READ = '{"path": "notes.txt"}'
SHELL = '{"command": "touch made"}'


def configure(chat_project: ChatProject, text: str = CONFIG) -> None:
    """Write the configuration of the user."""
    config = chat_project.root.parent / "config" / "holdfast"
    config.mkdir(parents=True, exist_ok=True)
    (config / "config.toml").write_text(text)


def within(chat_project: ChatProject, work: Callable[[Runtime], Awaitable[T]], **options: Any) -> T:
    options.setdefault("nobody", "pending")

    async def session() -> T:
        async with build_runtime(load_project(chat_project.root), **options) as runtime:
            return await work(runtime)

    return run(session())


async def add(runtime: Runtime, caller: Caller | None = None, **args: Any) -> Result:
    given = {"expression": "* * * * *", "zone": "UTC", **args}
    return await runtime.call("cron.add", given, caller=caller)


async def fire(runtime: Runtime, flags: Flags | None = None) -> list[RunOutcome]:
    """Run every schedule once, a minute after its time began."""
    assert runtime.ledger is not None
    store, runs = ScheduleStore(runtime.ledger), ScheduledRuns(runtime, flags)
    outcomes: list[RunOutcome] = []
    claim = store.claim_due(max(status.next_at or 0 for status in store.list()))
    for due in claim.runs:
        outcomes.append(await runs.run(due))
        store.end(due, outcomes[-1])
    return outcomes


def only_schedule(runtime: Runtime) -> Schedule:
    assert runtime.ledger is not None
    (status,) = ScheduleStore(runtime.ledger).list()
    return status.schedule

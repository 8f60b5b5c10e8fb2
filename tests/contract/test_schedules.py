"""Schedules as they are stored: a round trip through JSON keeps the rights of who made one."""

from __future__ import annotations

import msgspec
import pytest

from holdfast.contract.call import Caller
from holdfast.contract.schedules import CRON, Schedule, ScheduledWork


@pytest.mark.spec("B14k")
def test_a_stored_schedule_keeps_the_caller_and_the_work() -> None:
    caller = Caller(
        interface=CRON, agent="small", skill="notes", provider="p", scopes=frozenset({"a"}), only=frozenset({"x.y"}),
        autonomy="cautious", document="/p/a.chat",
    )  # fmt: skip
    work = ScheduledWork(expression="@daily", zone="UTC", tool="x.y", args={"n": 1})
    schedule = Schedule(id="s1", work=work, caller=caller, cwd="/p", by="chat:ada", call="c1", created=1.5)
    assert msgspec.json.decode(msgspec.json.encode(schedule), type=Schedule) == schedule

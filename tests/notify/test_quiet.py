"""Quiet hours, within a day and across midnight."""

from __future__ import annotations

from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.notify.quiet import QuietHours

pytestmark = pytest.mark.spec("E7n")


def at(clock: str) -> float:
    return datetime.fromisoformat(f"2026-03-03T{clock}").timestamp()


@pytest.mark.parametrize(
    ("span", "quiet", "loud"),
    [
        ("22:00-07:00", ["22:00:00", "23:59:59", "00:00:00", "06:59:59"], ["07:00:00", "12:00:00", "21:59:59"]),
        ("12:30-13:15", ["12:30:00", "13:14:59"], ["12:29:59", "13:15:00", "00:00:00"]),
        ("00:00-06:00", ["00:00:00", "05:59:59"], ["06:00:00", "23:59:59"]),
    ],
)
def test_the_start_is_quiet_and_the_end_is_not(span: str, quiet: list[str], loud: list[str]) -> None:
    hours = QuietHours.parse(span)
    assert all(hours.covers(at(clock)) for clock in quiet)
    assert not any(hours.covers(at(clock)) for clock in loud)


@given(st.times().map(lambda time: time.replace(second=0, microsecond=0)), st.times(), st.times())
def test_a_span_and_its_complement_cover_the_day(start: object, end: object, now: object) -> None:
    first, last = f"{start}"[:5], f"{end}"[:5]
    if first == last:
        return
    one, other = QuietHours.parse(f"{first}-{last}"), QuietHours.parse(f"{last}-{first}")
    moment = at(f"{now}"[:8])
    assert one.covers(moment) != other.covers(moment)

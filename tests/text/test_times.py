"""Parsing of times that users type."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from holdfast.text.times import format_time, parse_duration, parse_time

NOW = datetime(2026, 3, 10, 15, 30).astimezone()


def local(year: int, month: int, day: int, hour: int = 0, minute: int = 0, second: int = 0) -> float:
    return datetime(year, month, day, hour, minute, second).astimezone().timestamp()


@pytest.mark.spec("E1d")
@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("now", local(2026, 3, 10, 15, 30)),
        ("2h", local(2026, 3, 10, 13, 30)),
        ("90 min", local(2026, 3, 10, 14)),
        ("30s", local(2026, 3, 10, 15, 29, 30)),
        ("1.5 hours ago", local(2026, 3, 10, 14)),
        ("3 Days ago", local(2026, 3, 7, 15, 30)),
        ("1w", local(2026, 3, 3, 15, 30)),
        ("today", local(2026, 3, 10)),
        ("Yesterday", local(2026, 3, 9)),
        ("yesterday 14:30", local(2026, 3, 9, 14, 30)),
        ("09:15", local(2026, 3, 10, 9, 15)),
        ("2026-03-01", local(2026, 3, 1)),
        ("2026-03-01T08:00", local(2026, 3, 1, 8)),
        ("2026-03-01 08:00:05", local(2026, 3, 1, 8, 0, 5)),
        ("2026-03-01T08:00Z", datetime(2026, 3, 1, 8, tzinfo=UTC).timestamp()),
        ("2026-03-01t08:00+02:00", datetime(2026, 3, 1, 6, tzinfo=UTC).timestamp()),
    ],
)
def test_a_typed_time_is_parsed(typed: str, meant: float) -> None:
    assert parse_time(typed, NOW) == pytest.approx(meant)


@pytest.mark.spec("E1d")
def test_end_applies_to_days_and_not_to_times() -> None:
    assert parse_time("yesterday", NOW, end=True) == local(2026, 3, 10)
    assert parse_time("2026-03-01", NOW, end=True) == local(2026, 3, 2)
    for typed in ("2h", "yesterday 14:30", "2026-03-01T08:00"):
        assert parse_time(typed, NOW, end=True) == parse_time(typed, NOW)
    assert parse_time("today", NOW, end=True) - parse_time("today", NOW) <= timedelta(hours=25).total_seconds()


@pytest.mark.spec("E1d")
@pytest.mark.parametrize(
    "typed", ["", "2", "soon", "2y", "2 sours", "-2h", "2026-13-01", "99999999999h", "999999999w", "25:00", "\x1b"]
)
def test_an_invalid_time_is_an_error_with_examples(typed: str) -> None:
    with pytest.raises(ValueError, match="Use yesterday, 2h, 14:30, 2026-03-10 or 2026-03-10T15:30"):
        parse_time(typed, NOW)


@pytest.mark.parametrize(
    ("typed", "seconds"), [("30s", 30), ("90 min", 5400), ("8h", 28_800), ("1.5 Days", 129_600), ("2w", 1_209_600)]
)
def test_a_duration_is_read_in_any_unit(typed: str, seconds: float) -> None:
    assert parse_duration(typed) == seconds


@pytest.mark.parametrize("typed", ["", "0s", "-1h", "8", "8h ago", "tomorrow", "999999999w", "11000d"])
def test_what_is_no_duration_is_refused_with_examples(typed: str) -> None:
    with pytest.raises(ValueError, match="30min, 8h, 30d or 2w"):
        parse_duration(typed)


def test_a_time_is_shown_in_local_time() -> None:
    assert format_time(local(2026, 3, 10, 15, 30, 5)) == "2026-03-10 15:30:05"

"""Cron expressions: what is accepted, when they are due, and what daylight saving time does to them."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import islice, pairwise
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.text import cron_expression
from holdfast.text.cron_expression import MACROS, CronExpression, local_zone

pytestmark = pytest.mark.spec("B14m")
BERLIN = "Europe/Berlin"
NOON = datetime(2026, 3, 2, 12, tzinfo=UTC).timestamp()


def times(text: str, start: str, count: int, zone: str = BERLIN) -> list[str]:
    """Return the next times in the zone, with their offsets."""
    at = datetime.fromisoformat(start).timestamp()
    found = islice(CronExpression.parse(text, zone).times_after(at), count)
    return [datetime.fromtimestamp(one, ZoneInfo(zone)).isoformat(timespec="minutes") for one in found]


def test_an_expression_is_due_in_its_zone_and_described_in_words() -> None:
    made = CronExpression.parse("  0   3 * * MON-FRI ", BERLIN)
    assert made.text == "0 3 * * MON-FRI"
    assert made.describe() == "At 03:00 on Monday through Friday"
    at = made.next_after(NOON)
    assert at is not None and at == datetime(2026, 3, 3, 2, tzinfo=UTC).timestamp()
    assert made.format_time(at) == "2026-03-03 03:00 +0100"
    assert made.next_after(at) == at + 86_400


def test_the_time_itself_is_not_after_itself() -> None:
    every = CronExpression.parse("* * * * *", "UTC")
    assert (every.next_after(NOON), every.next_after(NOON + 0.5)) == (NOON + 60, NOON + 60)
    assert every.next_after(NOON - 0.5) == NOON


@pytest.mark.parametrize("macro", MACROS)
def test_a_macro_stands_for_its_fields(macro: str) -> None:
    made, plain = CronExpression.parse(macro.upper(), BERLIN), CronExpression.parse(MACROS[macro], BERLIN)
    assert list(islice(made.times_after(NOON), 3)) == list(islice(plain.times_after(NOON), 3))
    assert made.describe() == plain.describe()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "0 fields instead of 5"),
        ("* * * *", "4 fields instead of 5"),
        ("* * * * * *", "6 fields instead of 5"),
        ("60 * * * *", "bad minute"),
        ("* * 32 * *", "bad day-of-month"),
        ("*/0 * * * *", "bad minute"),
        ("@reboot", "only @hourly"),
        ("0 0 30 2 *", "bad day-of-month"),
        ("0 0 31 2 2#5", ""),
        ("1," * 100 + "1 * * * *", "longer than 200"),
        ("\x00 * * * *", "bad minute"),
    ],
)
def test_what_is_not_an_expression_is_refused_with_the_reason(text: str, said: str) -> None:
    if not said:
        assert CronExpression.parse(text, "UTC").next_after(NOON), "due on the fifth Tuesday of a leap February"
        return
    with pytest.raises(ValueError, match=r"Cannot read .* Use '\*/5") as error:
        CronExpression.parse(text, "UTC")
    assert said in str(error.value)


@pytest.mark.parametrize("zone", ["", "Mars/Olympus", "../../etc/passwd", "/etc/localtime", "Europe", "a\x00b"])
def test_an_unknown_zone_is_refused(zone: str) -> None:
    with pytest.raises(ValueError, match="There is no time zone"):
        CronExpression.parse("@daily", zone)


def test_a_time_that_is_skipped_in_spring_is_due_when_the_clock_has_moved_on() -> None:
    assert times("30 2 * * *", "2026-03-28T12:00+01:00", 2) == ["2026-03-29T03:00+02:00", "2026-03-30T02:30+02:00"]


def test_a_time_that_comes_twice_in_autumn_is_due_once() -> None:
    assert times("30 2 * * *", "2026-10-24T12:00+02:00", 2) == ["2026-10-25T02:30+02:00", "2026-10-26T02:30+01:00"]
    between = times("30 2 * * *", "2026-10-25T02:10+01:00", 1)
    assert between == ["2026-10-26T02:30+01:00"], "the second pass of the hour does not go back to the first"


def test_a_repeated_expression_is_due_in_both_passes_of_the_hour() -> None:
    found = times("*/30 * * * *", "2026-10-25T02:20+02:00", 4)
    assert found == [
        "2026-10-25T02:30+02:00",
        "2026-10-25T02:00+01:00",
        "2026-10-25T02:30+01:00",
        "2026-10-25T03:00+01:00",
    ]


def field(least: int, most: int) -> st.SearchStrategy[str]:
    number = st.integers(least, most).map(str)
    spans = st.tuples(st.integers(least, most), st.integers(least, most)).map(lambda span: f"{min(span)}-{max(span)}")
    steps = st.integers(1, 20).map(lambda step: f"*/{step}")
    return st.one_of(st.just("*"), number, spans, steps, st.lists(number, min_size=2, max_size=3).map(",".join))


EXPRESSIONS = st.tuples(field(0, 59), field(0, 23), field(1, 28), field(1, 12), field(0, 7)).map(" ".join)
ZONES = st.sampled_from(["UTC", BERLIN, "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"])


@given(EXPRESSIONS, ZONES, st.floats(0, 4e9))
def test_times_rise_by_at_least_a_minute_and_every_expression_has_words(text: str, zone: str, start: float) -> None:
    made = CronExpression.parse(text, zone)
    found = list(islice(made.times_after(start), 4))
    assert found and found[0] > start
    assert all(later - earlier >= 60 for earlier, later in pairwise(found))
    assert made.describe() and made.format_time(found[0])


@given(st.text(max_size=40), st.text(max_size=20))
def test_any_text_is_read_or_refused_in_words(text: str, zone: str) -> None:
    refused = ""
    try:
        assert CronExpression.parse(text, "UTC").next_after(NOON)
    except ValueError as error:
        refused = str(error)
    assert not refused or refused.startswith("Cannot read")
    with pytest.raises(ValueError, match=r"time zone|Cannot read"):
        CronExpression.parse("never", zone)


def test_the_zone_of_this_machine_is_found_by_its_variable_link_and_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for variable in (BERLIN, f":{BERLIN}", f"/usr/share/zoneinfo/{BERLIN}"):
        monkeypatch.setenv("TZ", variable)
        assert local_zone() == BERLIN
        assert CronExpression.parse("@daily").zone == BERLIN
    monkeypatch.setenv("TZ", "EST5EDT,M3.2.0,M11.1.0")
    assert local_zone(), "a rule has no name, so the zone of the machine is used"
    monkeypatch.delenv("TZ")
    (tmp_path / "timezone").write_text("Asia/Tokyo\n")
    monkeypatch.setattr(cron_expression, "_linked_zone", lambda: "")
    monkeypatch.setattr(cron_expression, "ZONE_FILE", tmp_path / "timezone")
    assert local_zone() == "Asia/Tokyo"
    (tmp_path / "timezone").write_text("nowhere\n")
    assert local_zone() == "UTC"

"""Times and durations that users type (`yesterday`, `2h`, `14:30`, ISO dates), and times that they read."""

from __future__ import annotations

import re
from datetime import date, datetime, time, timedelta
from typing import Final

_DURATION: Final = re.compile(
    r"(\d{1,9}(?:\.\d{1,9})?) ?(s(?:ec(?:ond)?s?)?|m(?:in(?:ute)?s?)?|h(?:ours?)?|d(?:ays?)?|w(?:eeks?)?)", re.ASCII
)
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_DAYS: Final = {"today": 0, "yesterday": 1}
MAX_TIME: Final = 253_402_300_800
"""Unix time of the year 10,000, which `datetime` cannot represent."""
_MAX_DURATION: Final = 10 * 366 * 86_400.0


def parse_time(text: str, now: datetime, *, end: bool = False) -> float:
    """Return a Unix timestamp. Times without a zone are local; a day means its start, or its end with `end`.

    Raises `ValueError` with a message for the user.
    """
    words = " ".join(text.lower().split())
    try:
        return _parse(words, now, end=end)
    except (ValueError, OverflowError, OSError):
        raise ValueError(
            f"Cannot read '{text}' as a time. Use yesterday, 2h, 14:30, {now:%Y-%m-%d} or {now:%Y-%m-%dT%H:%M}."
        ) from None


def parse_duration(text: str) -> float:
    """Return the seconds of a duration such as `8h` or `30d`, at most ten years.

    Raises `ValueError` with a message for the user.
    """
    found = _DURATION.fullmatch(" ".join(text.lower().split()))
    try:
        seconds = 0.0 if found is None else _duration(found).total_seconds()
    except OverflowError:
        seconds = _MAX_DURATION + 1
    if not 0 < seconds <= _MAX_DURATION:
        raise ValueError(f"Cannot read '{text}' as a duration of at most ten years. Use 30min, 8h, 30d or 2w.")
    return seconds


def format_time(at: float) -> str:
    """Return a Unix time as local date and time."""
    return datetime.fromtimestamp(at).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def _parse(words: str, now: datetime, *, end: bool) -> float:
    if words == "now":
        return now.timestamp()
    if ago := _DURATION.fullmatch(words.removesuffix(" ago")):
        return (now - _duration(ago)).timestamp()
    if ":" in words and " " not in words and "t" not in words:
        return _local(now.date(), time.fromisoformat(words))
    day, _, clock = words.partition(" ")
    if day in _DAYS:
        on = now.date() - timedelta(days=_DAYS[day])
        return _local(on, time.fromisoformat(clock)) if clock else _day(on, end=end)
    try:
        on = date.fromisoformat(words)
    except ValueError:
        return datetime.fromisoformat(words.upper()).timestamp()
    return _day(on, end=end)


def _duration(found: re.Match[str]) -> timedelta:
    return timedelta(**{_UNITS[found[2][0]]: float(found[1])})


def _day(on: date, *, end: bool) -> float:
    return _local(on + timedelta(days=1 if end else 0), time())


def _local(on: date, at: time) -> float:
    return datetime.combine(on, at).timestamp()

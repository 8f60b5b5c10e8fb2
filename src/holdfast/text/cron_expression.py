"""Cron expressions: five fields by the rules of Debian's cron, in a time zone, across daylight saving time.

The package `cronsim` is imported inside functions: it is part of the extra `serve`, and few runs need it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime, tzinfo
from itertools import islice
from pathlib import Path
from typing import Final

from msgspec import Struct

MACROS: Final = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
MAX_LENGTH: Final = 200
ZONE_FILE: Final = Path("/etc/timezone")
_FIELDS: Final = 5
_EXAMPLES: Final = "'*/5 * * * *' (every five minutes), '0 3 * * MON-FRI' or @daily"
_FOLDER: Final = "zoneinfo/"


class CronExpression(Struct, frozen=True):
    """A valid expression with its zone. `parse` makes one."""

    text: str
    """As it was given."""
    zone: str
    """The name of an IANA time zone."""

    @classmethod
    def parse(cls, text: str, zone: str | None = None) -> CronExpression:
        """Without a zone, use that of this machine. Raises `ValueError` with a message for the user."""
        name = local_zone() if zone is None else zone
        if _find_zone(name) is None:
            raise ValueError(f"There is no time zone '{name[:80]}'. Use a name such as Europe/Berlin or UTC.")
        words = " ".join(text.split())
        made = cls(words, name)
        problem = made._problem()
        if problem:
            raise ValueError(f"Cannot read '{text[:MAX_LENGTH]}' as a schedule: {problem}. Use {_EXAMPLES}.")
        return made

    def times_after(self, at: float) -> Iterator[float]:
        """Yield the times after `at` (Unix time), in order. Ends if there is none within fifty years."""
        from cronsim import CronSim

        last = at
        for moment in CronSim(_expand(self.text), datetime.fromtimestamp(at, self._tz())):
            seconds = moment.timestamp()
            # In the hour that is repeated when daylight saving time ends, cronsim may go back to the first pass.
            if seconds > last:
                yield seconds
                last = seconds

    def next_after(self, at: float) -> float | None:
        return next(self.times_after(at), None)

    def describe(self) -> str:
        """Say in words when it is due: `At 03:00 on Monday through Friday`."""
        from cronsim import CronSim

        return CronSim(_expand(self.text), datetime.fromtimestamp(0, UTC)).explain()

    def format_time(self, at: float) -> str:
        """Format a Unix time in the zone, with its offset."""
        return f"{datetime.fromtimestamp(at, self._tz()):%Y-%m-%d %H:%M %z}"

    def _tz(self) -> tzinfo:
        return _find_zone(self.zone) or UTC

    def _problem(self) -> str:
        """Say why it is not valid; empty if it is."""
        from cronsim import CronSimError

        if len(self.text) > MAX_LENGTH:
            return f"it is longer than {MAX_LENGTH} characters"
        if self.text.startswith("@") and self.text.lower() not in MACROS:
            return f"only {', '.join(MACROS)} can follow an @"
        count = len(_expand(self.text).split())
        if count != _FIELDS:
            return f"it has {count} fields instead of 5 (minute, hour, day of the month, month, day of the week)"
        try:
            times = list(islice(self.times_after(0.0), 1))
        except CronSimError as error:
            return str(error)[:1].lower() + str(error)[1:]
        return "" if times else "it is never due"


def local_zone() -> str:
    """Return the name of this machine's time zone; UTC if it has none."""
    for name in (os.environ.get("TZ", "").removeprefix(":"), _linked_zone(), _named_zone()):
        found = name.rpartition(_FOLDER)[2]
        if found and _find_zone(found) is not None:
            return found
    return "UTC"


def _linked_zone() -> str:
    target = os.path.realpath("/etc/localtime")
    return target if _FOLDER in target else ""


def _named_zone() -> str:
    try:
        return ZONE_FILE.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""


def _find_zone(name: str) -> tzinfo | None:
    if name == "UTC":
        return UTC  # needs no database
    try:
        from zoneinfo import ZoneInfo  # it loads sysconfig, which most runs do not need

        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # unknown, not a plain name, or a folder
        return None


def _expand(text: str) -> str:
    return MACROS.get(text.lower(), text)

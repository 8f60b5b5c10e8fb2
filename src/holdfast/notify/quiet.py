"""Quiet hours: a daily span of local time without notifications."""

from __future__ import annotations

from datetime import datetime, time

from msgspec import Struct


class QuietHours(Struct, frozen=True):
    start: time
    end: time
    """Before `start` if the span goes over midnight."""

    @classmethod
    def parse(cls, text: str) -> QuietHours:
        """Parse `22:00-07:00`, as `notify.quiet` has been checked to be."""
        start, _, end = text.partition("-")
        return cls(time.fromisoformat(start), time.fromisoformat(end))

    def covers(self, now: float) -> bool:
        """Whether a Unix time is in the span; its start is, its end is not."""
        at = datetime.fromtimestamp(now).time()  # noqa: DTZ006 - local time is what the option means
        if self.start < self.end:
            return self.start <= at < self.end
        return at >= self.start or at < self.end

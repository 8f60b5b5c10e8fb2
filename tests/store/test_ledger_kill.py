"""kill -9 at random moments: nothing acknowledged is lost, nothing runs twice, and unknown outcomes are marked."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from holdfast.contract.enums import State
from holdfast.store.ledger import Ledger
from holdfast.store.queries import CallFilter
from tests.soak import rounds

KILLS = rounds(8, 40)
LINE = 10
"""Approximate size in bytes of what a worker logs."""
_ENDED = frozenset({"ended", "call"})


class Workers:
    """The process that forks the workers, and the log that they write outside the ledger."""

    def __init__(self, path: Path) -> None:
        words = [sys.executable, "-m", "tests.store.kill_workers", str(path)]
        root = Path(__file__).parents[2]
        self._told = path.with_suffix(".told")
        self._process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1, cwd=root
        )

    def start(self, what: str, seed: int) -> int:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{what} k{seed}\n")
        return int(self._line())

    def work(self, lines: int) -> None:
        """Run until the log has grown by this much, so that a busy machine does as much work as an idle one."""
        size, end = self._size() + lines * LINE, time.monotonic() + 60
        while self._size() < size and time.monotonic() < end:
            time.sleep(0.001)

    def _size(self) -> int:
        return self._told.stat().st_size if self._told.exists() else 0

    def wait(self) -> None:
        assert self._line() == "gone"

    def told(self) -> list[tuple[str, str]]:
        text = self._told.read_text() if self._told.exists() else ""
        return [(what, call_id) for what, call_id in (line.split() for line in text.splitlines())]

    def close(self) -> None:
        self._process.communicate(timeout=30)

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


@pytest.mark.spec("X10", "A13a")
def test_after_many_kills_nothing_acknowledged_is_lost_and_nothing_ran_twice(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    moments = random.Random(20)
    workers = Workers(path)
    checked = 0
    with Ledger.open(path) as ledger:
        for number in range(KILLS):
            pid = workers.start("work", number)
            workers.work(moments.randrange(0, 40))
            time.sleep(moments.uniform(0.0, 0.02))
            os.kill(pid, signal.SIGKILL)
            workers.wait()
            assert ledger.verify().problem is None
            ledger.recover()
            told = workers.told()
            _check(ledger, told[checked:])
            checked = len(told)
            assert ledger.rows("SELECT call FROM open_calls WHERE state = 'running'") == []
        workers.start("finish", KILLS)
        workers.wait()
        workers.close()
        _check_all(ledger, workers.told())
        assert ledger.verify().ok


def _check(ledger: Ledger, told: list[tuple[str, str]]) -> None:
    """Check what was acknowledged to a worker, right after its death."""
    ended = {call_id for what, call_id in told if what == "ended"}
    for what, call_id in told:
        record = ledger.call(call_id)
        kinds = [given.answer.kind for given in record.answers]
        if what in ("whole", "ended"):
            assert record.state is State.DONE
        elif what == "approved":
            assert kinds == ["approve"]
        elif what == "rejected":
            assert record.state is State.REJECTED
        elif what in ("begun", "ran"):
            assert record.began_at is not None
            assert call_id in ended or record.state in (State.UNKNOWN, State.DONE)


def _check_all(ledger: Ledger, told: list[tuple[str, str]]) -> None:
    ran = Counter(call_id for what, call_id in told if what == "ran")
    assert len(ran) > KILLS
    assert max(ran.values()) == 1
    for call_id in {call_id for what, call_id in told if what == "approved"}:
        assert ledger.call(call_id).state in (State.DONE, State.UNKNOWN)
    results = Counter(entry.call for entry in ledger.entries() if entry.kind in _ENDED)
    assert max(results.values()) == 1
    unknown = ledger.calls(100_000, CallFilter(state=State.UNKNOWN))
    assert unknown
    told_ended = {call_id for what, call_id in told if what == "ended"}
    assert not told_ended & {record.call.id for record in unknown}

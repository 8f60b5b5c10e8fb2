"""Random SIGKILLs under concurrent calls."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.soak import rounds

KILLS = rounds(16, 200)


@pytest.mark.timeout(300)
@pytest.mark.spec("X10", "A13a")
def test_random_kills_lose_no_call_and_run_none_twice(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.runtime.kill_driver", str(tmp_path), str(KILLS)],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["broken_workers"] == []
    assert seen["verified"], seen["problem"]
    assert seen["ran_twice"] == []
    assert seen["ran_unrecorded"] == []
    assert seen["lost"] == []
    assert seen["lost_pending"] == []
    assert seen["interrupted_but_not_unknown"] == []
    assert seen["still_running"] == []
    assert seen["kills_between_intent_and_result"] >= KILLS // 5
    assert seen["unknown"] >= KILLS // 5
    assert seen["acknowledged"] > KILLS
    assert seen["pending"] > 0

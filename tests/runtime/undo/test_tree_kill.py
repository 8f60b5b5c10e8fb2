"""A process killed at any step of applying or undoing leaves whole files, a valid ledger and a working undo."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.runtime.undo.test_overlay_recorder import MECHANISMS
from tests.soak import rounds

STRIDE = rounds(5, 1)
"""Odd, so that deaths before and after a step take turns."""


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.spec("X11", "X10")
def test_a_kill_at_any_step_leaves_every_path_as_before_or_as_after(tmp_path: Path, mechanism: str) -> None:
    command = [sys.executable, "-m", "tests.runtime.undo.kill_driver", str(tmp_path), mechanism, str(STRIDE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100, cwd=Path.cwd())
    assert done.returncode == 0, done.stderr
    kills = json.loads(done.stdout)
    assert kills["undo"] > 20 // STRIDE
    assert mechanism == "copy" or kills["command"] > 20 // STRIDE

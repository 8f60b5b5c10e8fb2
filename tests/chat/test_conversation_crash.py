"""After a kill at any moment the document is the old or the new version, and the state file is readable."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.soak import rounds

pytestmark = pytest.mark.usefixtures("user_state_dir")

KILLS = rounds(12, 200)
ROOT = Path(__file__).parents[2]


@pytest.mark.spec("U6")
@pytest.mark.spec("A13b")
def test_a_document_is_never_torn_by_a_kill(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", "-m", "tests.chat.killed_writers", str(tmp_path), str(KILLS)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False, cwd=ROOT)
    assert ended.returncode == 0, ended.stderr
    kills, states = map(int, ended.stdout.split())
    assert kills == KILLS
    assert states >= 3

"""Undo works for an ordinary user when a command made files unreadable, unwritable or removed them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.runtime.undo.test_overlay_recorder import MECHANISMS


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.spec("X11")
def test_undo_works_for_an_ordinary_user_whatever_the_modes(mechanism: str) -> None:
    folder = Path(tempfile.mkdtemp())
    try:
        if os.geteuid() == 0:
            os.chown(folder, 65534, 65534)
        command = [sys.executable, "-m", "tests.runtime.undo.unprivileged_run", str(folder), mechanism]
        environ = {"HOME": str(folder), "PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, env=environ)
        assert done.returncode == 0, done.stderr
        assert done.stdout == f"undone with {mechanism}"
    finally:
        subprocess.run(["chmod", "-R", "u+rwX", str(folder)], check=False)
        shutil.rmtree(folder)

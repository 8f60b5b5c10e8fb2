"""Wrapped commands and signals."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.config.config import SandboxConfig
from holdfast.sandbox.sandbox import Sandbox

_IMPATIENT = """
import os, signal, sys
from holdfast.sandbox import sandbox
real = sandbox.clean_up
def clean_up(launch):
    for _ in range(3):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            os.kill(os.getpid(), number)
    return real(launch)
sandbox.clean_up = clean_up
sys.exit(sandbox.main(sys.argv[1:]))
"""


@pytest.mark.spec("N1", "N2")
@pytest.mark.parametrize("told_first", [False, True])
def test_signals_do_not_interrupt_the_cleanup(tmp_path: Path, told_first: bool) -> None:
    wrapped = Sandbox(SandboxConfig(), root=tmp_path, cwd=tmp_path).wrap_command(
        ["sh", "-c", f"echo evil > conftest.py; echo ready; {'sleep 60' if told_first else 'exit 5'}"]
    )
    argv = [sys.executable, "-I", "-c", _IMPATIENT, *wrapped[4:]]
    with subprocess.Popen(argv, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline() == b"ready\n", process.stderr.read()
        if told_first:
            process.send_signal(signal.SIGTERM)
        assert process.wait(30) == (143 if told_first else 5)
        errors = process.stderr.read()
        assert b"restored the protected path" in errors and b"conftest.py'" in errors
    assert list(tmp_path.iterdir()) == []

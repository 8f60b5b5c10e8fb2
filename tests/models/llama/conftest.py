"""The address of a real llama.cpp server; only `make test-llama` runs these tests."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

collect_ignore_glob = [] if "HOLDFAST_LLAMA" in os.environ else ["test_*.py"]


@pytest.fixture(scope="session")
def address() -> Iterator[str]:
    environment = {**os.environ, "PYTHONPATH": os.environ["HOLDFAST_LLAMA"]}
    command = [sys.executable, str(Path(__file__).with_name("serve.py"))]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, env=environment, text=True, **pipes) as server:
        assert server.stdout is not None
        lines = (line.removeprefix("listening ").strip() for line in server.stdout if line.startswith("listening "))
        try:
            yield next(lines)
        finally:
            server.kill()

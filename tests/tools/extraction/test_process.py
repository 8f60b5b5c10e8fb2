"""The limits that the extraction process sets itself."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.spec("B6d")


def test_the_process_limits_its_memory_and_writes_no_files() -> None:
    program = (
        "from holdfast.tools.extraction import process as e; e._limit_resources()\n"
        "try: bytearray(8 << 30)\n"
        "except MemoryError: print('memory', end=' ')\n"
        "import resource; print(resource.getrlimit(resource.RLIMIT_FSIZE)[0])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == ["memory", "0"]

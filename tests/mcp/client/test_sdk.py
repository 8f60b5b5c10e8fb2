"""The SDK is imported with the first server, not with the bridge."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.spec("K1")
def test_a_bridge_without_a_running_server_does_not_import_the_sdk() -> None:
    code = 'import sys, holdfast.mcp.client.bridge; print("mcp" in sys.modules, "mcp_types" in sys.modules)'
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.split() == ["False", "False"]

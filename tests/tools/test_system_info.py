"""`system.info`."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.tools import builtin_tools
from tests.runtime.support import run, runtime_in


@pytest.mark.spec("B12a")
def test_system_info_renders_its_structured_facts(tmp_path: Path) -> None:
    result = run(runtime_in(tmp_path, *builtin_tools()).call("system.info"))
    assert isinstance(result.structured, dict)
    assert result.structured["root"] == str(tmp_path / "project")
    assert f"python: {result.structured['python']}" in result.output

"""The package imports only the standard library and the contract."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

from holdfast import fs


def test_only_the_standard_library_is_imported() -> None:
    found: set[str] = set()
    for path in Path(str(fs.__file__)).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                found.update(alias.name.partition(".")[0] for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                found.add((node.module or "").partition(".")[0])
    assert found - sys.stdlib_module_names == {"holdfast"}

"""The syntax trees of source files, parsed and walked once for all tests of a process that look at the source."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from functools import cache
from pathlib import Path


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@cache
def nodes_of(path: Path) -> Sequence[ast.AST]:
    return tuple(ast.walk(parsed(path)))

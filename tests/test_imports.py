"""There are no import cycles, including imports in functions and for types only."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import holdfast
from tests.syntax import nodes_of

FOLDER = Path(holdfast.__file__).parent


def modules() -> dict[str, Path]:
    found: dict[str, Path] = {}
    for path in FOLDER.rglob("*.py"):
        parts = ("holdfast", *path.relative_to(FOLDER).with_suffix("").parts)
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(path: Path, known: dict[str, Path]) -> Iterator[str]:
    for node in nodes_of(path):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                yield whole if whole in known else node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def cycles(graph: dict[str, set[str]]) -> list[set[str]]:
    """Return the sets of modules that import each other, directly or indirectly."""

    def reached(start: str) -> set[str]:
        found: set[str] = set()
        left = [start]
        while left:
            for name in graph[left.pop()] - found:
                found.add(name)
                left.append(name)
        return found

    reach = {name: reached(name) for name in graph}
    rings = {frozenset(other for other in reach[name] if name in reach[other]) for name in graph if name in reach[name]}
    return [set(ring) for ring in rings]


def test_there_is_no_import_cycle() -> None:
    known = modules()
    # The package itself imports lazily.
    graph = {
        name: {found for found in imports(path, known) if found in known and found not in (name, "holdfast")}
        for name, path in known.items()
        if name != "holdfast"
    }
    assert cycles(graph) == []


def test_a_cycle_is_found() -> None:
    assert cycles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [{"a", "b", "c"}]

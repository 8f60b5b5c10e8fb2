"""The layout of the repository: tests mirror src, and modules are named with nouns."""

from __future__ import annotations

from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
PACKAGE: Final = ROOT / "src" / "holdfast"

_UNTESTED: Final = """
    contract/context contract/processes
"""
UNTESTED: Final = frozenset(_UNTESTED.split())
"""Modules without a test at the mirrored path. This list may only shrink."""

NAMES_IN_ING: Final = frozenset({"pending", "ranking", "testing", "widening"})
"""Established terms that end in "ing"."""


def modules() -> list[str]:
    """Return the modules below the package as paths without suffix, such as `fs/paths`."""
    found = (path.relative_to(PACKAGE).with_suffix("") for path in PACKAGE.rglob("*.py"))
    return sorted(path.as_posix() for path in found if path.name not in ("__init__", "__main__"))


def is_tested(module: str) -> bool:
    folder, _, name = module.rpartition("/")
    place = ROOT / "tests" / folder
    return (place / f"test_{name}.py").exists() or any(place.glob(f"test_{name}_*.py"))


def test_every_module_has_a_test_at_the_mirrored_path() -> None:
    missing = [module for module in modules() if not is_tested(module) and module not in UNTESTED]
    assert not missing, f"Add tests/PACKAGE/test_MODULE.py or test_MODULE_*.py for: {missing}"


def test_no_exception_is_left_for_a_module_that_is_tested_or_gone() -> None:
    known = set(modules())
    unneeded = sorted(module for module in UNTESTED if module not in known or is_tested(module))
    assert not unneeded, f"Remove from UNTESTED: {unneeded}"


def test_no_module_is_named_with_a_bare_gerund() -> None:
    parts = {part for module in modules() for part in module.split("/")}
    gerunds = sorted(part for part in parts if part.endswith("ing") and part not in NAMES_IN_ING)
    assert not gerunds, f"Use a noun for: {gerunds}"

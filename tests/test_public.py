"""The public surface: exactly these names, found lazily."""

from __future__ import annotations

import subprocess
import sys

import pytest

import holdfast

NAMES = [
    "Answer",
    "Attachment",
    "Call",
    "Caller",
    "Config",
    "Context",
    "Decision",
    "Deny",
    "Event",
    "HeldCall",
    "HoldfastError",
    "Precondition",
    "Proposal",
    "Request",
    "Result",
    "Risk",
    "Runtime",
    "State",
    "Tool",
    "Verdict",
    "define",
    "fail",
    "ok",
    "open_runtime",
    "tool",
]


def test_the_public_names_are_these() -> None:
    assert holdfast.__all__ == NAMES
    assert [name for name in NAMES if getattr(holdfast, name) is None] == []
    assert dir(holdfast) == sorted([*NAMES, "__version__"])
    with pytest.raises(AttributeError):
        _ = holdfast.nothing_like_this  # pyright: ignore[reportUnknownVariableType, reportAttributeAccessIssue]


def test_importing_holdfast_imports_nothing_else() -> None:
    program = "import sys; before = set(sys.modules); import holdfast; print(sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "['holdfast']"

"""The public API: exactly these names, imported lazily."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast
from holdfast import Runtime
from tests.syntax import nodes_of

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
    "HoldfastError",
    "PendingCall",
    "Precondition",
    "Proposal",
    "Request",
    "Result",
    "Risk",
    "Runtime",
    "State",
    "Tool",
    "Verdict",
    "Widening",
    "define",
    "fail",
    "ok",
    "open_runtime",
    "tool",
]


def test_the_public_names_are_listed() -> None:
    assert holdfast.__all__ == NAMES
    assert [name for name in NAMES if getattr(holdfast, name) is None] == []
    assert dir(holdfast) == sorted([*NAMES, "__version__"])
    with pytest.raises(AttributeError):
        _ = holdfast.nothing_like_this  # pyright: ignore[reportUnknownVariableType, reportAttributeAccessIssue]


def test_importing_holdfast_imports_no_other_module() -> None:
    program = "import sys; before = set(sys.modules); import holdfast; print(sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "['holdfast']"


def test_the_runtime_is_a_small_facade() -> None:
    methods = [name for name, value in vars(Runtime).items() if inspect.isfunction(value) and not name.startswith("_")]
    assert len(methods) <= 22, sorted(methods)
    parameters = [name for name in inspect.signature(Runtime.__init__).parameters if name != "self"]
    assert len(parameters) <= 10, parameters


def test_no_interface_assigns_to_the_runtime() -> None:
    folder = Path(holdfast.__file__).parent
    for path in sorted(folder.rglob("*.py")):
        for node in nodes_of(path):
            if not isinstance(node, ast.Assign):
                continue
            for part in (part for target in node.targets for part in ast.walk(target)):
                assigned = isinstance(part, ast.Attribute) and ast.unparse(part.value).endswith("runtime")
                assert not assigned, f"{path.name}:{node.lineno} sets {ast.unparse(part)}"

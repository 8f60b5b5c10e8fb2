"""The calculator tools."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import Config, Result, Runtime, State
from holdfast.config.config import ToolsConfig
from holdfast.tools import builtin_tools
from holdfast.tools.calculator import ArithmeticProblem, evaluate
from tests.quick import quickly
from tests.runtime.support import run


def _call(name: str, args: Any = None, **options: Any) -> Result:
    return run(Runtime(tools=builtin_tools(), **options).call(name, args))


@pytest.mark.parametrize(
    ("expression", "shown"),
    [
        ("15 * 7", "105"),
        ("2 + 2", "4"),
        ("7 / 2", "3.5"),
        ("8 / 2", "4"),
        ("2^10", "1024"),
        ("sqrt(16)", "4"),
        ("-(3 + 4) * 2", "-14"),
        ("max(1, 2, 3) % 2", "1"),
        ("round(pi, 2)", "3.14"),
        ("1e3", "1000"),
    ],
)
@pytest.mark.spec("B5")
def test_arithmetic_is_evaluated(expression: str, shown: str) -> None:
    result = _call("calculator", {"expression": expression})
    assert (result.success, result.output) == (True, shown)


@pytest.mark.parametrize(
    "expression",
    [
        "1/0",
        "",
        "2 +",
        "__import__('os').system('true')",
        "().__class__",
        "9**9**9**9",
        "factorial(100000)",
        "2**100000",
        "(" * 300 + "1" + ")" * 300,
        "'a' * 10",
        "True",
        "[1][0]",
        "lambda: 1",
        "sqrt(-1)",
        "(-8) ** 0.5",
        "1e308 * 10",
        "x",
        "9" * 1001,
    ],
)
@pytest.mark.spec("B5")
def test_unbounded_or_invalid_arithmetic_is_refused_quickly(expression: str) -> None:
    with quickly():
        result = _call("calculator", {"expression": expression})
    assert not result.success
    assert result.state in (State.FAILED, State.INVALID)


@given(st.text(max_size=60))
@pytest.mark.spec("B5")
def test_any_text_gives_a_number_or_an_arithmetic_problem(expression: str) -> None:
    with contextlib.suppress(ArithmeticProblem):
        assert isinstance(evaluate(expression), int | float)


@pytest.mark.spec("B5")
def test_calculator_async_is_disabled_unless_enabled_by_name() -> None:
    assert "no tool 'calculator_async'" in (_call("calculator_async", {"expression": "1"}).error or "")
    config = Config(tools=ToolsConfig(allow=("calculator_async",)))
    assert _call("calculator_async", {"expression": "sqrt(16)", "delay": 1}, config=config).output == "4"

"""The built-in tools of the core: calculator, system.info, ask.user, output.read; and what all built-ins keep to."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import Config, Result, Runtime, State
from holdfast.config.config import ToolsConfig
from holdfast.contract.tool import Tool
from holdfast.text.preview import preview
from holdfast.tools import builtin_tools
from holdfast.tools.calculator import ArithmeticProblem, evaluate
from tests.quick import quickly
from tests.runtime.support import run, runtime_in


def _call(name: str, args: Any = None, **options: Any) -> Result:
    return run(Runtime(tools=builtin_tools(), **options).call(name, args))


@pytest.mark.parametrize("builtin", builtin_tools(), ids=lambda item: item.name)
@pytest.mark.spec("S6", "T11", "B1")
def test_every_builtin_is_strict_labelled_and_has_an_output_schema(builtin: Tool) -> None:
    assert builtin.strict
    assert builtin.strict_problems() == []
    assert builtin.output_schema is not None
    assert builtin.format_preview is not None
    assert builtin.source == "builtin"
    assert "label" in builtin.input_schema["properties"]


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
def test_arithmetic_is_done(expression: str, shown: str) -> None:
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
def test_what_is_not_bounded_arithmetic_is_refused_quickly(expression: str) -> None:
    with quickly():
        result = _call("calculator", {"expression": expression})
    assert not result.success
    assert result.state in (State.FAILED, State.INVALID)


@given(st.text(max_size=60))
@pytest.mark.spec("B5")
def test_any_text_is_a_number_or_a_problem(expression: str) -> None:
    with contextlib.suppress(ArithmeticProblem):
        assert isinstance(evaluate(expression), int | float)


@pytest.mark.spec("B5")
def test_calculator_async_is_off_unless_it_is_asked_for_by_name() -> None:
    assert "no tool 'calculator_async'" in (_call("calculator_async", {"expression": "1"}).error or "")
    config = Config(tools=ToolsConfig(allow=("calculator_async",)))
    assert _call("calculator_async", {"expression": "sqrt(16)", "delay": 1}, config=config).output == "4"


@pytest.mark.spec("B12a")
def test_system_info_renders_its_typed_facts(tmp_path: Path) -> None:
    result = run(runtime_in(tmp_path, *builtin_tools()).call("system.info"))
    assert isinstance(result.structured, dict)
    assert result.structured["root"] == str(tmp_path / "project")
    assert f"python: {result.structured['python']}" in result.output


@pytest.mark.spec("B13a", "S6")
def test_ask_user_waits_for_the_person(tmp_path: Path) -> None:
    runtime = runtime_in(tmp_path, *builtin_tools(), nobody="pending")
    question = {"questions": [{"question": "Which colour?", "options": ["red", "blue"]}]}
    held = run(runtime.call("ask.user", question))
    assert held.state is State.PENDING
    assert runtime.pending.list()[0].preview == "ask.user: Which colour?"
    assert run(runtime.respond(held.call_id, "blue")).output == "blue"
    assert run(runtime.call("ask.user", {"questions": []})).state is State.INVALID
    assert run(runtime.call("ask.user", {"questions": [{"question": "Without options?"}]})).state is State.PENDING


@pytest.mark.parametrize(
    ("name", "args", "shown"),
    [
        ("calculator", {"expression": "2 + 2", "label": None}, "calculator: 2 + 2"),
        ("calculator_async", {"expression": "sqrt(16)", "delay": 500}, "calculator_async: sqrt(16)  # 500ms"),
        ("write", {"path": "output.txt", "content": "x" * 2355, "label": "saving log"},
         "write: output.txt  (2.3KB)  # saving log"),
        ("output.read", {"call": "abc-1", "offset": 5}, "output.read: abc-1  +5,500"),
        ("system.info", {}, "system.info"),
    ],
)  # fmt: skip
@pytest.mark.spec("O1", "O3")
def test_builtins_have_their_own_previews(name: str, args: Any, shown: str) -> None:
    found = next(item for item in builtin_tools() if name in item.names)
    assert preview(name, args, 80, found.format_preview) == shown


@pytest.mark.spec("R10")
def test_without_a_root_there_is_no_file_write(tmp_path: Path) -> None:
    assert "file.write" not in [item.name for item in Runtime(tools=builtin_tools()).visible()]
    assert "file.write" in [item.name for item in runtime_in(tmp_path, *builtin_tools()).visible()]
    assert _call("file.write", {"path": "a", "content": "b"}).exit_code == 2

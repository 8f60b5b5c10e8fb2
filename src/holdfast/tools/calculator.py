"""`calculator`, and `calculator_async`, which waits first and is disabled unless enabled by name."""

from __future__ import annotations

import ast
import asyncio
import math
import operator
from collections.abc import Callable
from typing import Any, Final, cast

from holdfast.contract.context import Context
from holdfast.contract.enums import Risk
from holdfast.contract.json import Args
from holdfast.contract.result import Result, fail, ok
from holdfast.text.preview import with_label
from holdfast.tools.schemas import LABEL, STRING, builtin_tool, nullable, strict_object, text

Number = int | float

MAX_EXPRESSION: Final = 1000
_MAX_BITS: Final = 4096
_MAX_DEPTH: Final = 60


class ArithmeticProblem(Exception):
    """The expression is invalid, or its value cannot be represented."""


def evaluate(expression: str) -> Number:
    """Evaluate an expression such as `2 * (3 + 4)`, `sqrt(16)` or `2^10`. Raises `ArithmeticProblem`."""
    if len(expression) > MAX_EXPRESSION:
        raise ArithmeticProblem(f"the expression is longer than {MAX_EXPRESSION} characters")
    try:
        tree = ast.parse(expression.strip().replace("^", "**"), mode="eval")
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise ArithmeticProblem("this is not an arithmetic expression") from None
    try:
        value = _value(tree.body, 0)
    except ZeroDivisionError:
        raise ArithmeticProblem("division by zero") from None
    except (OverflowError, ValueError, TypeError) as error:
        raise ArithmeticProblem(str(error) or "the value cannot be computed") from None
    if isinstance(value, float) and not math.isfinite(value):
        raise ArithmeticProblem("the value is not a finite number")
    return value


def show(value: Number) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() and abs(value) < 1e16 else str(value)


def _value(node: ast.expr, depth: int) -> Number:
    if depth > _MAX_DEPTH:
        raise ArithmeticProblem("the expression is nested too deeply")
    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            return _bounded(value)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, depth + 1)
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _value(operand, depth + 1)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _bounded(_OPERATORS[type(op)](_value(left, depth + 1), _value(right, depth + 1)))
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in FUNCTIONS and len(args) <= 16:
            return _bounded(FUNCTIONS[name](*(_value(item, depth + 1) for item in args)))
        case ast.Name(id=name) if name in CONSTANTS:
            return CONSTANTS[name]
        case _:
            raise ArithmeticProblem(f"'{ast.unparse(node)[:60]}' is not arithmetic")


def _bounded(value: Any) -> Number:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ArithmeticProblem("the value is not a real number")
    if isinstance(value, int) and value.bit_length() > _MAX_BITS:
        raise ArithmeticProblem(f"a number has more than {_MAX_BITS} bits")
    return value


def _power(base: Number, exponent: Number) -> Any:
    if isinstance(base, int) and isinstance(exponent, int) and base.bit_length() * abs(exponent) > _MAX_BITS:
        raise ArithmeticProblem(f"a number has more than {_MAX_BITS} bits")
    return base**exponent


def _factorial(number: Number) -> int:
    if not isinstance(number, int) or not 0 <= number <= 500:
        raise ArithmeticProblem("factorial takes a whole number from 0 to 500")
    return math.factorial(number)


_OPERATORS: Final[dict[type[ast.operator], Callable[[Number, Number], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: lambda left, right: left / right,
    ast.FloorDiv: lambda left, right: left // right,
    ast.Mod: operator.mod,
    ast.Pow: _power,
}
FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    name: getattr(math, name)
    for name in ("sqrt", "sin", "cos", "tan", "asin", "acos", "atan", "atan2", "exp", "log", "log2", "log10",
                 "floor", "ceil", "trunc", "hypot", "degrees", "radians", "gcd")
} | {"abs": abs, "min": min, "max": max, "round": round, "pow": _power, "factorial": _factorial}  # fmt: skip
CONSTANTS: Final[dict[str, float]] = {"pi": math.pi, "e": math.e, "tau": math.tau}


_EXPRESSION: Final = {**text("Arithmetic, for example: 2 * (3 + 4), sqrt(16), 2^10"), "maxLength": MAX_EXPRESSION}
_OUTPUT: Final = strict_object(expression=STRING, value={"type": "number"})


def _calculate(args: Args) -> Result:
    expression = cast(str, args["expression"])
    try:
        value = evaluate(expression)
    except ArithmeticProblem as problem:
        return fail(f"Cannot calculate {expression[:80]!r}: {problem}.")
    return ok(show(value), structured={"expression": expression, "value": value})


async def _calculate_later(args: Args, ctx: Context) -> Result:
    delay = args.get("delay")
    if isinstance(delay, int | float):
        await asyncio.sleep(delay / 1000)
    return _calculate(args)


def _preview(args: Args, width: int) -> str:
    return with_label(str(args.get("expression", "")), args)


def _preview_later(args: Args, width: int) -> str:
    delay = args.get("delay")
    expression = str(args.get("expression", ""))
    return f"{expression}  # {delay}ms" if delay is not None else with_label(expression, args)


CALCULATOR: Final = builtin_tool(
    name="calculator",
    description="Evaluate an arithmetic expression.",
    input_schema=strict_object(expression=_EXPRESSION, label=LABEL),
    output_schema=_OUTPUT,
    execute=_calculate,
    risk=Risk.LOW,
    effects=frozenset(),
    runs="inline",
    format_preview=_preview,
    groups=("system",),
    profiles=("minimal",),
)

CALCULATOR_ASYNC: Final = builtin_tool(
    name="calculator_async",
    description="Evaluate an arithmetic expression after a delay.",
    input_schema=strict_object(
        expression=_EXPRESSION,
        delay=nullable("number", "Milliseconds to wait first.", minimum=0, maximum=60_000),
        label=LABEL,
    ),
    output_schema=_OUTPUT,
    execute=_calculate_later,
    risk=Risk.LOW,
    effects=frozenset(),
    enabled=False,
    format_preview=_preview_later,
    groups=("system",),
    profiles=("minimal",),
)

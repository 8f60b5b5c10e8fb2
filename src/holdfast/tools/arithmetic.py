"""Arithmetic without `eval`: a parsed expression over a closed list of operations, each bounded."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable
from typing import Any, Final

Number = int | float

MAX_EXPRESSION: Final = 1000
_MAX_BITS: Final = 4096
_MAX_DEPTH: Final = 60


class ArithmeticProblem(Exception):
    """The expression is not one, or its value is not a number we can give."""


def evaluate(expression: str) -> Number:
    """The value of an expression such as `2 * (3 + 4)`, `sqrt(16)` or `2^10`."""
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

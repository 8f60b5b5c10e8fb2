"""`calculator`, and `calculator_async`, which waits first and is off unless it is asked for by name."""

from __future__ import annotations

import asyncio
from typing import Final, cast

from holdfast.contract.context import Context
from holdfast.contract.result import Result, fail, ok
from holdfast.contract.tool import Tool
from holdfast.contract.values import Args
from holdfast.contract.vocabulary import Risk
from holdfast.text.preview import with_label
from holdfast.tools.arithmetic import MAX_EXPRESSION, ArithmeticProblem, evaluate, show
from holdfast.tools.schemas import LABEL, STRING, optional, strict_object, text

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


CALCULATOR: Final = Tool(
    name="calculator",
    description="Evaluate an arithmetic expression.",
    input_schema=strict_object(expression=_EXPRESSION, label=LABEL),
    output_schema=_OUTPUT,
    execute=_calculate,
    strict=True,
    risk=Risk.LOW,
    effects=frozenset(),
    runs="inline",
    format_preview=_preview,
    groups=("system",),
    profiles=("minimal",),
    source="builtin",
)

CALCULATOR_ASYNC: Final = Tool(
    name="calculator_async",
    description="Evaluate an arithmetic expression after a delay.",
    input_schema=strict_object(
        expression=_EXPRESSION,
        delay=optional("number", "Milliseconds to wait first.", minimum=0, maximum=60_000),
        label=LABEL,
    ),
    output_schema=_OUTPUT,
    execute=_calculate_later,
    strict=True,
    risk=Risk.LOW,
    effects=frozenset(),
    enabled=False,
    format_preview=_preview_later,
    groups=("system",),
    profiles=("minimal",),
    source="builtin",
)

"""A tool that asks the person the questions in a file of the project."""

from __future__ import annotations

from pathlib import Path

import msgspec

from holdfast import tool
from holdfast.contract.context import Context
from holdfast.contract.elicitation import Question


@tool(effects=())
async def elicit(ctx: Context) -> str:
    """Ask the questions in questions.json."""
    return msgspec.json.encode(await ctx.elicit(*_questions())).decode()


def _questions() -> tuple[Question, ...]:
    return msgspec.json.decode(Path("questions.json").read_bytes(), type=tuple[Question, ...])

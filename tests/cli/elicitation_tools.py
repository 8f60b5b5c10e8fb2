"""A tool that puts questions to the person; which ones, it reads from a file in the project."""

from __future__ import annotations

from pathlib import Path

import msgspec

from holdfast import tool
from holdfast.contract.context import Context
from holdfast.contract.elicitation import Question


@tool(effects=())
async def elicit(ctx: Context) -> str:
    """Ask what stands in questions.json."""
    return msgspec.json.encode(await ctx.elicit(*_questions())).decode()


def _questions() -> tuple[Question, ...]:
    return msgspec.json.decode(Path("questions.json").read_bytes(), type=tuple[Question, ...])

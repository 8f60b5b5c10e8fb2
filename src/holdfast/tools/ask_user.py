"""`ask.user`: questions for the user. It has no `execute`: the user's answer is its result."""

from __future__ import annotations

from typing import Final, cast

from holdfast.contract.enums import Risk
from holdfast.contract.json import Args
from holdfast.tools.schemas import LABEL, builtin_tool, nullable, strict_object, text

_QUESTION: Final = strict_object(
    question=text("What to ask."),
    options=nullable("array", "Suggested answers; the user may give any other.", items={"type": "string"}),
)


def _preview(args: Args, width: int) -> str:
    questions = cast(list[dict[str, str]], args.get("questions") or [])
    first = questions[0].get("question", "") if questions else ""
    return first if len(questions) < 2 else f"{first}  (+{len(questions) - 1} more)"


ASK_USER: Final = builtin_tool(
    name="ask.user",
    description="Ask the user one to four questions and get their answers.",
    input_schema=strict_object(
        questions={"type": "array", "minItems": 1, "maxItems": 4, "items": _QUESTION, "description": "The questions."},
        label=LABEL,
    ),
    output_schema={"type": "string"},
    risk=Risk.LOW,
    effects=frozenset({"person"}),
    format_preview=_preview,
    aliases=("ask_user_question",),
    groups=("system",),
    profiles=("messaging", "coding"),
)

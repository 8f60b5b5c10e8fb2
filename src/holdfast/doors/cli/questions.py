"""Questions of a model (`ask.user`) and results given by hand, typed at the terminal."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from holdfast.doors.cli.folding import quote
from holdfast.doors.cli.screen import note, shown
from holdfast.doors.cli.typing_in import read_line
from holdfast.text.visible import visible

if TYPE_CHECKING:
    from holdfast.contract.call import PendingCall


QUESTIONS: Final = "ask.user"


async def ask_questions(held: PendingCall) -> str | None:
    """The result the person gives; None when they end the input instead."""
    questions = _questions(held)
    if not questions:
        return await read_line("Result: ")
    answers: list[str] = []
    for text, options in questions:
        answer = await _ask_one(text, options)
        if answer is None:
            return None
        answers.append(answer)
    if len(answers) == 1:
        return answers[0]
    return "\n\n".join(f"{text}\n{answer}" for (text, _), answer in zip(questions, answers, strict=True))


async def _ask_one(text: str, options: Sequence[str]) -> str | None:
    numbered = "\n".join(f"  {number}. {visible(option)}" for number, option in enumerate(options, 1))
    for line in (*quote(text, sys.stderr).lines, *(quote(numbered, sys.stderr, show=shown).lines if options else ())):
        note(line)
    answer = ""
    while not answer.strip():
        typed = await read_line("Your answer (a number or your own words): " if options else "Your answer: ")
        if typed is None:
            return None
        answer = typed
    choice = answer.strip()
    return options[int(choice) - 1] if choice.isdecimal() and 0 < int(choice) <= len(options) else answer


def _questions(held: PendingCall) -> list[tuple[str, list[str]]]:
    if held.call.tool != QUESTIONS:
        return []
    given = cast(list[dict[str, Any]], held.call.args.get("questions") or [])
    return [(str(item.get("question", "")), list(item.get("options") or [])) for item in given]

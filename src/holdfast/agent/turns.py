"""From the messages of a conversation to the turn that is going on in it."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from holdfast.agent.guarding import Round, Step, Turn
from holdfast.agent.notebook import Notebook
from holdfast.contract.message import Message, Part, Text, ToolResult
from holdfast.contract.result import Attachment


def turn_of(messages: Sequence[Message], notebook: Notebook, waiting: Collection[str]) -> Turn:
    """The last message of a person and what came of it. `waiting`: calls of the last reply that have no result yet."""
    rounds: list[Round] = []
    begins, foreign = 0, False
    prompt = ""
    said: list[str | None] = []
    for place, message in enumerate(messages):
        if message.role == "assistant":
            rounds.append(_round(message, messages[place + 1 : place + 2]))
        elif message.role == "user" and (words := _words(message)) is not None:
            begins, foreign = len(rounds), any(map(_is_foreign, message.parts))
            said.append(None if foreign else words)
            prompt = words
    if rounds and rounds[-1].steps and waiting:
        rounds[-1] = Round(rounds[-1].text, tuple(_unless(step, waiting) for step in rounds[-1].steps))
    typed = notebook.results([[step.told for step in each.steps if step.told] for each in rounds])
    rounds = [
        Round(each.text, tuple(Step(step.use, step.told, step.told and found.get(step.use.id)) for step in each.steps))
        for each, found in zip(rounds, typed, strict=True)
    ]
    return Turn(
        number=len(said),
        prompt=prompt,
        before=tuple(said[:-1]),
        foreign=foreign,
        rounds=tuple(rounds[begins:]),
        earlier=tuple(rounds[:begins]),
    )


def _round(message: Message, after: Sequence[Message]) -> Round:
    told = {part.id: part for part in (after[0].parts if after else ()) if isinstance(part, ToolResult)}
    return Round(message.text, tuple(Step(use, told.get(use.id)) for use in message.tool_uses))


def _unless(step: Step, waiting: Collection[str]) -> Step:
    return Step(step.use) if step.use.id in waiting else step


def _words(message: Message) -> str | None:
    """What a person wrote in a message, never what a tool gave back; None if it is results alone."""
    text = "\n".join(part.text for part in message.parts if isinstance(part, Text)).strip()
    return text if text or any(map(_is_foreign, message.parts)) else None


def _is_foreign(part: Part) -> bool:
    return isinstance(part, Attachment) or (isinstance(part, Text) and part.included)

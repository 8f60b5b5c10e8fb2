"""Where a conversation stands: the person's last request, and the calls made for it since."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from holdfast.contract.errors import BadJson
from holdfast.contract.message import Aborted, Message, Part, Text, ToolResult, ToolUse
from holdfast.contract.result import Attachment
from holdfast.contract.values import parse_json
from holdfast.models.operator.planning import Wanted
from holdfast.models.operator.reporting import PLANNED


class Round(NamedTuple):
    """The calls of one reply, and what came of each."""

    uses: tuple[ToolUse, ...]
    results: dict[str, ToolResult]
    aborted: bool

    @property
    def failed(self) -> bool:
        return self.aborted or any(_failed(self.result(use)) for use in self.uses)

    def result(self, use: ToolUse) -> ToolResult:
        missing = ToolResult(use.id, use.name, "No result was recorded for this call.", error=True)
        return self.results.get(use.id, missing)

    def is_of(self, step: Sequence[Wanted]) -> bool:
        """Whether exactly these calls were made, so that what comes after them in the plan is next."""
        asked = [(use.name, _parsed(use.arguments)) for use in self.uses]
        return asked == [(call.tool, _parsed(call.arguments)) for call in step]


class Request(NamedTuple):
    """What a person wrote."""

    text: str
    foreign: bool
    """Something in it was not written there: a file is attached, or its text was put in."""


class Standing(NamedTuple):
    requests: tuple[Request, ...]
    """Message by message, the last one at the end."""
    rounds: tuple[Round, ...]
    """What was asked for since."""
    answered: bool
    """Whether the last request was dealt with to its end."""


def standing(messages: Sequence[Message]) -> Standing:
    requests: list[Request] = []
    rounds: list[Round] = []
    answered = True
    for message in messages:
        if message.role == "user":
            if rounds:
                results = {part.id: part for part in message.parts if isinstance(part, ToolResult)}
                rounds[-1] = rounds[-1]._replace(results={**results, **rounds[-1].results})
            request = Request(_own_text(message), any(map(_is_foreign, message.parts)))
            if request.text or request.foreign:
                requests.append(request)
                rounds, answered = [], False
        elif message.role == "assistant":
            if message.tool_uses:
                rounds.append(Round(message.tool_uses, {}, _is_aborted(message)))
            answered = answered or not message.tool_uses
    return Standing(tuple(requests), tuple(rounds), answered or messages[-1].role != "user")


def _failed(result: ToolResult) -> bool:
    """What was only planned has not failed: the plan goes on."""
    return result.error and not result.output.startswith(PLANNED)


def _own_text(message: Message) -> str:
    """What a person wrote in a message: never what a tool gave back."""
    return "\n".join(part.text for part in message.parts if isinstance(part, Text)).strip()


def _is_foreign(part: Part) -> bool:
    return isinstance(part, Attachment) or (isinstance(part, Text) and part.included)


def _is_aborted(message: Message) -> bool:
    return any(isinstance(part, Aborted) for part in message.parts)


def _parsed(arguments: str) -> object:
    try:
        return parse_json(arguments)
    except BadJson:
        return None

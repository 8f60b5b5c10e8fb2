"""What the door has to say when a document has advanced, beyond what the loop knows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from holdfast.contract.vocabulary import State
from holdfast.doors.cli.chatting.documents import place
from holdfast.text.visible import visible

if TYPE_CHECKING:
    from holdfast.chat.document import Document
    from holdfast.contract.result import Result

UNASKED: Final = "A call needed a person and nobody was asked."
NO_PROJECT: Final = (
    "There is no project here, so the tools that change or search files and run commands are missing; "
    "`holdfast init` or `git init` makes one."
)
_ENDS: Final = {
    State.DONE: "is done",
    State.INVALID: "is not valid, so it did not run",
    State.DENIED: "was denied",
    State.REJECTED: "was rejected",
    State.TIMED_OUT: "took too long and was stopped",
    State.UNKNOWN: "may have run: how it ended was not seen",
    State.CANCELLED: "was stopped",
}


def has_words(document: Document) -> bool:
    """Whether anybody but a system prompt has a message in it."""
    return any(message.role != "System" for message in document.messages)


def no_words(path: Path) -> str:
    return f"{place(path)} has no message of yours; write it under a line with only @You:"


def became(use_id: str, result: Result, path: Path) -> str:
    """What a call came to that was run alone."""
    end = _ENDS.get(result.state, "failed")
    return f"Call '{visible(use_id)}' {end}; `holdfast chat {place(path)}` goes on."

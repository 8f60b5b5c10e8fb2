"""What is said when a message is not understood: which part, what would help, and what is understood."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Final

from holdfast.contract.tool import Tool
from holdfast.models.operator.phrases import GRAMMAR
from holdfast.models.operator.planning import NotUnderstood
from holdfast.models.operator.reporting import quoted

_ADVICE: Final[tuple[tuple[str, str], ...]] = (
    (r"\b(?:don['’]?t|do not|never|not|unless|except|without|instead)\b", "Say only what to do, without exceptions."),
    (r"^(?:if|when|once|before|after|while|until)\b|\bif\b", "I do not decide about conditions; say only what to do."),
    (r"^(?:how|why|who|should|would|could|can|may|do|does|is|are|am|was|will)\b",
     "I follow requests; I cannot answer questions."),
    (r"https?://|\b(?:web|internet|website|google)\b", "I cannot reach the network."),
    (r"^(?:run|execute) (?:the |all |my )*(?:unit )?(?:tests?|build|linter|checks?|app|server|program)\b",
     "I do not know how that is run here; say the command, for example: run `make test`."),
    (r"^(?:(?:run|execute|start|launch)\b|\$)", "Put the command in backticks: run `ls -l`."),
    (r"^(?:ls|cat|cd|rm|mv|cp|mkdir|make|python3?|pytest|npm|git|pip|cargo|docker)\b",
     "To run it as a command, say: run `…`."),
    (r"^list\b", "If it is a folder, say so: list the folder NAME."),
    (r"^(?:kill|stop|end)\b", "Say the number or the id of one process: kill process 4242."),
    (r"^(?:append|add|insert)\b", "I cannot add to a file; say: edit FILE: replace \"old\" with \"new\"."),
    (r"^(?:delete|remove|rename|move|copy)\b", "There is no tool for that; say it as a command: run `…`."),
    (r"^(?:undo|revert|restore)\b", "You can undo a call yourself: holdfast undo."),
    (r"\b(?:replace|change)\b", "Put both texts in quotes: edit a.py: replace \"old\" with \"new\"."),
    (r"^(?:write|create|make|save)\b", "Say the file and its content: write a.txt with \"hello\"."),
    (r"\blast [0-9]+ lines\b|^tail\b", "I cannot count from the end of a file; say: run `tail -n 20 FILE`."),
    (r"^(?:find|locate)\b", "Say whether it is a file or a text: find files named X, or: search for X."),
    (r"^(?:search|grep|look)\b", "Put a text of several words in quotes: search for \"two words\"."),
    (r"^(?:read|show|open|view|display|print|cat)\b", "If it is a file, say so: read the file NAME."),
    (r"^(?:explain|summari[sz]e|fix|refactor|improve|review|implement|optimi[sz]e|clean|describe|tell|think)\b",
     "I am a small set of rules, not a language model; I cannot judge or write code."),
)  # fmt: skip


def help_text(tools: Collection[str]) -> str:
    """What is understood of what is offered, an example each."""
    examples = [phrases[0].example for name, phrases in GRAMMAR.items() if name in tools]
    if not examples:
        return "None of the tools that I know how to use is offered here."
    listed = "\n".join(f"- {example}" for example in examples)
    return f"I understand requests such as these, one after the other with “then”:\n\n{listed}"


def refusal(error: NotUnderstood, tools: Mapping[str, Tool]) -> str:
    """Nothing was called, because of this part."""
    why = error.why or next((advice for pattern, advice in _ADVICE if _found(pattern, error.part)), "")
    said = f"I did nothing, because I do not understand this: {quoted(error.part)}."
    if error.why:
        said = f"I did nothing, because of this: {quoted(error.part)}."
    return "\n\n".join(filter(None, (said, why, help_text(tools))))


def _found(pattern: str, part: str) -> bool:
    return re.search(pattern, part, re.IGNORECASE) is not None

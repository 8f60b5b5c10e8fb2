"""`Operator`: the embedded model behind the port. What it says follows from the conversation and nothing else."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from decimal import Decimal
from typing import Final

from holdfast.contract.message import Message, Part, Text, Thinking, ToolResult, ToolUse
from holdfast.contract.tool import Tool
from holdfast.models.operator.grammar import GRAMMAR
from holdfast.models.operator.plan import (
    HelpWanted,
    NotUnderstood,
    Plan,
    Planner,
    Request,
    Round,
    Wanted,
    standing,
)
from holdfast.models.operator.reports import in_words, report
from holdfast.models.port import CallBegun, Ended, ModelEvent, PartEnded, Settings, TextDelta, Usage
from holdfast.models.requests.literals import quoted

_NOTHING_NEW: Final = "There is nothing new to answer: write a request."
_OTHER_CALLS: Final = (
    "I stop here: the calls above are not those that your message asks for. Say what to do next in a new message."
)
_MAX_BACK: Final = 8
"""How many messages back "it" and "again" may lead."""
_PIECE: Final = re.compile(r"\S*\s*")

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

class Operator:
    """Follows a small grammar of plain requests. It acts only on what the person wrote last."""

    provider = "operator"
    name = "operator"

    async def stream(
        self, messages: Sequence[Message], tools: Sequence[Tool], settings: Settings
    ) -> AsyncGenerator[ModelEvent]:
        offered = {tool.name: tool for tool in tools}
        text, calls = _reply(messages, offered)
        for piece in _PIECE.findall(text):
            if piece:
                yield TextDelta(piece)
        yield PartEnded(Text(text))
        turn = sum(message.role == "assistant" for message in messages)
        for number, call in enumerate(calls):
            use = ToolUse(f"op_{turn}_{number}", call.tool, call.arguments)
            yield CallBegun(use.id, use.name)
            yield PartEnded(use)
        written = [text, *(call.tool + call.arguments for call in calls)]
        read = (_said(part) for message in messages for part in message.parts)
        usage = Usage(input=sum(map(_tokens, read)), output=sum(map(_tokens, written)), cost=Decimal(0))
        yield Ended("tool_use" if calls else "end", usage, self.name)


def _reply(messages: Sequence[Message], tools: Mapping[str, Tool]) -> tuple[str, Sequence[Wanted]]:
    now = standing(messages)
    if not now.requests:
        return help_text(tools), ()
    if now.answered:
        return _NOTHING_NEW, ()
    last = now.rounds[-1:]
    reports = [report(use, each.result(use)) for each in last for use in each.uses]
    try:
        plan = _plan(now.requests[-_MAX_BACK:], tools)
    except NotUnderstood as error:
        return "\n\n".join((*reports, refusal(error, tools))), ()
    except HelpWanted:
        return "\n\n".join((*reports, help_text(tools))), ()
    return _go_on(plan, now.rounds, reports)


def _go_on(plan: Plan, rounds: Sequence[Round], reports: list[str]) -> tuple[str, Sequence[Wanted]]:
    """The next step, if all before it were done as they were planned."""
    done = len(rounds)
    if done > len(plan.steps) or not all(map(Round.is_of, rounds, plan.steps)):
        return "\n\n".join((*reports, _OTHER_CALLS)), ()
    total, left = len(plan.steps), plan.steps[done:]
    if rounds and rounds[-1].failed:
        stopped = [f"I stopped at step {done} of {total}. Not done: {'; '.join(map(_words, left))}."] if left else []
        return "\n\n".join((*reports, *stopped)), ()
    if not left:
        return "\n\n".join((*reports, *([f"All {total} steps are done."] if total > 1 else []))), ()
    number = f"Step {done + 1} of {total}: " if total > 1 else ""
    return "\n\n".join((*reports, f"{number}I will {_words(left[0])}.")), left[0]


def _plan(requests: Sequence[Request], tools: Mapping[str, Tool]) -> Plan:
    """The plan of the last request; those before it are planned only if it refers to them."""
    text, foreign = requests[-1]
    if foreign:
        raise NotUnderstood(text, "A file was put into it, and I only follow your own words.")

    def earlier() -> Plan | None:
        if len(requests) < 2:
            return None
        try:
            return _plan(requests[:-1], tools)
        except (NotUnderstood, HelpWanted):
            return None

    return Planner(tools, earlier).plan(text)


def _words(step: Sequence[Wanted]) -> str:
    return " and ".join(in_words(call.tool, call.args) for call in step)


def _said(part: Part) -> str:
    if isinstance(part, Text | Thinking):
        return part.text
    if isinstance(part, ToolUse):
        return part.name + part.arguments
    return part.output if isinstance(part, ToolResult) else ""


def _tokens(text: str) -> int:
    """Four characters are about one token; nobody is charged for them."""
    return (len(text) + 3) // 4


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

"""`Operator`: the embedded model behind the port. What it says follows from the conversation and nothing else."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from decimal import Decimal
from typing import Final

from holdfast.contract.message import Message, Part, Text, Thinking, ToolResult, ToolUse
from holdfast.contract.tool import Tool
from holdfast.models.operator.advice import help_text, refusal
from holdfast.models.operator.planning import (
    HelpWanted,
    NotUnderstood,
    Plan,
    Planner,
    Request,
    Round,
    Standing,
    Wanted,
    standing,
)
from holdfast.models.operator.reporting import in_words, report
from holdfast.models.port import CallBegun, Ended, ModelEvent, PartEnded, TextDelta, Usage
from holdfast.models.settings import Settings

_NOTHING_NEW: Final = "There is nothing new to answer: write a request."
_OTHER_CALLS: Final = (
    "I stop here: the calls above are not those that your message asks for. Say what to do next in a new message."
)
_MAX_BACK: Final = 8
"""How many messages back "it" and "again" may lead."""
_PIECE: Final = re.compile(r"\S*\s*")


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
    reports = _reports(now)
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


def _reports(now: Standing) -> list[str]:
    if not now.rounds:
        return []
    last = now.rounds[-1]
    return [report(use, last.result(use)) for use in last.uses]


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

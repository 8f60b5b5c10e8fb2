"""From a person's words to calls: everything in a message is understood and can be done, or nothing of it is."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, cast

from msgspec import Struct

from holdfast.contract.errors import InvalidArguments
from holdfast.contract.message import Aborted, Message, ToolResult, ToolUse
from holdfast.contract.tool import Tool
from holdfast.contract.values import Args, encode_json
from holdfast.models.operator.grammar import GRAMMAR
from holdfast.models.operator.reports import PLANNED
from holdfast.models.requests.literals import INLINE, IT, Masked, mask
from holdfast.models.requests.sentences import cuts, steps_of


class Round(NamedTuple):
    """The calls of one reply, and what came of each."""

    uses: tuple[ToolUse, ...]
    results: dict[str, ToolResult]
    aborted: bool

    @property
    def failed(self) -> bool:
        """What was only planned has not failed: the plan goes on."""
        results = map(self.result, self.uses)
        return self.aborted or any(each.error and not each.output.startswith(PLANNED) for each in results)

    def result(self, use: ToolUse) -> ToolResult:
        missing = ToolResult(use.id, use.name, "No result was recorded for this call.", error=True)
        return self.results.get(use.id, missing)

    def is_of(self, step: Sequence[Wanted]) -> bool:
        """Whether exactly these calls were made, so that what comes after them in the plan is next."""
        return [(use.name, use.parsed) for use in self.uses] == [(call.tool, call.args) for call in step]


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
            request = Request(message.own_text, message.foreign)
            if request.text or request.foreign:
                requests.append(request)
                rounds, answered = [], False
        elif message.role == "assistant":
            if message.tool_uses:
                aborted = any(isinstance(part, Aborted) for part in message.parts)
                rounds.append(Round(message.tool_uses, {}, aborted))
            answered = answered or not message.tool_uses
    return Standing(tuple(requests), tuple(rounds), answered or messages[-1].role != "user")


MAX_CHARS: Final = 200_000
MAX_STEP: Final = 4_000
MAX_STEPS: Final = 50
MAX_CALLS: Final = 16

_AGAIN: Final = re.compile(
    r"(?:(?:do|try|run) (?:it|that|this) )?(?:again|once more)|repeat(?: (?:it|that))?|(?:do|try) again", re.IGNORECASE
)
_HELP: Final = re.compile(r"help|what can (?:you do|i say)|what do you (?:understand|know)|\?", re.IGNORECASE)
_NAMES_A_FILE: Final = frozenset({"file.read", "file.write", "file.edit"})


class Wanted(Struct, frozen=True):
    """A call to be made."""

    tool: str
    args: Args
    arguments: str
    """The same as JSON."""


class Plan(Struct, frozen=True):
    """What to do: steps in order, each of calls that are made together."""

    steps: tuple[tuple[Wanted, ...], ...]

    @property
    def calls(self) -> list[Wanted]:
        return [call for step in self.steps for call in step]


class NotUnderstood(Exception):
    """Nothing is called. `part` is what was not understood or cannot be done, `why` the reason if it is known."""

    def __init__(self, part: str, why: str = "") -> None:
        super().__init__(part, why)
        self.part = part
        self.why = why


class HelpWanted(Exception):
    """The message asks what can be said."""


class Planner:
    """Plans one message. `earlier` gives the plan of the message before, for "it" and "again"."""

    def __init__(self, tools: Mapping[str, Tool], earlier: Callable[[], Plan | None]) -> None:
        self._tools = tools
        self._earlier = earlier

    def plan(self, text: str) -> Plan:
        if len(text) > MAX_CHARS:
            raise NotUnderstood(text, f"It is longer than {MAX_CHARS:,} characters.")
        masked = mask(text)
        if masked.problem:
            raise NotUnderstood(text, masked.problem)
        steps = steps_of(masked.text)
        if not steps or (len(steps) == 1 and _HELP.fullmatch(steps[0])):
            raise HelpWanted
        if len(steps) > MAX_STEPS:
            raise NotUnderstood(text, f"It asks for more than {MAX_STEPS} steps.")
        if len(steps) == 1 and _AGAIN.fullmatch(steps[0]):
            plan = self._earlier()
            if plan is None:
                raise NotUnderstood(text, "Your message before it asks for nothing that I could do again.")
            return plan
        made: list[tuple[Wanted, ...]] = []
        for step in steps:
            made += self._step(step, masked, made)
        return Plan(tuple(made))

    def _step(self, step: str, masked: Masked, before: list[tuple[Wanted, ...]]) -> list[tuple[Wanted, ...]]:
        """One step; several if something in it changes things, so that it must not run beside the rest."""
        said = masked.unmasked(step)
        if len(step) > MAX_STEP:
            raise NotUnderstood(said, "It is too long for one step.")
        many = sum(1 for _ in cuts(step)) >= MAX_CALLS
        found = [] if many else _Clauses(masked).read(step)
        if many or len(found) > MAX_CALLS:
            raise NotUnderstood(said, f"It asks for more than {MAX_CALLS} things at once.")
        calls: list[Wanted] = []
        for name, args in found:
            known = Plan((*before, tuple(calls)))
            calls.append(self._call(name, self._resolved(name, args, known, said), said))
        if len(calls) == 1 or not any(self._tools[call.tool].mutates for call in calls):
            return [tuple(calls)]
        return [(call,) for call in calls]

    def _resolved(self, name: str, args: Args, before: Plan, said: str) -> Args:
        """With what "it" stands for: the one file, or the one command, that was named before."""
        for key in ("path", "command"):
            if args.get(key) == IT:
                referents = _referents(before, key) or _referents(self._earlier(), key)
                if len(referents) != 1:
                    kind = "file" if key == "path" else "command"
                    raise NotUnderstood(said, f"Which {kind} is meant is not clear; name it.")
                return {**args, key: referents.pop()}
        return args

    def _call(self, name: str, args: Args, said: str) -> Wanted:
        tool = self._tools.get(name)
        if tool is None:
            raise NotUnderstood(said, f"It needs the tool `{name}`, which is not offered here.")
        given: Args = {key: value for key, value in args.items() if value is not None}
        try:
            judged = tool.schema.judge(given)
            if isinstance(judged, InvalidArguments):
                raise NotUnderstood(said, f"The tool `{name}` does not take it: {judged}")
            keys = dict.fromkeys((*tool.schema.properties, *sorted(judged)))
            ordered = {key: judged[key] for key in keys if judged.get(key) is not None}
            return Wanted(name, ordered, encode_json(ordered).decode())
        except UnicodeEncodeError:
            raise NotUnderstood(said, "It holds bytes that are not UTF-8.") from None


class _Clauses:
    """Reads a step as one phrase, or as phrases joined by "and"."""

    def __init__(self, masked: Masked) -> None:
        self._masked = masked
        self._semicolons = ";" in masked.text
        self._dead: dict[str, NotUnderstood] = {}

    def read(self, text: str) -> list[tuple[str, Args]]:
        """Tools with arguments; raises `NotUnderstood` with the first part that is not one."""
        if text in self._dead:
            raise self._dead[text]
        whole = self._phrase(text)
        if whole is not None:
            return whole
        failed = NotUnderstood(self._masked.unmasked(text))
        for left, right in cuts(text):
            first = self._phrase(left)
            if first is None:
                continue
            try:
                return [*first, *self.read(right)]
            except NotUnderstood as error:
                failed = error
        self._dead[text] = failed
        raise failed

    def _phrase(self, text: str) -> list[tuple[str, Args]] | None:
        """None if it is no phrase. A text that two phrases read differently is none either."""
        readings: list[list[tuple[str, Args]]] = []
        for name, phrases in GRAMMAR.items():
            for phrase in phrases:
                args = phrase.match(text, self._masked)
                if args is not None:
                    reading = [(name, each) for each in args]
                    if reading not in readings:
                        readings.append(reading)
        if len(readings) > 1:
            raise NotUnderstood(self._masked.unmasked(text), "It can be read in two ways.")
        if readings and self._semicolons and readings[0][0][0] == "shell.exec" and INLINE not in text:
            raise NotUnderstood(self._masked.unmasked(text), "Put the command in backticks, so that its end is clear.")
        return readings[0] if readings else None


def _referents(plan: Plan | None, key: str) -> set[str]:
    calls = plan.calls if plan else []
    if key == "path":
        calls = [call for call in calls if call.tool in _NAMES_A_FILE]
    return {cast(str, call.args[key]) for call in calls if key in call.args}

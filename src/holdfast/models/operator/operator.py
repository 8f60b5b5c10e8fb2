"""`Operator`: the embedded, deterministic model. Its reply depends only on the conversation."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from decimal import Decimal
from typing import Final, NamedTuple, cast

from msgspec import Struct

from holdfast.contract.errors import InvalidArguments
from holdfast.contract.json import Args, encode_json
from holdfast.contract.message import Aborted, Message, Part, Text, Thinking, ToolResult, ToolUse
from holdfast.contract.tool import Tool
from holdfast.models.operator.phrases import GRAMMAR
from holdfast.models.operator.reports import PLANNED, describe_call, report
from holdfast.models.port import CallBegun, ModelEvent, PartEnded, ReplyEnded, Settings, TextDelta, Usage
from holdfast.models.requests.masked_text import INLINE, IT, MaskedText, conjunction_splits, mask, quoted, split_steps


class ToolRound(NamedTuple):
    """The calls of one reply, with their results."""

    uses: tuple[ToolUse, ...]
    results: dict[str, ToolResult]
    aborted: bool

    @property
    def failed(self) -> bool:
        """Whether a call failed or was interrupted; a call that plan mode only planned does not count."""
        results = map(self.result, self.uses)
        return self.aborted or any(each.error and not each.output.startswith(PLANNED) for each in results)

    def result(self, use: ToolUse) -> ToolResult:
        missing = ToolResult(use.id, use.name, "No result was recorded for this call.", error=True)
        return self.results.get(use.id, missing)

    def matches(self, step: Sequence[PlannedCall]) -> bool:
        """Whether exactly the calls of this step were made."""
        return [(use.name, use.parsed) for use in self.uses] == [(call.tool, call.args) for call in step]


class UserRequest(NamedTuple):
    """One message from the user."""

    text: str
    has_foreign_content: bool
    """Whether it contains attached or included content, which the user did not write."""


class Progress(NamedTuple):
    requests: tuple[UserRequest, ...]
    """The user's requests, oldest first."""
    rounds: tuple[ToolRound, ...]
    """The tool rounds since the last request."""
    answered: bool
    """Whether the last request has been answered completely."""


def read_progress(messages: Sequence[Message]) -> Progress:
    requests: list[UserRequest] = []
    rounds: list[ToolRound] = []
    answered = True
    for message in messages:
        if message.role == "user":
            if rounds:
                results = {part.id: part for part in message.parts if isinstance(part, ToolResult)}
                rounds[-1] = rounds[-1]._replace(results={**results, **rounds[-1].results})
            request = UserRequest(message.own_text, message.has_included_content)
            if request.text or request.has_foreign_content:
                requests.append(request)
                rounds, answered = [], False
        elif message.role == "assistant":
            if message.tool_uses:
                aborted = any(isinstance(part, Aborted) for part in message.parts)
                rounds.append(ToolRound(message.tool_uses, {}, aborted))
            answered = answered or not message.tool_uses
    return Progress(tuple(requests), tuple(rounds), answered or messages[-1].role != "user")


MAX_CHARS: Final = 200_000
MAX_STEP_CHARS: Final = 4_000
MAX_STEPS: Final = 50
MAX_CALLS: Final = 16

_AGAIN: Final = re.compile(
    r"(?:(?:do|try|run) (?:it|that|this) )?(?:again|once more)|repeat(?: (?:it|that))?|(?:do|try) again", re.IGNORECASE
)
_HELP: Final = re.compile(r"help|what can (?:you do|i say)|what do you (?:understand|know)|\?", re.IGNORECASE)
_NAMES_A_FILE: Final = frozenset({"file.read", "file.write", "file.edit"})


class PlannedCall(Struct, frozen=True):
    """A call that the operator will make."""

    tool: str
    args: Args
    arguments: str
    """`args` as JSON text."""


Step = tuple[PlannedCall, ...]
"""Calls that are made together."""


class CallPlan(Struct, frozen=True):
    """Steps in order; the calls of a step are made together."""

    steps: tuple[Step, ...]

    @property
    def calls(self) -> list[PlannedCall]:
        return [call for step in self.steps for call in step]


class NotUnderstood(Exception):
    """No call is made. `part` is the text that was not understood or cannot be done, `why` the reason if known."""

    def __init__(self, part: str, why: str = "") -> None:
        super().__init__(part, why)
        self.part = part
        self.why = why


class HelpRequested(Exception):
    """The message asks for help."""


class Planner:
    """Plans one message. `earlier` returns the plan of the previous message, to resolve "it" and "again"."""

    def __init__(self, tools: Mapping[str, Tool], earlier: Callable[[], CallPlan | None]) -> None:
        self._tools = tools
        self._earlier = earlier

    def plan(self, text: str) -> CallPlan:
        if len(text) > MAX_CHARS:
            raise NotUnderstood(text, f"It is longer than {MAX_CHARS:,} characters.")
        masked = mask(text)
        if masked.problem:
            raise NotUnderstood(text, masked.problem)
        steps = split_steps(masked.text)
        if not steps or (len(steps) == 1 and _HELP.fullmatch(steps[0])):
            raise HelpRequested
        if len(steps) > MAX_STEPS:
            raise NotUnderstood(text, f"It asks for more than {MAX_STEPS} steps.")
        if len(steps) == 1 and _AGAIN.fullmatch(steps[0]):
            plan = self._earlier()
            if plan is None:
                raise NotUnderstood(text, "Your message before it asks for nothing that I could do again.")
            return plan
        made: list[Step] = []
        for step in steps:
            made += self._step(step, masked, made)
        return CallPlan(tuple(made))

    def _step(self, step: str, masked: MaskedText, before: list[Step]) -> list[Step]:
        """Plan one step of the text; each call becomes its own step if any of them mutates, so that they never run in
        parallel."""
        said = masked.unmask(step)
        if len(step) > MAX_STEP_CHARS:
            raise NotUnderstood(said, "It is too long for one step.")
        many = sum(1 for _ in conjunction_splits(step)) >= MAX_CALLS
        found = [] if many else _StepParser(masked).read(step)
        if many or len(found) > MAX_CALLS:
            raise NotUnderstood(said, f"It asks for more than {MAX_CALLS} things at once.")
        calls: list[PlannedCall] = []
        for name, args in found:
            known = CallPlan((*before, tuple(calls)))
            calls.append(self._call(name, self._resolve_it(name, args, known, said), said))
        if len(calls) == 1 or not any(self._tools[call.tool].mutates for call in calls):
            return [tuple(calls)]
        return [(call,) for call in calls]

    def _resolve_it(self, name: str, args: Args, before: CallPlan, said: str) -> Args:
        """Replace "it" by the only file, or the only command, mentioned before."""
        for key in ("path", "command"):
            if args.get(key) == IT:
                referents = _referents(before, key) or _referents(self._earlier(), key)
                if len(referents) != 1:
                    kind = "file" if key == "path" else "command"
                    raise NotUnderstood(said, f"Which {kind} is meant is not clear; name it.")
                return {**args, key: referents.pop()}
        return args

    def _call(self, name: str, args: Args, said: str) -> PlannedCall:
        tool = self._tools.get(name)
        if tool is None:
            how = f'Allow it with tools.allow = ["{name}"]; `holdfast tools {name}` shows what else it needs.'
            raise NotUnderstood(said, f"It needs the tool `{name}`, which is not offered here. {how}")
        given: Args = {key: value for key, value in args.items() if value is not None}
        try:
            judged = tool.schema.check(given)
            if isinstance(judged, InvalidArguments):
                raise NotUnderstood(said, f"The tool `{name}` does not take it: {judged}")
            keys = dict.fromkeys((*tool.schema.properties, *sorted(judged)))
            ordered = {key: judged[key] for key in keys if judged.get(key) is not None}
            return PlannedCall(name, ordered, encode_json(ordered).decode())
        except UnicodeEncodeError:
            raise NotUnderstood(said, "It holds bytes that are not UTF-8.") from None


class _StepParser:
    """Parses a step as one phrase, or as phrases joined by "and"."""

    def __init__(self, masked: MaskedText) -> None:
        self._masked = masked
        self._semicolons = ";" in masked.text
        self._failures: dict[str, NotUnderstood] = {}

    def read(self, text: str) -> list[tuple[str, Args]]:
        """Return tools with arguments; raise `NotUnderstood` with the first unmatched part."""
        if text in self._failures:
            raise self._failures[text]
        whole = self._phrase(text)
        if whole is not None:
            return whole
        failed = NotUnderstood(self._masked.unmask(text))
        for left, right in conjunction_splits(text):
            first = self._phrase(left)
            if first is None:
                continue
            try:
                return [*first, *self.read(right)]
            except NotUnderstood as error:
                failed = error
        self._failures[text] = failed
        raise failed

    def _phrase(self, text: str) -> list[tuple[str, Args]] | None:
        """Return None if no phrase matches; raise `NotUnderstood` if two phrases match differently."""
        readings: list[list[tuple[str, Args]]] = []
        for name, phrases in GRAMMAR.items():
            for phrase in phrases:
                args = phrase.match(text, self._masked)
                if args is not None:
                    reading = [(name, each) for each in args]
                    if reading not in readings:
                        readings.append(reading)
        if len(readings) > 1:
            raise NotUnderstood(self._masked.unmask(text), "It can be read in two ways.")
        if readings and self._semicolons and readings[0][0][0] == "shell.exec" and INLINE not in text:
            raise NotUnderstood(self._masked.unmask(text), "Put the command in backticks, so that its end is clear.")
        return readings[0] if readings else None


def _referents(plan: CallPlan | None, key: str) -> set[str]:
    calls = plan.calls if plan else []
    if key == "path":
        calls = [call for call in calls if call.tool in _NAMES_A_FILE]
    return {cast(str, call.args[key]) for call in calls if key in call.args}


_NOTHING_NEW: Final = "There is nothing new to answer: write a request."
_OTHER_CALLS: Final = (
    "I stop here: the calls above are not those that your message asks for. Say what to do next in a new message."
)
_MAX_REFERENCES: Final = 8
"""How many messages back "it" and "again" may refer."""
_WORD: Final = re.compile(r"\S*\s*")

_ADVICE: Final[tuple[tuple[str, str], ...]] = (
    (r"\b(?:don['’]?t|do not|never|not|unless|except|without|instead)\b", "Say only what to do, without exceptions."),
    (r"^(?:if|when|once|before|after|while|until)\b|\bif\b", "I do not decide about conditions; say only what to do."),
    (r"^(?:how|why|who|should|would|could|can|may|do|does|is|are|am|was|will)\b",
     "I follow requests; I cannot answer questions."),
    (r"https?://|\b(?:web|internet|website|google)\b",
     "To read a page, say: fetch https://…; to search, say: search the web for …."),
    (r"^(?:run|execute) (?:the |all |my )*(?:unit )?(?:tests?|build|linter|checks?|app|server|program)\b",
     "I do not know how that is run here; say the command, for example: run `make test`."),
    (r"^(?:(?:run|execute|start|launch)\b|\$)", "Put the command in backticks: run `ls -l`."),
    (r"^(?:ls|cat|cd|rm|mv|cp|mkdir|make|python3?|pytest|npm|git|pip|cargo|docker)\b",
     "To run it as a command, say: run `…`."),
    (r"^remember\b",
     "Say where it belongs, and put it in quotes unless you say “the namespace”: remember \"…\" in project/notes."),
    (r"^click\b", "Put a name of several words in quotes: click the button \"Sign in\"."),
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
    """Follows a small grammar of plain requests. Acts only on the user's own latest message."""

    provider = "operator"
    name = "operator"

    async def stream(
        self, messages: Sequence[Message], tools: Sequence[Tool], settings: Settings
    ) -> AsyncGenerator[ModelEvent]:
        offered = {tool.name: tool for tool in tools}
        text, calls = _reply(messages, offered)
        for piece in _WORD.findall(text):
            if piece:
                yield TextDelta(piece)
        yield PartEnded(Text(text))
        turn = sum(message.role == "assistant" for message in messages)
        for number, call in enumerate(calls):
            use = ToolUse(f"op_{turn}_{number}", call.tool, call.arguments)
            yield CallBegun(use.id, use.name)
            yield PartEnded(use)
        written = [text, *(call.tool + call.arguments for call in calls)]
        read = (_part_text(part) for message in messages for part in message.parts)
        usage = Usage(input=sum(map(_tokens, read)), output=sum(map(_tokens, written)), cost=Decimal(0))
        yield ReplyEnded("tool_use" if calls else "end", usage, self.name)


def _reply(messages: Sequence[Message], tools: Mapping[str, Tool]) -> tuple[str, Sequence[PlannedCall]]:
    now = read_progress(messages)
    if not now.requests:
        return help_text(tools), ()
    if now.answered:
        return _NOTHING_NEW, ()
    last = now.rounds[-1:]
    reports = [report(use, each.result(use)) for each in last for use in each.uses]
    try:
        plan = _plan_last(now.requests[-_MAX_REFERENCES:], tools)
    except NotUnderstood as error:
        return "\n\n".join((*reports, refusal(error, tools))), ()
    except HelpRequested:
        return "\n\n".join((*reports, help_text(tools))), ()
    return _next_step(plan, now.rounds, reports)


def _next_step(plan: CallPlan, rounds: Sequence[ToolRound], reports: list[str]) -> tuple[str, Sequence[PlannedCall]]:
    """Return the next step, provided that all earlier ones ran as planned."""
    done = len(rounds)
    if done > len(plan.steps) or not all(map(ToolRound.matches, rounds, plan.steps)):
        return "\n\n".join((*reports, _OTHER_CALLS)), ()
    total, left = len(plan.steps), plan.steps[done:]
    if rounds and rounds[-1].failed:
        stopped = (
            [f"I stopped at step {done} of {total}. Not done: {'; '.join(map(_describe_step, left))}."] if left else []
        )
        return "\n\n".join((*reports, *stopped)), ()
    if not left:
        return "\n\n".join((*reports, *([f"All {total} steps are done."] if total > 1 else []))), ()
    number = f"Step {done + 1} of {total}: " if total > 1 else ""
    return "\n\n".join((*reports, f"{number}I will {_describe_step(left[0])}.")), left[0]


def _plan_last(requests: Sequence[UserRequest], tools: Mapping[str, Tool]) -> CallPlan:
    """Plan the last request; earlier requests are planned only if it refers to them."""
    text, has_foreign_content = requests[-1]
    if has_foreign_content:
        raise NotUnderstood(text, "A file was put into it, and I only follow your own words.")

    def earlier() -> CallPlan | None:
        if len(requests) < 2:
            return None
        try:
            return _plan_last(requests[:-1], tools)
        except (NotUnderstood, HelpRequested):
            return None

    return Planner(tools, earlier).plan(text)


def _describe_step(step: Sequence[PlannedCall]) -> str:
    return " and ".join(describe_call(call.tool, call.args) for call in step)


def _part_text(part: Part) -> str:
    if isinstance(part, Text | Thinking):
        return part.text
    if isinstance(part, ToolUse):
        return part.name + part.arguments
    return part.output if isinstance(part, ToolResult) else ""


def _tokens(text: str) -> int:
    """Estimate: four characters per token. The operator costs nothing."""
    return (len(text) + 3) // 4


def help_text(tools: Collection[str]) -> str:
    """List one example per offered tool."""
    examples = [phrases[0].example for name, phrases in GRAMMAR.items() if name in tools]
    if not examples:
        return "None of the tools that I know how to use is offered here."
    listed = "\n".join(f"- {example}" for example in examples)
    return f"I understand requests such as these, one after the other with “then”:\n\n{listed}"


def refusal(error: NotUnderstood, tools: Mapping[str, Tool]) -> str:
    """Explain that nothing was called, and why."""
    advice = (text for pattern, text in _ADVICE if re.search(pattern, error.part, re.IGNORECASE))
    said = f"I did nothing, because {'of' if error.why else 'I do not understand'} this: {quoted(error.part)}."
    return "\n\n".join(filter(None, (said, error.why or next(advice, ""), help_text(tools))))

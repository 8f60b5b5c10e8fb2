"""Facts about a turn: the tool and outcome of each call, and the intent of the message."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Iterator, Sequence
from enum import Enum, auto
from typing import Any, Final, Protocol, cast

from msgspec import Struct

from holdfast.agent.guard import PastReply, ReplyCall, TurnHistory
from holdfast.config.config import GuardrailsConfig
from holdfast.contract.enums import Failure, State
from holdfast.contract.json import Args
from holdfast.contract.tool import Tool
from holdfast.guardrails.evidence import plain_path
from holdfast.guardrails.intent import EDIT, LIST, READ, SEARCH, EarlierContext, Intent, Kind, intent_of, is_assent

CHANGE_TOOLS: Final = frozenset({EDIT, "file.write"})
READ_ONLY_TOOLS: Final = frozenset(
    {READ, LIST, "file.find", SEARCH, "output.read", "git.status", "git.diff", "git.log"}
)
"""Tools that change nothing."""

RUNTIME_ID_PREFIX: Final = "runtime-"
"""Prefix of the ids of calls that the runtime makes itself."""

_BROKEN: Final = frozenset({Failure.TOOL_ERROR, Failure.TIMEOUT, Failure.INVALID_OUTPUT})
_BEFORE_IT_RAN: Final = frozenset({
    Failure.UNKNOWN_TOOL, Failure.NOT_ALLOWED, Failure.BAD_JSON, Failure.INVALID_ARGUMENTS, Failure.SECRET_UNAVAILABLE,
    Failure.DENIED_BY_MIDDLEWARE, Failure.DENIED_BY_POLICY, Failure.NOBODY_TO_ASK, Failure.PLANNED, Failure.REJECTED,
    Failure.TOO_DEEP,
})  # fmt: skip


class Outcome(Enum):
    """The outcome of a call, according to its typed result."""

    DONE = auto()
    FAILED = auto()
    """The tool ran and failed."""
    NOT_RUN = auto()
    """Denied, rejected or invalid."""
    UNCLEAR = auto()
    """Cancelled or lost: it may have run, wholly or in part."""
    GONE = auto()
    """There is no result any more."""


class CallFacts(Struct, frozen=True):
    """A call with its resolved tool, parsed arguments and outcome."""

    step: ReplyCall
    name: str
    """The tool's registered name, whichever alias the model wrote; for an unknown tool, the name as written."""
    args: Args
    """Empty if they cannot be parsed."""
    key: str
    """Equal for calls with the same tool and arguments."""

    @property
    def path(self) -> str:
        path = self.args.get("path")
        return path if isinstance(path, str) else ""

    @property
    def query(self) -> str | None:
        """The literal query of a search; None for a regular expression."""
        query = self.args.get("query")
        return query if isinstance(query, str) and not self.args.get("regex") else None

    @property
    def by_runtime(self) -> bool:
        return self.step.use.id.startswith(RUNTIME_ID_PREFIX)

    @property
    def outcome(self) -> Outcome:
        result = self.step.result
        if result is None:
            return Outcome.GONE
        if result.success:
            return Outcome.DONE
        if result.failure in _BROKEN and result.state is not State.CANCELLED:
            return Outcome.FAILED
        return Outcome.NOT_RUN if result.failure in _BEFORE_IT_RAN else Outcome.UNCLEAR

    @property
    def may_have_changed_files(self) -> bool:
        """Whether the tool can change something and may have run."""
        return self.name not in READ_ONLY_TOOLS and self.outcome is not Outcome.NOT_RUN

    @property
    def is_failed_change(self) -> bool:
        """Whether it is an edit or a write that failed, and so changed nothing."""
        return self.name in CHANGE_TOOLS and self.outcome is Outcome.FAILED

    @property
    def settles(self) -> bool:
        """Whether a user rejected the call, or it may have changed something without failing."""
        result = self.step.result
        rejected = result is not None and result.failure is Failure.REJECTED
        return rejected or (self.may_have_changed_files and not self.is_failed_change)

    @property
    def is_hidden(self) -> bool:
        """Whether the model called a tool that it does not have."""
        result = self.step.result
        return result is not None and result.failure in (Failure.NOT_ALLOWED, Failure.UNKNOWN_TOOL)

    @property
    def is_reported_success(self) -> bool:
        """Whether the model was told of a success whose typed result is gone."""
        return self.step.result is None and self.step.sent is not None and not self.step.sent.error

    @property
    def is_success(self) -> bool:
        """Whether the call succeeded, by its typed result or, if that is gone, by what the model was told."""
        return self.is_reported_success or self.outcome is Outcome.DONE

    @property
    def facts(self) -> Args:
        """The structured content of a successful result; empty otherwise."""
        result = self.step.result
        structured = None if result is None or not result.success else result.structured
        return structured if isinstance(structured, dict) else {}

    @property
    def file(self) -> str:
        """The path in the typed result, or else the requested path."""
        path = self.facts.get("path")
        return path if isinstance(path, str) and path else self.path

    @property
    def content(self) -> str | None:
        """The text of a read; None if it is not text."""
        content = self.facts.get("content") if self.facts.get("encoding") == "utf8" else None
        return content if isinstance(content, str) else None


def is_by_runtime(each: PastReply) -> bool:
    """Whether the runtime made all calls of a reply."""
    return bool(each.calls) and all(step.use.id.startswith(RUNTIME_ID_PREFIX) for step in each.calls)


class CallStyle(Protocol):
    """How the model writes calls."""

    def name(self, tool: Tool) -> str:
        """Return the name of a tool as the model writes it."""
        ...

    def call(self, tool: Tool, args: Args) -> str:
        """Return a call as the model writes it."""
        ...


class ToolIndex:
    """The tools that a caller can see, by each of their names."""

    def __init__(self, tools: Sequence[Tool], style: CallStyle) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._style = style
        self._names = {name: tool.name for tool in tools for name in (*tool.names, tool.api_name)}

    def has(self, *names: str) -> bool:
        return all(name in self._names for name in names)

    def written(self, name: str) -> str:
        """Return the name as the model writes it."""
        tool = self._tools.get(name)
        return name if tool is None else self._style.name(tool)

    def written_call(self, name: str, args: Args) -> str:
        """Return a call as the model writes it. The tool must be one of these."""
        return self._style.call(self._tools[name], args)

    def called(self, step: ReplyCall) -> CallFacts:
        name = self._names.get(step.use.name, step.use.name)
        args = step.use.parsed
        return CallFacts(step, name, args or {}, call_key(name, step.use.arguments if args is None else args))

    def calls(self, rounds: Sequence[PastReply]) -> Iterator[CallFacts]:
        return (self.called(step) for each in rounds for step in each.calls)


def call_key(name: str, args: Args | str) -> str:
    """Return a text that is equal for calls with the same tool and arguments."""
    if isinstance(args, str):
        return json.dumps([name, args])
    said: dict[str, Any] = {key: value for key, value in args.items() if value is not None and key != "label"}
    if isinstance(said.get("path"), str):
        said["path"] = plain_path(cast(str, said["path"]))
    return json.dumps([name, said], sort_keys=True)


class TurnFacts(Struct, frozen=True, kw_only=True):
    """The constant part of a turn: rules, tools, and the intent of the message."""

    rules: GuardrailsConfig
    tools: ToolIndex
    intent: Intent | None = None
    """None if the message includes text that is not the user's, because its words then say nothing about the intent."""
    scope_missing: bool = False
    """A search of this turn has shown that the folder in the message does not exist."""

    @property
    def scope(self) -> str | None:
        """The folder that searches are limited to, unless a search has shown that it does not exist."""
        return self.intent.scope if self.rules.scope and self.intent is not None and not self.scope_missing else None


def facts_of(rules: GuardrailsConfig, tools: ToolIndex, turn: TurnHistory) -> TurnFacts:
    intent = None if turn.has_foreign_text else _asked(turn, tools)
    scope_missing = intent is not None and any(
        # Words such as "client/server" only look like a path.
        called.name == SEARCH and called.path == intent.scope and called.outcome is Outcome.FAILED
        for called in tools.calls(turn.replies)
    )
    return TurnFacts(rules=rules, tools=tools, intent=intent, scope_missing=scope_missing)


def _asked(turn: TurnHistory, tools: ToolIndex) -> Intent:
    """Return the intent of the message. What a bare assent ("yes") agrees to is in the replies before it."""
    if is_assent(turn.prompt):
        return Intent(kind=Kind.OTHER)
    return intent_of(turn.prompt, earlier_context(turn.earlier_replies, tools))


def earlier_context(rounds: Sequence[PastReply], tools: ToolIndex) -> EarlierContext:
    """Return the last read, query and folder of earlier turns."""
    read = query = folder = None
    for called in (tools.called(step) for each in reversed(rounds) for step in reversed(each.calls)):
        if called.name not in (READ, LIST, SEARCH) or not called.is_success:
            continue
        if called.name == READ:
            read = read or called.file
            folder = folder or posixpath.dirname(called.path.replace("\\", "/")) or "."
        else:
            query = query or (called.query if called.name == SEARCH else None)
            folder = folder or called.path or "."
        if read and query and folder:
            break
    return EarlierContext(read, query, folder)

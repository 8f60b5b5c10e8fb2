"""Facts about a turn: the tool and outcome of each call, the intent of the message, and evidence from earlier turns."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Callable, Iterator, Sequence
from enum import Enum, auto
from typing import Any, Final, cast

from msgspec import Struct
from msgspec.structs import replace

from holdfast.agent.guard import PastReply, ReplyCall, TurnHistory
from holdfast.agent.surface import Surface
from holdfast.config.config import GuardrailsConfig
from holdfast.contract.enums import Failure, State
from holdfast.contract.json import Args
from holdfast.contract.tool import Tool
from holdfast.guardrails.evidence import is_evidence_alone, is_inside, is_plain, plain_path
from holdfast.guardrails.intent import EDIT, LIST, READ, SEARCH, EarlierContext, Intent, Mode, intent_of, is_assent
from holdfast.models.requests.words import paths_in

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


ToolNaming = Callable[[Tool], str]
"""Returns a tool's name as the model writes it."""


class ToolIndex:
    """The tools that a caller can see, by each of their names."""

    def __init__(self, tools: Sequence[Tool], written: ToolNaming) -> None:
        self._tools = tuple(tools)
        self._written = {tool.name: written(tool) for tool in tools}
        self._names = {name: tool.name for tool in tools for name in (*tool.names, tool.api_name)}

    def has(self, *names: str) -> bool:
        return all(name in self._names for name in names)

    def written(self, name: str) -> str:
        """Return the name as the model writes it."""
        return self._written.get(name, name)

    def on_surface(self, surface: Surface) -> tuple[str, ...]:
        return tuple(sorted(tool.name for tool in surface.select(self._tools)))

    def called(self, step: ReplyCall) -> CallFacts:
        name = self._names.get(step.use.name, step.use.name)
        args = step.use.parsed
        return CallFacts(step, name, args or {}, _key(name, step.use.arguments if args is None else args))

    def calls(self, rounds: Sequence[PastReply]) -> Iterator[CallFacts]:
        return (self.called(step) for each in rounds for step in each.calls)


def _key(name: str, args: Args | str) -> str:
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
    named: tuple[str, ...] = ()
    """Files that the message names."""
    surface_tools: tuple[str, ...] = ()
    """The available tools of the surface."""
    scope_missing: bool = False
    """A search of this turn has shown that the folder in the message does not exist."""
    earlier_evidence: tuple[str, ...] = ()
    """Files that were read before this message and answer it."""

    @property
    def investigates(self) -> bool:
        """Whether the answer must be found in the code and the tools to find it are available."""
        return self.intent is not None and self.intent.investigates and self.tools.has(SEARCH, READ)

    @property
    def needs_evidence(self) -> bool:
        return self.rules.evidence and self.investigates

    @property
    def mode(self) -> Mode:
        return Mode.GENERAL if self.intent is None else self.intent.mode

    @property
    def files_needed(self) -> int:
        """The number of files that must show the answer, if there are as many."""
        return 2 if self.intent is not None and self.intent.broad else 1

    @property
    def surface(self) -> Surface | None:
        return self.intent.surface if self.rules.surfaces and self.intent is not None else None

    @property
    def scope(self) -> str | None:
        """The folder that calls and answers are limited to, unless a search has shown that it does not exist."""
        return self.intent.scope if self.rules.scope and self.intent is not None and not self.scope_missing else None

    def shows(self, path: str, content: str) -> bool:
        """Whether a file that no search found is evidence. The result is the same throughout a turn."""
        if self.intent is None:
            return False
        if self.rules.scope and self.intent.scope is not None and not is_inside(path, self.intent.scope):
            return False
        return is_evidence_alone(self.mode, path, content, self.intent.names)


def facts_of(rules: GuardrailsConfig, tools: Sequence[Tool], turn: TurnHistory, written: ToolNaming) -> TurnFacts:
    catalogue = ToolIndex(tools, written)
    intent, named = (None, ()) if turn.has_foreign_text else _asked(turn, catalogue)
    if intent is None:
        return TurnFacts(rules=rules, tools=catalogue, named=named)
    scope_missing = intent.scope is not None and any(
        # Words such as "client/server" only look like a path.
        called.name == SEARCH and called.path == intent.scope and called.outcome is Outcome.FAILED
        for called in catalogue.calls(turn.replies)
    )
    surface_tools = catalogue.on_surface(intent.surface)
    found = TurnFacts(
        rules=rules,
        tools=catalogue,
        intent=intent,
        named=named,
        surface_tools=surface_tools,
        scope_missing=scope_missing,
    )
    return (
        replace(found, earlier_evidence=tuple(_earlier_evidence(found, turn.earlier_replies)))
        if found.needs_evidence
        else found
    )


def _asked(turn: TurnHistory, tools: ToolIndex) -> tuple[Intent | None, tuple[str, ...]]:
    """Return the intent of the message and the files it names.

    A bare assent ("yes") has the surface of the last message that says more; what it agrees to is in the replies
    between them.
    """
    earlier = earlier_context(turn.earlier_replies, tools)
    if not is_assent(turn.prompt):
        return intent_of(turn.prompt, earlier), tuple(paths_in(turn.prompt))
    meant = next((words for words in reversed(turn.earlier_prompts) if words is None or not is_assent(words)), "")
    if meant is None:
        return None, ()
    return Intent(surface=intent_of(meant, earlier).surface), tuple(paths_in(meant))


def _earlier_evidence(turn: TurnFacts, earlier: Sequence[PastReply]) -> Iterator[str]:
    """Yield earlier reads that answer the message, unless a later call or one of the same reply may have changed the
    file."""
    contents: dict[str, str] = {}
    for each in earlier:
        calls = [turn.tools.called(step) for step in each.calls]
        changes = [called for called in calls if called.may_have_changed_files]
        for called in changes:
            changed = plain_path(called.file) if called.name in CHANGE_TOOLS and is_plain(called.file) else ""
            contents = {path: content for path, content in contents.items() if changed and path != changed}
        for called in calls:
            if not changes and called.name == READ and called.content is not None:
                path = plain_path(called.file)
                contents[path] = contents.get(path, "") + called.content
    return (path for path, content in contents.items() if turn.shows(path, content))


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

"""Calls as the guard-rails see them: which tool is meant, with which arguments, and how it ended."""

from __future__ import annotations

import json
from collections.abc import Sequence
from enum import Enum, auto
from typing import Any, Final, cast

from msgspec import Struct

from holdfast.agent.guard.evidence import plain_path
from holdfast.agent.guarding import Round, Step
from holdfast.agent.surfaces import Surface
from holdfast.contract.errors import BadJson
from holdfast.contract.message import ToolUse
from holdfast.contract.result import Result
from holdfast.contract.tool import Tool
from holdfast.contract.values import Args, Json, parse_json
from holdfast.contract.vocabulary import Failure, State

READ: Final = "file.read"
LIST: Final = "file.list"
FIND: Final = "file.find"
SEARCH: Final = "code.search"
EDIT: Final = "file.edit"
WRITE: Final = "file.write"
CHANGES: Final = frozenset({EDIT, WRITE})
LOOKING: Final = frozenset({READ, LIST, FIND, SEARCH, "output.read", "git.status", "git.diff", "git.log"})
"""Calls that leave everything as it is."""

RUNTIME: Final = "runtime-"
"""How the ids of calls begin that no model asked for."""

_BROKEN: Final = frozenset({Failure.TOOL_ERROR, Failure.TIMEOUT, Failure.INVALID_OUTPUT})
_BEFORE_IT_RAN: Final = frozenset(
    {
        Failure.UNKNOWN_TOOL,
        Failure.NOT_ALLOWED,
        Failure.BAD_JSON,
        Failure.INVALID_ARGUMENTS,
        Failure.SECRET_UNAVAILABLE,
        Failure.DENIED_BY_MIDDLEWARE,
        Failure.DENIED_BY_POLICY,
        Failure.NOBODY_TO_ASK,
        Failure.PLANNED,
        Failure.REJECTED,
        Failure.TOO_DEEP,
    }
)


class End(Enum):
    """What became of a call, by its typed result."""

    DONE = auto()
    FAILED = auto()
    """The tool itself could not do it."""
    NOT_RUN = auto()
    """Denied, rejected, or not a call at all."""
    UNCLEAR = auto()
    """Cancelled, or lost: it may have run, or run in part."""
    GONE = auto()
    """Nobody knows any more."""


class Called(Struct, frozen=True):
    """A call, read as far as it can be."""

    id: str
    name: str
    """The tool's own name, whichever was written; for a tool nobody knows, what was written."""
    args: Args
    """Empty where they cannot be read."""
    key: str
    """The same for calls that ask for the same."""

    @property
    def path(self) -> str:
        return _text(self.args.get("path"))

    @property
    def query(self) -> str | None:
        """What a search takes literally; None where it does not."""
        query = self.args.get("query")
        return query if isinstance(query, str) and not self.args.get("regex") else None

    @property
    def by_runtime(self) -> bool:
        return self.id.startswith(RUNTIME)


class Catalogue:
    """The tools a caller can see, by every name they have."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        self._tools = tuple(tools)
        self._names = {name: tool.name for tool in tools for name in (*tool.names, tool.api_name)}

    def has(self, *names: str) -> bool:
        return all(name in self._names for name in names)

    def left_by(self, surface: Surface) -> tuple[str, ...]:
        return tuple(sorted(tool.name for tool in surface.of(self._tools)))

    def called(self, use: ToolUse) -> Called:
        name = self._names.get(use.name, use.name)
        args = _arguments(use.arguments)
        return Called(use.id, name, args or {}, _key(name, use.arguments if args is None else args))


def end_of(step: Step) -> End:
    result = step.result
    if result is None:
        return End.GONE
    if result.success:
        return End.DONE
    if result.failure in _BROKEN and result.state is not State.CANCELLED:
        return End.FAILED
    return End.NOT_RUN if result.failure in _BEFORE_IT_RAN else End.UNCLEAR


def may_have_changed(called: Called, step: Step) -> bool:
    """Whether it could change something, and is not known not to have run."""
    return called.name not in LOOKING and end_of(step) is not End.NOT_RUN


def is_told(step: Step) -> bool:
    """Whether a call went well as far as the model was told, where its typed result is gone."""
    return step.result is None and step.told is not None and not step.told.error


def is_by_runtime(each: Round) -> bool:
    """Whether the runtime asked for all calls of a round."""
    return bool(each.steps) and all(step.use.id.startswith(RUNTIME) for step in each.steps)


def facts(result: Result | None) -> Args:
    """The typed form of a result that was a success; empty for any other."""
    structured = None if result is None or not result.success else result.structured
    return structured if isinstance(structured, dict) else {}


def is_inside(path: str, folder: str) -> bool:
    """By the names alone; a path that leads up again is not taken for inside."""
    inner, outer = plain_path(path), plain_path(folder)
    return ".." not in inner.split("/") and (not outer or inner == outer or inner.startswith(f"{outer}/"))


def _arguments(text: str) -> Args | None:
    try:
        value = parse_json(text.strip() or "{}")
    except BadJson:
        return None
    return value if isinstance(value, dict) else None


def _key(name: str, args: Args | str) -> str:
    if isinstance(args, str):
        return json.dumps([name, args])
    said: dict[str, Any] = {key: value for key, value in args.items() if value is not None and key != "label"}
    if isinstance(said.get("path"), str):
        said["path"] = plain_path(cast(str, said["path"]))
    return json.dumps([name, said], sort_keys=True)


def _text(value: Json) -> str:
    return value if isinstance(value, str) else ""

"""What a document does to its options, one step after the other, under the seed's names; then worked out at once.

Mistakes are collected, each with its line, and the steps that are right still count.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar, cast

from msgspec import Struct

from holdfast.agent.conversation import Diagnostic
from holdfast.chat.frontmatter import flemma_options as seed
from holdfast.chat.frontmatter.evaluation import Baseline
from holdfast.chat.frontmatter.flemma_options import Path
from holdfast.config.merge import NameList
from holdfast.config.options import PRESET_NAME, check_type, short_repr
from holdfast.contract.errors import ConfigError
from holdfast.contract.names import MCP_PREFIX, is_pattern, mcp_server_name
from holdfast.registry.selection import Edit
from holdfast.rules.policy import GROUP_PREFIX, GROUPS, PLANNED_TOOLS
from holdfast.rules.resolvers import BUILT_IN_PRESETS
from holdfast.text.escape import escape
from holdfast.text.suggest import did_you_mean

PRESET: Final = "$"
_MAX_SHOWN: Final = 80


class UnknownName(Exception):
    """No tool and no preset has this name; the message says what to write instead."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        close = did_you_mean(name, known)
        hint = f". Did you mean '{close}'?" if close else "; use names that `holdfast tools` shows."
        self.name = name
        super().__init__(f"unknown value '{escape(name[:_MAX_SHOWN])}'{hint}")


class UnavailableTool(Exception):
    """The tool exists, but not for this document."""


class KnownNames:
    def __init__(self, base: Baseline, presets: Iterable[str] = ()) -> None:
        self._base = base
        self._canonical = {name: tool.name for tool in base.tools for name in (*tool.names, tool.api_name)}
        self._shown = [name for tool in base.tools for name in tool.names]
        self._groups = GROUPS.union(*(tool.groups for tool in base.tools))
        self._presets = {*BUILT_IN_PRESETS, *base.config.approval.presets, *presets}
        listed = base.config.approval.auto_approve
        self._listed = frozenset((*(() if isinstance(listed, str) else listed), *base.config.approval.importable))

    def rule(self, name: str) -> str:
        """An entry of `auto_approve`, with a tool by its own name."""
        if name in self._presets or name in self._listed:
            return self._canonical.get(name, name)
        if name.startswith(PRESET):
            raise UnknownName(name, sorted(self._presets))
        return self._tool_or_set(name, absent=(*self._base.hidden, *PLANNED_TOOLS))

    def tool(self, name: str) -> str:
        """An entry of the document's tools."""
        if name in self._base.hidden:
            raise UnavailableTool(f"The tool '{escape(name[:_MAX_SHOWN])}' is not available here and is left out.")
        return self._tool_or_set(name)

    def canonical(self, name: str) -> str:
        return self._canonical.get(name, name)

    def _may_come(self, name: str) -> bool:
        """A tool of a configured MCP server: which ones it has is known when it runs, and not for good."""
        server = mcp_server_name(name)
        tool = name.removeprefix(f"{MCP_PREFIX}{server}").removeprefix(":")
        return server in self._base.config.mcp.servers and bool(tool)

    def _tool_or_set(self, name: str, absent: tuple[str, ...] = ()) -> str:
        if name in self._canonical:
            return self._canonical[name]
        if name in absent or is_pattern(name) or self._may_come(name):
            return name
        if name.startswith(GROUP_PREFIX):
            group = name.removeprefix(GROUP_PREFIX)
            if group in self._groups or any(tool.in_group(group) for tool in self._base.tools):
                return name
            raise UnknownName(name, sorted(GROUP_PREFIX + group for group in self._groups))
        raise UnknownName(name, self._shown)


class ListEdit(Struct, frozen=True):
    """`set`, `append`, `prepend` or `remove`, and the names it is given."""

    operation: str
    names: tuple[str, ...]
    path: tuple[str, ...]
    """The option, as the document names it."""
    line: int | None = None


Report = Callable[[Exception, ListEdit], None]


def resolve_rules(
    steps: Iterable[ListEdit], vocabulary: KnownNames, base: tuple[str, ...] | str = (), excluded: Iterable[str] = ()
) -> NameList:
    """An approval list, with tools by their own names, so that every spelling removes and brings back every other."""
    start = () if isinstance(base, str) else base
    current = NameList(tuple(map(vocabulary.canonical, start)), tuple(map(vocabulary.canonical, excluded)))
    for step in steps:
        current = getattr(current, step.operation)(_known(step, vocabulary.rule))
    return current


def resolve_tools(steps: Iterable[ListEdit], vocabulary: KnownNames) -> tuple[Edit, ...]:
    """The edits to the document's tools that mean something here."""
    return tuple((step.operation, tuple(_known(step, vocabulary.tool))) for step in steps)


def _known(step: ListEdit, look_up: Callable[[str], str], report: Report | None = None) -> list[str]:
    found: list[str] = []
    for name in step.names:
        try:
            found.append(look_up(name))
        except (UnknownName, UnavailableTool) as error:
            if report is not None:
                report(error, step)
    return found


T = TypeVar("T")
Table = dict[str, Any]
Where = Callable[[Path], str]
"""How messages call an option."""
_SIDES: Final = ("approve", "deny")
_NETWORK: Final = {True: "on", False: "off"}


class InvalidEdit(Exception):
    """A step that cannot be meant; the message is what follows the option's name."""


class ListValue(Struct, frozen=True):
    """A list under edit: the option it began as, and what was done to it since."""

    origin: Path
    steps: tuple[ListEdit, ...] = ()


class ResolvedOptions(Struct, frozen=True):
    settings: Table
    tool_edits: tuple[Edit, ...]
    function: int | None
    diagnostics: tuple[Diagnostic, ...]


class OptionEdits:
    """Every public method takes the option as the document names it, and collects the mistake if it is one."""

    def __init__(self, base: Baseline, where: Where) -> None:
        self._base = base
        self._where = where
        self._lists: dict[Path, ListValue] = {path: ListValue(path) for path in seed.LISTS}
        self._function: int | None = None
        self._steps: list[tuple[Path, ListEdit]] = []
        """All that was ever said about lists: also names that later steps took out again are checked."""
        self._presets: dict[str, dict[str, ListEdit]] = {}
        self._settings: dict[Path, Any] = {}
        self._model: dict[Path, str] = {}
        self._diagnostics: list[Diagnostic] = []

    def add_error(self, message: str, line: int | None = None) -> None:
        self._diagnostics.append(Diagnostic("error", message, line))

    def assign(self, path: Path, value: object, line: int | None = None) -> None:
        """Give an option a single value, a list of them, or a list made from its own."""
        self._try(path, line, lambda: self._assign(path, seed.real_path(path), value, line))

    def edit(self, path: Path, operation: str, names: object, line: int | None = None) -> None:
        """Change the list an option holds."""
        changed = self.derive(path, self.current(path, line), operation, names, line)
        if changed is not None:
            self.assign(path, changed, line)

    def current(self, path: Path, line: int | None = None) -> ListValue | None:
        """The list an option holds now; None, with a complaint, if it holds none."""
        return self._try(path, line, lambda: self._current(seed.real_path(path)))

    def derive(
        self, path: Path, value: ListValue | None, operation: str, names: object, line: int | None = None
    ) -> ListValue | None:
        """A list like the one given, and changed."""
        if value is None:
            return None
        return self._try(path, line, lambda: self._derived(path, value, operation, names, line))

    def set_function(self, path: Path, function: int, line: int | None = None) -> None:
        """Let a function of the document decide about calls."""
        if seed.real_path(path) != seed.AUTO_APPROVE:
            self.add_error(f"{self._where(path)}: a function can be given only to tools.auto_approve.", line)
            return
        self._function = function
        self._lists[seed.AUTO_APPROVE] = ListValue(seed.AUTO_APPROVE)

    def clear(self, path: Path, line: int | None = None) -> None:
        """Back to what holds without the document."""
        real = seed.real_path(path)
        if real in self._lists:
            self._lists[real] = ListValue(real)
            self._function = None if real == seed.AUTO_APPROVE else self._function
        elif real in self._model:
            del self._model[real]
        elif seed.is_unknown(real, self._base.config):
            self.add_error(f"{self._where(path)}: {self._unknown(real)}", line)
        else:
            self._settings.pop(seed.target(real, self._base.config) or (), None)

    def resolve(self) -> ResolvedOptions:
        vocabulary = KnownNames(self._base, self._presets)
        for origin, step in self._steps:
            _known(step, vocabulary.tool if origin == seed.TOOLS else vocabulary.rule, self._report)
        settings: Table = {}
        if self._model:
            self._settings["model", "name"] = self._model_name()
        for place, value in self._settings.items():
            set_nested(settings, place, value)
        for name, sides in self._presets.items():
            lists = {side: list(resolve_rules((step,), vocabulary).items) for side, step in sides.items()}
            set_nested(settings, ("approval", "presets", name), lists)
        steps = self._lists[seed.AUTO_APPROVE].steps
        if steps:
            approval = self._base.config.approval
            kept = resolve_rules(steps, vocabulary, approval.auto_approve, approval.excluded)
            changes = {"set": list(kept.items)} | ({"remove": list(kept.excluded)} if kept.excluded else {})
            set_nested(settings, ("approval", "auto_approve"), changes)
        chosen = resolve_tools(self._lists[seed.TOOLS].steps, vocabulary)
        return ResolvedOptions(settings, chosen, self._function, tuple(self._diagnostics))

    def _try(self, path: Path, line: int | None, action: Callable[[], T]) -> T | None:
        try:
            return action()
        except InvalidEdit as mistake:
            self.add_error(f"{self._where(path)}: {mistake}", line)
            return None

    def _report(self, problem: Exception, step: ListEdit) -> None:
        if not isinstance(problem, UnavailableTool):
            self.add_error(f"{self._where(step.path)}: {problem}", step.line)
        elif step.operation != "remove":
            self._diagnostics.append(Diagnostic("warning", str(problem), step.line))

    def _step(self, origin: Path, operation: str, names: object, path: Path, line: int | None) -> ListEdit:
        step = ListEdit(operation, _names(names), path, line)
        self._steps.append((origin, step))
        return step

    def _derived(self, path: Path, value: ListValue, operation: str, names: object, line: int | None) -> ListValue:
        return ListValue(value.origin, (*value.steps, self._step(value.origin, operation, names, path, line)))

    def _assign(self, path: Path, real: Path, value: object, line: int | None) -> None:
        if real in self._lists:
            self._assign_list(path, real, value, line)
        elif isinstance(value, ListValue):
            raise InvalidEdit("it cannot take the list of another option; write the names out.")
        elif real[:2] == seed.PRESETS:
            self._assign_preset(path, real[2:], value, line)
        elif real in (seed.MODEL, seed.PROVIDER):
            self._model[real] = _checked(value, ("model", "name"))
        elif real == seed.AUTOPILOT and value != []:
            self._put((*real, "enabled"), value)
        elif real[:1] == seed.SANDBOX:
            self._assign_sandbox(real, value)
        elif value != [] or seed.is_unknown(real, self._base.config) or self._target(real) is not None:
            # An empty table where options have names sets none of them.
            self._put(real, value)

    def _assign_list(self, path: Path, real: Path, value: object, line: int | None) -> None:
        if isinstance(value, ListValue):
            if value.origin != real:
                raise InvalidEdit("it cannot take the list of another option; write the names out.")
            self._lists[real] = value
        else:
            self._lists[real] = ListValue(real, (self._step(real, "set", value, path, line),))
        if real == seed.AUTO_APPROVE:
            self._function = None

    def _assign_preset(self, path: Path, rest: Path, value: object, line: int | None) -> None:
        if rest and not re.fullmatch(PRESET_NAME, rest[0]):
            raise InvalidEdit("the name of a preset begins with `$`, like '$mine'; rename it.")
        if len(rest) == 2 and rest[1] in _SIDES:
            step = self._step(seed.PRESETS, "set", value, path, line)
            self._presets.setdefault(rest[0], {})[rest[1]] = step
        elif len(rest) == 1 and value == []:
            self._presets.setdefault(rest[0], {})
        elif rest or value != []:
            raise InvalidEdit("a preset is a table with the lists 'approve' and 'deny'.")

    def _assign_sandbox(self, real: Path, value: object) -> None:
        if real in (seed.SANDBOX, (*seed.SANDBOX, "enabled")):
            if value == [] and real == seed.SANDBOX:
                return
            if not isinstance(value, bool):
                raise InvalidEdit(f"expected true or false, got {short_repr(value)}.")
            if not value or self._base.config.sandbox.mode == "off":
                self._settings["sandbox", "mode"] = "auto" if value else "off"
        elif real == (*seed.SANDBOX, "backend") and value == "required":
            self._settings["sandbox", "mode"] = "required"
        elif real[-1] == "network" and isinstance(value, bool):
            self._settings["sandbox", "network"] = _NETWORK[value]
        elif value != [] or real != (*seed.SANDBOX, "policy"):
            self._put(real, value)

    def _put(self, real: Path, value: object) -> None:
        place = self._target(real)
        if place is None:
            raise InvalidEdit(self._unknown(real))
        self._settings[place] = _checked(value, place)

    def _current(self, real: Path) -> ListValue:
        if real not in self._lists:
            unknown = seed.is_unknown(real, self._base.config)
            raise InvalidEdit(self._unknown(real) if unknown else "it is not a list; assign a value to it instead.")
        value = self._lists[real]
        outer = self._base.config.approval.auto_approve
        if real == seed.AUTO_APPROVE and (self._function is not None or (not value.steps and isinstance(outer, str))):
            raise InvalidEdit("it is a function, there is no list to change; give a whole list.")
        return value

    def _target(self, real: Path) -> Path | None:
        return seed.target(real, self._base.config)

    def _unknown(self, real: Path) -> str:
        name, known = seed.known_beside(real, self._base.config)
        if known and not seed.is_unknown(real, self._base.config):
            return f"it takes no single value; set one of {', '.join(known)}."
        close = did_you_mean(name, known)
        hint = f". Did you mean '{close}'?" if close else f"; known here are {', '.join(known)}."
        return f"unknown option '{escape(name[:80])}'{hint if known else '; it has no options of its own.'}"

    def _model_name(self) -> str:
        outer = self._base.config.model.name
        before = outer.partition(":")[0]
        model, provider = self._model.get(seed.MODEL), self._model.get(seed.PROVIDER)
        if model is None:
            if provider != before:
                name = self._where(seed.PROVIDER)
                self.add_error(
                    f"{name}: no model of {short_repr(provider)} is named; set {self._where(seed.MODEL)} too."
                )
            return outer
        if provider is not None:
            return model if model.startswith(f"{provider}:") else f"{provider}:{model}"
        known = seed.providers(self._base.config)
        whole = model.partition(":")[0] in known or model == "operator" or before not in known
        return model if whole else f"{before}:{model}"


def _checked(value: object, place: Path) -> Any:
    given = int(value) if isinstance(value, float) and value.is_integer() else value
    try:
        check_type(given, seed.kind_of(place), "")
    except ConfigError as error:
        raise InvalidEdit(str(error).removeprefix(": ")) from None
    return given


def _names(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, list):
        raise InvalidEdit(f"expected a list of names, got {short_repr(value)}.")
    names: list[str] = []
    for item in cast("list[object]", value):
        if not isinstance(item, str):
            raise InvalidEdit(f"expected a list of names, got {short_repr(item)} in it.")
        names.append(item)
    return tuple(names)


def set_nested(table: Table, place: Path, value: object) -> None:
    for name in place[:-1]:
        table = table.setdefault(name, {})
    table[place[-1]] = value

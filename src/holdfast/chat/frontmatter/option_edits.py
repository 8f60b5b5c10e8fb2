"""Edits of options in a frontmatter, under Flemma's names, resolved against the configuration at the end.

Errors are collected with their lines; valid edits still apply.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from typing import Any, Final, TypeVar, cast

from msgspec import Struct

from holdfast.agent.conversation import Diagnostic
from holdfast.chat.frontmatter import flemma_options as flemma
from holdfast.chat.frontmatter.evaluation import Baseline
from holdfast.chat.frontmatter.flemma_options import Path
from holdfast.config.merge import NameList
from holdfast.config.options import PRESET_NAME, check_type, short_repr
from holdfast.contract.errors import ConfigError
from holdfast.contract.names import GROUP_PREFIX, MCP_PREFIX, is_pattern, mcp_server_name
from holdfast.registry.selection import Edit
from holdfast.rules.policy import GROUPS
from holdfast.rules.resolvers import BUILT_IN_PRESETS
from holdfast.text.escape import escape
from holdfast.text.suggest import did_you_mean

PRESET: Final = "$"
_MAX_SHOWN: Final = 80


class UnknownName(Exception):
    """No tool or preset has this name."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        close = did_you_mean(name, known)
        hint = f". Did you mean '{close}'?" if close else ". `holdfast tools` lists the names."
        self.name = name
        super().__init__(f"unknown value '{escape(name[:_MAX_SHOWN])}'{hint}")


class UnavailableTool(Exception):
    """The tool exists, but the document may not use it."""


class KnownNames:
    """The tool, group and preset names that a document may use."""

    def __init__(self, baseline: Baseline, presets: Iterable[str] = ()) -> None:
        self._baseline = baseline
        self._canonical = {name: tool.name for tool in baseline.tools for name in (*tool.names, tool.api_name)}
        self._shown = [name for tool in baseline.tools for name in tool.names]
        self._groups = GROUPS.union(*(tool.groups for tool in baseline.tools))
        self._presets = {*BUILT_IN_PRESETS, *baseline.config.approval.presets, *presets}
        listed = baseline.config.approval.auto_approve
        self._listed = frozenset((*(() if isinstance(listed, str) else listed), *baseline.config.approval.importable))

    def rule(self, name: str) -> str:
        """Resolve an entry of `auto_approve`; tools get their registered name."""
        if name in self._presets or name in self._listed:
            return self._canonical.get(name, name)
        if name.startswith(PRESET):
            raise UnknownName(name, sorted(self._presets))
        return self._tool_or_set(name, absent=self._baseline.hidden)

    def tool(self, name: str) -> str:
        """Resolve an entry of the document's tools."""
        if name in self._baseline.hidden:
            raise UnavailableTool(f"The tool '{escape(name[:_MAX_SHOWN])}' is not available here and was ignored.")
        return self._tool_or_set(name)

    def canonical(self, name: str) -> str:
        return self._canonical.get(name, name)

    def _is_server_tool(self, name: str) -> bool:
        """Whether it names a tool of a configured MCP server, whose tools are known only while it runs."""
        server = mcp_server_name(name)
        tool = name.removeprefix(f"{MCP_PREFIX}{server}").removeprefix(":")
        return server in self._baseline.config.mcp.servers and bool(tool)

    def _tool_or_set(self, name: str, absent: Collection[str] = ()) -> str:
        if name in self._canonical:
            return self._canonical[name]
        if name in absent or is_pattern(name) or self._is_server_tool(name):
            return name
        if name.startswith(GROUP_PREFIX):
            group = name.removeprefix(GROUP_PREFIX)
            if group in self._groups or any(tool.in_group(group) for tool in self._baseline.tools):
                return name
            raise UnknownName(name, sorted(GROUP_PREFIX + group for group in self._groups))
        raise UnknownName(name, self._shown)


class ListEdit(Struct, frozen=True):
    """`set`, `append`, `prepend` or `remove` with names."""

    operation: str
    names: tuple[str, ...]
    path: tuple[str, ...]
    """The option as named in the document."""
    line: int | None = None


Report = Callable[[Exception, ListEdit], None]


def resolve_rules(
    edits: Iterable[ListEdit], known_names: KnownNames, base: tuple[str, ...] | str = (), excluded: Iterable[str] = ()
) -> NameList:
    """Resolve an approval list. Tools get their registered names, so that any spelling removes any other."""
    start = () if isinstance(base, str) else base
    current = NameList(tuple(map(known_names.canonical, start)), tuple(map(known_names.canonical, excluded)))
    for edit in edits:
        current = getattr(current, edit.operation)(_resolve_names(edit, known_names.rule))
    return current


def resolve_tools(edits: Iterable[ListEdit], known_names: KnownNames) -> tuple[Edit, ...]:
    """Resolve the edits of the document's tools, without unknown names."""
    return tuple((edit.operation, tuple(_resolve_names(edit, known_names.tool))) for edit in edits)


def _resolve_names(edit: ListEdit, look_up: Callable[[str], str], report: Report | None = None) -> list[str]:
    found: list[str] = []
    for name in edit.names:
        try:
            found.append(look_up(name))
        except (UnknownName, UnavailableTool) as error:
            if report is not None:
                report(error, edit)
    return found


T = TypeVar("T")
Table = dict[str, Any]
Where = Callable[[Path], str]
"""Returns the name of an option in messages."""
_SIDES: Final = ("approve", "deny")
_NETWORK: Final = {True: "on", False: "off"}


class InvalidEdit(Exception):
    """An invalid edit; the message follows the name of the option."""


class ListValue(Struct, frozen=True):
    """A list value: the option it comes from, and the edits since."""

    origin: Path
    edits: tuple[ListEdit, ...] = ()


class ResolvedOptions(Struct, frozen=True):
    settings: Table
    tool_edits: tuple[Edit, ...]
    function: int | None
    diagnostics: tuple[Diagnostic, ...]


class OptionEdits:
    """Collects edits and errors. Options are given as named in the document."""

    def __init__(self, baseline: Baseline, where: Where) -> None:
        self._baseline = baseline
        self._where = where
        self._lists: dict[Path, ListValue] = {path: ListValue(path) for path in flemma.LISTS}
        self._function: int | None = None
        self._list_edits: list[tuple[Path, ListEdit]] = []
        """All edits of lists, including those that later edits undo: their names are checked too."""
        self._presets: dict[str, dict[str, ListEdit]] = {}
        self._settings: dict[Path, Any] = {}
        self._model: dict[Path, str] = {}
        self._diagnostics: list[Diagnostic] = []

    def add_error(self, message: str, line: int | None = None) -> None:
        self._diagnostics.append(Diagnostic("error", message, line))

    def assign(self, path: Path, value: object, line: int | None = None) -> None:
        """Set an option to a value, a list of names, or a list derived from its own."""
        self._try(path, line, lambda: self._assign(path, flemma.real_path(path), value, line))

    def edit(self, path: Path, operation: str, names: object, line: int | None = None) -> None:
        """Edit the list of an option."""
        changed = self.derive(path, self.current(path, line), operation, names, line)
        if changed is not None:
            self.assign(path, changed, line)

    def current(self, path: Path, line: int | None = None) -> ListValue | None:
        """The current list of an option; None, with an error, if it has none."""
        return self._try(path, line, lambda: self._current(flemma.real_path(path)))

    def derive(
        self, path: Path, value: ListValue | None, operation: str, names: object, line: int | None = None
    ) -> ListValue | None:
        """A copy of the list with one more edit."""
        if value is None:
            return None
        return self._try(path, line, lambda: self._derived(path, value, operation, names, line))

    def set_function(self, path: Path, function: int, line: int | None = None) -> None:
        """Set the function that decides about calls."""
        if flemma.real_path(path) != flemma.AUTO_APPROVE:
            self.add_error(f"{self._where(path)}: only tools.auto_approve can be a function.", line)
            return
        self._function = function
        self._lists[flemma.AUTO_APPROVE] = ListValue(flemma.AUTO_APPROVE)

    def clear(self, path: Path, line: int | None = None) -> None:
        """Reset an option to its value without the document."""
        real = flemma.real_path(path)
        if real in self._lists:
            self._lists[real] = ListValue(real)
            self._function = None if real == flemma.AUTO_APPROVE else self._function
        elif real in self._model:
            del self._model[real]
        elif flemma.is_unknown(real, self._baseline.config):
            self.add_error(f"{self._where(path)}: {self._unknown(real)}", line)
        else:
            self._settings.pop(flemma.target(real, self._baseline.config) or (), None)

    def resolve(self) -> ResolvedOptions:
        known_names = KnownNames(self._baseline, self._presets)
        for origin, edit in self._list_edits:
            _resolve_names(edit, known_names.tool if origin == flemma.TOOLS else known_names.rule, self._report)
        settings: Table = {}
        if self._model:
            self._settings["model", "name"] = self._model_name()
        for place, value in self._settings.items():
            set_nested(settings, place, value)
        for name, sides in self._presets.items():
            lists = {side: list(resolve_rules((edit,), known_names).items) for side, edit in sides.items()}
            set_nested(settings, ("approval", "presets", name), lists)
        edits = self._lists[flemma.AUTO_APPROVE].edits
        if edits:
            approval = self._baseline.config.approval
            kept = resolve_rules(edits, known_names, approval.auto_approve, approval.excluded)
            changes = {"set": list(kept.items)} | ({"remove": list(kept.excluded)} if kept.excluded else {})
            set_nested(settings, ("approval", "auto_approve"), changes)
        chosen = resolve_tools(self._lists[flemma.TOOLS].edits, known_names)
        return ResolvedOptions(settings, chosen, self._function, tuple(self._diagnostics))

    def _try(self, path: Path, line: int | None, action: Callable[[], T]) -> T | None:
        try:
            return action()
        except InvalidEdit as mistake:
            self.add_error(f"{self._where(path)}: {mistake}", line)
            return None

    def _report(self, problem: Exception, edit: ListEdit) -> None:
        if not isinstance(problem, UnavailableTool):
            self.add_error(f"{self._where(edit.path)}: {problem}", edit.line)
        elif edit.operation != "remove":
            self._diagnostics.append(Diagnostic("warning", str(problem), edit.line))

    def _new_edit(self, origin: Path, operation: str, names: object, path: Path, line: int | None) -> ListEdit:
        edit = ListEdit(operation, _names(names), path, line)
        self._list_edits.append((origin, edit))
        return edit

    def _derived(self, path: Path, value: ListValue, operation: str, names: object, line: int | None) -> ListValue:
        return ListValue(value.origin, (*value.edits, self._new_edit(value.origin, operation, names, path, line)))

    def _assign(self, path: Path, real: Path, value: object, line: int | None) -> None:
        if real in self._lists:
            self._assign_list(path, real, value, line)
        elif isinstance(value, ListValue):
            raise InvalidEdit("it cannot be the list of another option. Write out the names.")
        elif real[:2] == flemma.PRESETS:
            self._assign_preset(path, real[2:], value, line)
        elif real in (flemma.MODEL, flemma.PROVIDER):
            self._model[real] = _checked(value, ("model", "name"))
        elif real == flemma.AUTOPILOT and value != []:
            self._put((*real, "enabled"), value)
        elif real[:1] == flemma.SANDBOX:
            self._assign_sandbox(real, value)
        elif value != [] or flemma.is_unknown(real, self._baseline.config) or self._target(real) is not None:
            # An empty table of named options sets none of them.
            self._put(real, value)

    def _assign_list(self, path: Path, real: Path, value: object, line: int | None) -> None:
        if isinstance(value, ListValue):
            if value.origin != real:
                raise InvalidEdit("it cannot be the list of another option. Write out the names.")
            self._lists[real] = value
        else:
            self._lists[real] = ListValue(real, (self._new_edit(real, "set", value, path, line),))
        if real == flemma.AUTO_APPROVE:
            self._function = None

    def _assign_preset(self, path: Path, rest: Path, value: object, line: int | None) -> None:
        if rest and not re.fullmatch(PRESET_NAME, rest[0]):
            raise InvalidEdit("the name of a preset begins with `$`, like '$mine'. Rename it.")
        if len(rest) == 2 and rest[1] in _SIDES:
            edit = self._new_edit(flemma.PRESETS, "set", value, path, line)
            self._presets.setdefault(rest[0], {})[rest[1]] = edit
        elif len(rest) == 1 and value == []:
            self._presets.setdefault(rest[0], {})
        elif rest or value != []:
            raise InvalidEdit("a preset is a table with the lists 'approve' and 'deny'.")

    def _assign_sandbox(self, real: Path, value: object) -> None:
        if real in (flemma.SANDBOX, (*flemma.SANDBOX, "enabled")):
            if value == [] and real == flemma.SANDBOX:
                return
            if not isinstance(value, bool):
                raise InvalidEdit(f"expected true or false, got {short_repr(value)}.")
            if not value or self._baseline.config.sandbox.mode == "off":
                self._settings["sandbox", "mode"] = "auto" if value else "off"
        elif real == (*flemma.SANDBOX, "backend") and value == "required":
            self._settings["sandbox", "mode"] = "required"
        elif real[-1] == "network" and isinstance(value, bool):
            self._settings["sandbox", "network"] = _NETWORK[value]
        elif value != [] or real != (*flemma.SANDBOX, "policy"):
            self._put(real, value)

    def _put(self, real: Path, value: object) -> None:
        place = self._target(real)
        if place is None:
            raise InvalidEdit(self._unknown(real))
        self._settings[place] = _checked(value, place)

    def _current(self, real: Path) -> ListValue:
        if real not in self._lists:
            unknown = flemma.is_unknown(real, self._baseline.config)
            raise InvalidEdit(self._unknown(real) if unknown else "it is not a list. Assign a value instead.")
        value = self._lists[real]
        outer = self._baseline.config.approval.auto_approve
        if real == flemma.AUTO_APPROVE and (self._function is not None or (not value.edits and isinstance(outer, str))):
            raise InvalidEdit("it is a function, not a list. Assign a whole list.")
        return value

    def _target(self, real: Path) -> Path | None:
        return flemma.target(real, self._baseline.config)

    def _unknown(self, real: Path) -> str:
        name, known = flemma.known_beside(real, self._baseline.config)
        if known and not flemma.is_unknown(real, self._baseline.config):
            return f"it takes no single value; set one of {', '.join(known)}."
        close = did_you_mean(name, known)
        hint = f". Did you mean '{close}'?" if close else f"; known here are {', '.join(known)}."
        return f"unknown option '{escape(name[:80])}'{hint if known else '; it has no options of its own.'}"

    def _model_name(self) -> str:
        outer = self._baseline.config.model.name
        before = outer.partition(":")[0]
        model, provider = self._model.get(flemma.MODEL), self._model.get(flemma.PROVIDER)
        if model is None:
            if provider != before:
                name = self._where(flemma.PROVIDER)
                self.add_error(
                    f"{name}: no model of {short_repr(provider)} is set. Set {self._where(flemma.MODEL)} too."
                )
            return outer
        if provider is not None:
            return model if model.startswith(f"{provider}:") else f"{provider}:{model}"
        known = flemma.providers(self._baseline.config)
        whole = model.partition(":")[0] in known or model == "operator" or before not in known
        return model if whole else f"{before}:{model}"


def _checked(value: object, place: Path) -> Any:
    given = int(value) if isinstance(value, float) and value.is_integer() else value
    try:
        check_type(given, flemma.kind_of(place), "")
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

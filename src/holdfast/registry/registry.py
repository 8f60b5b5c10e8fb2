"""The tool registry: registers, finds and lists tools, and loads entry points. The policy decides who may use them."""

from __future__ import annotations

import inspect
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from threading import RLock
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from holdfast.contract.call import Caller, Decision
from holdfast.contract.errors import DuplicateTool, InvalidName, InvalidSchema, ToolError, UnknownTool
from holdfast.contract.tool import Tool
from holdfast.import_path import installed_folders, is_inside
from holdfast.registry.registration import ToolSource, parse_registration
from holdfast.registry.source_loader import Callback, CallLater, Handle, SourceLoader
from holdfast.text.suggest import did_you_mean

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint
    from pathlib import Path

GROUP_PREFIX: Final = "group:"


class NameIndex:
    """Tools by canonical name, alias and API name; names are unique regardless of case."""

    __slots__ = ("_folded", "_spelled", "tools")

    def __init__(self) -> None:
        self.tools: dict[str, Tool] = {}
        """By canonical name, in registration order."""
        self._spelled: dict[str, Tool] = {}
        self._folded: dict[str, Tool] = {}

    def find(self, spelling: str) -> Tool | None:
        return self._spelled.get(spelling)

    def replaced_by(self, tools: Sequence[Tool], *, replace: bool, without: Iterable[Tool] = ()) -> list[Tool]:
        """Return the tools that must be removed before these can be added. Raises `DuplicateTool`; changes nothing.

        With `replace` a new tool replaces one that has its canonical or API name. It never replaces a tool by an alias,
        or by a name that differs only in case. Tools in `without` are removed in any case, so their names are free.
        """
        leaving = {tool.name: tool for tool in without if self.tools.get(tool.name) is tool}
        leaving |= dict(self._replaced(tools)) if replace else {}
        coming: dict[str, int] = {}
        for place, tool in enumerate(tools):
            if tool.name.startswith(GROUP_PREFIX):
                raise InvalidName(f"'{tool.name}' cannot be a tool name: '{GROUP_PREFIX}' is the prefix of groups.")
            for spelling in _spellings(tool):
                folded = spelling.lower()
                owner = self._folded.get(folded)
                if owner is not None and owner.name not in leaving:
                    raise _taken(tool, spelling, owner)
                if coming.setdefault(folded, place) != place:
                    raise _taken(tool, spelling, tools[coming[folded]])
        return list(leaving.values())

    def add(self, tool: Tool) -> None:
        self.tools[tool.name] = tool
        for spelling in _spellings(tool):
            self._spelled[spelling] = tool
            self._folded[spelling.lower()] = tool

    def drop(self, tool: Tool) -> bool:
        """Remove exactly this tool; False if its name belongs to another tool or to none."""
        if self.tools.get(tool.name) is not tool:
            return False
        del self.tools[tool.name]
        for spelling in _spellings(tool):
            self._spelled.pop(spelling, None)
            self._folded.pop(spelling.lower(), None)
        return True

    def _replaced(self, tools: Iterable[Tool]) -> Iterator[tuple[str, Tool]]:
        for tool in tools:
            for spelling in (tool.name, tool.api_name):
                other = self._spelled.get(spelling)
                if other is None:
                    continue
                if tool.source not in (other.source, "program"):
                    raise DuplicateTool(
                        f"Tool '{other.name}' comes from '{other.source}' and can be replaced only by that source or "
                        f"by your program, not by '{tool.source}'."
                    )
                yield other.name, other


def known_names(tools: Iterable[Tool]) -> list[str]:
    """Return the names and aliases of these tools."""
    return [name for tool in tools for name in tool.names]


def unknown_tool(name: str, known: Iterable[str]) -> UnknownTool:
    """Return the error for an unknown name. `known` must contain only names that the caller may see."""
    meant = did_you_mean(name, known)
    hint = f"Did you mean '{meant}'?" if meant else "Use one of the tools that are listed."
    return UnknownTool(f"There is no tool '{name[:80]}'. {hint}")


def _spellings(tool: Tool) -> tuple[str, ...]:
    return (*tool.names, tool.api_name)


def _taken(tool: Tool, spelling: str, other: Tool) -> DuplicateTool:
    if other.name == tool.name:
        return DuplicateTool(f"There is already a tool '{tool.name}'. Register with replace=True to replace it.")
    kind = "name" if spelling == tool.name else "alias" if spelling in tool.aliases else "API name"
    return DuplicateTool(
        f"The {kind} '{spelling}' of tool '{tool.name}' is taken by tool '{other.name}' (names are case-insensitive). "
        "Choose another."
    )


class CallerPolicy(Protocol):
    """The tools that one kind of caller may use."""

    def allows(self, tool: Tool) -> bool: ...
    def decide(self, tool: Tool) -> Decision: ...
    def visible(self, tools: Iterable[Tool]) -> list[Tool]: ...


class ToolPolicy(Protocol):
    """Decides who may use which tool. The registry only stores it for the code that lists and runs tools."""

    def compile(self, caller: Caller) -> CallerPolicy: ...


class Registry:
    """All tools by name. Reads are dictionary look-ups; changes are atomic and thread-safe."""

    def __init__(
        self,
        *,
        default_timeout: float = 30.0,
        strict_check: Literal["warn", "error"] = "warn",
        has_root: bool = True,
        call_later: CallLater | None = None,
    ) -> None:
        self.warnings: list[str] = []
        self._strict_check = strict_check
        self._has_root = has_root
        self._lock = RLock()
        self._index = NameIndex()
        self._revision = 0
        self._sorted: tuple[Tool, ...] | None = None
        self._policy: ToolPolicy | None = None
        self._listeners: dict[object, Callback] = {}
        self._sources = SourceLoader(self.warn, default_timeout=default_timeout, call_later=call_later)

    # Changing

    def register(
        self, what: object, definition: Any = None, /, *, replace: bool = False, source: str | None = None
    ) -> Handle:
        """Register a tool, (name, definition), a list, a module path, or a source, atomically.

        `replace` lets a tool replace one of the same name. `source` overrides the source in the definitions.
        """
        parts = parse_registration(what, definition)
        tools = [_with_source(part, source) for part in parts if isinstance(part, Tool)]
        if tools:
            self._change(tools, replace=replace)

        def register(what: object, definition: Any = None, /, *, replace: bool = False) -> Handle:
            return self.register(what, definition, replace=replace, source=source)

        handles = [self._sources.add(part, register) for part in parts if isinstance(part, ToolSource)]
        return Handle.compose(*handles, Handle(lambda: self._drop(tools)))

    def unregister(self, name: str) -> bool:
        """Remove the tool with this canonical name or alias."""
        tool = self._index.find(name)
        return tool is not None and name in tool.names and self._drop([tool])

    def swap(self, add: Sequence[Tool], remove: Iterable[Tool], *, source: str) -> None:
        """Add and remove tools of a source in one atomic change.

        A new tool replaces one of the same name from the same source. Tools in `remove` that have been replaced in the
        meantime are skipped.
        """
        self._change([_with_source(tool, source) for tool in add], tuple(remove), replace=True)

    def set_policy(self, policy: ToolPolicy | None) -> None:
        with self._lock:
            self._policy = policy
            self._bump()
        self._notify()

    def get_policy(self) -> ToolPolicy | None:
        return self._policy

    def set_root(self, has_root: bool) -> None:
        """Show or hide the tools that need a project root."""
        with self._lock:
            if has_root == self._has_root:
                return
            self._has_root = has_root
            self._bump()
        self._notify()

    def on_change(self, callback: Callback) -> Handle:
        """Call `callback` after every change, in the thread that made it."""
        key = object()
        self._listeners[key] = callback
        return Handle(lambda: self._listeners.pop(key, None))

    # Finding

    @property
    def revision(self) -> int:
        """Increases with each change of the tools or the policy."""
        return self._revision

    def find(self, name: str) -> Tool | None:
        """Return the tool with this canonical name, alias or API name."""
        tool = self._index.find(name)
        return tool if tool is not None and (self._has_root or not tool.needs_root) else None

    def hidden_without_root(self, name: str) -> Tool | None:
        """Return the tool of this name if it is hidden only because there is no project root."""
        tool = self._index.find(name)
        return tool if tool is not None and tool.needs_root and not self._has_root else None

    def get(self, name: str) -> Tool | None:
        """Return the tool with this canonical name or alias."""
        tool = self.find(name)
        return tool if tool is not None and name in tool.names else None

    def get_by_api_name(self, api_name: str) -> Tool | None:
        tool = self.find(api_name)
        return tool if tool is not None and tool.api_name == api_name else None

    def has(self, name: str) -> bool:
        return self.get(name) is not None

    def list_all(self) -> tuple[Tool, ...]:
        """Return every tool, including those that need a project root when there is none."""
        return tuple(self._index.tools.values())

    def is_registered(self, name: str) -> bool:
        """Whether a tool has this canonical name or alias, even if it is hidden without a project root."""
        tool = self._index.find(name)
        return tool is not None and name in tool.names

    def list(self) -> tuple[Tool, ...]:
        """Return every visible tool, sorted by name, including disabled ones."""
        found = self._sorted
        if found is None:
            with self._lock:
                tools = self._index.tools
                present = (tools[name] for name in sorted(tools))
                found = tuple(tool for tool in present if self._has_root or not tool.needs_root)
                self._sorted = found
        return found

    def names(self) -> tuple[str, ...]:
        return tuple(tool.name for tool in self.list())

    def specs(self) -> Sequence[dict[str, Any]]:
        """Return provider-neutral descriptions of the tools, sorted by name."""
        return [_spec(tool) for tool in self.list()]

    def suggest(self, name: str, among: Iterable[Tool] | None = None) -> str | None:
        """Return the most similar name of a tool in `among`."""
        return did_you_mean(name, known_names(self.list() if among is None else among))

    def unknown(self, name: str, among: Iterable[Tool] | None = None) -> UnknownTool:
        """Return the error for an unknown name, with a suggestion from `among`."""
        return unknown_tool(name, known_names(self.list() if among is None else among))

    # Sources

    @property
    def ready(self) -> bool:
        """Whether every source has finished."""
        return self._sources.ready

    @property
    def pending(self) -> int:
        """The number of sources that have not finished."""
        return self._sources.pending

    async def start(self) -> None:
        """Start the sources that were registered before an event loop was running."""
        self._sources.start()

    async def wait_ready(self) -> None:
        """Start the sources that have not begun, and wait until all have finished."""
        await self._sources.wait_ready()

    def on_ready(self, callback: Callback) -> Handle:
        """Call `callback` once, as soon as every source has finished."""
        return self._sources.on_ready(callback)

    def stop(self) -> None:
        """Abandon the sources that have not finished."""
        self._sources.stop()

    def warn(self, message: str) -> None:
        """Log a warning and add it to `warnings`."""
        if message not in self.warnings:
            self.warnings.append(message)
        logging.getLogger("holdfast").warning("%s", message)

    def _change(self, tools: Sequence[Tool], without: Sequence[Tool] = (), *, replace: bool) -> None:
        warnings = [_strict_warning(tool, problems) for tool in tools if (problems := tool.strict_problems())]
        if warnings and self._strict_check == "error":
            raise InvalidSchema(warnings[0])
        with self._lock:
            leaving = self._index.replaced_by(tools, replace=replace, without=without)
            if not tools and not leaving:
                return
            for old in leaving:
                self._index.drop(old)
            for tool in tools:
                self._index.add(tool)
            self._bump()
        for warning in warnings:
            self.warn(warning)
        self._notify()

    def _drop(self, tools: Iterable[Tool]) -> bool:
        with self._lock:
            dropped = [tool for tool in tools if self._index.drop(tool)]
            if dropped:
                self._bump()
        if dropped:
            self._notify()
        return bool(dropped)

    def _bump(self) -> None:
        self._revision += 1
        self._sorted = None

    def _notify(self) -> None:
        for callback in tuple(self._listeners.values()):
            try:
                callback()
            except Exception as error:
                self.warn(f"A change listener of the tool registry failed: {type(error).__name__}: {error}")


def _with_source(tool: Tool, source: str | None) -> Tool:
    return tool if source is None or tool.source == source else tool.with_(source=source)


def _strict_warning(tool: Tool, problems: Sequence[str]) -> str:
    return f"Tool '{tool.name}' is strict, but its schema breaks the rules of strict mode: {'; '.join(problems)}."


def _spec(tool: Tool) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "name": tool.name,
        "api_name": tool.api_name,
        "description": tool.description,
        "input_schema": tool.input_schema,
    }
    if tool.output_schema is not None:
        spec["output_schema"] = tool.output_schema
    if tool.strict:
        spec["strict"] = True
    return spec


ENTRY_POINT_GROUP: Final = "holdfast.tools"


def load_entry_points(registry: Registry, group: str = ENTRY_POINT_GROUP, *, project: Path | None = None) -> Handle:
    """Register the tools of installed packages. A broken entry point gives a warning that names the package.

    A package inside the project is skipped with a warning: it is only found through `PYTHONPATH`, and the user never
    chose to run it. Packages in the environment that runs holdfast count as installed.

    An entry point names a tool, a definition, a list, a factory without parameters that returns one of these, a module
    with `definitions` or `resolve`, or a source. The source of every tool is set to `package:NAME`.
    """
    offered = installed_entry_points(group, project, "tools", "tools.modules", registry.warn)
    return Handle.compose(*[_load(registry, point, package) for point, package in offered])


def installed_entry_points(
    group: str, project: Path | None, what: str, option: str, warn: Callable[[str], None]
) -> Iterator[tuple[EntryPoint, str]]:
    """Yield the entry points of installed packages with the package name.

    For a package inside the project it warns that `what` is skipped, and names the `option` that can load the module.
    """
    from importlib.metadata import entry_points

    for point in sorted(entry_points(group=group), key=lambda point: (_package(point), point.name)):
        package = _package(point)
        if project is None or not _is_in_project(point, project):
            yield point, package
            continue
        warn(
            f"The package '{package}' is inside the project and not installed, so its {what} '{point.name}' are not "
            f"loaded. Install it, or add its module to {option} in your user configuration."
        )


def _load(registry: Registry, point: EntryPoint, package: str) -> Handle | None:
    try:
        return registry.register(_call_factory(point.load()), source=f"package:{package}")
    except (Exception, SystemExit) as error:
        registry.warn(
            f"Tools '{point.name}' ({point.value}) of the package '{package}' cannot be loaded: "
            f"{type(error).__name__}: {error}"
        )
        return None


def _call_factory(offered: object) -> object:
    """Call a factory, which has no parameters; return anything else as it is (a function with parameters is a tool)."""
    if isinstance(offered, Tool) or not callable(offered) or inspect.signature(offered).parameters:
        return offered
    if hasattr(offered, "resolve") and not isinstance(offered, type):
        return offered
    made = offered()
    if inspect.iscoroutine(made):
        made.close()
        raise ToolError("a tool factory must not be async. Use a source (register, done) instead.")
    return made


def _is_in_project(point: EntryPoint, project: Path) -> bool:
    if point.dist is None:
        return False
    folder = os.path.abspath(str(point.dist.locate_file("")))  # noqa: PTH100
    return folder not in installed_folders() and is_inside(folder, str(project))


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else point.module

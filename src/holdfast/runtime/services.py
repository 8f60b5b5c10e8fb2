"""Services for tools, found by their protocol: those a program offers, and the runtime's own, created on first use."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock, RLock
from typing import TYPE_CHECKING, Any, Final, TypeVar

from holdfast.contract.call import Caller
from holdfast.contract.context import Context
from holdfast.contract.errors import CallError, HoldfastError
from holdfast.contract.processes import Processes
from holdfast.contract.tool_finder import TOOL_SEARCH, ToolFinder, ToolMatches
from holdfast.runtime.access import ToolAccess
from holdfast.runtime.commands import Commands
from holdfast.runtime.context import RunContext

if TYPE_CHECKING:
    from holdfast.registry.tool_index import ToolIndex
    from holdfast.runtime.background_processes import BackgroundProcesses

T = TypeVar("T")
_MAX_SEARCHERS: Final = 64


class Services:
    """The services behind `ctx.service(Protocol)`."""

    def __init__(self, commands: Commands, access: ToolAccess, *, end_with_call: bool) -> None:
        self._commands = commands
        self._access = access
        self._end_with_call = end_with_call
        self._background: BackgroundProcesses | None = None
        self._offered: dict[type[Any], Any] = {}
        self._makers: dict[type[Any], Callable[[], Any]] = {}
        self._lock = RLock()  # a service may use another one while it is made

    def offer(self, protocol: type[T], helper: T) -> None:
        """Make a service available to tools, found by its protocol."""
        self._offered[protocol] = helper

    def provide(self, protocol: type[T], make: Callable[[], T]) -> None:
        """Make a service available that is created when a tool first asks for it."""
        self._makers[protocol] = make

    def get(self, protocol: type[T]) -> T:
        found: Any = self._offered.get(protocol)
        if found is None and protocol in self._makers:
            with self._lock:  # tools run in threads, and a service is made once
                found = self._offered.get(protocol)
                if found is None:
                    found = self._offered[protocol] = self._makers[protocol]()
        if found is None and protocol is Processes:
            found = self._offered[protocol] = self._processes()
        if found is None and protocol is ToolFinder:
            found = self._offered[protocol] = RegistryToolFinder(self._access)
        if found is None:
            raise HoldfastError(f"This runtime has no {protocol.__name__}; add one with runtime.services.offer.")
        return found

    def writers_alive(self, since: float | None = None) -> bool:
        """Whether a process that belongs to no call could write to the document, now or since then."""
        from holdfast.runtime.background_processes import writers_alive

        return writers_alive(self._commands, self._background, since)

    def _processes(self) -> BackgroundProcesses:
        from holdfast.runtime.background_processes import BackgroundProcesses

        commands = self._commands
        _ = commands.supervisor  # created first, so that it is closed after the processes
        self._background = BackgroundProcesses(commands, commands.workspace.state, end_with_call=self._end_with_call)
        commands.on_close(self._background.close)
        return self._background


class RegistryToolFinder:
    """Satisfies `ToolFinder`. The index is built on first use, and again when the registry has changed."""

    def __init__(self, access: ToolAccess) -> None:
        self._access = access
        self._lock = Lock()
        self._revision = -1
        self._index: ToolIndex | None = None
        self._masks: dict[Caller, bytes] = {}

    def find(self, ctx: Context, query: str, limit: int) -> ToolMatches:
        if not isinstance(ctx, RunContext):
            raise CallError("Tools can be searched only for a runtime's call: pass the context the tool received.")
        with self._lock:
            index = self._current()
            mask = self._mask(index, ctx.call_record.caller)
        return ToolMatches(tuple(index.search(query, limit, mask)), mask.count(1))

    def _current(self) -> ToolIndex:
        registry = self._access.registry
        revision = registry.revision
        if self._index is None or revision != self._revision:
            from holdfast.registry.tool_index import ToolIndex

            self._index = ToolIndex(tool for tool in registry.list() if tool.name != TOOL_SEARCH)
            self._revision = revision
            self._masks.clear()
        return self._index

    def _mask(self, index: ToolIndex, caller: Caller) -> bytes:
        """The mask of tools that the caller may see, cached until the registry changes."""
        found = self._masks.get(caller)
        if found is None:
            if len(self._masks) >= _MAX_SEARCHERS:
                self._masks.clear()
            found = self._masks[caller] = index.mask(self._access.visible(caller))
        return found

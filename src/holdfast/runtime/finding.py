"""Finds tools for a call, among those that whoever made the call may see."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Final

from holdfast.contract.call import Caller
from holdfast.contract.context import Context
from holdfast.contract.errors import CallError
from holdfast.contract.finding import TOOL_SEARCH, FoundTools
from holdfast.registry.search import ToolIndex
from holdfast.runtime.context import RunContext

if TYPE_CHECKING:
    from holdfast.runtime.runtime import Runtime

_MAX_CALLERS: Final = 64


class Finder:
    """Satisfies `ToolFinder`. The index is made when it is first needed, and again after the registry changed."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._lock = Lock()
        self._revision = -1
        self._index = ToolIndex(())
        self._masks: dict[Caller, bytes] = {}

    def find(self, ctx: Context, query: str, limit: int) -> FoundTools:
        if not isinstance(ctx, RunContext):
            raise CallError("Tools are searched for a call of a runtime: pass the context the tool was handed.")
        with self._lock:
            index = self._current()
            mask = self._mask(index, ctx.call_record.caller)
        return FoundTools(tuple(index.search(query, limit, mask)), mask.count(1))

    def _current(self) -> ToolIndex:
        registry = self._runtime.registry
        revision = registry.revision
        if revision != self._revision:
            self._index = ToolIndex(tool for tool in registry.list() if tool.name != TOOL_SEARCH)
            self._revision = revision
            self._masks.clear()
        return self._index

    def _mask(self, index: ToolIndex, caller: Caller) -> bytes:
        """What the caller may see is asked anew when anything has changed."""
        found = self._masks.get(caller)
        if found is None:
            if len(self._masks) >= _MAX_CALLERS:
                self._masks.clear()
            found = self._masks[caller] = index.mask(self._runtime.visible(caller))
        return found

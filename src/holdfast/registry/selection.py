"""Which tools one document works with: edits to the default list, which is every enabled tool."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Final

from holdfast.config.merge import NameList
from holdfast.contract.errors import ToolError
from holdfast.contract.names import is_pattern
from holdfast.contract.tool import Tool
from holdfast.registry.registry import GROUP_PREFIX, known_names, unknown_tool

Edit = tuple[str, Iterable[str]]
"""An operation (`set`, `append`, `prepend`, `remove`, `+`, `-`, `^`) and the names it is given."""

_EDITS: Final[Mapping[str, Callable[[NameList, Sequence[str]], NameList]]] = {
    "set": NameList.set,
    "append": NameList.append,
    "+": NameList.append,
    "prepend": NameList.prepend,
    "^": NameList.prepend,
    "remove": NameList.remove,
    "-": NameList.remove,
}
REMOVING: Final = frozenset(name for name, edit in _EDITS.items() if edit is NameList.remove)


def select(tools: Iterable[Tool], edits: Iterable[Edit], *, groups: Collection[str] = ()) -> list[str]:
    """The canonical names a document ends up with, in its order.

    `tools` are those the caller may see. Every evaluation starts from the enabled ones; a tool that is not
    enabled comes in when it is named. Names may be aliases, API names, patterns and groups (`group:fs`). A name that no
    tool has raises `UnknownTool`, and so does a group that no tool is in and that is not one of `groups`.
    """
    catalogue = _Catalogue(tuple(tools), groups)
    chosen = NameList(tuple(tool.name for tool in catalogue.tools if tool.enabled))
    for operation, names in edits:
        edit = _EDITS.get(operation)
        if edit is None:
            raise ToolError(f"'{operation}' is not a list operation; use one of {', '.join(_EDITS)}.")
        removing = operation in REMOVING
        chosen = edit(chosen, [found for name in names for found in catalogue.meant_by(name, disabled=removing)])
    return list(chosen.items)


class _Catalogue:
    __slots__ = ("_by_name", "_groups", "tools")

    def __init__(self, tools: tuple[Tool, ...], groups: Collection[str]) -> None:
        self.tools = tools
        self._groups = groups
        self._by_name = {name: tool for tool in tools for name in (*tool.names, tool.api_name)}

    def meant_by(self, name: str, *, disabled: bool) -> list[str]:
        """The canonical names behind a name, a pattern or a group; the latter two bring in enabled tools only."""
        if (tool := self._by_name.get(name)) is not None:
            return [tool.name]
        if name.startswith(GROUP_PREFIX):
            found = self._in_group(name)
        elif is_pattern(name):
            found = [tool for tool in self.tools if any(fnmatchcase(known, name) for known in tool.names)]
        else:
            raise unknown_tool(name, known_names(self.tools))
        return [tool.name for tool in found if disabled or tool.enabled]

    def _in_group(self, name: str) -> list[Tool]:
        group = name.removeprefix(GROUP_PREFIX)
        found = [tool for tool in self.tools if tool.in_group(group)]
        if not found and group not in self._groups:
            groups = {*self._groups, *(known for tool in self.tools for known in tool.groups)}
            raise unknown_tool(name, sorted(f"{GROUP_PREFIX}{known}" for known in groups))
        return found

"""The tool list of one document: edits (set, append, prepend, remove) to the default list of enabled tools."""

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
"""An operation (`set`, `append`, `prepend`, `remove`, `+`, `-`, `^`) and its operands."""

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
    """Return the canonical names of the tools that a document selects, in its order.

    `tools` are the tools that the caller may see. The edits start from the enabled ones; a disabled tool is added by
    its name. Operands are names, aliases, API names, patterns and groups (`group:fs`). An unknown name raises
    `UnknownTool`, and so does an empty group that is not in `groups`.
    """
    catalogue = _Catalogue(tuple(tools), groups)
    chosen = NameList(tuple(tool.name for tool in catalogue.tools if tool.enabled))
    for operation, names in edits:
        edit = _EDITS.get(operation)
        if edit is None:
            raise ToolError(f"'{operation}' is not a list operation. Use one of {', '.join(_EDITS)}.")
        removing = operation in REMOVING
        chosen = edit(chosen, [found for name in names for found in catalogue.resolve(name, disabled=removing)])
    return list(chosen.items)


class _Catalogue:
    __slots__ = ("_by_name", "_groups", "tools")

    def __init__(self, tools: tuple[Tool, ...], groups: Collection[str]) -> None:
        self.tools = tools
        self._groups = groups
        self._by_name = {name: tool for tool in tools for name in (*tool.names, tool.api_name)}

    def resolve(self, name: str, *, disabled: bool) -> list[str]:
        """Return the canonical names for a name, pattern or group. The latter two skip disabled tools by default."""
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

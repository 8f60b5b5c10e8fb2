"""Who answers to which name. One name space for canonical names, aliases and API names, blind to case."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from holdfast.contract.errors import DuplicateTool, InvalidName, UnknownTool
from holdfast.contract.tool import Tool
from holdfast.text.suggest import did_you_mean

GROUP_PREFIX: Final = "group:"


class NameIndex:
    """Tools by every spelling they answer to."""

    __slots__ = ("_folded", "_spelled", "tools")

    def __init__(self) -> None:
        self.tools: dict[str, Tool] = {}
        """By canonical name, in order of registration."""
        self._spelled: dict[str, Tool] = {}
        self._folded: dict[str, Tool] = {}

    def find(self, spelling: str) -> Tool | None:
        return self._spelled.get(spelling)

    def displaced_by(self, tools: Sequence[Tool], *, replace: bool, without: Iterable[Tool] = ()) -> list[Tool]:
        """The tools that must go so that these can come, or `DuplicateTool`; nothing is changed.

        With `replace` a newcomer takes the place of whoever answers to its canonical or API name. An alias
        never takes a place, and neither does a name that differs from a taken one only by case. Those `without` whom
        things go on are counted among the ones that go, and take up no name.
        """
        leaving = {tool.name: tool for tool in without if self.tools.get(tool.name) is tool}
        leaving |= dict(self._replaced(tools)) if replace else {}
        coming: dict[str, int] = {}
        for place, tool in enumerate(tools):
            if tool.name.startswith(GROUP_PREFIX):
                raise InvalidName(f"'{tool.name}' cannot be a tool name: '{GROUP_PREFIX}' names groups of tools.")
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
        """Forget this very tool; False if it is not (or no longer) the one of its name."""
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
                        f"Tool '{other.name}' comes from '{other.source}' and may be replaced only from there or by "
                        f"your program, not by '{tool.source}'."
                    )
                yield other.name, other


def known_names(tools: Iterable[Tool]) -> list[str]:
    """What these tools may be called by a person or a model: names and aliases."""
    return [name for tool in tools for name in tool.names]


def unknown_tool(name: str, known: Iterable[str]) -> UnknownTool:
    """The error for a name nobody answers to; give only names the caller may see."""
    meant = did_you_mean(name, known)
    hint = f"Did you mean '{meant}'?" if meant else "Use one of the tools that are listed."
    return UnknownTool(f"There is no tool '{name[:80]}'. {hint}")


def _spellings(tool: Tool) -> tuple[str, ...]:
    return (*tool.names, tool.api_name)


def _taken(tool: Tool, spelling: str, other: Tool) -> DuplicateTool:
    if other.name == tool.name:
        return DuplicateTool(f"There already is a tool '{tool.name}'; register with replace=True to replace it.")
    kind = "name" if spelling == tool.name else "alias" if spelling in tool.aliases else "API name"
    return DuplicateTool(
        f"The {kind} '{spelling}' of tool '{tool.name}' is taken by tool '{other.name}' (upper and lower case count "
        "as the same); choose another."
    )

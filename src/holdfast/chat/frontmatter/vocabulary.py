"""The names a document may use in its lists: tools, presets, patterns, groups; and what was meant by any others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from holdfast.chat.frontmatter.evaluated import Base
from holdfast.contract.names import SERVER, is_pattern, server_of
from holdfast.rules.policy import GROUP_PREFIX, GROUPS, PLANNED
from holdfast.rules.resolvers import BUILT_IN
from holdfast.text.suggest import did_you_mean
from holdfast.text.visible import visible

PRESET: Final = "$"
_MAX_SHOWN: Final = 80


class UnknownName(Exception):
    """No tool and no preset has this name; the message says what to write instead."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        close = did_you_mean(name, known)
        hint = f". Did you mean '{close}'?" if close else "; use names that `holdfast tools` shows."
        self.name = name
        super().__init__(f"unknown value '{visible(name[:_MAX_SHOWN])}'{hint}")


class NotHere(Exception):
    """The tool exists, but not for this document."""


class Vocabulary:
    def __init__(self, base: Base, presets: Iterable[str] = ()) -> None:
        self._base = base
        self._canonical = {name: tool.name for tool in base.tools for name in (*tool.names, tool.api_name)}
        self._shown = [name for tool in base.tools for name in tool.names]
        self._groups = GROUPS.union(*(tool.groups for tool in base.tools))
        self._presets = {*BUILT_IN, *base.config.approval.presets, *presets}
        listed = base.config.approval.auto_approve
        self._listed = frozenset((*(() if isinstance(listed, str) else listed), *base.config.approval.importable))

    def rule(self, name: str) -> str:
        """An entry of `auto_approve`, with a tool by its own name."""
        if name in self._presets or name in self._listed:
            return self._canonical.get(name, name)
        if name.startswith(PRESET):
            raise UnknownName(name, sorted(self._presets))
        return self._tool_or_set(name, absent=(*self._base.hidden, *PLANNED))

    def tool(self, name: str) -> str:
        """An entry of the document's tools."""
        if name in self._base.hidden:
            raise NotHere(f"The tool '{visible(name[:_MAX_SHOWN])}' is not available here and is left out.")
        return self._tool_or_set(name)

    def canonical(self, name: str) -> str:
        return self._canonical.get(name, name)

    def _may_come(self, name: str) -> bool:
        """A tool of a configured MCP server: which ones it has is known when it runs, and not for good."""
        server = server_of(name)
        tool = name.removeprefix(f"{SERVER}{server}").removeprefix(":")
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

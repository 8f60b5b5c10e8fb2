"""Named approval rules, `$name`: the built-in ones, and how a list that mentions them is opened up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct

from holdfast.config.model import Preset
from holdfast.contract.tool import Tool
from holdfast.rules.policy import Names

PREFIX: Final = "$"
READONLY: Final = (
    "file.read", "file.list", "file.find", "code.search", "git.status", "git.diff", "git.log", "system.info",
    "output.read", "process.status", "process.output", "process.list",
)  # fmt: skip
SHELL_READONLY: Final = "$shell-readonly"
"""Approves no tool, but commands of the shell that only read: `rules.shell` knows which."""
BUILT_IN: Final[Mapping[str, Preset]] = {
    "$readonly": Preset(approve=READONLY),
    SHELL_READONLY: Preset(),
    "$default": Preset(approve=(*READONLY, "file.write", "file.edit")),
}
_HOME_SOURCES: Final = frozenset({"builtin", "program"})


class Rule(Struct, frozen=True):
    """A set of names and where they were written."""

    names: Names
    place: str
    built_in: bool = False

    def match(self, tool: Tool) -> str | None:
        """The entry that names the tool; built-in presets mean our tools, not a stranger's of the same name."""
        if self.built_in and tool.source not in _HOME_SOURCES:
            return None
        return self.names.match(tool)


class Expansion(Struct, frozen=True):
    """A list with its presets opened: united approvals, united denials, and what could not be read."""

    approve: tuple[Rule, ...]
    deny: tuple[Rule, ...]
    warnings: tuple[str, ...] = ()


def expand(entries: Iterable[str], presets: Mapping[str, Preset]) -> Expansion:
    """Open the presets of a list. The user's presets replace built-in ones of the same name."""
    plain: list[str] = []
    approve: list[Rule] = []
    deny: list[Rule] = []
    warnings: list[str] = []
    for entry in entries:
        if not entry.startswith(PREFIX):
            plain.append(entry)
            continue
        preset = presets.get(entry, BUILT_IN.get(entry))
        if preset is None:
            known = ", ".join(sorted({*BUILT_IN, *presets}))
            warnings.append(f"There is no preset '{entry}', so it has no effect; known are {known}.")
            continue
        where = f"the preset '{entry}'"
        approve.append(Rule(Names(preset.approve), where, built_in=entry not in presets))
        deny.append(Rule(Names(preset.deny), where))
    return Expansion((Rule(Names(plain), "auto_approve"), *approve), tuple(deny), tuple(warnings))

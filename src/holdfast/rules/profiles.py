"""Profiles and groups: the tables, which name built-in tools, and the lists that may use groups and patterns."""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import translate
from typing import Final

from holdfast.contract.names import SERVER, is_pattern
from holdfast.contract.tool import Tool

GROUP_PREFIX: Final = "group:"

FULL: Final = "full"
"""The profile of all tools, wherever they come from."""

_GOOGLE: Final = ("gmail.*", "gcal.*", "gdocs.*", "gdrive.*", "gtasks.*")

_PROCESSES: Final = ("process.start", "process.status", "process.output", "process.kill", "process.list")

MINIMAL: Final = (
    "file.read",
    "file.list",
    "file.find",
    "code.search",
    "git.status",
    "git.diff",
    "git.log",
    "calculator",
    "calculator_async",
    "web.fetch",
    "system.info",
    "output.read",
    "tool.search",
)
MESSAGING: Final = (*MINIMAL, "web.search", "memory.*", "media.send", "ask.user", *_GOOGLE)
CODING: Final = (
    *MINIMAL,
    "file.write",
    "file.edit",
    "shell.exec",
    "process.*",
    "browser.*",
    "memory.*",
    "ask.user",
)

PROFILES: Final[dict[str, tuple[str, ...]]] = {
    "minimal": MINIMAL,
    "messaging": MESSAGING,
    "coding": CODING,
    FULL: ("*",),
}

GROUPS: Final[dict[str, tuple[str, ...]]] = {
    "fs": ("file.read", "file.list", "file.find", "file.write", "file.edit", "code.search"),
    "git": ("git.status", "git.diff", "git.log"),
    "runtime": ("shell.exec", *_PROCESSES, "process.*"),
    "web": ("web.fetch", "web.search", "browser.*"),
    "browser": ("browser.*",),
    "memory": ("memory.*",),
    "media": ("media.send", "image.analyze", "audio.transcribe"),
    "sessions": ("sessions.*",),
    "skills": ("skill.load",),
    "system": ("system.info", "output.read", "calculator", "calculator_async", "ask.user"),
    "minio": ("minio.*",),
    "k8s": ("k8s.*",),
    "cron": ("cron.*",),
    "gmail": ("gmail.*",),
    "gcal": ("gcal.*",),
    "gdocs": ("gdocs.*",),
    "gdrive": ("gdrive.*",),
    "gtasks": ("gtasks.*",),
    "mcp": (f"{SERVER}*",),
}


BUILT_IN_NAMES: Final = frozenset(
    name for table in (*PROFILES.values(), *GROUPS.values()) for name in table if not is_pattern(name)
)
"""Names that are never a slip of the pen, even where the tool is not installed."""


class Names:
    """A list of tool names, patterns and groups, ready to match. Aliases and API names match too."""

    __slots__ = ("_exact", "_groups", "_patterns")

    def __init__(self, entries: Iterable[str]) -> None:
        self._exact: dict[str, str] = {}
        self._groups: dict[str, str] = {}
        self._patterns: list[tuple[re.Pattern[str], str]] = []
        for entry in entries:
            if entry.startswith(GROUP_PREFIX):
                group = entry.removeprefix(GROUP_PREFIX)
                self._groups[group] = entry
                for name in GROUPS.get(group, ()):
                    self._add(name, entry)
            else:
                self._add(entry, entry)

    def __bool__(self) -> bool:
        return bool(self._exact or self._groups or self._patterns)

    def match(self, tool: Tool) -> str | None:
        """The entry that names this tool, or None."""
        names = (*tool.names, tool.api_name)
        for name in names:
            if name in self._exact:
                return self._exact[name]
        for group in tool.groups:
            if group in self._groups:
                return self._groups[group]
        for pattern, entry in self._patterns:
            if any(map(pattern.match, names)):
                return entry
        return None

    def _add(self, name: str, entry: str) -> None:
        if is_pattern(name):
            self._patterns.append((re.compile(translate(name)), entry))
        else:
            self._exact.setdefault(name, entry)

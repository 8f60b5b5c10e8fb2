"""Skills as a tool sees them: instructions with resource files, found and checked by the runtime."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from msgspec import Struct


class SkillSummary(Struct, frozen=True, kw_only=True):
    """A skill that can be loaded."""

    name: str
    description: str


class LoadedSkill(Struct, frozen=True, kw_only=True):
    """The instructions of a skill, and what it consists of."""

    name: str
    description: str
    instructions: str
    folder: str | None
    """Where its files are, relative to the project; None if commands cannot reach them."""
    files: tuple[str, ...] = ()
    """Its other files, relative to the folder, sorted."""
    more_files: bool = False
    """There are more files than are listed."""
    tools: tuple[str, ...] | None = None
    """The tools it names; None if it names none. Loading a skill does not change which tools the caller has."""


class SkillLibrary(Protocol):
    """Loads skills that are trusted. The methods raise `SkillRefused`."""

    def summaries(self) -> tuple[Sequence[SkillSummary], int]:
        """Return the skills that can be loaded, and the number of others, which are invalid or not trusted."""
        ...

    def load(self, name: str) -> LoadedSkill: ...

    def read_file(self, name: str, file: str, is_secret: Callable[[Path], bool]) -> bytes:
        """Return the content of one of the skill's files, unless its path is secret."""
        ...

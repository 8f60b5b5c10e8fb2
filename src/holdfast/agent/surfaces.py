"""Surfaces: the few tools a model is left with for one turn, by what the turn is for. Choosing one is not done here."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from holdfast.contract.errors import HoldfastError
from holdfast.contract.finding import OUTPUT_READ
from holdfast.contract.tool import Tool
from holdfast.rules.policy import Names
from holdfast.text.suggest import did_you_mean


class Surface(Struct, frozen=True):
    """A name, and the tools it leaves: names, patterns and groups, as in the configuration."""

    name: str
    tools: tuple[str, ...]
    reads_only: bool = False
    """Of those tools, only the ones that leave everything as it is."""

    def of(self, tools: Iterable[Tool]) -> list[Tool]:
        names = Names(self.tools)
        return [tool for tool in tools if names.match(tool) is not None and not (self.reads_only and tool.mutates)]


RETRIEVAL_FIRST: Final = Surface("retrieval-first", ("group:fs", OUTPUT_READ), reads_only=True)
GIT_READ_ONLY: Final = Surface("git-read-only", ("group:git", OUTPUT_READ), reads_only=True)
MUTATION_ENABLED: Final = Surface("mutation-enabled", ("group:fs", OUTPUT_READ))
ANSWER_ONLY: Final = Surface("answer-only", ())

SURFACES: Final = {
    surface.name: surface for surface in (RETRIEVAL_FIRST, GIT_READ_ONLY, MUTATION_ENABLED, ANSWER_ONLY)
}


def surface_named(name: str) -> Surface:
    """Raises `HoldfastError` for a name no surface has."""
    found = SURFACES.get(name)
    if found is None:
        close = did_you_mean(name, SURFACES)
        hint = f"did you mean '{close}'?" if close else f"there are {', '.join(SURFACES)}."
        raise HoldfastError(f"There is no surface '{name}'; {hint}")
    return found

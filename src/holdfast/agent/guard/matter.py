"""What stays the same during a turn: the rules, the tools, and what the message asks for."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from holdfast.agent.guard.asking import Asking, Earlier, Mode, read_message
from holdfast.agent.guard.calls import LIST, READ, SEARCH, Called, Catalogue, End, end_of, facts
from holdfast.agent.guard.evidence import cited
from holdfast.agent.guarding import Round, Step, Turn
from holdfast.agent.surfaces import Surface
from holdfast.config.model import GuardrailsConfig
from holdfast.contract.tool import Tool


class Matter(Struct, frozen=True, kw_only=True):
    rules: GuardrailsConfig
    tools: Catalogue
    asking: Asking | None
    """None where the words are not all the person's: what they ask for cannot be known from them."""
    named: tuple[str, ...] = ()
    """Files the message names."""
    left: tuple[str, ...] = ()
    """The tools of the surface that there are."""

    @property
    def investigates(self) -> bool:
        """Something is to be found in the code, and there are the tools to find it."""
        return self.asking is not None and self.asking.investigates and self.tools.has(SEARCH, READ)

    @property
    def gathers(self) -> bool:
        """An answer needs evidence."""
        return self.rules.evidence and self.investigates

    @property
    def mode(self) -> Mode:
        return Mode.GENERAL if self.asking is None else self.asking.mode

    @property
    def wanted(self) -> int:
        """How many files must show the answer, if there are as many."""
        return 2 if self.asking is not None and self.asking.broad else 1

    @property
    def surface(self) -> Surface | None:
        return self.asking.surface if self.rules.surfaces and self.asking is not None else None

    @property
    def scope(self) -> str | None:
        return self.asking.scope if self.rules.scope and self.asking is not None else None


def matter_of(rules: GuardrailsConfig, tools: Sequence[Tool], turn: Turn) -> Matter:
    catalogue = Catalogue(tools)
    if turn.foreign:
        return Matter(rules=rules, tools=catalogue, asking=None)
    asking = read_message(turn.prompt, earlier_of(turn.earlier, catalogue))
    if asking.scope is not None and _is_no_folder(asking.scope, turn.rounds, catalogue):
        asking = replace(asking, scope=None)
    left = catalogue.left_by(asking.surface)
    return Matter(rules=rules, tools=catalogue, asking=asking, named=tuple(cited(turn.prompt)), left=left)


def earlier_of(rounds: Sequence[Round], tools: Catalogue) -> Earlier:
    """What the calls of earlier turns were about, the last of each kind."""
    read = query = folder = None
    for each in reversed(rounds):
        for step in reversed(each.steps):
            called = tools.called(step.use)
            if called.name not in (READ, LIST, SEARCH) or not _went_well(step):
                continue
            folder = folder or _folder(called)
            if called.name == READ:
                read = read or path_read(called, step)
            elif called.name == SEARCH:
                query = query or called.query
        if read and query and folder:
            break
    return Earlier(read, query, folder)


def path_read(called: Called, step: Step) -> str:
    """The path of a file as its typed result gives it, else as it was asked for."""
    path = facts(step.result).get("path")
    return path if isinstance(path, str) and path else called.path


def _is_no_folder(scope: str, rounds: Sequence[Round], tools: Catalogue) -> bool:
    """Whether a search in it failed: words such as "client/server" only look like a path."""
    calls = ((step, tools.called(step.use)) for each in rounds for step in each.steps)
    return any(called.name == SEARCH and called.path == scope and end_of(step) is End.FAILED for step, called in calls)


def _went_well(step: Step) -> bool:
    """An earlier call is only spoken of again, so that where its typed result is gone, what was told is enough."""
    if end_of(step) is End.GONE:
        return step.told is not None and not step.told.error
    return end_of(step) is End.DONE


def _folder(called: Called) -> str:
    if called.name == READ:
        return posixpath.dirname(called.path.replace("\\", "/")) or "."
    return called.path or "."

"""Files an answer names: whether they were read, and what is to be done about one that was not."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Sequence
from typing import cast

from msgspec import Struct

from holdfast.agent.guard.calls import CHANGES, LIST, READ, SEARCH, Catalogue, End, end_of, facts, is_inside
from holdfast.agent.guard.evidence import candidates_of, cited, plain_path, refers_to
from holdfast.agent.guard.matter import path_read, went_well
from holdfast.agent.guard.state import State
from holdfast.agent.guarding import Round, Step, Turn
from holdfast.agent.surfaces import RETRIEVAL_FIRST
from holdfast.contract.values import Json


class Loose(Struct, frozen=True):
    """A file an answer names and does not know."""

    path: str
    found: str | None = None
    """The file a search found that is meant."""
    outside: bool = False
    """It is known, and not where the message keeps to."""


def loose_end(turn: Turn, state: State, answer: str) -> Loose | None:
    """The first file an answer names without having read it; only where the message is about what files say."""
    matter = state.matter
    if matter.asking is None or matter.asking.surface != RETRIEVAL_FIRST:
        return None
    known = files_known(turn, matter.tools)
    texts = list(_texts(turn.rounds, matter.tools))
    for path in cited(answer):
        if _meant(path, matter.named) is not None:
            continue
        read = _meant(path, known)
        if read is not None:
            if matter.scope is not None and not is_inside(read, matter.scope):
                return Loose(path, outside=True)
            continue
        if state.blind:
            continue
        found = _meant(path, [each.path for each in state.candidates])
        if found is not None or not any(path in text for text in texts):
            return Loose(path, found)
    return None


def files_known(turn: Turn, tools: Catalogue) -> list[str]:
    """Files that were read or changed in the conversation, each once, those of this turn first."""
    return list(dict.fromkeys([*_known(turn.rounds, tools), *_known(turn.earlier, tools)]))


def _meant(path: str, known: Iterable[str]) -> str | None:
    """The file that is meant, by its whole path or the end of it."""
    return next((each for each in known if refers_to(path, each)), None)


def _known(rounds: Sequence[Round], tools: Catalogue) -> Iterator[str]:
    """What is told is enough here: to name a file claims less than to have found something in it."""
    for step in (step for each in rounds for step in each.steps if went_well(step)):
        called = tools.called(step.use)
        if called.name == READ or called.name in CHANGES:
            yield path_read(called, step)


def _texts(rounds: Sequence[Round], tools: Catalogue) -> Iterator[str]:
    """What the results of the turn say; of a search, the lines and not the files, which are there to be read."""
    for step in _done(rounds):
        name, typed = tools.called(step.use).name, facts(step.result)
        if name == SEARCH and step.result is not None:
            yield from (line for found in candidates_of(step.result) for line in found.lines)
        elif name == LIST:
            folder = str(typed.get("path", "."))
            yield from (plain_path(posixpath.join(folder, entry)) for entry in _strings(typed.get("entries")))
        else:
            yield from _strings(typed)


def _done(rounds: Sequence[Round]) -> Iterator[Step]:
    return (step for each in rounds for step in each.steps if end_of(step) is End.DONE)


def _strings(value: Json) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _strings(item)
    elif isinstance(value, list):
        for item in cast("list[Json]", value):
            yield from _strings(item)

"""Files an answer names: whether they were read, and which of them was not."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator
from typing import cast

from msgspec import Struct

from holdfast.agent.guarding import Turn
from holdfast.agent.loading import RETRIEVAL_FIRST
from holdfast.contract.values import Json
from holdfast.guardrails.evidence import candidates_of, is_inside, plain_path, refers_to
from holdfast.guardrails.intent import LIST, READ, SEARCH
from holdfast.guardrails.progress import State
from holdfast.guardrails.turn_facts import CHANGES, Called, Catalogue, End
from holdfast.models.requests.words import paths_in


class Loose(Struct, frozen=True):
    """A file an answer names and does not know."""

    path: str
    found: str | None = None
    """The file a search found that is meant."""
    outside: bool = False
    """It is known, and not where the message keeps to."""


def loose_citation(turn: Turn, state: State, answer: str) -> Loose | None:
    """The first file an answer names without having read it; only where the message is about what files say."""
    facts = state.turn
    if facts.asking is None or facts.asking.surface != RETRIEVAL_FIRST:
        return None
    known = files_known(turn, facts.tools)
    texts = [text for called in facts.tools.calls(turn.rounds) for text in _texts(called)]
    for path in paths_in(answer):
        if _meant(path, facts.named) is not None:
            continue
        read = _meant(path, known)
        if read is not None:
            if facts.scope is not None and not is_inside(read, facts.scope):
                return Loose(path, outside=True)
            continue
        found = _meant(path, [each.path for each in state.candidates])
        if not state.blind and (found is not None or not any(path in text for text in texts)):
            return Loose(path, found)
    return None


def files_known(turn: Turn, tools: Catalogue) -> list[str]:
    """Files that were read or changed in the conversation, each once, those of this turn first.

    What is told is enough here: to name a file claims less than to have found something in it.
    """
    calls = tools.calls([*turn.rounds, *turn.earlier])
    known = (called.file for called in calls if called.name in {READ, *CHANGES} and called.went_well)
    return list(dict.fromkeys(known))


def _meant(path: str, known: Iterable[str]) -> str | None:
    """The file that is meant, by its whole path or the end of it."""
    return next((each for each in known if refers_to(path, each)), None)


def _texts(called: Called) -> Iterator[str]:
    """What a result says; of a search, the lines and not the files, which are there to be read."""
    if called.end is not End.DONE:
        return
    if called.name == SEARCH and called.step.result is not None:
        yield from (line for found in candidates_of(called.step.result) for line in found.lines)
    elif called.name == LIST:
        folder = str(called.facts.get("path", "."))
        yield from (plain_path(posixpath.join(folder, entry)) for entry in _strings(called.facts.get("entries")))
    else:
        yield from _strings(called.facts)


def _strings(value: Json) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else cast("list[Json]", value):
            yield from _strings(item)

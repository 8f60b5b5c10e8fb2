"""How far the search for evidence has come, and what the runtime reads itself to bring it further."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from msgspec import Struct

from holdfast.agent.guard.asking import Mode
from holdfast.agent.guard.evidence import Gate, best, plain_path, refers_to, rejecting
from holdfast.agent.guard.state import State
from holdfast.agent.guard.wording import GATES, quoted

PREFERRED: Final = "preferred"
"""A question about usages: the file that fits best is read at once."""
REDIRECT: Final = "redirect"
"""A file was read that the search had not found."""
UNREAD: Final = "unread"
"""The model answered before it had read what was found."""


class Evidence(Struct, frozen=True):
    shown: tuple[str, ...]
    """Files that were read and count."""
    rejected: tuple[tuple[str, Gate], ...]
    """Files that were found and read, and do not."""


class Due(Struct, frozen=True):
    """A file the runtime reads itself."""

    what: str
    """What for: each reason counts once."""
    path: str
    why: str


def evidence_of(state: State) -> Evidence:
    shown: list[str] = []
    rejected: list[tuple[str, Gate]] = []
    for path, content in _contents(state).items():
        if state.is_candidate(path):
            gate = rejecting(state.matter.mode, path, content, state.candidates)
            if gate is None:
                shown.append(path)
            else:
                rejected.append((path, gate))
        elif _is_asked_about(state, path) or state.matter.shows(path, content):
            shown.append(path)
    return Evidence(tuple(shown), tuple(rejected))


def is_answered(state: State) -> bool:
    """Whether enough files were read that count; where there are no more to be read, one is enough."""
    return state.gathers and bool(state.reads) and _is_enough(state, evidence_of(state).shown)


def has_evidence(state: State) -> bool:
    """Whether it may be answered: what was read before the message counts too, but leaves the model free to look."""
    return state.answered or _is_enough(state, {*evidence_of(state).shown, *state.matter.known})


def _is_enough(state: State, shown: Collection[str]) -> bool:
    if len(shown) >= state.matter.wanted:
        return True
    return len(shown) > 0 and state.search_closed and next_best(state) is None


def next_best(state: State) -> str | None:
    return best(state.matter.mode, state.candidates, state.tried)


def due(state: State) -> Due | None:
    """What the runtime reads without asking the model."""
    matter = state.matter
    if not state.gathers or state.answered or not state.candidates:
        return None
    path = next_best(state)
    if path is None:
        return None
    evidence = evidence_of(state)
    for read, gate in evidence.rejected:
        if gate not in state.acts:
            return Due(gate, path, f"{quoted(read)} {GATES[gate]}")
    if matter.mode is Mode.USAGE and state.acts.get(PREFERRED, 0) < matter.wanted:
        return Due(PREFERRED, path, f"{quoted(path)} is the likeliest place")
    strays = [read for read in state.attempts if not (state.is_candidate(read) or _is_asked_about(state, read))]
    strays = [read for read in strays if plain_path(read) not in evidence.shown]
    if strays and REDIRECT not in state.acts and not state.candidate_attempts():
        return Due(REDIRECT, path, f"{quoted(strays[-1])} is not among the files that were found")
    return None


def unread(state: State) -> Due | None:
    """What the runtime reads when the model answers without evidence."""
    path = next_best(state) if state.candidates and UNREAD not in state.acts else None
    return None if path is None else Due(UNREAD, path, "the answer came before any file that shows it was read")


def _contents(state: State) -> dict[str, str]:
    """The text of each file that was read, its pages together."""
    contents: dict[str, str] = {}
    for read in state.reads:
        if read.content is not None:
            path = plain_path(read.path)
            contents[path] = contents.get(path, "") + read.content
    return contents


def _is_asked_about(state: State, path: str) -> bool:
    """The message names it and asks what is in it: it needs no search to be found."""
    if state.matter.mode is Mode.USAGE or state.matter.wanted > 1:
        return False
    return any(refers_to(name, path) for name in state.matter.named)

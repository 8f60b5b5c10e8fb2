"""Why a call of a model is refused. Judged from what was there before its reply, and from the calls before it in it.

What the other calls of the same reply bring is never looked at: they may run in any order, and a turn that is
replayed must come to the same verdicts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from holdfast.agent.guard import wording
from holdfast.agent.guard.calls import CHANGES, LIST, LOOKING, READ, SEARCH, Called
from holdfast.agent.guard.progress import evidence_of
from holdfast.agent.guard.queries import is_weak
from holdfast.agent.guard.state import State
from holdfast.agent.guarding import Refused

MAX_READS: Final = 3
MAX_CANDIDATE_READS: Final = 2

Before = Sequence[Called]
"""The calls of the same reply that come first and are let through."""
Check = Callable[[State, Before, Called], str | None]


def refused(state: State, before: Before, called: Called) -> Refused | None:
    """The first rule that refuses a call, in the state its reply found."""
    if called.by_runtime:
        return None
    for rule, check in _CHECKS:
        if getattr(state.matter.rules, rule):
            text = check(state, before, called)
            if text is not None:
                return Refused(rule, text)
    return None


def _after_evidence(state: State, before: Before, called: Called) -> str | None:
    if not state.answered or state.matter.surface is None:
        return None
    return wording.enough_seen(called.name, evidence_of(state).shown)


def _outside_surface(state: State, before: Before, called: Called) -> str | None:
    matter = state.matter
    if matter.surface is None or called.name in matter.left:
        return None
    return wording.outside_surface(called.name, matter.left)


def _weak_query(state: State, before: Before, called: Called) -> str | None:
    query = called.query
    if called.name != SEARCH or query is None or not is_weak(query):
        return None
    return wording.weak_query(query)


def _search_closed(state: State, before: Before, called: Called) -> str | None:
    if called.name != SEARCH:
        return None
    if state.search_closed:
        return wording.search_closed(bool(state.candidates))
    return wording.search_pending() if any(each.name == SEARCH for each in before) else None


def _list_before_search(state: State, before: Before, called: Called) -> str | None:
    if called.name != LIST or not state.matter.investigates or state.searches:
        return None
    return None if any(each.name == SEARCH for each in before) else wording.search_first(called.path or ".")


def _read_budget(state: State, before: Before, called: Called) -> str | None:
    if called.name != READ:
        return None
    reads = [each for each in before if each.name == READ]
    if called.key in state.fresh:
        return wording.read_already(called.path)
    if any(each.key == called.key for each in reads):
        return wording.read_twice(called.path)
    if len(state.attempts) + len(reads) >= MAX_READS:
        return wording.reads_spent(called.path, MAX_READS, "reads")
    if state.matter.investigates and state.is_candidate(called.path):
        spent = state.candidate_attempts() + sum(state.is_candidate(each.path) for each in reads)
        if spent >= MAX_CANDIDATE_READS:
            return wording.reads_spent(called.path, MAX_CANDIDATE_READS, "reads of files a search found")
    return None


def _repeated(state: State, before: Before, called: Called) -> str | None:
    """Only for tools whose answer is known to stay the same: one that waits for something is asked again and again."""
    if called.name not in LOOKING | CHANGES:
        return None
    if called.key == state.last_done:
        return wording.call_repeated(called.name)
    return wording.call_doubled(called.name) if any(each.key == called.key for each in before) else None


_CHECKS: Final[tuple[tuple[str, Check], ...]] = (
    ("evidence", _after_evidence),
    ("surfaces", _outside_surface),
    ("weak_queries", _weak_query),
    ("search_budget", _search_closed),
    ("list_before_search", _list_before_search),
    ("read_budget", _read_budget),
    ("duplicate_calls", _repeated),
)

"""Replays a turn: judges every call of a model by the rules, and finds the state that this leads to.

What the other calls of the same reply bring is never looked at: they may run in any order, and a turn that is
replayed must come to the same verdicts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from holdfast.agent.guarding import Refused, Round
from holdfast.guardrails.evidence import candidates_of
from holdfast.guardrails.intent import LIST, READ, SEARCH
from holdfast.guardrails.progress import UNREAD, Searched, Seen, State
from holdfast.guardrails.repair import is_weak
from holdfast.guardrails.turn_facts import CHANGES, LOOKING, Called, End, TurnFacts, is_by_runtime
from holdfast.models.requests.literals import quoted, several

CORRECTION: Final = "[runtime:correction] "
MAX_READS: Final = 3
MAX_CANDIDATE_READS: Final = 2
DIRECT: Final = "direct"
CITED: Final = "cited"

Before = Sequence[Called]
"""The calls of the same reply that come first and are let through."""
Check = Callable[[State, Before, Called], str | None]


def refused(state: State, before: Before, called: Called) -> Refused | None:
    """The first rule that refuses a call, in the state its reply found."""
    if called.by_runtime:
        return None
    for rule, check in _CHECKS.items():
        if getattr(state.turn.rules, rule) and (text := check(state, before, called)) is not None:
            return Refused(rule, f"{CORRECTION}{text}")
    return None


def _after_evidence(state: State, before: Before, called: Called) -> str | None:
    if not state.answered or state.turn.surface is None:
        return None
    shown = several(state.evidence().shown)
    return f"{quoted(called.name)} was not run: you have read {shown}, which shows it. Answer now."


def _outside_surface(state: State, before: Before, called: Called) -> str | None:
    names = state.turn.left
    if state.turn.surface is None or called.name in names:
        return None
    left = f"Call one of {', '.join(names)}, or answer." if names else "There are none: answer in words."
    return f"{quoted(called.name)} is not among the tools for this message. {left}"


def _weak_query(state: State, before: Before, called: Called) -> str | None:
    query = called.query
    if called.name != SEARCH or query is None or not is_weak(query):
        return None
    said = f"{quoted(query)} would find almost everything" if query.strip() else "a search needs something to look for"
    return f"Nothing was searched: {said}. Search for one name of the code, three letters or longer."


def _search_closed(state: State, before: Before, called: Called) -> str | None:
    if called.name != SEARCH:
        return None
    if not state.search_closed:
        second = any(each.name == SEARCH for each in before)
        return "One search at a time: look at what the first one finds." if second else None
    if state.candidates:
        return "No more searches for this message. Read a file the search found, or answer."
    return "No more searches for this message. Answer from what you have, or say what is missing."


def _list_before_search(state: State, before: Before, called: Called) -> str | None:
    searched = state.searches or any(each.name == SEARCH for each in before)
    if called.name != LIST or not state.turn.investigates or searched:
        return None
    return f"{quoted(called.path or '.')} was not listed: search for a name of the code first, then read what is found."


def _read_budget(state: State, before: Before, called: Called) -> str | None:
    if called.name != READ:
        return None
    reads = [each for each in before if each.name == READ]
    path, limit = quoted(called.path), ""
    if called.key in state.fresh:
        return f"{path} was not read again: its content is above. Use that, or read another file."
    if any(each.key == called.key for each in reads):
        return f"{path} was not read twice: your reply asks for it already. Use what that call gives."
    if len(state.attempts) + len(reads) >= MAX_READS:
        limit = f"{MAX_READS} reads"
    elif state.turn.investigates and state.is_candidate(called.path):
        spent = state.candidate_attempts() + sum(state.is_candidate(each.path) for each in reads)
        limit = f"{MAX_CANDIDATE_READS} reads of files a search found" if spent >= MAX_CANDIDATE_READS else ""
    return f"{path} was not read: {limit} for one message are the limit. Answer from those." if limit else None


def _repeated(state: State, before: Before, called: Called) -> str | None:
    """Only for tools whose answer is known to stay the same: one that waits for something is asked again and again."""
    if called.name not in LOOKING | CHANGES:
        return None
    again = f"{quoted(called.name)} was not run again with the same arguments:"
    if called.key == state.last_done:
        return f"{again} its result is above. Go on from it."
    doubled = any(each.key == called.key for each in before)
    return f"{again} your reply asks for it already. Go on from what that call gives." if doubled else None


_CHECKS: Final[dict[str, Check]] = {
    "evidence": _after_evidence,
    "surfaces": _outside_surface,
    "weak_queries": _weak_query,
    "search_budget": _search_closed,
    "list_before_search": _list_before_search,
    "read_budget": _read_budget,
    "duplicate_calls": _repeated,
}


def judged(state: State, each: Round) -> Iterator[tuple[Called, Refused | None]]:
    """The calls of a reply, judged in the state it found, each with why it is refused, if it is."""
    before: list[Called] = []
    for step in each.steps:
        called = state.turn.tools.called(step)
        no = refused(state, before, called)
        if no is None:
            before.append(called)
        yield called, no


def replay(turn: TurnFacts, rounds: Sequence[Round]) -> State:
    state = State(turn=turn)
    for each in rounds:
        if each.steps:
            state = _after(state, each)
    return state


def _after(state: State, each: Round) -> State:
    calls = list(judged(state, each))
    refusals = tuple(dict.fromkeys(no for _, no in calls if no is not None))
    now = replace(
        state,
        rounds=state.rounds + 1,
        refused=_counted(state.refused, {no.rule for no in refusals}),
        just_refused=refusals,
        acts=_counted(state.acts, {_purpose(state)}) if is_by_runtime(each) else state.acts,
    )
    for called, no in calls:
        now = _since(now, called)
        if no is None or called.end is End.DONE:
            now = _with(now, called)
    if any(called.may_have_changed for called, _ in calls):
        # The calls of a reply run in any order: what was looked at beside a change may be as it was before it.
        looked = any(called.key == now.last_done and called.name in LOOKING for called, _ in calls)
        now = replace(now, fresh=frozenset[str](), last_done="" if looked else now.last_done)
    return replace(now, answered=now.is_answered())


def _purpose(state: State) -> str:
    """What the runtime asked for calls for: it is known from the state in which it did."""
    if not state.rounds:
        return DIRECT
    due = state.due()
    if due is not None:
        return due.what
    return UNREAD if state.gathers and not state.has_evidence() else CITED


def _counted(counts: Mapping[str, int], names: set[str]) -> dict[str, int]:
    return {**counts, **{name: counts.get(name, 0) + 1 for name in names}}


def _since(state: State, called: Called) -> State:
    """What is no longer as it was, and what can no longer be known, after a call."""
    if called.may_have_changed:
        state = replace(state, last_done="", fresh=frozenset[str]())
    untyped = called.name in (READ, SEARCH) and called.end is End.DONE and not called.facts
    return replace(state, blind=True) if called.is_told or untyped else state


def _with(state: State, called: Called) -> State:
    """What a call that ended adds. One whose result is gone adds nothing: it is no reason to refuse anything."""
    end = called.end
    if end is End.DONE:
        state = replace(state, last_done=called.key, looked=True)
    if called.name == SEARCH and end is End.DONE:
        return _with_search(state, called)
    if called.name != READ or end is End.GONE:
        return state
    state = replace(state, tried=(*state.tried, called.file))
    if end in (End.DONE, End.FAILED):
        state = replace(state, attempts=(*state.attempts, called.file))
    if end is End.DONE:
        seen = Seen(called.file, called.content)
        state = replace(state, reads=(*state.reads, seen), fresh=state.fresh | {called.key})
    return state


def _with_search(state: State, called: Called) -> State:
    assert called.step.result is not None
    if not isinstance(called.facts.get("files"), list):
        return state
    found = candidates_of(called.step.result)
    query = called.args.get("query")
    searched = Searched(query if isinstance(query, str) else "", bool(found))
    return replace(state, searches=(*state.searches, searched), candidates=found or state.candidates)

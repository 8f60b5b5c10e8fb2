"""The state of a turn, found by walking through it with the same rules that decided about it then."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from holdfast.agent.guard.calls import (
    LOOKING,
    READ,
    SEARCH,
    Called,
    End,
    end_of,
    facts,
    is_by_runtime,
    is_told,
    may_have_changed,
)
from holdfast.agent.guard.evidence import candidates_of
from holdfast.agent.guard.matter import Matter, path_read, text_read
from holdfast.agent.guard.progress import UNREAD, due, has_evidence, is_answered
from holdfast.agent.guard.refusals import refused
from holdfast.agent.guard.state import Searched, Seen, State
from holdfast.agent.guarding import Refused, Round, Step

DIRECT: Final = "direct"
CITED: Final = "cited"


class Judged(Struct, frozen=True):
    """A call of a reply, and why it is refused, if it is."""

    step: Step
    called: Called
    refused: Refused | None


def replay(matter: Matter, rounds: Sequence[Round]) -> State:
    state = State(matter=matter)
    for each in rounds:
        if each.steps:
            state = _after(state, each)
    return state


def judged(state: State, each: Round) -> Iterator[Judged]:
    """The calls of a reply, judged in the state it found."""
    before: list[Called] = []
    for step in each.steps:
        called = state.matter.tools.called(step.use)
        no = refused(state, before, called)
        if no is None:
            before.append(called)
        yield Judged(step, called, no)


def _after(state: State, each: Round) -> State:
    calls = list(judged(state, each))
    refusals = tuple(dict.fromkeys(call.refused for call in calls if call.refused is not None))
    now = replace(
        state,
        rounds=state.rounds + 1,
        refused=_counted(state.refused, {each.rule for each in refusals}),
        just_refused=refusals,
        acts=_counted(state.acts, {_purpose(state)}) if is_by_runtime(each) else state.acts,
    )
    for call in calls:
        now = _since(now, call.step, call.called)
        if call.refused is None or end_of(call.step) is End.DONE:
            now = _with(now, call.step, call.called)
    if any(may_have_changed(call.called, call.step) for call in calls):
        # The calls of a reply run in any order: what was looked at beside a change may be as it was before it.
        looked = any(call.called.key == now.last_done and call.called.name in LOOKING for call in calls)
        now = replace(now, fresh=frozenset[str](), last_done="" if looked else now.last_done)
    return replace(now, answered=is_answered(now))


def _purpose(state: State) -> str:
    """What the runtime asked for calls for: it is known from the state in which it did."""
    if not state.rounds:
        return DIRECT
    wanted = due(state)
    if wanted is not None:
        return wanted.what
    return UNREAD if state.gathers and not has_evidence(state) else CITED


def _counted(counts: Mapping[str, int], names: set[str]) -> dict[str, int]:
    return {**counts, **{name: counts.get(name, 0) + 1 for name in names}}


def _since(state: State, step: Step, called: Called) -> State:
    """What is no longer as it was, and what can no longer be known, after a call."""
    if may_have_changed(called, step):
        state = replace(state, last_done="", fresh=frozenset[str]())
    if is_told(step) or (called.name in (READ, SEARCH) and end_of(step) is End.DONE and not facts(step.result)):
        state = replace(state, blind=True)
    return state


def _with(state: State, step: Step, called: Called) -> State:
    """What a call that ended adds. One whose result is gone adds nothing: it is no reason to refuse anything."""
    end = end_of(step)
    if end is End.DONE:
        state = replace(state, last_done=called.key, looked=True)
    if called.name == READ and end is not End.GONE:
        return _with_read(state, step, called, end)
    if called.name == SEARCH and end is End.DONE:
        return _with_search(state, step, called)
    return state


def _with_read(state: State, step: Step, called: Called, end: End) -> State:
    path = path_read(called, step)
    state = replace(state, tried=(*state.tried, path))
    if end in (End.NOT_RUN, End.UNCLEAR):
        return state
    state = replace(state, attempts=(*state.attempts, path))
    if end is End.FAILED:
        return state
    seen = Seen(path, text_read(step), called.key)
    return replace(state, reads=(*state.reads, seen), fresh=state.fresh | {called.key})


def _with_search(state: State, step: Step, called: Called) -> State:
    assert step.result is not None
    if not isinstance(facts(step.result).get("files"), list):
        return state
    found = candidates_of(step.result)
    query = called.args.get("query")
    searched = Searched(query if isinstance(query, str) else "", bool(found))
    return replace(state, searches=(*state.searches, searched), candidates=found or state.candidates)

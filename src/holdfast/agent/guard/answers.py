"""What the runtime says in the model's place, from typed results alone; each answer ends the turn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from holdfast.agent.guard.asking import ReadFile
from holdfast.agent.guard.calls import CHANGES, READ, Called, End, end_of, facts, is_by_runtime
from holdfast.agent.guard.matter import Matter
from holdfast.agent.guard.state import State
from holdfast.agent.guard.wording import quoted, several
from holdfast.agent.guarding import Finish, Round, Step, Turn
from holdfast.contract.result import Result
from holdfast.contract.vocabulary import Failure

MAX_ROUNDS: Final = 10
MAX_SLIPS: Final = 2
"""Replies with the same slip: the first is corrected, the second ends the turn."""
_LONGEST_ERROR: Final = 400

_SLIPS: Final = {
    "evidence": "asked for more calls after it had been told that it has what it needs",
    "surfaces": "asked again for a tool this message does not call for",
    "weak_queries": "searched again for something that would find everything",
    "search_budget": "asked again for a search after its searches were used up",
}


def own_answer(matter: Matter, turn: Turn) -> Finish | None:
    """What came of the last calls, where that is the answer: a file to show, a change made or rejected."""
    calls = _last_calls(matter, turn.rounds)
    if not calls:
        return None
    shown = _file_shown(matter, turn, calls) if matter.rules.direct else None
    return shown or (_changed(matter, turn.rounds, calls) if matter.rules.own_answers else None)


def failed_read(matter: Matter, turn: Turn, state: State) -> Finish | None:
    """A read that failed, where it leaves the model with nothing: it would only guess at other paths."""
    if not matter.rules.own_answers or state.reads:
        return None
    for called, step in _last_calls(matter, turn.rounds):
        if called.name == READ and (end_of(step) is End.FAILED or _is_refused_path(called, step.result)):
            error = step.result.error if step.result is not None else None
            return Finish(
                "own_answers", f"I couldn't read {quoted(called.path)}: {_line(error)}. No file contents were read."
            )
    return None


def limit(state: State) -> Finish | None:
    """The same slip twice, or too many rounds."""
    rules = state.matter.rules
    for rule, what in _SLIPS.items():
        if getattr(rules, rule) and state.refused.get(rule, 0) >= MAX_SLIPS:
            return Finish(rule, f"The model was stopped: it {what}. {_so_far(state)} {_NEXT}", stopped=True)
    if rules.rounds and state.rounds >= MAX_ROUNDS:
        what = f"The model was stopped after {MAX_ROUNDS} rounds of calls without an answer."
        return Finish("rounds", f"{what} {_so_far(state)} {_NEXT}", stopped=True)
    return None


def nothing_found(state: State) -> Finish | None:
    """Two searches, both empty, and nothing was read."""
    if not state.matter.gathers or state.reads or len(state.searches) < 2 or state.candidates:
        return None
    return no_evidence(state)


def no_evidence(state: State) -> Finish:
    return Finish("evidence", f"I found nothing in the project that answers this. {_so_far(state)} {_NEXT}", True)


def loose_citation(path: str, state: State) -> Finish:
    what = f"The model was stopped: its answer names {quoted(path)}, which it has not read"
    return Finish("citations", f"{what}. {_so_far(state)} {_NEXT}", True)


def out_of_scope(path: str, scope: str, state: State) -> Finish:
    what = f"The model was stopped: its answer is about {quoted(path)}, which is not in {quoted(scope)}"
    return Finish("citations", f"{what}. {_so_far(state)} {_NEXT}", True)


_NEXT: Final = "Ask in other words, or name a file to read."


def _last_calls(matter: Matter, rounds: Sequence[Round]) -> list[tuple[Called, Step]]:
    """The calls of the last reply that asked for any."""
    last = next((each for each in reversed(rounds) if each.steps), None)
    return [] if last is None else [(matter.tools.called(step.use), step) for step in last.steps]


def _file_shown(matter: Matter, turn: Turn, calls: list[tuple[Called, Step]]) -> Finish | None:
    direct = None if matter.asking is None else matter.asking.direct
    rounds = [each for each in turn.rounds if each.steps]
    if not isinstance(direct, ReadFile) or not direct.raw or len(rounds) > 1 or not is_by_runtime(rounds[0]):
        return None
    typed = facts(calls[0][1].result)
    content = typed.get("content")
    if typed.get("encoding") != "utf8" or not isinstance(content, str):
        return None
    if typed.get("limited_by") == "line":
        return Finish("direct", f"{quoted(direct.path)} has a line that is too long to show.")
    if not content:
        return Finish("direct", f"{quoted(direct.path)} is empty.")
    return Finish("direct", content + _rest(typed.get("next_offset"), typed.get("total_lines"), content))


def _rest(then: object, total: object, content: str) -> str:
    if not isinstance(then, int):
        return ""
    lines = f"lines 1 to {then - 1}" + (f" of {total}" if isinstance(total, int) else "")
    return f"{'' if content.endswith(chr(10)) else chr(10)}\n[The file goes on: these are {lines}.]"


def _changed(matter: Matter, rounds: Sequence[Round], calls: list[tuple[Called, Step]]) -> Finish | None:
    """A change that failed is the model's to mend, whatever else was done beside it."""
    ends = [(called, step, end_of(step)) for called, step in calls if called.name in CHANGES]
    if not ends or any(end in (End.FAILED, End.GONE) for _, _, end in ends):
        return None
    rejected = [called.path for called, step, _ in ends if _is_rejected(step.result)]
    if not rejected and not any(end is End.DONE for _, _, end in ends):
        return None
    done = _changes(matter, rounds)
    if not rejected:
        return Finish("own_answers", "\n".join(done))
    if not done:
        return Finish("own_answers", "Canceled. No file was changed.")
    return Finish("own_answers", "\n".join([*done, f"Canceled: {several(rejected)} was not changed."]))


def _changes(matter: Matter, rounds: Sequence[Round]) -> list[str]:
    """What was changed in the whole turn, each in the tool's own line."""
    steps = [step for each in rounds for step in each.steps if end_of(step) is End.DONE]
    results = [step.result for step in steps if matter.tools.called(step.use).name in CHANGES]
    return [_line(result.output, end="") for result in results if result is not None]


def _is_rejected(result: Result | None) -> bool:
    return result is not None and result.failure is Failure.REJECTED


def _is_refused_path(called: Called, result: Result | None) -> bool:
    """The runtime's own calls have nothing else about them that could be wrong."""
    return called.by_runtime and result is not None and result.failure is Failure.INVALID_ARGUMENTS


def _so_far(state: State) -> str:
    searched = [each.query for each in state.searches if each.query]
    read = list(dict.fromkeys(each.path for each in state.reads))
    return f"Searched for: {several(searched) or 'nothing'}. Read: {several(read) or 'nothing'}."


def _line(text: str | None, end: str = ".") -> str:
    """The first line of a message, without the given ending, and not too long."""
    first = next((line.strip() for line in (text or "").splitlines() if line.strip()), "") or "no reason was given"
    first = first if len(first) <= _LONGEST_ERROR else f"{first[: _LONGEST_ERROR - 1]}…"
    return first.removesuffix(end) if end else first

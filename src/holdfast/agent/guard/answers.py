"""What the runtime says in the model's place, from typed results alone; each answer ends the turn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from holdfast.agent.guard.asking import ReadFile
from holdfast.agent.guard.calls import (
    CHANGES,
    LOOKING,
    READ,
    Called,
    End,
    end_of,
    facts,
    is_by_runtime,
    may_have_changed,
)
from holdfast.agent.guard.evidence import is_plain, plain_path
from holdfast.agent.guard.matter import Matter
from holdfast.agent.guard.progress import has_evidence
from holdfast.agent.guard.state import State
from holdfast.agent.guard.wording import quoted, several
from holdfast.agent.guarding import Finish, Round, Step, Turn
from holdfast.agent.standing import own_output
from holdfast.contract.result import Result
from holdfast.contract.values import Args
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
    if not matter.rules.own_answers or state.reads or state.has_untried or state.blind:
        return None
    for called, step in _last_calls(matter, turn.rounds):
        if called.by_runtime and "/" not in called.path and not _is_raw(matter):
            continue  # the name of a file, which may lie in a folder: the model can look for it
        if called.name == READ and (end_of(step) is End.FAILED or _is_refused_path(called, step.result)):
            error = step.result.error if step.result is not None else None
            return Finish(
                "own_answers", f"I couldn't read {quoted(called.path)}: {_line(error)}. No file contents were read."
            )
    return None


def _is_raw(matter: Matter) -> bool:
    direct = None if matter.asking is None else matter.asking.direct
    return isinstance(direct, ReadFile) and direct.raw


def limit(state: State) -> Finish | None:
    """The same slip twice, or too many rounds."""
    rules = state.matter.rules
    for rule, what in _SLIPS.items():
        if getattr(rules, rule) and state.refused.get(rule, 0) >= MAX_SLIPS:
            return Finish(rule, f"The model was stopped: it {what}. {_so_far(state)}{_NEXT}", stopped=True)
    if rules.rounds and state.rounds >= MAX_ROUNDS:
        what = f"The model was stopped after {MAX_ROUNDS} rounds of calls without an answer."
        return Finish("rounds", f"{what} {_so_far(state)}{_NEXT}", stopped=True)
    return None


def nothing_found(state: State) -> Finish | None:
    """Two searches, both empty, and nothing was read."""
    if not state.gathers or state.reads or len(state.searches) < 2 or state.candidates or has_evidence(state):
        return None
    return no_evidence(state)


def no_evidence(state: State) -> Finish:
    if state.reads:
        what = "What was read does not show the answer."
    elif state.candidates:
        what = "What was found could not be read."
    elif state.searches:
        what = "I found nothing in the project that answers this."
    else:
        what = "The model was stopped: it answered before a file that shows it was read."
    return Finish("evidence", f"{what} {_so_far(state)}{_NEXT}", True)


def loose_citation(path: str, state: State) -> Finish:
    what = f"The model was stopped: its answer names {quoted(path)}, which it has not read"
    return Finish("citations", f"{what}. {_so_far(state)}{_NEXT}", True)


def out_of_scope(path: str, scope: str, state: State) -> Finish:
    what = f"The model was stopped: its answer is about {quoted(path)}, which is not in {quoted(scope)}"
    return Finish("citations", f"{what}. {_so_far(state)}{_NEXT}", True)


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
    return Finish("direct", content + _rest(direct, typed, content))


def _rest(asked: ReadFile, typed: Args, content: str) -> str:
    """What is missing of what was asked for."""
    begins, then, total = typed.get("offset"), typed.get("next_offset"), typed.get("total_lines")
    if not isinstance(then, int) or (asked.lines is not None and then > asked.lines[1]):
        return ""
    lines = f"lines {begins} to {then - 1}" + (f" of {total}" if isinstance(total, int) else "")
    return f"{'' if content.endswith(chr(10)) else chr(10)}\n[The file goes on: these are {lines}.]"


def _changed(matter: Matter, rounds: Sequence[Round], calls: list[tuple[Called, Step]]) -> Finish | None:
    """Only where it is known of every call of the reply what it changed: anything else is the model's to tell."""
    acting = [(called, step) for called, step in calls if called.name not in LOOKING]
    rejected = [called.path for called, step in acting if called.name in CHANGES and _is_rejected(step.result)]
    made = [called for called, step in acting if _is_change_made(called, step)]
    if not acting or len(made) + len(rejected) < len(acting):
        return None
    turn = [(matter.tools.called(step.use), step) for each in rounds for step in each.steps]
    done = [_done_line(step.result) for called, step in turn if _is_change_made(called, step)]
    if not rejected:
        return Finish("own_answers", "\n".join(done))
    if not any(may_have_changed(called, step) for called, step in turn):
        return Finish("own_answers", "Canceled. No file was changed.")
    return Finish("own_answers", "\n".join([*done, _not_made(turn, rejected)]))


def _is_change_made(called: Called, step: Step) -> bool:
    """Where a person wrote what came of it there is no typed result, and nobody knows what was changed."""
    return called.name in CHANGES and end_of(step) is End.DONE and bool(facts(step.result))


def _not_made(turn: Sequence[tuple[Called, Step]], rejected: Sequence[str]) -> str:
    """Whatever else may have changed a file is not denied."""
    others = [called for called, step in turn if may_have_changed(called, step)]
    touched = any(called.name not in CHANGES or not called.path for called in others)
    touched = touched or not _are_apart([called.path for called in others], rejected)
    paths = several(list(dict.fromkeys(rejected)))
    return f"Canceled: this change to {paths} was not made." if touched else f"Canceled: {paths} was not changed."


def _are_apart(others: Sequence[str], rejected: Sequence[str]) -> bool:
    """Whether these are surely other files than those: a file may have many names, and on some systems in any case."""
    if not others:
        return True
    names = {plain_path(path).casefold() for path in others}
    plain = all(is_plain(path) and plain_path(path) == path for path in (*others, *rejected))
    return plain and not any(plain_path(path).casefold() in names for path in rejected)


def _done_line(result: Result | None) -> str:
    """The tool's own line, without the note that a person gave it other arguments."""
    return _line("" if result is None else own_output(result.output), end="")


def _is_rejected(result: Result | None) -> bool:
    return result is not None and result.failure is Failure.REJECTED


def _is_refused_path(called: Called, result: Result | None) -> bool:
    """The runtime's own calls have nothing else about them that could be wrong."""
    return called.by_runtime and result is not None and result.failure is Failure.INVALID_ARGUMENTS


def _so_far(state: State) -> str:
    """What is known to have been searched for and read; that there was nothing only where that is known too."""
    searched = [each.query for each in state.searches if each.query]
    parts = {
        "Searched for": several(searched) or ("" if state.blind or state.looked else "nothing"),
        "Read": several(state.paths_read) or ("" if state.blind else "nothing"),
    }
    return "".join(f"{what}: {names}. " for what, names in parts.items() if names)


def _line(text: str | None, end: str = ".") -> str:
    """The first line of a message, without the given ending, and not too long."""
    first = next((line.strip() for line in (text or "").splitlines() if line.strip()), "") or "no reason was given"
    first = first if len(first) <= _LONGEST_ERROR else f"{first[: _LONGEST_ERROR - 1]}…"
    return first.removesuffix(end) if end else first

"""What the runtime says in the model's place, from typed results alone; each answer ends the turn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from holdfast.agent.guarding import Finish, Turn
from holdfast.agent.standing import own_output
from holdfast.contract.values import Args
from holdfast.contract.vocabulary import Failure
from holdfast.guardrails.evidence import is_plain, plain_path
from holdfast.guardrails.intent import READ, Direct
from holdfast.guardrails.progress import State
from holdfast.guardrails.turn_facts import CHANGES, LOOKING, Called, End, TurnFacts
from holdfast.models.requests.literals import quoted, several

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


def own_answer(facts: TurnFacts, turn: Turn) -> Finish | None:
    """What came of the last calls, where that is the answer: a file to show, a change made or rejected."""
    calls = _last_calls(facts, turn)
    if not calls:
        return None
    shown = _file_shown(facts, turn, calls) if facts.rules.direct else None
    return shown or (_changed(facts, turn, calls) if facts.rules.own_answers else None)


def failed_read(facts: TurnFacts, turn: Turn, state: State) -> Finish | None:
    """A read that failed, where it leaves the model with nothing: it would only guess at other paths."""
    if not facts.rules.own_answers or state.reads or state.has_untried or state.blind:
        return None
    for called in _last_calls(facts, turn):
        if called.by_runtime and "/" not in called.path and _shown(facts) is None:
            continue  # the name of a file, which may lie in a folder: the model can look for it
        result = called.step.result
        # The runtime's own calls have nothing else about them that could be wrong.
        refused = called.by_runtime and result is not None and result.failure is Failure.INVALID_ARGUMENTS
        if called.name == READ and (called.end is End.FAILED or refused):
            error = _line(result.error if result is not None else None).removesuffix(".")
            return Finish("own_answers", f"I couldn't read {quoted(called.path)}: {error}. No file contents were read.")
    return None


def limit(state: State) -> Finish | None:
    """The same slip twice, or too many rounds."""
    rules = state.turn.rules
    for rule, what in _SLIPS.items():
        if getattr(rules, rule) and state.refused.get(rule, 0) >= MAX_SLIPS:
            return stopped(rule, f"The model was stopped: it {what}", state)
    if rules.rounds and state.rounds >= MAX_ROUNDS:
        return stopped("rounds", f"The model was stopped after {MAX_ROUNDS} rounds of calls without an answer", state)
    return None


def nothing_found(state: State) -> Finish | None:
    """Two searches, both empty, and nothing was read."""
    if not state.gathers or state.reads or len(state.searches) < 2 or state.candidates or state.has_evidence():
        return None
    return no_evidence(state)


def no_evidence(state: State) -> Finish:
    if state.reads:
        what = "What was read does not show the answer"
    elif state.candidates:
        what = "What was found could not be read"
    elif state.searches:
        what = "I found nothing in the project that answers this"
    else:
        what = "The model was stopped: it answered before a file that shows it was read"
    return stopped("evidence", what, state)


def stopped(rule: str, what: str, state: State) -> Finish:
    """With what is known to have been searched for and read; that there was nothing only where that is known too."""
    searched = several([each.query for each in state.searches if each.query])
    parts = {
        "Searched for": searched or ("" if state.blind or state.looked else "nothing"),
        "Read": several(state.paths_read) or ("" if state.blind else "nothing"),
    }
    so_far = "".join(f"{what}: {names}. " for what, names in parts.items() if names)
    return Finish(rule, f"{what}. {so_far}Ask in other words, or name a file to read.", stopped=True)


def _last_calls(facts: TurnFacts, turn: Turn) -> list[Called]:
    """The calls of the last reply that asked for any."""
    last = next((each for each in reversed(turn.rounds) if each.steps), None)
    return [] if last is None else [facts.tools.called(step) for step in last.steps]


def _shown(facts: TurnFacts) -> Direct | None:
    """The file whose content is the answer."""
    direct = None if facts.asking is None else facts.asking.direct
    return direct if direct is not None and direct.raw else None


def _file_shown(facts: TurnFacts, turn: Turn, calls: list[Called]) -> Finish | None:
    direct = _shown(facts)
    first_round = sum(bool(each.steps) for each in turn.rounds) == 1
    if direct is None or not first_round or not all(called.by_runtime for called in calls):
        return None
    typed, content = calls[0].facts, calls[0].content
    if content is None:
        return None
    if typed.get("limited_by") == "line":
        return Finish("direct", f"{quoted(calls[0].path)} has a line that is too long to show.")
    if not content:
        return Finish("direct", f"{quoted(calls[0].path)} is empty.")
    return Finish("direct", content + _rest(direct, typed, content))


def _rest(asked: Direct, typed: Args, content: str) -> str:
    """What is missing of what was asked for."""
    begins, then, total = typed.get("offset"), typed.get("next_offset"), typed.get("total_lines")
    offset, limit = asked.args.get("offset"), asked.args.get("limit")
    all_shown = isinstance(offset, int) and isinstance(limit, int) and isinstance(then, int) and then >= offset + limit
    if not isinstance(then, int) or all_shown:
        return ""
    lines = f"lines {begins} to {then - 1}" + (f" of {total}" if isinstance(total, int) else "")
    return f"{'' if content.endswith(chr(10)) else chr(10)}\n[The file goes on: these are {lines}.]"


def _changed(facts: TurnFacts, turn: Turn, calls: list[Called]) -> Finish | None:
    """Only where it is known of every call of the reply what it changed: anything else is the model's to tell."""
    acting = [called for called in calls if called.name not in LOOKING]
    rejected = [called.path for called in acting if called.name in CHANGES and _is_rejected(called)]
    if not acting or sum(map(_is_change_made, acting)) + len(rejected) < len(acting):
        return None
    everything = list(facts.tools.calls(turn.rounds))
    done = [_done_line(called) for called in everything if _is_change_made(called)]
    if not rejected:
        return Finish("own_answers", "\n".join(done))
    if not any(called.may_have_changed for called in everything):
        return Finish("own_answers", "Canceled. No file was changed.")
    return Finish("own_answers", "\n".join([*done, _not_made(everything, rejected)]))


def _is_change_made(called: Called) -> bool:
    """Where a person wrote what came of it there is no typed result, and nobody knows what was changed."""
    return called.name in CHANGES and called.end is End.DONE and bool(called.facts)


def _is_rejected(called: Called) -> bool:
    return called.step.result is not None and called.step.result.failure is Failure.REJECTED


def _not_made(turn: Sequence[Called], rejected: Sequence[str]) -> str:
    """Whatever else may have changed a file is not denied."""
    others = [called for called in turn if called.may_have_changed]
    touched = any(called.name not in CHANGES or not called.path for called in others)
    touched = touched or not _are_apart([called.path for called in others], rejected)
    paths = several(list(dict.fromkeys(rejected)))
    return f"Canceled: this change to {paths} was not made." if touched else f"Canceled: {paths} was not changed."


def _are_apart(others: Sequence[str], rejected: Sequence[str]) -> bool:
    """Whether these are surely other files than those: a file may have many names, and on some systems in any case."""
    names = {plain_path(path).casefold() for path in others}
    plain = all(is_plain(path) and plain_path(path) == path for path in (*others, *rejected))
    return not others or (plain and not any(plain_path(path).casefold() in names for path in rejected))


def _done_line(called: Called) -> str:
    """The tool's own line, without the note that a person gave it other arguments."""
    return _line("" if called.step.result is None else own_output(called.step.result.output))


def _line(text: str | None) -> str:
    """The first line of a message, not too long."""
    first = next((line.strip() for line in (text or "").splitlines() if line.strip()), "") or "no reason was given"
    return first if len(first) <= _LONGEST_ERROR else f"{first[: _LONGEST_ERROR - 1]}…"

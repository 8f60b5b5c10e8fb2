"""The guard-rails for small models: act before the model, narrow its tools, check, repair or replace its replies."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Final, cast

from holdfast.agent.guard import AcceptReply, AskModel, CallTools, EndTurn, RefusedCall, RetryReply, TurnHistory
from holdfast.agent.slot_state import without_change_note
from holdfast.agent.surface import ANSWER_ONLY, RETRIEVAL_FIRST, Surface
from holdfast.config.config import GuardrailsConfig
from holdfast.contract.enums import Failure
from holdfast.contract.json import Args, Json
from holdfast.contract.message import Part, Text, ToolUse
from holdfast.contract.tool import Tool
from holdfast.guardrails.evidence import candidates_of, is_inside, is_plain, plain_path, refers_to
from holdfast.guardrails.intent import LIST, READ, SEARCH, DirectCall
from holdfast.guardrails.progress import CITED, CORRECTION, RuntimeRead, TurnProgress, judge_calls, repair_reply, replay
from holdfast.guardrails.turn_facts import (
    CHANGE_TOOLS,
    READ_ONLY_TOOLS,
    RUNTIME_ID_PREFIX,
    CallFacts,
    Outcome,
    ToolIndex,
    ToolNaming,
    TurnFacts,
    facts_of,
    is_by_runtime,
)
from holdfast.models.requests.masked_text import quoted, quoted_list
from holdfast.models.requests.words import paths_in

MAX_ROUNDS: Final = 10
MAX_SLIPS: Final = 2
"""Replies with the same mistake: the first is corrected, the second ends the turn."""
_LONGEST_ERROR: Final = 400

_SLIPS: Final = {
    "evidence": "asked for more calls after it had been told that it has what it needs",
    "surfaces": "asked again for a tool this message does not call for",
    "weak_queries": "searched again for something that would find everything",
    "search_budget": "asked again for a search after its searches were used up",
}
MAX_CORRECTIONS: Final = 1
"""How often a reply is sent back for the same rule."""
_ELSEWHERE: Final = frozenset({"enabled", "edit_repair"})
"""`enabled` is read by the code that creates the guard-rails, `edit_repair` by the text protocol."""
_NOTE: Final = "[runtime:note] "
_SAID_BY_POLICY: Final = frozenset({"surfaces", "evidence"})
"""Rules that hide tools: policy tells the model that a call is not allowed, but not why."""


class GuardRails:
    """A stateless `Guard`: every decision follows from the turn, the rules and the available tools."""

    def __init__(
        self, config: GuardrailsConfig, tools: Callable[[], Sequence[Tool]], written: ToolNaming = attrgetter("name")
    ) -> None:
        self._rules = config
        self._tools = tools
        """The tools that the caller sees without a surface."""
        self._written = written
        self._idle = not any(getattr(config, rule) for rule in config.__struct_fields__ if rule not in _ELSEWHERE)

    def prepare(self, turn: TurnHistory) -> AskModel | CallTools | EndTurn:
        if self._idle:
            return AskModel()
        facts = self._facts(turn)
        if not turn.replies and self._rules.direct and (outright := _named_outright(facts)) is not None:
            return outright
        ended = _own_answer(facts, turn)
        if ended is not None:
            return ended
        state = replay(facts, turn.replies)
        return (
            _limit(state)
            or _reading("evidence", state.next_read())
            or _failed_read(facts, turn, state)
            or _nothing_found(state)
            or AskModel(_surface(state), _notes(state))
        )

    def receive(self, turn: TurnHistory, parts: tuple[Part, ...]) -> AcceptReply | RetryReply | CallTools | EndTurn:
        if self._idle:
            return AcceptReply(parts)
        facts = self._facts(turn)
        if any(isinstance(part, ToolUse) for part in parts):
            return repair_reply(facts, parts)
        state = replay(facts, turn.replies)
        answer = "".join(part.text for part in parts if isinstance(part, Text))
        return _without_evidence(turn, state) or _citing(turn, state, answer) or AcceptReply(parts)

    def surface(self, turn: TurnHistory) -> Surface | None:
        """Return the surface of the last reply; None for the runtime's own calls, which may use every tool."""
        if self._idle or (turn.replies and is_by_runtime(turn.replies[-1])):
            return None
        return _surface(replay(self._facts(turn), turn.replies[:-1]))

    def refusals(self, turn: TurnHistory) -> Mapping[str, RefusedCall]:
        if self._idle or not turn.replies:
            return {}
        calls = judge_calls(replay(self._facts(turn), turn.replies[:-1]), turn.replies[-1])
        return {called.step.use.id: refused for called, refused in calls if refused is not None}

    def _facts(self, turn: TurnHistory) -> TurnFacts:
        return facts_of(self._rules, self._tools(), turn, self._written)


def _named_outright(facts: TurnFacts) -> CallTools | None:
    """Return the call that the message spells out, if its tool is available."""
    direct = None if facts.intent is None else facts.intent.direct
    if direct is None or not facts.tools.has(direct.tool):
        return None
    args = direct.args if direct.tool != SEARCH or facts.scope is None else {**direct.args, "path": facts.scope}
    what = quoted(str(args.get("path") or args.get("query")))
    return CallTools("direct", (_use(direct.tool, args),), f"the message names {what}")


def _reading(rule: str, read: RuntimeRead | None) -> CallTools | None:
    return None if read is None else CallTools(rule, (_use(READ, {"path": read.path}),), read.reason)


def _use(name: str, args: Mapping[str, str | int]) -> ToolUse:
    return ToolUse(f"{RUNTIME_ID_PREFIX}1", name, json.dumps(args, ensure_ascii=False))


def _surface(state: TurnProgress) -> Surface | None:
    surface = state.turn.surface
    return ANSWER_ONLY if surface is not None and state.answered else surface


def _notes(state: TurnProgress) -> tuple[str, ...]:
    facts = state.turn
    notes: list[str] = []
    if state.answered:
        shown = quoted_list(state.evidence().shown)
        notes.append(f"You have read {shown}. Answer now from what it says, and ask for nothing more.")
    elif facts.surface is not None:
        left = f"Tools for this message: {', '.join(map(facts.tools.written, facts.surface_tools))}."
        notes.append(left if facts.surface_tools else "This message needs no tools: answer it in words.")
    if not state.answered and state.needs_evidence and not state.candidates and not state.has_evidence():
        notes.append("Look before you answer: search for one word of the code, then read a file the search finds.")
    unexplained = [each.message for each in state.just_refused if each.rule in _SAID_BY_POLICY]
    return (*(f"{_NOTE}{note}" for note in notes), *dict.fromkeys(unexplained))


def _without_evidence(turn: TurnHistory, state: TurnProgress) -> RetryReply | CallTools | EndTurn | None:
    """Handle an answer that came before any evidence."""
    if not state.needs_evidence or state.has_evidence():
        return None
    if state.candidates or state.search_closed or not _may_correct(turn, "evidence"):
        return _reading("evidence", state.read_before_answer()) or _no_evidence(state)
    searched = bool(state.searches)
    if state.reads:
        what = f"{quoted_list(state.paths_read)} does not show it" + (
            ", and the search found nothing" if searched else ""
        )
    elif searched:
        what = "the search found nothing"
    else:
        what = "no file that shows it was read" if state.has_success else "no search was made for this message"
    return _again(
        "evidence",
        f"That cannot be answered yet: {what}. "
        f"Search for {'another' if searched else 'one'} name of the code, and read a file that is found.",
    )


def _again(rule: str, note: str) -> RetryReply:
    return RetryReply(rule, f"{CORRECTION}{note}")


def _may_correct(turn: TurnHistory, rule: str) -> bool:
    return turn.retries.get(rule, 0) < MAX_CORRECTIONS


# Files that an answer names


def _citing(turn: TurnHistory, state: TurnProgress, answer: str) -> RetryReply | CallTools | EndTurn | None:
    """Handle an answer that names a file which was not read, if the message is about the content of files."""
    facts = state.turn
    if not facts.rules.citations or facts.intent is None or facts.intent.surface != RETRIEVAL_FIRST:
        return None
    known = _files_known(turn, facts.tools)
    texts = [text for called in facts.tools.calls(turn.replies) for text in _texts(called)]
    for path in paths_in(answer):
        read, found = _meant(path, known), _meant(path, [each.path for each in state.candidates])
        if _meant(path, facts.named) is not None:
            continue
        if read is not None:
            if facts.scope is not None and not is_inside(read, facts.scope):
                return _cites_outside(turn, state, quoted(path), quoted(facts.scope))
        elif not state.has_unknown_results and (found is not None or not any(path in text for text in texts)):
            return _cites_unread(turn, state, quoted(path), found, known)
    return None


def _cites_outside(turn: TurnHistory, state: TurnProgress, path: str, scope: str) -> RetryReply | EndTurn:
    """Handle an answer about a file outside the folder that the message is limited to."""
    if _may_correct(turn, "citations"):
        about = f"Answer again, about {scope} only."
        return _again("citations", f"Your answer names {path}, which is not in {scope}. {about}")
    return _stopped("citations", f"The model was stopped: its answer is about {path}, which is not in {scope}", state)


def _cites_unread(
    turn: TurnHistory, state: TurnProgress, path: str, found: str | None, read: list[str]
) -> RetryReply | CallTools | EndTurn:
    if found is not None and CITED not in state.runtime_calls and state.turn.tools.has(READ):
        return CallTools("citations", (_use(READ, {"path": found}),), f"the answer names {quoted(found)}")
    if _may_correct(turn, "citations"):
        known = f"Name only files you have read: {quoted_list(read)}." if read else "You have read no file."
        return _again("citations", f"Your answer names {path}, which was not read. {known} Answer again.")
    return _stopped("citations", f"The model was stopped: its answer names {path}, which it has not read", state)


def _files_known(turn: TurnHistory, tools: ToolIndex) -> list[str]:
    """Return the files that were read or changed in the conversation, without duplicates, those of this turn first.

    Reported successes count here: naming a file claims less than having found something in it.
    """
    calls = tools.calls([*turn.replies, *turn.earlier_replies])
    known = (called.file for called in calls if called.name in {READ, *CHANGE_TOOLS} and called.is_success)
    return list(dict.fromkeys(known))


def _meant(path: str, known: Iterable[str]) -> str | None:
    """Return the file that a path means, by its full path or its last parts."""
    return next((each for each in known if refers_to(path, each)), None)


def _texts(called: CallFacts) -> Iterator[str]:
    """Yield the texts of a result; for a search the lines only, because its files have yet to be read."""
    if called.outcome is not Outcome.DONE:
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


# Answers of the runtime in the model's place, from typed results only; each ends the turn


def _own_answer(facts: TurnFacts, turn: TurnHistory) -> EndTurn | None:
    """Return the outcome of the last calls if it is the answer: a file to show, a change made or rejected."""
    calls = _last_calls(facts, turn)
    if not calls:
        return None
    shown = _file_shown(facts, turn, calls) if facts.rules.direct else None
    return shown or (_changed(facts, turn, calls) if facts.rules.own_answers else None)


def _failed_read(facts: TurnFacts, turn: TurnHistory, state: TurnProgress) -> EndTurn | None:
    """Report a failed read that leaves the model with nothing, because it would only guess other paths."""
    if not facts.rules.own_answers or state.reads or state.has_untried or state.has_unknown_results:
        return None
    for called in _last_calls(facts, turn):
        if called.by_runtime and "/" not in called.path and _shown(facts) is None:
            continue  # a bare file name may be in some folder, which the model can search for
        result = called.step.result
        # Nothing else in the runtime's own calls can be invalid.
        refused = called.by_runtime and result is not None and result.failure is Failure.INVALID_ARGUMENTS
        if called.name == READ and (called.outcome is Outcome.FAILED or refused):
            error = _line(result.error if result is not None else None).removesuffix(".")
            return EndTurn(
                "own_answers", f"I couldn't read {quoted(called.path)}: {error}. No file contents were read."
            )
    return None


def _limit(state: TurnProgress) -> EndTurn | None:
    """End the turn after a repeated mistake or too many rounds."""
    rules = state.turn.rules
    for rule, what in _SLIPS.items():
        if getattr(rules, rule) and state.refused.get(rule, 0) >= MAX_SLIPS:
            return _stopped(rule, f"The model was stopped: it {what}", state)
    if rules.rounds and state.rounds >= MAX_ROUNDS:
        return _stopped("rounds", f"The model was stopped after {MAX_ROUNDS} rounds of calls without an answer", state)
    return None


def _nothing_found(state: TurnProgress) -> EndTurn | None:
    """End the turn after two empty searches and no read."""
    if not state.needs_evidence or state.reads or len(state.searches) < 2 or state.candidates or state.has_evidence():
        return None
    return _no_evidence(state)


def _no_evidence(state: TurnProgress) -> EndTurn:
    if state.reads:
        what = "What was read does not show the answer"
    elif state.candidates:
        what = "What was found could not be read"
    elif state.searches:
        what = "I found nothing in the project that answers this"
    else:
        what = "The model was stopped: it answered before a file that shows it was read"
    return _stopped("evidence", what, state)


def _stopped(rule: str, what: str, state: TurnProgress) -> EndTurn:
    """End the turn with the known searches and reads; claim that there were none only if that is certain."""
    searched = quoted_list([each.query for each in state.searches if each.query])
    parts = {
        "Searched for": searched or ("" if state.has_unknown_results or state.has_success else "nothing"),
        "Read": quoted_list(state.paths_read) or ("" if state.has_unknown_results else "nothing"),
    }
    so_far = "".join(f"{what}: {names}. " for what, names in parts.items() if names)
    return EndTurn(rule, f"{what}. {so_far}Ask in other words, or name a file to read.", stopped=True)


def _last_calls(facts: TurnFacts, turn: TurnHistory) -> list[CallFacts]:
    """Return the calls of the last reply that has any."""
    last = next((each for each in reversed(turn.replies) if each.calls), None)
    return [] if last is None else [facts.tools.called(step) for step in last.calls]


def _shown(facts: TurnFacts) -> DirectCall | None:
    """Return the read whose content is the answer."""
    direct = None if facts.intent is None else facts.intent.direct
    return direct if direct is not None and direct.raw else None


def _file_shown(facts: TurnFacts, turn: TurnHistory, calls: list[CallFacts]) -> EndTurn | None:
    direct = _shown(facts)
    first_round = sum(bool(each.calls) for each in turn.replies) == 1
    if direct is None or not first_round or not all(called.by_runtime for called in calls):
        return None
    typed, content = calls[0].facts, calls[0].content
    if content is None:
        return None
    if typed.get("limited_by") == "line":
        return EndTurn("direct", f"{quoted(calls[0].path)} has a line that is too long to show.")
    if not content:
        return EndTurn("direct", f"{quoted(calls[0].path)} is empty.")
    return EndTurn("direct", content + _rest(direct, typed, content))


def _rest(asked: DirectCall, typed: Args, content: str) -> str:
    """Return a note about the requested lines that are missing."""
    begins, then, total = typed.get("offset"), typed.get("next_offset"), typed.get("total_lines")
    offset, limit = asked.args.get("offset"), asked.args.get("limit")
    all_shown = isinstance(offset, int) and isinstance(limit, int) and isinstance(then, int) and then >= offset + limit
    if not isinstance(then, int) or all_shown:
        return ""
    lines = f"lines {begins} to {then - 1}" + (f" of {total}" if isinstance(total, int) else "")
    return f"{'' if content.endswith(chr(10)) else chr(10)}\n[The file goes on: these are {lines}.]"


def _changed(facts: TurnFacts, turn: TurnHistory, calls: list[CallFacts]) -> EndTurn | None:
    """Report changes only if the outcome of every call in the reply is known; otherwise the model reports."""
    acting = [called for called in calls if called.name not in READ_ONLY_TOOLS]
    changes = [(called.path, called.step.result) for called in acting if called.name in CHANGE_TOOLS]
    rejected = [path for path, result in changes if result is not None and result.failure is Failure.REJECTED]
    if not acting or sum(map(_is_change_made, acting)) + len(rejected) < len(acting):
        return None
    everything = list(facts.tools.calls(turn.replies))
    made = [called.step.result for called in everything if _is_change_made(called)]
    # The tool's own line, without the note that a user changed the arguments.
    done = [_line("" if result is None else without_change_note(result.output)) for result in made]
    if not rejected:
        return EndTurn("own_answers", "\n".join(done))
    if not any(called.may_have_changed_files for called in everything):
        return EndTurn("own_answers", "Canceled. No file was changed.")
    return EndTurn("own_answers", "\n".join([*done, _not_made(everything, rejected)]))


def _is_change_made(called: CallFacts) -> bool:
    """Whether a change was made. A result written by a user is not typed, so its changes are unknown."""
    return called.name in CHANGE_TOOLS and called.outcome is Outcome.DONE and bool(called.facts)


def _not_made(turn: Sequence[CallFacts], rejected: Sequence[str]) -> str:
    """Report rejected changes without denying that other calls may have changed the files."""
    others = [called for called in turn if called.may_have_changed_files]
    touched = any(called.name not in CHANGE_TOOLS or not called.path for called in others)
    touched = touched or not _are_apart([called.path for called in others], rejected)
    paths = quoted_list(list(dict.fromkeys(rejected)))
    return f"Canceled: this change to {paths} was not made." if touched else f"Canceled: {paths} was not changed."


def _are_apart(others: Sequence[str], rejected: Sequence[str]) -> bool:
    """Whether the paths certainly name different files: a file can have aliases, and some file systems ignore case."""
    names = {plain_path(path).casefold() for path in others}
    plain = all(is_plain(path) and plain_path(path) == path for path in (*others, *rejected))
    return not others or (plain and not any(plain_path(path).casefold() in names for path in rejected))


def _line(text: str | None) -> str:
    """Return the first line of a message, shortened."""
    first = next((line.strip() for line in (text or "").splitlines() if line.strip()), "") or "no reason was given"
    return first if len(first) <= _LONGEST_ERROR else f"{first[: _LONGEST_ERROR - 1]}…"

"""The guard-rails for small models: look up what a message is about, narrow the tools, repair and replace replies."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from holdfast.agent.guard import AcceptReply, AskModel, CallTools, EndTurn, RefusedCall, RetryReply, TurnHistory
from holdfast.agent.slot_state import without_change_note
from holdfast.agent.surface import ANSWER_ONLY, GIT_READ_ONLY, MUTATION_ENABLED, RETRIEVAL_FIRST, Surface
from holdfast.config.config import GuardrailsConfig
from holdfast.contract.enums import Failure
from holdfast.contract.json import Args
from holdfast.contract.message import Part, ToolUse
from holdfast.contract.tool import Tool
from holdfast.guardrails.evidence import LONGEST_EDITED, is_plain, likely_line, plain_path
from holdfast.guardrails.intent import DIFF, EDIT, FIND, LIST, LOG, READ, SEARCH, STATUS, DirectCall, Kind
from holdfast.guardrails.progress import (
    CORRECTION,
    NEW_TEXT,
    OLD_TEXT,
    TurnProgress,
    judge_calls,
    next_calls,
    repair_reply,
    replay,
)
from holdfast.guardrails.turn_facts import (
    CHANGE_TOOLS,
    READ_ONLY_TOOLS,
    RUNTIME_ID_PREFIX,
    CallFacts,
    CallStyle,
    Outcome,
    ToolIndex,
    TurnFacts,
    call_key,
    facts_of,
    is_by_runtime,
)
from holdfast.models.requests.masked_text import quoted, quoted_list

MAX_ROUNDS: Final = 6
"""Rounds of calls; then the model is asked for its answer alone."""
MAX_SLIPS: Final = 2
"""Replies with a call that is refused: after the first the model gets no such tools, the second ends the turn."""
MAX_CORRECTIONS: Final = 1
"""How often a reply is sent back for the same rule."""
CHANGE_ONLY: Final = Surface("change-only", tuple(sorted(CHANGE_TOOLS)))
EDIT_ENABLED: Final = Surface("edit-enabled", (EDIT, FIND, LIST, READ, SEARCH))
EDIT_ONLY: Final = Surface("edit-only", (EDIT,))
"""A small model overwrites a file with the part that it was to change."""
_LONGEST_ERROR: Final = 400
_LONGEST_QUESTION: Final = 300
"""A longer message is not repeated to the model."""
_MOST_COMPARED: Final = 2000
"""Lines that are compared with the text of an edit that failed."""
_ONLY_RENAMES: Final = re.compile(
    r"(?:(?:please|can you|could you),? )*rename (?:the )?(?:\w+ )?\S+ (?:to|as) \S+ in (?:the )?(?:file )?\S+?"
    r"(?:,? please|,? thanks)?[.!?]?",
    re.IGNORECASE,
)
_CLOSEST: Final = 3
"""Lines that are shown to a model whose edit was not found in the file."""
_ELSEWHERE: Final = frozenset({"enabled"})
_NOTE: Final = "[runtime:note] "


class GuardRails:
    """A stateless `Guard`: every decision follows from the turn, the rules and the available tools."""

    def __init__(self, config: GuardrailsConfig, tools: Callable[[], Sequence[Tool]], style: CallStyle) -> None:
        self._rules = config
        self._tools = tools
        """The tools that the caller sees without a surface."""
        self._style = style
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
            or _look_up(state)
            or _rename(state, turn)
            or _failed_read(facts, turn, state)
            or AskModel(_surface(state), _notes(state, turn, list(facts.tools.calls(turn.replies))))
        )

    def receive(self, turn: TurnHistory, parts: tuple[Part, ...]) -> AcceptReply | RetryReply | CallTools | EndTurn:
        if self._idle:
            return AcceptReply(parts)
        facts = self._facts(turn)
        if any(isinstance(part, ToolUse) for part in parts):
            return repair_reply(facts, parts)
        return _change_not_made(facts, turn) or AcceptReply(parts)

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
        return facts_of(self._rules, ToolIndex(self._tools(), self._style), turn)


def _named_outright(facts: TurnFacts) -> CallTools | None:
    """Return the call that the message spells out, if its tool is available."""
    direct = None if facts.intent is None else facts.intent.direct
    if direct is None or not facts.tools.has(direct.tool):
        return None
    args = direct.args if direct.tool != SEARCH or facts.scope is None else {**direct.args, "path": facts.scope}
    named = args.get("path") or args.get("query")
    reason = f"the message names {quoted(str(named))}" if named else "the message asks about the repository"
    calls: list[tuple[str, Args]] = [(direct.tool, dict(args))]
    if direct.tool == DIFF and facts.tools.has(STATUS):  # a diff does not show new files
        calls.insert(0, (STATUS, {}))
    return CallTools("direct", _uses(calls), reason)


def _look_up(state: TurnProgress) -> CallTools | None:
    own = next_calls(state) if state.turn.rules.evidence else None
    return None if own is None else CallTools("evidence", _uses(own.calls), own.reason)


def _rename(state: TurnProgress, turn: TurnHistory) -> CallTools | None:
    """Return the edit of a message that asks only to rename something in one file, which was read to its end."""
    intent = state.intent
    if not state.turn.rules.direct or intent is None or intent.renamed is None or intent.asks_first or intent.acts:
        return None
    if not _ONLY_RENAMES.fullmatch(turn.prompt.strip()) or not state.shows_named_file:
        return None
    old, new = intent.renamed
    path = state.reads[-1]
    if (
        state.is_settled
        or not state.turn.tools.has(EDIT)
        or not _has_only_whole(old, state.contents.get(plain_path(path), ""))
    ):
        return None
    args: Args = {"path": path, "search": old, "replace": new, "mode": "all"}
    if call_key(EDIT, args) in state.made:
        return None
    return CallTools("direct", _uses([(EDIT, args)]), f"the message renames {quoted(old)}")


def _uses(calls: Sequence[tuple[str, Args]]) -> tuple[ToolUse, ...]:
    return tuple(
        ToolUse(f"{RUNTIME_ID_PREFIX}{number}", name, json.dumps(args, ensure_ascii=False))
        for number, (name, args) in enumerate(calls, 1)
    )


# Tools and notes for the model


def _surface(state: TurnProgress) -> Surface | None:
    """Return the tools for the next reply; None shows all of them, wherever it is not certain which ones are needed."""
    intent, rules = state.intent, state.turn.rules
    changes = intent is not None and intent.kind is Kind.CHANGE
    creates = intent is not None and intent.creates
    if (rules.duplicate_calls and state.slips) or (rules.rounds and state.rounds >= MAX_ROUNDS):
        return (CHANGE_ONLY if creates or not state.reads else EDIT_ONLY) if changes else ANSWER_ONLY
    if not rules.surfaces or intent is None or intent.acts:
        return None
    if changes:
        if not state.reads:
            return None
        return MUTATION_ENABLED if creates else EDIT_ONLY if state.shows_named_file else EDIT_ENABLED
    if intent.kind is Kind.GIT:
        return None if intent.files else ANSWER_ONLY if _git_answered(state) else GIT_READ_ONLY
    if intent.kind is not Kind.LOOKUP:
        return None
    if not rules.evidence:
        return RETRIEVAL_FIRST
    return ANSWER_ONLY if state.has_evidence else None


def _git_answered(state: TurnProgress) -> bool:
    """Whether the call that answers a question about the repository was made."""
    direct = None if state.intent is None else state.intent.direct
    return direct is not None and call_key(direct.tool, dict(direct.args)) in state.done


def _newest_commit(calls: Sequence[CallFacts]) -> str:
    """Say which commit is the newest: small models confuse the first and the last of a list."""
    match next((each.facts for each in calls if each.name == LOG), None):
        case {"commits": [{"author": str(author), "date": str(date), "subject": str(subject)}, *_]}:
            return f"The newest commit is {quoted(subject)} by {quoted(author)} on {quoted(date)}. "
        case _:
            return ""


def _notes(state: TurnProgress, turn: TurnHistory, calls: Sequence[CallFacts]) -> tuple[str, ...]:
    intent = state.intent
    notes: list[str] = []
    if intent is not None and intent.kind is Kind.CHANGE:
        notes += _about_the_edit(state, turn, calls)
    elif intent is not None and intent.kind is Kind.GIT:
        if _git_answered(state):
            notes.append(f"{_newest_commit(calls)}Now answer in one or two sentences{_again(turn)}")
    elif state.turn.rules.evidence and intent is not None and intent.kind in (Kind.LOOKUP, Kind.QUESTION):
        notes += _about_the_evidence(state, turn)
    if state.slips:
        notes.append("Answer now." if not notes else "")
    return tuple(f"{_NOTE}{note}" for note in notes if note)


def _about_the_evidence(state: TurnProgress, turn: TurnHistory) -> list[str]:
    places = state.places
    if state.has_evidence:
        read = [f"You have read {quoted_list(list(dict.fromkeys(state.reads)))}."] if state.reads else []
        named = ", with the path of the file" if state.reads else ""
        return [" ".join((*places, *read, f"Now answer in one or two sentences{named}{_again(turn)}"))]
    if state.searches and not state.found and not state.has_unknown_results:
        limits = [search.within for search in state.searches if search.within]
        where = f"in {quoted_list(list(dict.fromkeys(limits)))}" if limits else "of the project"
        return [f"A search {where} for {quoted_list([each.query for each in state.searches])} found nothing."]
    return places


def _again(turn: TurnHistory) -> str:
    """Repeat a short message: a small model follows what it read last."""
    return f": {turn.prompt}" if len(turn.prompt) <= _LONGEST_QUESTION else "."


def _about_the_edit(state: TurnProgress, turn: TurnHistory, calls: Sequence[CallFacts]) -> list[str]:
    if not state.turn.rules.edit_repair or not state.turn.tools.has(EDIT):
        return []
    edit = next((called for called in reversed(calls) if called.name == EDIT), None)
    if edit is not None and edit.outcome is Outcome.FAILED:
        repaired = _repaired_edit(state, edit)
        if repaired or edit is calls[-1]:
            return repaired
    form = _edit_form(state)
    if not form or (state.intent is not None and state.intent.asks_first):
        return []
    return [f"Now make the change{_again(turn)}\n{form}"]


def _edit_form(state: TurnProgress) -> str:
    """Return an edit of the file that was read last as the model writes it, with what the message says filled in.

    Empty if there is no such file, something was changed already, or the message may ask for a new file.
    """
    intent = state.intent
    if intent is None or not state.reads or state.is_settled:
        return ""
    if intent.creates and not any(map(state.was_read, intent.files)):
        return ""
    path = state.reads[-1]
    content = state.contents.get(plain_path(path), "")
    args: Args = {"path": path, "search": OLD_TEXT, "replace": NEW_TEXT}
    if intent.renamed is not None and _has_only_whole(intent.renamed[0], content):
        args |= {"search": intent.renamed[0], "replace": intent.renamed[1], "mode": "all"}
        return state.turn.tools.written_call(EDIT, args)
    line = likely_line(content, intent)
    if line and intent.adds:
        form = state.turn.tools.written_call(EDIT, {**args, "search": line, "replace": f"{line}\n{NEW_TEXT}"})
        return f"{form}\nWrite what is to be added in place of {NEW_TEXT}."
    if line and state.slips:  # after a copied placeholder
        form = state.turn.tools.written_call(EDIT, {**args, "search": line, "replace": line})
        return f"{form}\nChange the text in `replace`."
    form = state.turn.tools.written_call(EDIT, args)
    return f"{form}\n{OLD_TEXT} is probably this line: {quoted(line)}" if line else form


def _has_only_whole(name: str, content: str) -> bool:
    """Whether a text has the name, and not within longer names, where an edit would replace it too."""
    whole = len(re.findall(rf"(?<!\w){re.escape(name)}(?!\w)", content))
    return whole > 0 and content.count(name) == whole


def _repaired_edit(state: TurnProgress, failed: CallFacts) -> list[str]:
    """Show a model whose edit failed the edit that it may have meant."""
    wanted, content = str(failed.args.get("search") or ""), state.contents.get(plain_path(failed.path), "")
    args = {key: failed.args[key] for key in ("path", "search", "replace") if key in failed.args}
    written = state.turn.tools.written_call
    times = content.count(wanted) if wanted else 0
    if times > 1:
        lines = [line.strip() for line in content.splitlines() if wanted in line]
        where = f", in the lines {quoted_list(lines, _CLOSEST)}" if lines else ""
        every = f"To replace all of them:\n{written(EDIT, {**args, 'mode': 'all'})}"
        return [f"The file has this text more than once{where}. {every}\nTo replace one, search for its whole line."]
    lines = [] if times else _lines_like(wanted, content)
    if not lines:
        return []
    others = f" Other lines like it: {quoted_list(lines[1:])}." if lines[1:] else ""
    form = written(EDIT, {**args, "search": lines[0]})
    which = "What was read of the file" if plain_path(failed.path) in state.partly_read else "The file"
    return [f"{which} has no such text. It has this line: {quoted(lines[0])}.{others} For example:\n{form}"]


def _lines_like(wanted: str, content: str) -> list[str]:
    """Return the lines of a file that are closest to the first line of a text."""
    first = next((line.strip() for line in wanted.splitlines() if line.strip()), "")
    lines = (line.strip() for line in content.splitlines()[:_MOST_COMPARED] if len(line) <= LONGEST_EDITED)
    return difflib.get_close_matches(first[:LONGEST_EDITED], dict.fromkeys(lines), n=_CLOSEST, cutoff=0.4)


def _change_not_made(facts: TurnFacts, turn: TurnHistory) -> RetryReply | None:
    """Send back an answer to a request for a change if no change was tried."""
    intent = facts.intent
    if not facts.rules.edit_repair or intent is None or intent.kind is not Kind.CHANGE or not facts.tools.has(EDIT):
        return None
    if intent.asks_first or turn.retries.get("edit_repair", 0) >= MAX_CORRECTIONS:
        return None
    if any(called.name not in READ_ONLY_TOOLS for called in facts.tools.calls(turn.replies)):
        return None
    form = _edit_form(replay(facts, turn.replies))
    note = f"{CORRECTION}Nothing was changed. To change the file, reply with this form:\n{form}"
    return RetryReply("edit_repair", note) if form else None


# Answers of the runtime in the model's place, from typed results only; each ends the turn


def _own_answer(facts: TurnFacts, turn: TurnHistory) -> EndTurn | None:
    """Return the outcome of the last calls if it is the answer: a file to show, a change made or rejected."""
    calls = _last_calls(facts, turn)
    if not calls:
        return None
    shown = _file_shown(facts, turn, calls) if facts.rules.direct else None
    return shown or (_changed(facts, turn, calls) if facts.rules.own_answers else None)


def _failed_read(facts: TurnFacts, turn: TurnHistory, state: TurnProgress) -> EndTurn | None:
    """Report the failed read of a file that the message names, if there is nothing else to answer from.

    A file to change may be a new one.
    """
    intent = facts.intent
    if not facts.rules.own_answers or intent is None or intent.kind is Kind.CHANGE:
        return None
    if state.reads or state.found or state.has_unknown_results:
        return None
    named = (*intent.files, str(intent.direct.args.get("path", "")) if intent.direct is not None else "")
    for called in facts.tools.calls(turn.replies):
        result = called.step.result
        # Nothing else in the runtime's own calls can be invalid.
        refused = called.by_runtime and result is not None and result.failure is Failure.INVALID_ARGUMENTS
        if called.name == READ and called.path in named and (called.outcome is Outcome.FAILED or refused):
            error = _line(result.error if result is not None else None).removesuffix(".")
            return EndTurn(
                "own_answers", f"I couldn't read {quoted(called.path)}: {error}. No file contents were read."
            )
    return None


def _limit(state: TurnProgress) -> EndTurn | None:
    """End the turn after a repeated mistake or too many rounds."""
    rules = state.turn.rules
    if rules.duplicate_calls and state.slips >= MAX_SLIPS:
        return _stopped("duplicate_calls", "The model was stopped: its calls were refused again", state)
    if rules.rounds and state.rounds > MAX_ROUNDS:
        return _stopped("rounds", f"The model was stopped after {MAX_ROUNDS} rounds of calls without an answer", state)
    return None


def _stopped(rule: str, what: str, state: TurnProgress) -> EndTurn:
    """End the turn with what is known; claim that nothing was searched or read only if that is certain."""
    searched = quoted_list([each.query for each in state.searches])
    parts = {
        "Searched for": searched or ("" if state.has_unknown_results else "nothing"),
        "Read": quoted_list(list(dict.fromkeys(state.reads))) or ("" if state.has_unknown_results else "nothing"),
    }
    so_far = "".join(f"{done}: {names}. " for done, names in parts.items() if names)
    places = "".join(f" {place}" for place in state.places)
    return EndTurn(rule, f"{what}.{places} {so_far}Ask in other words, or name a file to read.", stopped=True)


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
    if facts.intent is not None and facts.intent.acts:
        return None
    acting = [called for called in calls if called.name not in READ_ONLY_TOOLS]
    changes = [(called.path, called.step.result) for called in acting if called.name in CHANGE_TOOLS]
    rejected = [path for path, result in changes if result is not None and result.failure is Failure.REJECTED]
    if not acting or sum(map(_is_change_made, acting)) + len(rejected) < len(acting):
        return None
    everything = list(facts.tools.calls(turn.replies))
    made = [called.step.result for called in everything if _is_change_made(called)]
    # The tool's own words, without the note that a user changed the arguments.
    done = ["" if result is None else without_change_note(result.output).rstrip() for result in made]
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

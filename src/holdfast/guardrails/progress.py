"""Progress of a turn: replays its calls, refuses and repairs calls of the model, and plans the runtime's own."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from holdfast.agent.guard import AcceptReply, PastReply, RefusedCall, ReplyCall
from holdfast.contract.json import Args
from holdfast.contract.message import Part, ToolUse
from holdfast.guardrails.evidence import (
    Search,
    best_file,
    describe,
    is_inside,
    is_plain,
    plain_path,
    refers_to,
    same_path,
    search_of,
)
from holdfast.guardrails.intent import EDIT, FIND, READ, SEARCH, Intent, Kind, Mode, Term
from holdfast.guardrails.turn_facts import (
    CHANGE_TOOLS,
    READ_ONLY_TOOLS,
    RUNTIME_ID_PREFIX,
    CallFacts,
    Outcome,
    TurnFacts,
    call_key,
    is_by_runtime,
)
from holdfast.models.requests.masked_text import quoted, quoted_list
from holdfast.models.requests.words import word_set

CORRECTION: Final = "[runtime:correction] "
OLD_TEXT: Final = "OLD TEXT"
NEW_TEXT: Final = "NEW TEXT"
"""Placeholders in the form of an edit."""
SHOWN_PER_TERM: Final = 8
"""Lines that a search for a plain word shows: several are made at once."""
FIRST_LINES: Final = 150
"""Lines from the start of a file in which a match is read without skipping any."""
LINES_BEFORE: Final = 30
"""Lines that are read before a match further down."""


class TurnProgress(Struct, frozen=True, kw_only=True):
    """The state of a turn, computed by replaying it and never stored."""

    turn: TurnFacts
    rounds: int = 0
    """Replies of the model with calls."""
    slips: int = 0
    """Replies of the model in which a call was refused: a model is corrected between replies, not within one."""
    searches: tuple[Search, ...] = ()
    found_files: tuple[str, ...] = ()
    """The files that `file.find` found."""
    finds: tuple[str, ...] = ()
    """Patterns that `file.find` was called with."""
    reads: tuple[str, ...] = ()
    """Files that were read."""
    contents: Mapping[str, str] = field(default_factory=dict[str, str])
    """What was read of each file, by its plain path."""
    partly_read: frozenset[str] = frozenset()
    """Plain paths of the files that go on after what was read of them last."""
    attempts: tuple[str, ...] = ()
    """Paths of all reads that have ended, successful or not."""
    done: frozenset[str] = frozenset()
    """Keys of calls that succeeded and whose result is still current, because nothing has changed since."""
    failed: frozenset[str] = frozenset()
    """Keys of calls that failed, while nothing has changed since."""
    made: frozenset[str] = frozenset()
    """Keys of all calls, whatever became of them."""
    is_settled: bool = False
    """A user rejected a call, or something was changed: nothing more is looked up, and no edit is proposed."""
    has_unknown_results: bool = False
    """The typed result of some call is missing."""

    @property
    def intent(self) -> Intent | None:
        return self.turn.intent

    @property
    def found(self) -> tuple[Search, ...]:
        """The searches that found something."""
        return tuple(search for search in self.searches if search.files)

    @property
    def has_evidence(self) -> bool:
        """Whether a question about the code can be answered: the search shows the places, or the files that the message
        names were read to their end, or a file was read that has what it names: an identifier, or two of its words."""
        intent = self.intent
        if intent is None or intent.kind not in (Kind.LOOKUP, Kind.QUESTION):
            return False
        if self.shows_places or (intent.files and all(map(self.was_read, intent.files)) and not self.partly_read):
            return True
        needed = 1 if any(term.is_identifier for term in self.terms) else max(1, min(2, len(self.terms)))
        texts = [f"{path}\n{content}".lower() for path, content in self.contents.items()]
        return any(sum(term.is_in(text) for term in self.terms) >= needed for text in texts)

    @property
    def terms(self) -> tuple[Term, ...]:
        """What is looked up: the terms of the message, or its words if no file has the terms."""
        intent = self.intent
        if intent is None:
            return ()
        absent = bool(self.searches) and not any(map(self.was_found, intent.terms))
        return intent.words if absent else intent.terms

    @property
    def shows_places(self) -> bool:
        """Whether the message asks for places, and a search for its identifier shows them."""
        intent = self.intent
        return intent is not None and intent.asks_where and bool(self.places)

    @property
    def shows_named_file(self) -> bool:
        """Whether the only file that the message names was read to its end."""
        files = () if self.intent is None else self.intent.files
        return len(files) == 1 and self.was_read(files[0]) and not self.partly_read

    @property
    def places(self) -> list[str]:
        """What the searches show of each identifier of the message, as sentences."""
        intent = self.intent
        if intent is None:
            return []
        names = [term.text for term in intent.terms if term.is_identifier]
        return [
            describe(name, search, intent.mode, intent.words)
            for name in names
            for search in self.found
            if search.query == name
        ]

    def was_searched(self, term: Term) -> bool:
        return any(search.query == term.search["query"] for search in self.searches)

    def was_found(self, term: Term) -> bool:
        return any(search.query == term.search["query"] for search in self.found)

    def was_read(self, path: str) -> bool:
        return any(refers_to(path, read) for read in self.reads)


class OwnCalls(Struct, frozen=True):
    """Calls that the runtime makes in the model's place."""

    calls: tuple[tuple[str, Args], ...]
    reason: str


def next_calls(state: TurnProgress) -> OwnCalls | None:
    """Return the calls that look up what the message is about; None if there is nothing left to look up.

    The files that the message names are read, wherever they are. Otherwise its identifiers are searched, or else its
    most telling words, and the best file is read, unless the search shows the places that were asked for. No call is
    made twice in a turn, whatever became of it, so the look-up always ends.
    """
    intent = state.intent
    if intent is None or intent.kind not in (Kind.LOOKUP, Kind.QUESTION, Kind.CHANGE) or state.is_settled:
        return None
    own = _next_step(state, intent)
    calls = () if own is None else tuple(call for call in own.calls if call_key(*call) not in state.made)
    return replace(own, calls=calls) if own is not None and calls else None


def _next_step(state: TurnProgress, intent: Intent) -> OwnCalls | None:
    places_first = intent.asks_where and intent.kind is Kind.LOOKUP and any(term.is_identifier for term in intent.terms)
    if not (places_first and state.turn.tools.has(SEARCH)) or (state.searches and not state.shows_places):
        named = _next_named_file(state, intent)
        if named is not None:
            return named
    if state.reads or not state.turn.tools.has(SEARCH) or (intent.creates and intent.files):
        return None
    unsearched = tuple(term for term in state.terms if not state.was_searched(term))
    if unsearched and not state.found:
        return _searches(unsearched, state.turn.scope)
    if state.shows_places or not state.found or not state.turn.tools.has(READ):
        return None
    # Without an identifier, what is asked for is rather a value than code.
    valued = intent.kind is Kind.QUESTION and intent.mode is Mode.GENERAL
    path = best_file(Mode.CONFIG if valued else intent.mode, state.found, state.terms)
    return OwnCalls(((READ, _window(path, state)),), f"{quoted(path)} is the likeliest place")


def _window(path: str, state: TurnProgress) -> Args:
    """The arguments to read a file: its beginning, or the lines around a match further down."""
    lines = [line.number for search in state.found for file in search.files if file.path == path for line in file.lines]
    first = min(lines, default=1)
    if first <= FIRST_LINES:
        return {"path": path}
    return {"path": path, "offset": first - LINES_BEFORE, "limit": FIRST_LINES}


def _next_named_file(state: TurnProgress, intent: Intent) -> OwnCalls | None:
    tools = state.turn.tools
    for path in intent.files[:2]:
        if state.was_read(path):
            continue
        if not any(same_path(path, tried) for tried in state.attempts):
            if tools.has(READ):
                return OwnCalls(((READ, {"path": path}),), f"the message names {quoted(path)}")
            continue
        pattern = f"**/{plain_path(path)}"
        if tools.has(FIND) and is_plain(path) and pattern not in state.finds:
            return OwnCalls(((FIND, {"pattern": pattern}),), f"{quoted(path)} may be in some folder")
        matching = [found for found in state.found_files if refers_to(path, found) and found not in state.attempts]
        if len(matching) == 1:
            return OwnCalls(((READ, {"path": matching[0]}),), f"{quoted(path)} is {quoted(matching[0])}")
    return None


def _searches(terms: Sequence[Term], scope: str | None) -> OwnCalls:
    where: Args = {} if scope is None else {"path": scope}
    short: Args = {} if terms[0].is_identifier else {"limit": SHOWN_PER_TERM}
    calls = tuple((SEARCH, {**term.search, **short, **where}) for term in terms)
    return OwnCalls(calls, f"the message is about {quoted_list([term.text for term in terms])}")


# Refusals


def refusal_of(state: TurnProgress, before: Sequence[CallFacts], called: CallFacts) -> RefusedCall | None:
    """Return the refusal of a call of the model, given the progress before its reply and the calls before it in it."""
    rules = state.turn.rules
    if called.by_runtime:
        return None
    if rules.edit_repair and called.name == EDIT and NEW_TEXT in str(called.args.get("replace")):
        return _refused("edit_repair", state, called, f"write the text itself in place of {OLD_TEXT} and {NEW_TEXT}")
    # Applies only to tools with stable results: a tool that waits for something may be polled.
    if not rules.duplicate_calls or called.name not in READ_ONLY_TOOLS | CHANGE_TOOLS:
        return None
    if called.key in state.done:
        return _refused("duplicate_calls", state, called, "its result is above. Answer from it, or call something else")
    if called.key in state.failed:
        return _refused("duplicate_calls", state, called, "it failed before. Change its arguments")
    if any(each.key == called.key for each in before):
        return _refused("duplicate_calls", state, called, "your reply asks for it already. Use what that call gives")
    return None


def _refused(rule: str, state: TurnProgress, called: CallFacts, why: str) -> RefusedCall:
    written = quoted(state.turn.tools.written(called.name))
    return RefusedCall(rule, f"{CORRECTION}{written} was not run with these arguments: {why}.")


def judge_calls(state: TurnProgress, each: PastReply) -> Iterator[tuple[CallFacts, RefusedCall | None]]:
    """Judge the calls of a reply against the progress before it, each with its refusal or None."""
    before: list[CallFacts] = []
    for step in each.calls:
        called = state.turn.tools.called(step)
        no = refusal_of(state, before, called)
        if no is None:
            before.append(called)
        yield called, no


# Replay


def replay(turn: TurnFacts, rounds: Sequence[PastReply]) -> TurnProgress:
    state = TurnProgress(turn=turn)
    for each in rounds:
        if each.calls:
            state = _after(state, each)
    return state


def _after(state: TurnProgress, each: PastReply) -> TurnProgress:
    calls = list(judge_calls(state, each))
    slipped = any(no is not None or (called.is_hidden and not called.by_runtime) for called, no in calls)
    now = replace(
        state,
        rounds=state.rounds + (not is_by_runtime(each)),
        slips=state.slips + slipped,
        made=state.made.union(called.key for called, _ in calls),
        is_settled=state.is_settled or any(called.settles for called, _ in calls),
    )
    changed = any(called.may_have_changed_files for called, _ in calls)
    now = replace(now, done=frozenset[str](), failed=frozenset[str]()) if changed else now
    if any(called.may_have_changed_files and not called.is_failed_change for called, _ in calls):
        now = replace(now, contents={})
    for called, _ in calls:
        now = _with(now, called, current=not changed or called.name in CHANGE_TOOLS)
    return now


def _with(state: TurnProgress, called: CallFacts, *, current: bool) -> TurnProgress:
    """Add the outcome of a call. A call whose result is gone adds nothing and causes no refusal.

    Not `current`: calls of a reply run in any order, so a read next to a change may show the old content.
    """
    outcome = called.outcome
    untyped = called.name in (READ, SEARCH) and outcome is Outcome.DONE and not called.facts
    if called.is_reported_success or untyped:
        state = replace(state, has_unknown_results=True)
    if outcome is Outcome.GONE:
        return state
    if outcome is Outcome.DONE and current:
        state = replace(state, done=state.done | {called.key})
    if outcome is Outcome.FAILED and current:
        state = replace(state, failed=state.failed | {called.key})
    if called.name == READ:
        state = replace(state, attempts=(*state.attempts, called.path))
        if outcome is not Outcome.DONE:
            return state
        path = plain_path(called.file)
        goes_on = isinstance(called.facts.get("next_offset"), int)
        return replace(
            state,
            reads=(*state.reads, called.file),
            contents={**state.contents, path: called.content or ""},
            partly_read=state.partly_read | {path} if goes_on else state.partly_read - {path},
        )
    result = called.step.result
    if called.name == SEARCH and result is not None and (search := search_of(result)) is not None:
        within = called.path or str(called.args.get("glob") or "")
        return replace(state, searches=(*state.searches, replace(search, within=within)))
    if called.name == FIND:
        files = called.facts.get("files")
        found = [path for path in files if isinstance(path, str)] if isinstance(files, list) else []
        pattern = str(called.args.get("pattern", ""))
        return replace(state, finds=(*state.finds, pattern), found_files=(*state.found_files, *found))
    return state


# Repairs of the model's calls

_WORD: Final = re.compile(r"""[^\s\\()\[\]{}.,;:"'`]+""")
_SAYS_NOTHING: Final = word_set(
    # words of questions
    "a an and are fn for find how in initialize initialized initialization implemented is of or the to what where "
    "initialise initialised initialisation all every does do we search locate show usage usages uses used called "
    "callers calls definition definitions defined declared "
    # keywords like `fn` are in every file; the word after them is the one to search for
    "def class function func struct enum trait interface impl pub async "
    # receivers before the dot of a name
    "self this cls"
)
_SHORTEST: Final = 3


def simplify_query(query: str, terms: Sequence[Term]) -> str:
    """Return the word of a query to search for: one that the message names, or the first meaningful one.

    Words end at white space, quotes, brackets and ``\\ . , ; :``. Question words, declaration keywords and `self` are
    skipped, ignoring case: `where is fn parse_line` gives `parse_line`, `Session::open()` gives `Session`,
    `os.path.join` gives `path`.
    """
    words = [match[0] for match in _WORD.finditer(query)]
    names = {term.text for term in terms if term.is_identifier}
    useful = [word for word in words if word.lower() not in _SAYS_NOTHING and len(word) >= _SHORTEST]
    return next((word for word in useful if word in names), next(iter(useful), query))


def repair_reply(turn: TurnFacts, parts: Sequence[Part]) -> AcceptReply:
    changed: dict[str, str] = {}
    taken = {part.id for part in parts if isinstance(part, ToolUse)}
    made = (_own_id(_search(turn, part, changed), taken) if isinstance(part, ToolUse) else part for part in parts)
    return AcceptReply(tuple(made), changed)


def _search(turn: TurnFacts, use: ToolUse, changed: dict[str, str]) -> ToolUse:
    called = turn.tools.called(ReplyCall(use))
    if called.name != SEARCH or not called.args:
        return use
    right: Args = dict(called.args)
    query, scope = called.query, turn.scope
    terms = () if turn.intent is None else turn.intent.terms
    if query is not None and turn.rules.simplify_queries and (word := simplify_query(query, terms)) != query:
        changed["simplify_queries"] = f"{quoted(query)} is searched as {quoted(word)}"
        right["query"] = word
    if scope is not None and not (called.path and is_inside(called.path, scope)):
        changed["scope"] = f"the search keeps to {quoted(scope)}"
        right["path"] = scope
    return use if right == called.args else replace(use, arguments=json.dumps(right, ensure_ascii=False))


def _own_id(use: ToolUse, taken: set[str]) -> ToolUse:
    """Rename the id of a model's call that looks like one of the runtime's."""
    fresh = use.id
    while fresh.startswith(RUNTIME_ID_PREFIX) or (fresh != use.id and fresh in taken):
        fresh = f"model-{fresh}"
    taken.add(fresh)
    return use if fresh == use.id else replace(use, id=fresh)

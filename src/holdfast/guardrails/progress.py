"""Progress of a turn: replays its calls, refuses calls by rule, repairs searches, and picks the runtime's next read."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from holdfast.agent.guard import AcceptReply, PastReply, RefusedCall, ReplyCall
from holdfast.contract.json import Args
from holdfast.contract.message import Part, ToolUse
from holdfast.guardrails.evidence import (
    Candidate,
    Rejection,
    best_candidate,
    candidates_of,
    is_inside,
    plain_path,
    refers_to,
    rejection_of,
    same_path,
)
from holdfast.guardrails.intent import LIST, READ, SEARCH, Mode
from holdfast.guardrails.turn_facts import (
    CHANGE_TOOLS,
    READ_ONLY_TOOLS,
    RUNTIME_ID_PREFIX,
    CallFacts,
    Outcome,
    TurnFacts,
    is_by_runtime,
)
from holdfast.models.requests.masked_text import quoted, quoted_list
from holdfast.models.requests.words import word_set

PREFERRED: Final = "preferred"
"""For a question about usages, the runtime reads the best file at once."""
REDIRECT: Final = "redirect"
"""The model read a file that the search had not found."""
UNREAD: Final = "unread"
"""The model answered before it had read a file that was found."""


class FileRead(Struct, frozen=True):
    path: str
    content: str | None
    """None if the typed result has no text."""


class PastSearch(Struct, frozen=True):
    query: str
    found: bool


class Evidence(Struct, frozen=True):
    shown: tuple[str, ...]
    """Files that were read and count as evidence."""
    rejected: tuple[tuple[str, Rejection], ...]
    """Candidates that were read and do not count, with the reason."""


class RuntimeRead(Struct, frozen=True):
    """A file that the runtime reads in the model's place."""

    purpose: str
    """Why it is read; each purpose is used once."""
    path: str
    reason: str


class TurnProgress(Struct, frozen=True, kw_only=True):
    """The state of a turn, computed by replaying it and never stored."""

    turn: TurnFacts
    rounds: int = 0
    """Replies with calls, including the runtime's own."""
    refused: Mapping[str, int] = field(default_factory=dict[str, int])
    """Per rule, the number of replies in which it refused a call: a model is corrected between replies, not within one.
    """
    just_refused: tuple[RefusedCall, ...] = ()
    """Refusals in the last reply."""
    searches: tuple[PastSearch, ...] = ()
    candidates: tuple[Candidate, ...] = ()
    """The files of the last search that found something."""
    reads: tuple[FileRead, ...] = ()
    attempts: tuple[str, ...] = ()
    """Paths of all reads that ran, successful or not."""
    tried: tuple[str, ...] = ()
    """Paths of all requested reads that have ended."""
    unchanged_reads: frozenset[str] = frozenset()
    """Keys of reads whose result is still current, because nothing has changed since."""
    last_done: str = ""
    """Key of the last call that succeeded."""
    runtime_calls: Mapping[str, int] = field(default_factory=dict[str, int])
    """How often the runtime made calls itself, by purpose."""
    answered: bool = False
    """Enough evidence was read."""
    has_unknown_results: bool = False
    """The typed result of some call is missing, so missing evidence cannot be claimed."""
    has_success: bool = False
    """Some call succeeded."""

    @property
    def needs_evidence(self) -> bool:
        """Whether an answer needs evidence that can be judged."""
        return self.turn.needs_evidence and not self.has_unknown_results

    @property
    def paths_read(self) -> list[str]:
        return list(dict.fromkeys(each.path for each in self.reads))

    @property
    def search_closed(self) -> bool:
        """Whether the search budget is used up: one search, and a second only if the first was empty."""
        return any(each.found for each in self.searches) or len(self.searches) > 1

    @property
    def has_untried(self) -> bool:
        """Whether a candidate is left that no call has tried to read."""
        return any(not any(same_path(each.path, path) for path in self.tried) for each in self.candidates)

    @property
    def next_best(self) -> str | None:
        return best_candidate(self.turn.mode, self.candidates, self.tried)

    def is_candidate(self, path: str) -> bool:
        return any(same_path(path, each.path) for each in self.candidates)

    def candidate_attempts(self) -> int:
        return sum(map(self.is_candidate, self.attempts))

    def evidence(self) -> Evidence:
        contents: dict[str, str] = {}
        for read in self.reads:
            if read.content is not None:
                path = plain_path(read.path)
                contents[path] = contents.get(path, "") + read.content
        shown: list[str] = []
        rejected: list[tuple[str, Rejection]] = []
        for path, content in contents.items():
            if not self.is_candidate(path):
                shown += [path] if self._is_asked_about(path) or self.turn.shows(path, content) else []
            elif (gate := rejection_of(self.turn.mode, path, content, self.candidates)) is None:
                shown.append(path)
            else:
                rejected.append((path, gate))
        return Evidence(tuple(shown), tuple(rejected))

    def is_answered(self) -> bool:
        """Whether enough evidence was read; one file is enough if no candidate is left."""
        return self.needs_evidence and bool(self.reads) and self._is_enough(self.evidence().shown)

    def has_evidence(self) -> bool:
        """Whether the model may answer. Evidence from before the message counts here, but does not narrow the tools."""
        return self.answered or self._is_enough({*self.evidence().shown, *self.turn.earlier_evidence})

    def next_read(self) -> RuntimeRead | None:
        """Return the file that the runtime reads before it asks the model."""
        path = self.next_best if self.needs_evidence and not self.answered and self.candidates else None
        if path is None:
            return None
        evidence = self.evidence()
        for read, gate in evidence.rejected:
            if gate not in self.runtime_calls:
                return RuntimeRead(gate, path, f"{quoted(read)} {gate}")
        if self.turn.mode is Mode.USAGE and self.runtime_calls.get(PREFERRED, 0) < self.turn.files_needed:
            return RuntimeRead(PREFERRED, path, f"{quoted(path)} is the likeliest place")
        strays = [read for read in self.attempts if not (self.is_candidate(read) or self._is_asked_about(read))]
        strays = [read for read in strays if plain_path(read) not in evidence.shown]
        if strays and REDIRECT not in self.runtime_calls and not self.candidate_attempts():
            return RuntimeRead(REDIRECT, path, f"{quoted(strays[-1])} is not among the files that were found")
        return None

    def read_before_answer(self) -> RuntimeRead | None:
        """Return the file that the runtime reads when the model answers without evidence."""
        path = self.next_best if self.candidates and UNREAD not in self.runtime_calls else None
        if path is None:
            return None
        return RuntimeRead(UNREAD, path, "the answer came before any file that shows it was read")

    def _is_enough(self, shown: Collection[str]) -> bool:
        if len(shown) >= self.turn.files_needed:
            return True
        return len(shown) > 0 and self.search_closed and self.next_best is None

    def _is_asked_about(self, path: str) -> bool:
        """Whether the message names the file and asks about its content, so that no search is needed."""
        if self.turn.mode is Mode.USAGE or self.turn.files_needed > 1:
            return False
        return any(refers_to(name, path) for name in self.turn.named)


CORRECTION: Final = "[runtime:correction] "
MAX_READS: Final = 3
MAX_CANDIDATE_READS: Final = 2
DIRECT: Final = "direct"
CITED: Final = "cited"

PrecedingCalls = Sequence[CallFacts]
"""The accepted calls that precede a call in the same reply."""
Check = Callable[[TurnProgress, PrecedingCalls, CallFacts], str | None]


def refusal_of(state: TurnProgress, before: PrecedingCalls, called: CallFacts) -> RefusedCall | None:
    """Return the refusal by the first rule that rejects the call, given the progress before its reply."""
    if called.by_runtime:
        return None
    for rule, check in _CHECKS.items():
        if getattr(state.turn.rules, rule) and (text := check(state, before, called)) is not None:
            return RefusedCall(rule, f"{CORRECTION}{text}")
    return None


def _written(state: TurnProgress, called: CallFacts) -> str:
    return quoted(state.turn.tools.written(called.name))


def _after_evidence(state: TurnProgress, before: PrecedingCalls, called: CallFacts) -> str | None:
    if not state.answered or state.turn.surface is None:
        return None
    shown = quoted_list(state.evidence().shown)
    return f"{_written(state, called)} was not run: you have read {shown}, which shows it. Answer now."


def _outside_surface(state: TurnProgress, before: PrecedingCalls, called: CallFacts) -> str | None:
    names = state.turn.surface_tools
    if state.turn.surface is None or called.name in names:
        return None
    written = ", ".join(map(state.turn.tools.written, names))
    left = f"Call one of {written}, or answer." if names else "There are none: answer in words."
    return f"{_written(state, called)} is not among the tools for this message. {left}"


def _weak_query(state: TurnProgress, before: PrecedingCalls, called: CallFacts) -> str | None:
    query = called.query
    if called.name != SEARCH or query is None or not is_weak_query(query):
        return None
    said = f"{quoted(query)} would find almost everything" if query.strip() else "a search needs something to look for"
    return f"Nothing was searched: {said}. Search for one name of the code, three letters or longer."


def _search_closed(state: TurnProgress, before: PrecedingCalls, called: CallFacts) -> str | None:
    if called.name != SEARCH:
        return None
    if not state.search_closed:
        second = any(each.name == SEARCH for each in before)
        return "One search at a time: look at what the first one finds." if second else None
    if state.candidates:
        return "No more searches for this message. Read a file the search found, or answer."
    return "No more searches for this message. Answer from what you have, or say what is missing."


def _list_before_search(state: TurnProgress, before: PrecedingCalls, called: CallFacts) -> str | None:
    searched = state.searches or any(each.name == SEARCH for each in before)
    if called.name != LIST or not state.turn.investigates or searched:
        return None
    return f"{quoted(called.path or '.')} was not listed: search for a name of the code first, then read what is found."


def _read_budget(state: TurnProgress, before: PrecedingCalls, called: CallFacts) -> str | None:
    if called.name != READ:
        return None
    reads = [each for each in before if each.name == READ]
    path, limit = quoted(called.path), ""
    if called.key in state.unchanged_reads:
        return f"{path} was not read again: its content is above. Use that, or read another file."
    if any(each.key == called.key for each in reads):
        return f"{path} was not read twice: your reply asks for it already. Use what that call gives."
    if len(state.attempts) + len(reads) >= MAX_READS:
        limit = f"{MAX_READS} reads"
    elif state.turn.investigates and state.is_candidate(called.path):
        spent = state.candidate_attempts() + sum(state.is_candidate(each.path) for each in reads)
        limit = f"{MAX_CANDIDATE_READS} reads of files a search found" if spent >= MAX_CANDIDATE_READS else ""
    return f"{path} was not read: {limit} for one message are the limit. Answer from those." if limit else None


def _repeated(state: TurnProgress, before: PrecedingCalls, called: CallFacts) -> str | None:
    """Applies only to tools with stable results: a tool that waits for something may be polled."""
    if called.name not in READ_ONLY_TOOLS | CHANGE_TOOLS:
        return None
    again = f"{_written(state, called)} was not run again with the same arguments:"
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


def judge_calls(state: TurnProgress, each: PastReply) -> Iterator[tuple[CallFacts, RefusedCall | None]]:
    """Judge the calls of a reply against the progress before it, each with its refusal or None."""
    before: list[CallFacts] = []
    for step in each.calls:
        called = state.turn.tools.called(step)
        no = refusal_of(state, before, called)
        if no is None:
            before.append(called)
        yield called, no


def replay(turn: TurnFacts, rounds: Sequence[PastReply]) -> TurnProgress:
    state = TurnProgress(turn=turn)
    for each in rounds:
        if each.calls:
            state = _after(state, each)
    return state


def _after(state: TurnProgress, each: PastReply) -> TurnProgress:
    calls = list(judge_calls(state, each))
    refusals = tuple(dict.fromkeys(no for _, no in calls if no is not None))
    now = replace(
        state,
        rounds=state.rounds + 1,
        refused=_counted(state.refused, {no.rule for no in refusals}),
        just_refused=refusals,
        runtime_calls=_counted(state.runtime_calls, {_purpose(state)}) if is_by_runtime(each) else state.runtime_calls,
    )
    for called, no in calls:
        now = _since(now, called)
        if no is None or called.outcome is Outcome.DONE:
            now = _with(now, called)
    if any(called.may_have_changed_files for called, _ in calls):
        # Calls of a reply run in any order, so a read next to a change may show the old content.
        looked = any(called.key == now.last_done and called.name in READ_ONLY_TOOLS for called, _ in calls)
        now = replace(now, unchanged_reads=frozenset[str](), last_done="" if looked else now.last_done)
    return replace(now, answered=now.is_answered())


def _purpose(state: TurnProgress) -> str:
    """Derive the purpose of a runtime call from the progress at that point."""
    if not state.rounds:
        return DIRECT
    read = state.next_read()
    if read is not None:
        return read.purpose
    return UNREAD if state.needs_evidence and not state.has_evidence() else CITED


def _counted(counts: Mapping[str, int], names: set[str]) -> dict[str, int]:
    return {**counts, **{name: counts.get(name, 0) + 1 for name in names}}


def _since(state: TurnProgress, called: CallFacts) -> TurnProgress:
    """Invalidate what a call may have changed, and note a missing typed result."""
    if called.may_have_changed_files:
        state = replace(state, last_done="", unchanged_reads=frozenset[str]())
    untyped = called.name in (READ, SEARCH) and called.outcome is Outcome.DONE and not called.facts
    return replace(state, has_unknown_results=True) if called.is_reported_success or untyped else state


def _with(state: TurnProgress, called: CallFacts) -> TurnProgress:
    """Add the outcome of a call. A call whose result is gone adds nothing and causes no refusal."""
    outcome = called.outcome
    if outcome is Outcome.DONE:
        state = replace(state, last_done=called.key, has_success=True)
    if called.name == SEARCH and outcome is Outcome.DONE:
        return _with_search(state, called)
    if called.name != READ or outcome is Outcome.GONE:
        return state
    state = replace(state, tried=(*state.tried, called.file))
    if outcome in (Outcome.DONE, Outcome.FAILED):
        state = replace(state, attempts=(*state.attempts, called.file))
    if outcome is Outcome.DONE:
        seen = FileRead(called.file, called.content)
        state = replace(state, reads=(*state.reads, seen), unchanged_reads=state.unchanged_reads | {called.key})
    return state


def _with_search(state: TurnProgress, called: CallFacts) -> TurnProgress:
    assert called.step.result is not None
    if not isinstance(called.facts.get("files"), list):
        return state
    found = candidates_of(called.step.result)
    query = called.args.get("query")
    searched = PastSearch(query if isinstance(query, str) else "", bool(found))
    return replace(state, searches=(*state.searches, searched), candidates=found or state.candidates)


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


def simplify_query(query: str) -> str:
    """Return the first meaningful word that is not weak; the query itself if there is none.

    Words end at white space, quotes, brackets and ``\\ . , ; :``. Question words, declaration keywords and `self` are
    skipped, ignoring case: `where is fn parse_line` gives `parse_line`, `Session::open()` gives `Session`,
    `os.path.join` gives `path`.
    """
    words = (match[0] for match in _WORD.finditer(query))
    return next((word for word in words if word.lower() not in _SAYS_NOTHING and not is_weak_query(word)), query)


def is_weak_query(query: str) -> bool:
    """Whether a query would match everything: empty, shorter than three characters, or `git`."""
    word = query.strip()
    return len(word) < _SHORTEST or word.lower() == "git"


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
    if query is not None and turn.rules.simplify_queries and (word := simplify_query(query)) != query:
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

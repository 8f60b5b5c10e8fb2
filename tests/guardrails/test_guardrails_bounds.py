"""Whatever a model does: the turn ends, nothing is decided twice in two ways, and the runtime repeats nothing.

A small loop drives the guard-rails with replies and results made up at random, as the real one would.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.agent.guard import (
    AcceptReply,
    AskModel,
    CallTools,
    EndTurn,
    PastReply,
    RefusedCall,
    ReplyCall,
    RetryReply,
    TurnHistory,
)
from holdfast.agent.reply import with_unique_ids
from holdfast.config.config import GuardrailsConfig
from holdfast.contract.enums import Failure, State
from holdfast.contract.message import Part, Text, ToolResult, ToolUse
from holdfast.contract.result import Result, fail, ok
from holdfast.guardrails.guardrails import MAX_ROUNDS, GuardRails
from tests.guardrails.turns import (
    OFF,
    RULES,
    TOOLS,
    PlainStyle,
    denied,
    edited,
    found,
    listing,
    not_found,
    read_file,
    rejected,
    state_of,
    step,
)
from tests.soak import rounds

FILES = ["src/parse.py", "src/main.py", "src/other.py", "config.toml", "uv.lock", "README.md"]
PATHS = [*FILES, "./src/main.py", "nope.py"]
LINES = ["def parse_line(text):", "from parse import parse_line", "value = parse_line(text)", "parse_line = true"]
PROMPTS = [
    "Where is parse_line defined?",
    "Where is parse_line used?",
    "Find all usages of parse_line",
    "Where is parse_line configured?",
    "Where is parse_line loaded in src?",
    "Where is parse_line defined in src/net?",
    "read src/main.py",
    "explain src/main.py",
    "list src/",
    "read that file again",
    "search that again",
    "edit src/main.py replace `a` with `b`",
    "Update the parser",
    "Update parse_line in main.py",
    "Create src/new.py",
    "Rename parse_line to parse_row",
    "How does parse_line work?",
    "How often are uploads retried?",
    "Which functions are in src/main.py and nope.py?",
    "git status",
    "What is the capital of France?",
    "Don't change anything. Where do we update parse_line?",
    "view src/main.py:2-3",
    "yes",
]
NAMES = [
    "file.read", "file.read", "read_file", "file.list", "file.find", "code.search", "code.search", "search_code",
    "file.edit", "file.write", "git.status", "git.log", "shell.exec", "nobody.knows", "",
]  # fmt: skip
ANSWERS = ["", "It is so.", "See src/main.py.", "See src/parse.py and imagined.py.", "In `other.py`.", "`lib/a.py`"]
QUERIES = ["parse_line", "where is parse_line", "git", "", "other_name", "a b c"]


def with_path(path: str) -> str:
    return json.dumps({"path": path})


def with_query(query: str) -> str:
    return json.dumps({"query": query})


def with_all(path: str, query: str) -> str:
    return json.dumps({"path": path, "query": query, "search": "a", "replace": "b", "content": "c"})


def look(name: str, path: str, query: str) -> ToolUse:
    args = {"file.read": {"path": path}, "file.find": {"pattern": f"*{path}"}, "code.search": {"query": query}}
    return ToolUse("c1", name, json.dumps(args[name]))


Replies = st.SearchStrategy[Sequence[Part]]
paths, queries = st.sampled_from(PATHS), st.sampled_from(QUERIES)
arguments = st.one_of(
    st.builds(with_path, paths),
    st.builds(with_query, queries),
    st.builds(with_all, paths, queries),
    st.sampled_from(["{}", "", "{", "[]", '{"path": 1, "query": []}']),
)
calls = st.builds(ToolUse, st.sampled_from(["c1", "c2", "runtime-1", ""]), st.sampled_from(NAMES), arguments)
texts = st.sampled_from(ANSWERS) | st.text(max_size=30)
replies: Replies = st.one_of(
    st.lists(st.builds(Text, texts), max_size=2),
    st.lists(calls, min_size=1, max_size=3),
    st.lists(calls, min_size=1, max_size=3),
    st.lists(st.builds(Text, texts) | calls, min_size=1, max_size=4),
)
looks = st.builds(look, st.sampled_from(["file.read", "file.find", "code.search"]), st.sampled_from(FILES), queries)
sensible: Replies = st.one_of(
    st.lists(looks, min_size=1, max_size=2),
    st.lists(looks, min_size=1, max_size=2),
    st.lists(st.builds(Text, texts), min_size=1, max_size=1),
)
"""Replies of a model that keeps to what it was given, and so comes further."""
stubborn: Replies = st.lists(looks, min_size=1, max_size=2)
"""It never answers."""
lines = st.lists(st.sampled_from(LINES), min_size=1, max_size=3)
files = st.dictionaries(st.sampled_from(FILES), lines, max_size=4)
NO = [denied(Failure.NOT_ALLOWED), denied(Failure.DENIED_BY_POLICY), rejected()]
LOST = Result(False, error="Nobody knows.", state=State.UNKNOWN, failure=Failure.OUTCOME_UNKNOWN)
ends = st.sampled_from([fail("It failed."), LOST, *NO, Result(True, "Odd."), None])
SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]
prompts = st.sampled_from(PROMPTS) | st.text(max_size=60)
shows = st.sampled_from(["x = 1", *LINES])


def result_of(data: st.DataObject, use: ToolUse) -> Result | None:
    """Something the tool could say."""
    if data.draw(st.integers(0, 5)) == 5:
        return data.draw(ends)
    tool = next((tool.name for tool in TOOLS.values() if use.name in tool.names), "")
    try:
        path = str(json.loads(use.arguments).get("path") or "src/main.py")
    except (ValueError, AttributeError):
        return denied(Failure.BAD_JSON)
    if tool == "code.search":
        query = str(json.loads(use.arguments).get("query") or "x")
        return found(data.draw(files), query=query)
    if tool == "file.read":
        return not_found(path) if path == "nope.py" else read_file(path, "\n".join(data.draw(lines)))
    if tool == "file.find":
        found_files: Any = data.draw(st.lists(st.sampled_from(FILES), max_size=3))
        return ok("", structured={"files": found_files, "truncated": False, "unreadable_folders": 0})
    if tool == "file.list":
        return listing(path, "a.py", "b.py")
    return edited(path) if tool == "file.edit" else Result(True, "Done.")


MAX_MOVES = MAX_ROUNDS + 12
"""Rounds of the model, and the look-ups of the runtime: at most two files and two searches, each with what follows."""


class Drive:
    """One turn from its message to its end, with a check after every step."""

    def __init__(self, data: st.DataObject, config: GuardrailsConfig, turn: TurnHistory) -> None:
        self.data = data
        self.replies = data.draw(st.sampled_from([replies, sensible, stubborn]))
        self.config = config
        self.turn = turn
        self.corrected: Counter[str] = Counter()
        self.live: list[dict[str, RefusedCall]] = []
        """For each reply, why its calls were refused when they were about to run."""
        self.prepared = self.received = 0

    @property
    def guard(self) -> GuardRails:
        """Another one every time: it keeps nothing."""
        return GuardRails(self.config, lambda: list(TOOLS.values()), PlainStyle())

    def run(self) -> EndTurn | AcceptReply:
        while True:
            self.prepared += 1
            assert self.prepared <= MAX_MOVES, "the turn does not end"
            move = self.guard.prepare(self.turn)
            assert move == self.guard.prepare(self.turn)
            outcome = self.ask(move) if isinstance(move, AskModel) else move
            if isinstance(outcome, EndTurn):
                assert outcome.answer
                return outcome
            if isinstance(outcome, AcceptReply) and not any(isinstance(part, ToolUse) for part in outcome.parts):
                return outcome
            uses = outcome.uses if isinstance(outcome, CallTools) else outcome.parts
            self.carry_out([part for part in uses if isinstance(part, ToolUse)], move)
            self.look_back()

    def ask(self, move: AskModel) -> AcceptReply | CallTools | EndTurn:
        while True:
            self.received += 1
            assert self.received <= MAX_ROUNDS + 3, "the model is asked without end"
            reaction = self.guard.receive(self.turn, with_unique_ids(self.data.draw(self.replies)))
            if not isinstance(reaction, RetryReply):
                return reaction
            self.corrected[reaction.rule] += 1
            assert self.corrected[reaction.rule] == 1
            self.turn = replace(self.turn, retries=dict(self.corrected))

    def carry_out(self, uses: list[ToolUse], move: AskModel | CallTools | EndTurn) -> None:
        before = self.turn.replies
        steps = [ReplyCall(use) for use in uses]
        self.turn = replace(self.turn, replies=(*before, PastReply("", tuple(steps))))
        by_runtime = all(use.id.startswith("runtime-") for use in uses)
        surface = self.guard.surface(self.turn)
        assert surface == (None if by_runtime or not isinstance(move, AskModel) else move.surface)
        refused = dict(self.guard.refusals(self.turn))
        assert not by_runtime or not refused
        for place in self.data.draw(st.permutations(range(len(uses)))):
            use = uses[place]
            assert self.guard.refusals(self.turn) == refused, "what another call brought changed it"
            steps[place] = step(use, denied() if use.id in refused else result_of(self.data, use))
            self.turn = replace(self.turn, replies=(*before, PastReply("", tuple(steps))))
        self.live.append(refused)

    def look_back(self) -> None:
        """What is found by replaying is what was decided then."""
        for place, refused in enumerate(self.live):
            then = replace(self.turn, replies=self.turn.replies[: place + 1])
            assert self.guard.refusals(then) == refused
        state = state_of(self.turn, self.config)
        own = [each for each in self.turn.replies if all(step.use.id.startswith("runtime-") for step in each.calls)]
        assert state.rounds == len(self.turn.replies) - len(own)
        made = [(step.use.name, step.use.arguments) for each in own for step in each.calls]
        assert len(made) == len(set(made)), "the runtime repeats itself"


def earlier(shown: str) -> tuple[PastReply, ...]:
    read = step(ToolUse("c1", "file.read", '{"path": "src/main.py"}'), read_file("src/main.py", f"{shown}\n"))
    search = step(ToolUse("c2", "code.search", '{"query": "parse_line"}'), found({}))
    return (PastReply("", (read, search)),)


@pytest.mark.spec("M4", "P6")
@settings(max_examples=rounds(30, 400), deadline=None, suppress_health_check=SLOW)
@given(st.data(), prompts, shows, st.booleans())
def test_with_all_rules_on_every_turn_ends_and_is_replayed_as_it_was(
    data: st.DataObject, prompt: str, shown: str, foreign: bool
) -> None:
    turn = TurnHistory(number=2, prompt=prompt, has_foreign_text=foreign, earlier_replies=earlier(shown))
    Drive(data, GuardrailsConfig(), turn).run()


@pytest.mark.spec("M4", "P6")
@settings(max_examples=rounds(25, 300), deadline=None, suppress_health_check=SLOW)
@given(st.data(), prompts, shows, st.sets(st.sampled_from([rule for rule in RULES if rule != "rounds"])))
def test_with_any_rules_off_what_was_decided_is_still_found_again(
    data: st.DataObject, prompt: str, shown: str, off: set[str]
) -> None:
    config: Any = replace(GuardrailsConfig(), **dict.fromkeys(off, False))
    turn = TurnHistory(number=1, prompt=prompt, earlier_replies=earlier(shown))
    Drive(data, config, turn).run()


@pytest.mark.spec("M4", "P6")
@settings(max_examples=rounds(40, 400), deadline=None)
@given(st.data(), prompts, st.lists(st.lists(calls, min_size=1, max_size=3), max_size=12), replies)
def test_with_every_rule_off_nothing_is_ever_done(
    data: st.DataObject, prompt: str, asked: list[list[ToolUse]], reply: Sequence[Part]
) -> None:
    rounds = [PastReply("", tuple(step(use, result_of(data, use)) for use in uses)) for uses in asked]
    turn = TurnHistory(number=1, prompt=prompt, replies=tuple(rounds))
    guard = GuardRails(OFF, lambda: list(TOOLS.values()), PlainStyle())
    assert guard.prepare(turn) == AskModel()
    assert guard.receive(turn, tuple(reply)) == AcceptReply(tuple(reply))
    assert guard.surface(turn) is None
    assert guard.refusals(turn) == {}


KEYS = [
    "path", "query", "files", "total_files", "matches", "lines", "line", "text", "content", "encoding", "offset",
    "next_offset", "total_lines", "limited_by", "unreadable_files", "exact_definition",
]  # fmt: skip
odd: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["utf8", "parse_line", "src/main.py", ""]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner),
    max_leaves=15,
)
typed = st.dictionaries(st.sampled_from(KEYS), odd) | odd


@pytest.mark.spec("M4", "P6")
@settings(max_examples=rounds(40, 1000), deadline=None, suppress_health_check=SLOW)
@given(prompts, st.lists(st.lists(st.tuples(calls, typed), min_size=1, max_size=3), max_size=4), replies, st.booleans())
def test_no_result_breaks_a_decision(
    prompt: str, asked: list[list[tuple[ToolUse, Any]]], reply: Sequence[Part], own: bool
) -> None:
    def made(use: ToolUse, structured: Any, place: int) -> ReplyCall:
        use = replace(use, id=f"runtime-{place}") if own else use
        return ReplyCall(use, ToolResult(use.id, use.name, "x"), Result(True, "x", structured=structured))

    past = tuple(
        PastReply("", tuple(made(use, structured, place) for place, (use, structured) in enumerate(each)))
        for each in asked
    )
    turn = TurnHistory(number=1, prompt=prompt, replies=past)
    guard = GuardRails(GuardrailsConfig(), lambda: list(TOOLS.values()), PlainStyle())
    assert guard.prepare(turn) == guard.prepare(turn)
    assert guard.receive(turn, tuple(reply)) == guard.receive(turn, tuple(reply))
    assert guard.surface(turn) == guard.surface(turn)
    assert guard.refusals(turn) == guard.refusals(turn)

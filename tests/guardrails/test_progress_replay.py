"""The state of a turn is found by replaying it, from calls and typed results alone."""

from __future__ import annotations

from operator import attrgetter

import pytest

from holdfast.agent.guard import PastReply, ReplyCall, TurnHistory
from holdfast.config.config import GuardrailsConfig
from holdfast.contract.enums import Failure
from holdfast.contract.enums import State as Ended
from holdfast.contract.message import ToolResult, ToolUse
from holdfast.contract.result import Result, fail
from holdfast.guardrails.evidence import is_inside
from holdfast.guardrails.progress import TurnProgress, replay
from holdfast.guardrails.turn_facts import ToolIndex, facts_of
from tests.guardrails.turns import (
    TOOLS,
    USES,
    WHERE,
    denied,
    rails,
    read_file,
    reading,
    refusal,
    rejected,
    round_of,
    searching,
    turn_of,
    use,
    without,
)

DEFINES = {"src/parse.py": ["def parse_line(text):"]}

NAME = attrgetter("name")
"""Tools are named as they are registered."""


def state_of(turn: TurnHistory) -> TurnProgress:
    return replay(facts_of(GuardrailsConfig(), list(TOOLS.values()), turn, NAME), turn.replies)


@pytest.mark.spec("M4")
def test_what_was_refused_is_counted_by_judging_it_again_whatever_was_told() -> None:
    lie = ReplyCall(use("shell.exec", command="ls"), ToolResult("c1", "shell.exec", "all fine"), denied())
    innocent = ReplyCall(
        use("code.search", query="parse_line"), ToolResult("c1", "code.search", "[runtime:correction] x")
    )
    turn = turn_of(WHERE, PastReply("", (lie,)), PastReply("[runtime:correction] no", (innocent,)))
    assert state_of(turn).refused == {"surfaces": 1}


@pytest.mark.spec("M4")
def test_a_reply_without_calls_is_no_round() -> None:
    assert state_of(turn_of(WHERE, PastReply("Hm."), round_of(searching("parse_line", {})))).rounds == 1


@pytest.mark.spec("M4")
def test_the_candidates_are_those_of_the_last_search_that_found_something() -> None:
    turn = turn_of(WHERE, round_of(searching("one_name", DEFINES)), round_of(searching("two_name", {})))
    state = state_of(turn)
    assert [each.path for each in state.candidates] == ["src/parse.py"]
    assert [each.found for each in state.searches] == [True, False]


@pytest.mark.spec("M4")
def test_a_call_that_was_to_be_refused_and_ran_all_the_same_counts_as_what_it_did() -> None:
    turn = turn_of(WHERE, round_of(searching("git", DEFINES)))
    state = state_of(turn)
    assert state.refused == {"weak_queries": 1}
    assert state.candidates


@pytest.mark.spec("M4")
def test_a_search_whose_typed_result_is_of_another_kind_is_neither_empty_nor_full() -> None:
    odd = round_of((use("code.search", query="parse_line"), Result(True, "No matches found.")))
    assert not state_of(turn_of(WHERE, odd)).searches


@pytest.mark.spec("M4")
def test_a_read_that_was_denied_uses_nothing_up_and_is_not_tried_again_by_the_runtime() -> None:
    files = {**DEFINES, "src/main.py": ["parse_line(x)"]}
    turn = turn_of(USES, round_of(searching("parse_line", files)), round_of(reading("src/main.py", denied())))
    state = state_of(turn)
    assert (state.attempts, state.tried) == ((), ("src/main.py",))


TIMED_OUT = Result(False, error="Too slow.", state=Ended.TIMED_OUT, failure=Failure.TIMEOUT)
LOST = Result(False, error="Nobody knows.", state=Ended.UNKNOWN, failure=Failure.OUTCOME_UNKNOWN)
STOPPED = Result(False, error="Aborted.", state=Ended.CANCELLED, failure=Failure.CANCELLED)


@pytest.mark.spec("M4")
@pytest.mark.parametrize("result", [Result(True), fail("exit 1"), TIMED_OUT, LOST, STOPPED, None])
@pytest.mark.parametrize("name", ["shell.exec", "file.edit", "nobody.knows"])
def test_after_anything_that_may_have_run_a_file_may_be_read_again(name: str, result: Result | None) -> None:
    turn = turn_of("Update the file", round_of(reading("a.py")), round_of((use(name, "c2", path="a.py"), result)))
    guard = rails(without("surfaces"))
    assert refusal(guard, turn, use("file.read", path="a.py")) is None
    assert not state_of(turn).unchanged_reads


@pytest.mark.spec("M4")
@pytest.mark.parametrize("result", [denied(), rejected()])
def test_what_did_not_run_leaves_everything_as_it_was(result: Result) -> None:
    command = use("shell.exec", "c2", command="x")
    turn = turn_of("Update the file", round_of(reading("a.py")), round_of((command, result)))
    assert refusal(rails(without("surfaces")), turn, use("file.read", path="a.py")) is not None


@pytest.mark.spec("M4")
@pytest.mark.parametrize("result", [fail("exit 1"), LOST, None])
def test_a_call_may_be_repeated_after_anything_that_may_have_run(result: Result | None) -> None:
    rounds = [round_of((use("file.list", path="src"), Result(True, "a.py")))]
    again = use("file.list", path="src")
    guard = rails(without("surfaces"))
    assert refusal(guard, turn_of("Update the file", *rounds), again) is not None
    rounds.append(round_of((use("shell.exec", command="make"), result)))
    assert refusal(guard, turn_of("Update the file", *rounds), again) is None


@pytest.mark.spec("M4")
def test_pages_of_one_file_are_one_text() -> None:
    first = reading("src/parse.py", read_file("src/parse.py", "import os\n", next_offset=2, limited_by="limit"))
    second = use("file.read", "c2", path="src/parse.py", offset=2), read_file("./src/parse.py", "def parse_line(x):\n")
    turn = turn_of(WHERE, round_of(searching("parse_line", DEFINES, "c0")), round_of(first, second))
    assert state_of(turn).answered


@pytest.mark.spec("M4")
def test_what_the_runtime_asked_for_is_known_from_where_the_turn_stood() -> None:
    first = round_of((use("file.read", "runtime-1", path="a.py"), read_file("a.py")))
    assert state_of(turn_of("explain a.py", first)).runtime_calls == {"direct": 1}
    search = round_of(searching("parse_line", {"src/main.py": ["parse_line(x)"]}))
    preferred = round_of((use("file.read", "runtime-1", path="src/main.py"), read_file("src/main.py")))
    assert state_of(turn_of(USES, search, preferred)).runtime_calls == {"preferred": 1}
    assert state_of(turn_of(USES, search, preferred, preferred)).runtime_calls == {"preferred": 1, "cited": 1}
    early = round_of((use("file.read", "runtime-1", path="src/main.py"), denied()))
    assert state_of(turn_of(WHERE, search, early)).runtime_calls == {"unread": 1}


@pytest.mark.spec("M4")
@pytest.mark.parametrize("arguments", ["", "{", "[]", "null", '{"path": 3}', '{"query": null}', '"\\ud800"', "1" * 99])
@pytest.mark.parametrize("name", ["file.read", "code.search", "file.list", "file.edit", "nobody.knows", ""])
def test_arguments_that_cannot_be_read_are_left_to_the_path(name: str, arguments: str) -> None:
    asked = ToolUse("c1", name, arguments)
    called = ToolIndex(list(TOOLS.values()), NAME).called(ReplyCall(asked))
    assert called.path == ""
    text = refusal(rails(), turn_of("Update the parser"), asked)
    assert text is None or "not among the tools" in text


@pytest.mark.spec("M4")
@pytest.mark.parametrize(
    ("path", "folder", "inside"),
    [
        ("src/a.py", "src", True),
        ("src", "./src/", True),
        ("src\\net\\a.py", "src/net", True),
        ("src_extra/a.py", "src", False),
        ("src/../lib", "src", False),
        ("", "src", False),
        ("a.py", ".", True),
    ],
)
def test_inside_is_by_whole_names(path: str, folder: str, inside: bool) -> None:
    assert is_inside(path, folder) is inside


@pytest.mark.spec("M4")
@pytest.mark.parametrize("name", ["shell.exec", "file.edit", "nobody.knows"])
def test_what_was_read_beside_a_change_in_one_reply_may_be_read_again(name: str) -> None:
    change = use(name, "c2", path="a.py"), Result(True)
    for both in (round_of(change, reading("a.py")), round_of(reading("a.py"), change)):
        turn = turn_of("Update the file", both)
        assert not state_of(turn).unchanged_reads
        assert refusal(rails(without("surfaces")), turn, use("file.read", "c3", path="a.py")) is None


@pytest.mark.spec("M4")
def test_a_change_that_was_made_is_not_made_again_because_something_was_read_before_it() -> None:
    edit = use("file.edit", "c2", path="a.py", search="x", replace="y")
    turn = turn_of("Update the file", round_of(reading("a.py"), (edit, Result(True))))
    assert refusal(rails(), turn, use("file.edit", "c3", path="a.py", search="x", replace="y")) is not None

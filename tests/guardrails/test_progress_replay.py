"""The state of a turn is found by replaying it, from calls and typed results alone."""

from __future__ import annotations

import pytest

from holdfast.agent.guard import PastReply, ReplyCall
from holdfast.contract.enums import Failure
from holdfast.contract.enums import State as Ended
from holdfast.contract.message import ToolResult, ToolUse
from holdfast.contract.result import Result, fail
from holdfast.guardrails.evidence import is_inside
from holdfast.guardrails.turn_facts import ToolIndex
from tests.guardrails.turns import (
    TOOLS,
    WHERE,
    PlainStyle,
    denied,
    rails,
    read_file,
    reading,
    refusal,
    rejected,
    round_of,
    searching,
    state_of,
    turn_of,
    use,
)

TIMED_OUT = Result(False, error="Too slow.", state=Ended.TIMED_OUT, failure=Failure.TIMEOUT)
LOST = Result(False, error="Nobody knows.", state=Ended.UNKNOWN, failure=Failure.OUTCOME_UNKNOWN)
STOPPED = Result(False, error="Aborted.", state=Ended.CANCELLED, failure=Failure.CANCELLED)


@pytest.mark.spec("M4")
def test_a_reply_without_calls_is_no_round() -> None:
    assert state_of(turn_of(WHERE, PastReply("Hm."), round_of(searching("parse_line", {})))).rounds == 1


@pytest.mark.spec("M4")
def test_a_search_whose_typed_result_is_of_another_kind_is_neither_empty_nor_full() -> None:
    odd = round_of((use("code.search", query="parse_line"), Result(True, "No matches found.")))
    assert not state_of(turn_of(WHERE, odd)).searches


@pytest.mark.spec("M4")
@pytest.mark.parametrize("result", [Result(True), fail("exit 1"), TIMED_OUT, LOST, STOPPED, None])
@pytest.mark.parametrize("name", ["shell.exec", "file.edit", "nobody.knows"])
def test_after_anything_that_may_have_run_a_file_may_be_read_again(name: str, result: Result | None) -> None:
    turn = turn_of("Update the file", round_of(reading("a.py")), round_of((use(name, "c2", path="a.py"), result)))
    guard = rails()
    assert refusal(guard, turn, use("file.read", path="a.py")) is None


@pytest.mark.spec("M4")
@pytest.mark.parametrize("result", [denied(), rejected()])
def test_what_did_not_run_leaves_everything_as_it_was(result: Result) -> None:
    command = use("shell.exec", "c2", command="x")
    turn = turn_of("Update the file", round_of(reading("a.py")), round_of((command, result)))
    assert refusal(rails(), turn, use("file.read", path="a.py")) is not None


@pytest.mark.spec("M4")
@pytest.mark.parametrize("result", [fail("exit 1"), LOST, None])
def test_a_call_may_be_repeated_after_anything_that_may_have_run(result: Result | None) -> None:
    rounds = [round_of((use("file.list", path="src"), Result(True, "a.py")))]
    again = use("file.list", path="src")
    guard = rails()
    assert refusal(guard, turn_of("Update the file", *rounds), again) is not None
    rounds.append(round_of((use("shell.exec", command="make"), result)))
    assert refusal(guard, turn_of("Update the file", *rounds), again) is None


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
        assert refusal(rails(), turn, use("file.read", "c3", path="a.py")) is None


@pytest.mark.spec("M4")
def test_a_change_that_was_made_is_not_made_again_because_something_was_read_before_it() -> None:
    edit = use("file.edit", "c2", path="a.py", search="x", replace="y")
    turn = turn_of("Update the file", round_of(reading("a.py"), (edit, Result(True))))
    assert refusal(rails(), turn, use("file.edit", "c3", path="a.py", search="x", replace="y")) is not None


@pytest.mark.spec("M4")
def test_a_slip_is_a_reply_of_the_model_with_a_refused_or_hidden_call() -> None:
    hidden = denied(Failure.NOT_ALLOWED)
    slip = round_of((use("shell.exec", "c1", command="ls"), hidden), (use("shell.exec", "c2", command="pwd"), hidden))
    assert state_of(turn_of(WHERE, slip)).slips == 1
    assert state_of(turn_of(WHERE, slip, slip)).slips == 2
    again = round_of(reading("a.py"))
    assert state_of(turn_of(WHERE, again, again)).slips == 1
    own = round_of((use("file.read", "runtime-1", path="a.py"), hidden))
    assert state_of(turn_of(WHERE, own)).slips == 0


@pytest.mark.spec("M4")
def test_a_refusal_is_judged_from_the_calls_whatever_was_told() -> None:
    lie = ReplyCall(use("file.read", path="a.py"), ToolResult("c1", "file.read", "all fine"), denied())
    innocent = ReplyCall(use("file.read", path="b.py"), ToolResult("c1", "file.read", "[runtime:correction] x"))
    turn = turn_of(WHERE, round_of(reading("a.py")), PastReply("", (lie,)), PastReply("", (innocent,)))
    assert state_of(turn).slips == 1


@pytest.mark.spec("M4")
def test_only_replies_of_the_model_are_rounds() -> None:
    own = round_of((use("file.read", "runtime-1", path="a.py"), read_file("a.py")))
    assert state_of(turn_of(WHERE, own, round_of(reading("b.py")))).rounds == 1


@pytest.mark.spec("M4")
@pytest.mark.parametrize(
    ("name", "result", "settled", "known"),
    [
        ("file.edit", Result(True), True, False),
        ("shell.exec", fail("exit 1"), True, False),
        ("shell.exec", LOST, True, False),
        ("file.edit", None, True, False),
        ("file.edit", rejected(), True, True),
        ("file.read", rejected(), True, True),
        ("file.edit", fail("Could not find the exact text"), False, True),
        ("file.edit", denied(), False, True),
        ("file.read", read_file("a.py"), False, True),
        ("file.read", None, False, True),
    ],
)
def test_a_turn_is_settled_by_what_may_have_changed_something_and_by_a_rejection(
    name: str, result: Result | None, settled: bool, known: bool
) -> None:
    before = round_of(reading("a.py", use_id="c0"))
    state = state_of(turn_of("Update a.py", before, round_of((use(name, path="a.py"), result))))
    assert state.is_settled is settled
    assert ("a.py" in state.contents) is known


@pytest.mark.spec("M4")
@pytest.mark.parametrize("arguments", ["", "{", "[]", "null", '{"path": 3}', '{"query": null}', '"\\ud800"', "1" * 99])
@pytest.mark.parametrize("name", ["file.read", "code.search", "file.list", "file.find", "file.edit", "no.body", ""])
def test_arguments_that_cannot_be_read_are_left_to_the_tool(name: str, arguments: str) -> None:
    asked = ToolUse("c1", name, arguments)
    called = ToolIndex(list(TOOLS.values()), PlainStyle()).called(ReplyCall(asked))
    assert called.path == ""
    assert refusal(rails(), turn_of("Update the parser"), asked) is None
    assert state_of(turn_of("Update the parser", round_of((asked, fail("Bad."))))).rounds == 1

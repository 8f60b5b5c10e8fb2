"""The guard-rails, rule by rule: each with what it does, and that without it nothing of the kind happens."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.agent.guard import AcceptReply, AskModel, EndTurn, RetryReply, TurnHistory
from holdfast.agent.surface import ANSWER_ONLY, GIT_READ_ONLY, MUTATION_ENABLED, RETRIEVAL_FIRST, Surface
from holdfast.contract.message import ToolUse
from holdfast.contract.result import Result
from tests.guardrails.turns import (
    OFF,
    TOOLS,
    WHERE,
    acted,
    answer,
    denied,
    direct_round,
    finished,
    not_found,
    rails,
    read_file,
    reading,
    refusal,
    round_of,
    searching,
    sent,
    turn_of,
    use,
    without,
)

CORRECTION = "[runtime:correction] "
DEFINES = {"src/parse.py": ["def parse_line(text):"]}


# surfaces


@pytest.mark.spec("P6", "M4")
@pytest.mark.parametrize(
    ("prompt", "surface"),
    [
        ("git status", GIT_READ_ONLY),
        ("Add a docstring to the parser", MUTATION_ENABLED),
        (WHERE, RETRIEVAL_FIRST),
        ("What is the capital of France?", ANSWER_ONLY),
    ],
)
def test_a_message_is_sent_with_the_surface_it_needs(prompt: str, surface: Surface) -> None:
    move = sent(rails().prepare(turn_of(prompt)))
    assert move.surface == surface
    assert sent(rails(without("surfaces")).prepare(turn_of(prompt))).surface is None


@pytest.mark.spec("P6", "M4")
def test_the_hint_names_the_tools_of_the_surface_that_exist_and_no_others() -> None:
    some = [TOOLS["file.read"], TOOLS["code.search"], TOOLS["shell.exec"]]
    hint = sent(rails(tools=some).prepare(turn_of(WHERE))).notes[0]
    assert "code.search, file.read." in hint
    assert "file.list" not in hint
    assert "shell" not in hint


@pytest.mark.spec("P6", "M4")
def test_a_call_outside_the_surface_is_refused_and_the_model_told_what_there_is() -> None:
    asked = use("shell.exec", command="ls")
    text = refusal(rails(), turn_of(WHERE), asked)
    assert text is not None
    assert text.startswith(f"{CORRECTION}`shell.exec`")
    assert "code.search" in text
    assert refusal(rails(without("surfaces")), turn_of(WHERE), asked) is None


@pytest.mark.spec("P6", "M4")
def test_a_tool_called_by_its_other_name_is_inside_the_surface_all_the_same() -> None:
    assert refusal(rails(), turn_of(WHERE), use("search_code", query="parse_line")) is None
    assert refusal(rails(), turn_of(WHERE), use("file--read", path="a.py")) is None


@pytest.mark.spec("P6", "M4")
def test_the_correction_comes_with_the_next_request_and_the_second_slip_ends_the_turn() -> None:
    slip = round_of((use("shell.exec", command="ls"), denied()))
    once = sent(rails().prepare(turn_of(WHERE, slip)))
    assert any(note.startswith(f"{CORRECTION}`shell.exec`") for note in once.notes)
    twice = finished(rails().prepare(turn_of(WHERE, slip, slip)))
    assert (twice.rule, twice.stopped) == ("surfaces", True)
    assert isinstance(rails(without("surfaces")).prepare(turn_of(WHERE, slip, slip)), AskModel)


@pytest.mark.spec("P6", "M4")
def test_two_slips_in_one_reply_are_one_since_nobody_corrected_between_them() -> None:
    slips = round_of(
        (use("shell.exec", "c1", command="ls"), denied()), (use("shell.exec", "c2", command="pwd"), denied())
    )
    assert isinstance(rails().prepare(turn_of(WHERE, slips)), AskModel)


@pytest.mark.spec("P6", "M4")
def test_the_surface_of_a_reply_is_the_one_it_was_asked_with() -> None:
    evidence = turn_of(WHERE, round_of(searching("parse_line", DEFINES)), round_of(_definition()))
    late = round_of((use("code.search", query="other"), denied()))
    assert rails().surface(turn_of(WHERE)) == RETRIEVAL_FIRST
    assert rails().surface(evidence) == RETRIEVAL_FIRST
    assert rails().surface(turn_of(WHERE, *evidence.replies, late)) == ANSWER_ONLY
    assert rails(without("surfaces")).surface(turn_of(WHERE, *evidence.replies, late)) is None


@pytest.mark.spec("P6", "M4")
def test_calls_of_the_runtime_itself_have_no_surface_and_are_never_refused() -> None:
    turn = turn_of("What is the capital of France?", round_of((use("file.read", "runtime-1", path="a.py"), None)))
    assert rails().surface(turn) is None
    assert rails().refusals(turn) == {}


@pytest.mark.spec("P6", "M4")
@pytest.mark.parametrize(
    ("before", "surface"),
    [
        (("Change A to 2, but ask me before",), MUTATION_ENABLED),
        (("edit a.py replace `old` with `new`",), MUTATION_ENABLED),
        ((WHERE,), RETRIEVAL_FIRST),
        (("git status",), GIT_READ_ONLY),
        (("Tell me a joke",), ANSWER_ONLY),
        (("Change A to 2", "Tell me a joke"), ANSWER_ONLY),
        (("Tell me a joke", WHERE, "ok", "yes"), RETRIEVAL_FIRST),
        (("Hello there", "ok"), ANSWER_ONLY),
        (("Tell me a joke", None), None),
        (("Tell me a joke", None, "ok"), None),
        ((None, "Tell me a joke", "ok"), ANSWER_ONLY),
        (("ok",), ANSWER_ONLY),
        (("",), ANSWER_ONLY),
        ((), ANSWER_ONLY),
    ],
)
def test_an_assent_has_the_tools_of_the_last_message_that_says_more_and_nothing_else_of_it(
    before: tuple[str | None, ...], surface: Surface | None
) -> None:
    turn = turn_of("yes, go ahead", earlier_prompts=before)
    assert sent(rails().prepare(turn)).surface == surface
    assert rails().receive(turn, answer("It is so.")) == AcceptReply(answer("It is so."))
    assert sent(rails().prepare(turn_of("Tell me another", earlier_prompts=before))).surface == ANSWER_ONLY


# direct


@pytest.mark.spec("M4")
@pytest.mark.parametrize(
    ("prompt", "name", "args"),
    [
        ("read src/a.py", "file.read", {"path": "src/a.py"}),
        ("Explain src/a.py", "file.read", {"path": "src/a.py"}),
        ("list src/", "file.list", {"path": "src/"}),
        ("edit a.py replace `old` with `new`", "file.edit", {"path": "a.py", "search": "old", "replace": "new"}),
    ],
)
def test_what_a_message_names_outright_is_asked_for_before_the_model_speaks(
    prompt: str, name: str, args: dict[str, Any]
) -> None:
    rule, asked, given = acted(rails().prepare(turn_of(prompt)))
    assert (rule, asked) == ("direct", name)
    assert {key: value.rstrip("/") for key, value in given.items()} == {
        key: value.rstrip("/") for key, value in args.items()
    }
    assert isinstance(rails(without("direct")).prepare(turn_of(prompt)), AskModel)


@pytest.mark.spec("M4")
def test_that_file_again_is_the_one_the_last_turn_read() -> None:
    earlier = (round_of(reading("src/old.py")), round_of(reading("src/last.py")))
    move = rails().prepare(turn_of("read that file again", earlier_replies=earlier))
    assert acted(move) == ("direct", "file.read", {"path": "src/last.py"})
    assert isinstance(rails().prepare(turn_of("read that file again")), AskModel)


@pytest.mark.spec("M4")
def test_nothing_is_asked_for_outright_where_the_words_are_not_all_the_persons() -> None:
    move = sent(rails().prepare(turn_of("read src/a.py", has_foreign_text=True)))
    assert move == AskModel()


@pytest.mark.spec("M4")
def test_nothing_is_asked_for_outright_without_the_tool_for_it() -> None:
    assert isinstance(rails(tools=[TOOLS["code.search"]]).prepare(turn_of("read src/a.py")), AskModel)


@pytest.mark.spec("M4")
def test_a_file_to_show_is_the_answer_and_one_to_explain_is_not() -> None:
    done = direct_round("file.read", read_file("a.py", "x = 1\n"), path="a.py")
    assert rails().prepare(turn_of("show a.py", done)) == EndTurn("direct", "x = 1\n")
    assert isinstance(rails().prepare(turn_of("explain a.py", done)), AskModel)
    assert isinstance(rails(without("direct")).prepare(turn_of("show a.py", done)), AskModel)


@pytest.mark.spec("M4")
def test_a_file_that_is_not_shown_whole_says_so() -> None:
    cut = read_file("a.py", "x\ny\n", total_lines=9, next_offset=3, limited_by="lines")
    shown = finished(rails().prepare(turn_of("show a.py", direct_round("file.read", cut, path="a.py"))))
    assert shown.answer == "x\ny\n\n[The file goes on: these are lines 1 to 2 of 9.]"


@pytest.mark.spec("M4")
def test_lines_that_are_asked_for_are_read_and_shown_alone() -> None:
    assert acted(rails().prepare(turn_of("view a.py:3-4")))[2] == {"path": "a.py", "offset": 3, "limit": 2}
    assert acted(rails().prepare(turn_of("show a.py:3")))[2] == {"path": "a.py", "offset": 3, "limit": 1}
    assert isinstance(rails().prepare(turn_of("explain a.py:3")), AskModel)
    some = read_file("a.py", "x\ny\n", offset=3, total_lines=9, next_offset=5, limited_by="lines")
    done = direct_round("file.read", some, path="a.py", offset=3, limit=2)
    assert finished(rails().prepare(turn_of("view a.py:3-4", done))).answer == "x\ny\n"
    cut = finished(rails().prepare(turn_of("view a.py:3-8", done))).answer
    assert cut == "x\ny\n\n[The file goes on: these are lines 3 to 4 of 9.]"


@pytest.mark.spec("M4")
def test_an_empty_file_is_said_to_be_empty_and_a_picture_is_left_to_the_model() -> None:
    empty = direct_round("file.read", read_file("a.py", ""), path="a.py")
    assert finished(rails().prepare(turn_of("show a.py", empty))).answer == "`a.py` is empty."
    picture = read_file("a.png", "", encoding="attached", mime_type="image/png")
    assert isinstance(
        rails().prepare(turn_of("show a.png", direct_round("file.read", picture, path="a.png"))), AskModel
    )


@pytest.mark.spec("M4")
def test_a_file_the_model_reads_itself_is_never_shown_in_its_place() -> None:
    later = round_of(reading("a.py"))
    assert isinstance(rails().prepare(turn_of("show a.py", later)), AskModel)


# rounds


@pytest.mark.spec("M4")
def test_after_ten_rounds_of_calls_the_turn_ends() -> None:
    rounds = [round_of((use("git.log", limit=place), Result(True))) for place in range(10)]
    assert isinstance(rails().prepare(turn_of("git log", *rounds[:9])), AskModel)
    ended = finished(rails().prepare(turn_of("git log", *rounds)))
    assert (ended.rule, ended.stopped) == ("rounds", True)
    assert isinstance(rails(without("rounds")).prepare(turn_of("git log", *rounds)), AskModel)


# all of them off


@pytest.mark.spec("M4")
def test_with_every_rule_off_it_is_as_if_there_were_none() -> None:
    slips = [round_of((use("shell.exec", command="ls"), denied())) for _ in range(12)]
    parts = (use("code.search", "runtime-1", query="where is the parser"),)
    guard = rails(OFF)
    for turn in (turn_of("read a.py"), turn_of(WHERE, *slips), _failed()):
        assert guard.prepare(turn) == AskModel(None, ())
        assert guard.receive(turn, parts) == AcceptReply(parts)
        assert guard.receive(turn, answer("See nowhere.py.")) == AcceptReply(answer("See nowhere.py."))
        assert guard.surface(turn) is None
        assert guard.refusals(turn) == {}


@pytest.mark.spec("M4")
def test_a_reply_is_sent_back_only_once_for_each_rule() -> None:
    guard, said = rails(), answer("I think it is somewhere.")
    assert isinstance(guard.receive(turn_of(WHERE), said), RetryReply)
    ended = finished(guard.receive(turn_of(WHERE, retries={"evidence": 1}), said))
    assert ended.stopped
    assert isinstance(guard.receive(turn_of(WHERE, retries={"citations": 1}), said), RetryReply)


def _definition() -> tuple[ToolUse, Result]:
    return use("file.read", path="src/parse.py"), read_file("src/parse.py", "def parse_line(text):\n    return text\n")


def _failed() -> TurnHistory:
    return turn_of("read a.py", direct_round("file.read", not_found("a.py"), path="a.py"))

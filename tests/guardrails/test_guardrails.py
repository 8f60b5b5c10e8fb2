"""The guard-rails: the tools and notes for the model, direct calls, and the end of a turn that makes no progress."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.agent.guard import AcceptReply, AskModel, EndTurn, PastReply
from holdfast.agent.surface import ANSWER_ONLY, GIT_READ_ONLY, MUTATION_ENABLED, RETRIEVAL_FIRST, Surface
from holdfast.contract.enums import Failure
from holdfast.contract.json import Json
from holdfast.contract.result import Result, fail
from holdfast.guardrails.guardrails import CHANGE_ONLY, EDIT_ENABLED, EDIT_ONLY, MAX_ROUNDS
from tests.guardrails.turns import (
    OFF,
    TOOLS,
    USES,
    WHERE,
    acted,
    all_acted,
    answer,
    denied,
    direct_round,
    finished,
    found,
    looked_up,
    not_found,
    rails,
    read_by_runtime,
    read_file,
    reading,
    round_of,
    sent,
    turn_of,
    use,
    without,
)

HOW = "How does parse_line work?"
NOTE = "[runtime:note] "
DEFINES = {"src/parse.py": ["def parse_line(text):"]}
FOUND = looked_up("parse_line", found(DEFINES))
READ = read_by_runtime("src/parse.py", read_file("src/parse.py", "def parse_line(text):\n    return text\n"))
STATUS = direct_round("git.status", Result(True, "clean"))
COMMITS: list[Json] = [
    {"commit": "b2", "author": "Ann", "date": "2026-03-02", "subject": "Count from two"},
    {"commit": "a1", "author": "Bob", "date": "2026-03-01", "subject": "Count from one"},
]
LOG = direct_round("git.log", Result(True, "a", structured={"commits": COMMITS, "truncated": False}))
NO_LOG = direct_round("git.log", Result(True, "No commits yet.", structured={"commits": [], "truncated": False}))
NEWEST = "The newest commit is `Count from two` by `Ann` on `2026-03-02`. Now answer in one or two sentences"
PART = read_by_runtime("src/parse.py", read_file("src/parse.py", "x\n", next_offset=2, limited_by="lines"))


# surfaces


@pytest.mark.spec("P6", "M4")
@pytest.mark.parametrize(
    ("prompt", "rounds", "surface"),
    [
        ("git status", [STATUS], ANSWER_ONLY),
        ("git status", [direct_round("git.status", fail("locked"))], GIT_READ_ONLY),
        ("git status", [LOG], GIT_READ_ONLY),
        ("What was the last commit about?", [LOG], ANSWER_ONLY),
        ("what changed in a.py since the last commit?", [STATUS], None),
        ("Fix parse_line", [FOUND, READ], EDIT_ENABLED),
        ("Fix parse_line in src/parse.py", [READ], EDIT_ONLY),
        ("Fix parse_line in src/parse.py", [PART], EDIT_ENABLED),
        ("Fix src/parse.py and src/other.py", [READ], EDIT_ENABLED),
        ("Create src/new.py like src/parse.py", [READ], MUTATION_ENABLED),
        ("Fix parse_line in src/parse.py and run the tests", [READ], None),
        ("Fix parse_line and run the tests", [FOUND, READ], None),
        ("Fix parse_line", [looked_up("parse_line", fail("No."))], None),
        (HOW, [FOUND, READ], ANSWER_ONLY),
        ("Run parse_line", [FOUND, READ], None),
        (HOW, [FOUND, read_by_runtime("src/parse.py", fail("No."))], None),
        (WHERE, [FOUND], ANSWER_ONLY),
        ("What is the capital of France?", [looked_up("capital", found({}, query="capital"))], None),
        ("hello", [], None),
        ("yes", [], None),
    ],
)
def test_the_tools_are_narrowed_only_where_it_is_certain_which_ones_are_needed(
    prompt: str, rounds: list[PastReply], surface: Surface | None
) -> None:
    turn = turn_of(prompt, *rounds)
    move = rails().prepare(turn)
    while not isinstance(move, AskModel):  # searches that fail
        turn = turn_of(prompt, *turn.replies, PastReply("", ()), _failing(move))
        move = rails().prepare(turn)
    assert move.surface == surface
    assert sent(rails(without("surfaces")).prepare(turn)).surface is None


def _failing(move: Any) -> PastReply:
    return round_of(*((asked, fail("No.")) for asked in move.uses))


@pytest.mark.spec("P6", "M4")
def test_without_evidence_a_question_about_code_has_the_tools_that_read() -> None:
    assert sent(rails(without("evidence")).prepare(turn_of(HOW))).surface == RETRIEVAL_FIRST


@pytest.mark.spec("P6", "M4")
def test_the_surface_of_a_reply_is_the_one_it_was_asked_with() -> None:
    late = round_of((use("code.search", query="other"), denied(Failure.NOT_ALLOWED)))
    assert rails().surface(turn_of(HOW, FOUND, READ, late)) == ANSWER_ONLY
    assert rails().surface(turn_of(HOW, FOUND, READ)) is None
    assert rails(without("surfaces")).surface(turn_of(HOW, FOUND, READ, late)) is None


@pytest.mark.spec("P6", "M4")
def test_calls_of_the_runtime_itself_have_no_surface_and_are_never_refused() -> None:
    turn = turn_of("git status", STATUS, STATUS)
    assert rails().surface(turn) is None
    assert rails().refusals(turn) == {}


# notes


def _empty(query: str, **args: Any) -> PastReply:
    return looked_up(query, found({}, query=query), **args)


@pytest.mark.spec("M4")
@pytest.mark.parametrize(
    ("prompt", "rounds", "note"),
    [
        (
            WHERE,
            [FOUND],
            (
                "`parse_line` is defined in `src/parse.py:1`; not used anywhere. "
                "Now answer in one or two sentences: Where is parse_line defined?"
            ),
        ),
        (
            HOW,
            [FOUND, READ],
            (
                "`parse_line` is defined in `src/parse.py:1`; not used anywhere. You have read `src/parse.py`. "
                "Now answer in one or two sentences, with the path of the file: How does parse_line work?"
            ),
        ),
        (
            "Is open_it used?",
            [_empty("open_it"), _empty("open")],
            "A search of the project for `open_it`, `open` found nothing.",
        ),
        (
            "Is open_it used in src/net?",
            [_empty("open_it", path="src/net"), _empty("open", path="src/net")],
            "A search in `src/net` for `open_it`, `open` found nothing.",
        ),
        ("git log", [LOG], f"{NEWEST}: git log"),
        ("git log", [NO_LOG], "Now answer in one or two sentences: git log"),
        ("git status", [STATUS], "Now answer in one or two sentences: git status"),
    ],
)
def test_the_model_is_told_what_is_known(prompt: str, rounds: list[PastReply], note: str) -> None:
    assert sent(rails().prepare(turn_of(prompt, *rounds))).notes == (f"{NOTE}{note}",)


@pytest.mark.spec("M4")
def test_a_question_that_a_diff_answers_asks_for_the_status_too() -> None:
    both: list[tuple[str, str, dict[str, Any]]] = [("direct", "git.status", {}), ("direct", "git.diff", {})]
    assert all_acted(rails().prepare(turn_of("git diff"))) == both
    some = [tool for name, tool in TOOLS.items() if name != "git.status"]
    assert all_acted(rails(tools=some).prepare(turn_of("git diff"))) == both[1:]


@pytest.mark.spec("M4")
@pytest.mark.parametrize(
    ("prompt", "rounds", "start"),
    [
        (f"{HOW} ", [FOUND, READ], "Now answer in one or two sentences, with the path of the file"),
        ("git log ", [LOG], NEWEST),
        ("Fix src/parse.py ", [READ], "Now make the change"),
    ],
)
def test_a_message_of_more_than_300_characters_is_not_repeated(
    prompt: str, rounds: list[PastReply], start: str
) -> None:
    longest = prompt.ljust(300, "x")
    (told,) = sent(rails().prepare(turn_of(longest, *rounds))).notes
    assert f"{start}: {longest}" in told
    (told,) = sent(rails().prepare(turn_of(f"{longest}x", *rounds))).notes
    assert f"{start}." in told and "xxx" not in told


@pytest.mark.spec("M4")
@pytest.mark.parametrize(
    ("prompt", "rounds"),
    [
        ("hello", []),
        (HOW, [looked_up("parse_line", fail("No ripgrep."))]),
        (HOW, [looked_up("parse_line", denied(Failure.DENIED_BY_POLICY))]),
        (HOW, [looked_up("parse_line", None)]),
        ("git status", [direct_round("git.status", fail("locked"))]),
        ("git status", [LOG]),
    ],
)
def test_nothing_is_told_where_nothing_is_known(prompt: str, rounds: list[PastReply]) -> None:
    assert sent(rails().prepare(turn_of(prompt, *rounds))).notes == ()


# repeated calls and rounds


@pytest.mark.spec("M4")
@pytest.mark.parametrize(
    "slip",
    [
        round_of((use("file.read", path="src/parse.py"), denied())),
        round_of((use("shell.exec", command="ls"), denied(Failure.NOT_ALLOWED))),
        round_of((use("no.tool"), denied(Failure.UNKNOWN_TOOL))),
    ],
)
def test_after_a_refused_call_the_model_can_only_answer_and_the_second_one_ends_the_turn(slip: PastReply) -> None:
    guard = rails(without("surfaces"))
    assert sent(guard.prepare(turn_of(HOW, FOUND, READ, slip))).surface == ANSWER_ONLY
    assert sent(guard.prepare(turn_of("Fix parse_line", FOUND, READ, slip))).surface == EDIT_ONLY
    assert sent(guard.prepare(turn_of("hello", slip))).surface in (ANSWER_ONLY, None)
    ended = finished(guard.prepare(turn_of(HOW, FOUND, READ, slip, slip)))
    assert (ended.rule, ended.stopped) == ("duplicate_calls", True)
    assert "`parse_line` is defined in `src/parse.py:1`" in ended.answer and "Read: `src/parse.py`." in ended.answer
    free = rails(without("surfaces", "duplicate_calls"))
    assert sent(free.prepare(turn_of(HOW, FOUND, READ, slip, slip))).surface is None


@pytest.mark.spec("M4")
@pytest.mark.parametrize(
    ("prompt", "rounds", "surface"),
    [
        ("Fix parse_line", [], CHANGE_ONLY),
        ("Fix parse_line in src/parse.py", [PART], EDIT_ONLY),
        ("Create src/new.py like src/parse.py", [READ], CHANGE_ONLY),
        (HOW, [], ANSWER_ONLY),
    ],
)
def test_after_a_refused_call_a_file_is_written_only_if_it_may_be_a_new_one(
    prompt: str, rounds: list[PastReply], surface: Surface
) -> None:
    slip = round_of((use("no.tool"), denied(Failure.UNKNOWN_TOOL)))
    guard = rails(without("evidence", "surfaces"))
    assert sent(guard.prepare(turn_of(prompt, *rounds, slip))).surface == surface


@pytest.mark.spec("M4")
def test_after_six_rounds_the_model_can_only_answer_and_the_next_call_ends_the_turn() -> None:
    rounds = [round_of((use("file.list", path=f"src/{place}"), Result(True))) for place in range(MAX_ROUNDS + 1)]
    guard = rails()
    assert MAX_ROUNDS == 6
    assert sent(guard.prepare(turn_of("hello", *rounds[:5]))).surface is None
    assert sent(guard.prepare(turn_of("hello", *rounds[:6]))).surface == ANSWER_ONLY
    ended = finished(guard.prepare(turn_of("hello", *rounds)))
    assert (ended.rule, ended.stopped) == ("rounds", True)
    assert "Searched for: nothing. Read: nothing." in ended.answer
    assert sent(rails(without("rounds")).prepare(turn_of("hello", *rounds))).surface is None


@pytest.mark.spec("M4")
def test_a_stopped_turn_does_not_claim_that_nothing_was_read_where_that_is_unknown() -> None:
    gone = [round_of((use("file.read", path=f"{place}.py"), None)) for place in range(MAX_ROUNDS + 1)]
    assert "nothing" not in finished(rails().prepare(turn_of("hello", *gone))).answer


@pytest.mark.spec("M4")
def test_own_look_ups_are_no_rounds_of_the_model() -> None:
    own = [direct_round("file.list", Result(True), path=f"src/{place}") for place in range(MAX_ROUNDS + 1)]
    assert sent(rails().prepare(turn_of("hello", *own))).surface is None


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
    move = rails(without("direct", "evidence")).prepare(turn_of(prompt))
    assert isinstance(move, AskModel)


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
    assert isinstance(rails(tools=[TOOLS["git.log"]]).prepare(turn_of("read src/a.py")), AskModel)


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
    assert acted(rails().prepare(turn_of("explain a.py:3"))) == ("evidence", "file.read", {"path": "a.py"})
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


# all of them off


@pytest.mark.spec("M4")
def test_with_every_rule_off_it_is_as_if_there_were_none() -> None:
    slips = [round_of((use("shell.exec", command="ls"), denied())) for _ in range(12)]
    parts = (use("code.search", "runtime-1", query="where is the parser"),)
    failed = turn_of("read a.py", direct_round("file.read", not_found("a.py"), path="a.py"))
    guard = rails(OFF)
    for turn in (
        turn_of("read a.py"),
        turn_of(USES, *slips),
        failed,
        turn_of("Update a.py", round_of(reading("a.py"))),
    ):
        assert guard.prepare(turn) == AskModel(None, ())
        assert guard.receive(turn, parts) == AcceptReply(parts)
        assert guard.receive(turn, answer("See nowhere.py.")) == AcceptReply(answer("See nowhere.py."))
        assert guard.surface(turn) is None
        assert guard.refusals(turn) == {}

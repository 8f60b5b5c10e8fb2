"""Evidence before an answer: what is read for it, by whom, and what happens to answers that come too early."""

from __future__ import annotations

import pytest

from holdfast.agent.guarding import Accept, Again, Finish, Round, Send
from holdfast.agent.surfaces import ANSWER_ONLY, RETRIEVAL_FIRST
from holdfast.contract.message import ToolUse
from holdfast.contract.result import Result
from tests.agent.guard.making import (
    ALL_USES,
    TOOLS,
    USES,
    WHERE,
    acted,
    answer,
    denied,
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
DEFINED = "def parse_line(text):\n    return text\n"
USED = "value = parse_line(text)\n"
FILES = {
    "src/parse.py": ["def parse_line(text):"],
    "src/main.py": ["value = parse_line(text)"],
    "src/other.py": ["return parse_line(line)"],
}
SAID = answer("It is where it is.")


def search(files: dict[str, list[str]] | None = None, exact: str = "src/parse.py") -> Round:
    return round_of(searching("parse_line", FILES if files is None else files, exact=exact))


def read(path: str, content: str = DEFINED, use_id: str = "c1") -> Round:
    return round_of(reading(path, read_file(path, content), use_id))


def runtime_read(path: str, result: Result | None = None) -> Round:
    return round_of((use("file.read", "runtime-1", path=path), result or read_file(path, USED)))


@pytest.mark.spec("M4")
def test_an_answer_before_any_search_is_sent_back_once_and_then_ends_the_turn() -> None:
    first = rails().receive(turn_of(WHERE), SAID)
    assert isinstance(first, Again)
    assert (first.rule, first.note.startswith(CORRECTION)) == ("evidence", True)
    ended = finished(rails().receive(turn_of(WHERE, corrected={"evidence": 1}), SAID))
    assert (ended.rule, ended.stopped) == ("evidence", True)
    assert rails(without("evidence")).receive(turn_of(WHERE), SAID) == Accept(SAID)


@pytest.mark.spec("M4")
def test_an_answer_after_one_empty_search_is_sent_back_for_another_word() -> None:
    again = rails().receive(turn_of(WHERE, search({})), SAID)
    assert isinstance(again, Again)
    assert "another name" in again.note


@pytest.mark.spec("M4")
def test_an_answer_before_what_was_found_is_read_makes_the_runtime_read_it() -> None:
    move = rails().receive(turn_of(WHERE, search()), SAID)
    assert acted(move) == ("evidence", "file.read", {"path": "src/parse.py"})
    assert rails(without("evidence")).receive(turn_of(WHERE, search()), SAID) == Accept(SAID)


@pytest.mark.spec("M4")
def test_that_is_done_once_for_an_early_answer() -> None:
    refused = runtime_read("src/parse.py", denied())
    ended = finished(rails().receive(turn_of(WHERE, search(), refused), SAID))
    assert (ended.rule, ended.stopped) == ("evidence", True)


@pytest.mark.spec("M4")
def test_two_empty_searches_end_the_turn() -> None:
    turn = turn_of(WHERE, search({}), search({}))
    ended = finished(rails().prepare(turn))
    assert (ended.rule, ended.stopped) == ("evidence", True)
    assert "`parse_line`" in ended.answer
    assert isinstance(rails(without("evidence")).prepare(turn), Send)


@pytest.mark.spec("M4")
def test_two_empty_searches_do_not_end_a_turn_that_is_to_change_something() -> None:
    assert isinstance(rails().prepare(turn_of("Add a parser for lines", search({}), search({}))), Send)


@pytest.mark.spec("M4")
def test_with_evidence_only_an_answer_is_left() -> None:
    turn = turn_of(WHERE, search(), read("src/parse.py"))
    move = sent(rails().prepare(turn))
    assert move.surface == ANSWER_ONLY
    assert "`src/parse.py`" in move.notes[0]
    assert rails().receive(turn, SAID) == Accept(SAID)
    assert sent(rails(without("evidence")).prepare(turn)).surface == RETRIEVAL_FIRST


@pytest.mark.spec("M4")
def test_a_call_after_evidence_is_refused_and_the_second_ends_the_turn() -> None:
    turn = turn_of(WHERE, search(), read("src/parse.py"))
    more = use("file.read", path="src/main.py")
    text = refusal(rails(), turn, more)
    assert text is not None and text.startswith(f"{CORRECTION}`file.read` was not run")
    slip = round_of((more, denied()))
    assert isinstance(rails().prepare(turn_of(WHERE, *turn.rounds, slip)), Send)
    ended = finished(rails().prepare(turn_of(WHERE, *turn.rounds, slip, slip)))
    assert (ended.rule, ended.stopped) == ("evidence", True)


@pytest.mark.spec("M4")
def test_without_surfaces_what_is_enough_is_told_and_nothing_is_refused() -> None:
    turn = turn_of(WHERE, search(), read("src/parse.py"))
    guard = rails(without("surfaces"))
    move = sent(guard.prepare(turn))
    assert move.surface is None
    assert "`src/parse.py`" in move.notes[0]
    assert refusal(guard, turn, use("file.read", path="src/main.py")) is None


@pytest.mark.spec("M4")
def test_a_read_that_does_not_count_makes_the_runtime_read_the_best_file_once() -> None:
    turn = turn_of(WHERE, search(), read("src/main.py", USED))
    assert acted(rails().prepare(turn)) == ("evidence", "file.read", {"path": "src/parse.py"})
    assert isinstance(rails(without("evidence")).prepare(turn), Send)
    denied_read = turn_of(WHERE, *turn.rounds, runtime_read("src/parse.py", denied()))
    assert isinstance(rails().prepare(denied_read), Send)


@pytest.mark.spec("M4")
def test_a_question_about_usages_has_its_likeliest_file_read_at_once() -> None:
    move = rails().prepare(turn_of(USES, search()))
    assert acted(move) == ("evidence", "file.read", {"path": "src/main.py"})
    done = turn_of(USES, search(), runtime_read("src/main.py"))
    assert sent(rails().prepare(done)).surface == ANSWER_ONLY
    assert isinstance(rails(without("evidence")).prepare(turn_of(USES, search())), Send)


@pytest.mark.spec("M4")
def test_a_definition_alone_does_not_show_usages() -> None:
    both = round_of(
        searching("parse_line", FILES, "c1", "src/parse.py"), reading("src/parse.py", read_file("src/parse.py"), "c2")
    )
    assert acted(rails().prepare(turn_of(USES, both)))[2] == {"path": "src/main.py"}


@pytest.mark.spec("M4")
def test_a_question_for_all_usages_has_two_files_read() -> None:
    one = turn_of(ALL_USES, search(), runtime_read("src/main.py"))
    assert acted(rails().prepare(one))[2] == {"path": "src/other.py"}
    two = turn_of(ALL_USES, *one.rounds, runtime_read("src/other.py"))
    assert sent(rails().prepare(two)).surface == ANSWER_ONLY


@pytest.mark.spec("M4")
def test_where_there_is_only_one_file_one_is_enough_for_all_usages() -> None:
    files = {"src/main.py": FILES["src/main.py"]}
    turn = turn_of(ALL_USES, search(files, ""), runtime_read("src/main.py"))
    assert sent(rails().prepare(turn)).surface == ANSWER_ONLY


@pytest.mark.spec("M4")
def test_a_file_the_search_did_not_find_leads_once_to_one_it_did() -> None:
    turn = turn_of(WHERE, search(), read("README.md", "Hello\n"))
    assert acted(rails().prepare(turn))[2] == {"path": "src/parse.py"}
    after = turn_of(WHERE, *turn.rounds, runtime_read("src/parse.py", denied()))
    assert isinstance(rails().prepare(after), Send)


@pytest.mark.spec("M4")
def test_a_file_the_message_asks_about_needs_no_search() -> None:
    prompt = "How does the retry in session.py work?"
    turn = turn_of(prompt, read("session.py"))
    assert rails().receive(turn, SAID) == Accept(SAID)
    assert isinstance(rails().receive(turn_of(prompt, read("other.py")), SAID), Again)


@pytest.mark.spec("M4")
@pytest.mark.parametrize("left", ["code.search", "file.read"])
def test_no_evidence_is_asked_for_where_it_cannot_be_had(left: str) -> None:
    assert rails(tools=[TOOLS[left]]).receive(turn_of(WHERE), SAID) == Accept(SAID)


@pytest.mark.spec("M4")
def test_no_evidence_is_asked_for_where_a_file_came_with_the_message() -> None:
    assert rails().receive(turn_of(WHERE, foreign=True), SAID) == Accept(SAID)


@pytest.mark.spec("M4")
def test_a_file_that_was_found_and_is_gone_is_said_to_be() -> None:
    turn = turn_of(USES, search(), runtime_read("src/main.py", not_found("src/main.py")))
    said = "I couldn't read `src/main.py`: File not found: src/main.py. No file contents were read."
    assert rails().prepare(turn) == Finish("own_answers", said)


@pytest.mark.spec("M4")
def test_results_that_are_gone_are_no_evidence_and_no_reason_to_end_the_turn() -> None:
    gone: list[tuple[ToolUse, Result | None]] = [
        (use("code.search", query="parse_line"), None),
        (use("file.read", path="src/parse.py"), None),
    ]
    turn = turn_of(WHERE, *(round_of(each) for each in gone))
    assert sent(rails().prepare(turn)).surface == RETRIEVAL_FIRST
    assert refusal(rails(), turn, use("code.search", query="parse_line")) is None
    assert refusal(rails(), turn, use("file.read", path="src/parse.py")) is None
    assert isinstance(rails().receive(turn, SAID), Again)

"""Files an answer names must have been read."""

from __future__ import annotations

import pytest

from holdfast.agent.guard import AcceptReply, PastReply, RetryReply
from tests.guardrails.turns import (
    WHERE,
    acted,
    answer,
    finished,
    listing,
    rails,
    read_file,
    reading,
    round_of,
    searching,
    turn_of,
    use,
    without,
)

DEFINED = 'def parse_line(text):\n    return open("words.txt")\n'
FILES = {"src/parse.py": ["def parse_line(text):"], "src/main.py": ["value = parse_line(text)"]}
FOUND = (
    round_of(searching("parse_line", FILES, exact="src/parse.py")),
    round_of(reading("src/parse.py", read_file("src/parse.py", DEFINED))),
)


@pytest.mark.spec("M4")
@pytest.mark.parametrize("said", ["It is in src/parse.py.", "See `parse.py`, line 1.", "It opens words.txt.", "Yes."])
def test_an_answer_about_files_that_were_read_is_kept(said: str) -> None:
    assert rails().receive(turn_of(WHERE, *FOUND), answer(said)) == AcceptReply(answer(said))


@pytest.mark.spec("M4")
def test_a_file_that_was_found_and_not_read_is_read_once() -> None:
    said = answer("It is in src/parse.py, and src/main.py calls it.")
    assert acted(rails().receive(turn_of(WHERE, *FOUND), said)) == ("citations", "file.read", {"path": "src/main.py"})
    assert rails(without("citations")).receive(turn_of(WHERE, *FOUND), said) == AcceptReply(said)
    read = round_of((use("file.read", "runtime-1", path="src/main.py"), read_file("src/main.py")))
    assert rails().receive(turn_of(WHERE, *FOUND, read), said) == AcceptReply(said)


@pytest.mark.spec("M4")
def test_after_that_another_one_is_sent_back_once_and_then_ends_the_turn() -> None:
    files = {**FILES, "src/more.py": ["parse_line(x)"]}
    rounds: list[PastReply] = [
        round_of(searching("parse_line", files, exact="src/parse.py")),
        FOUND[1],
        round_of((use("file.read", "runtime-1", path="src/main.py"), read_file("src/main.py"))),
    ]
    said = answer("See src/more.py.")
    again = rails().receive(turn_of(WHERE, *rounds), said)
    assert isinstance(again, RetryReply)
    assert "`src/more.py`" in again.note
    ended = finished(rails().receive(turn_of(WHERE, *rounds, retries={"citations": 1}), said))
    assert (ended.rule, ended.stopped) == ("citations", True)


@pytest.mark.spec("M4")
def test_a_file_nobody_has_seen_is_sent_back_once_and_then_ends_the_turn() -> None:
    said = answer("It is in src/imagined.py.")
    again = rails().receive(turn_of(WHERE, *FOUND), said)
    assert isinstance(again, RetryReply)
    assert (again.rule, again.note.startswith("[runtime:correction] ")) == ("citations", True)
    ended = finished(rails().receive(turn_of(WHERE, *FOUND, retries={"citations": 1}), said))
    assert (ended.rule, ended.stopped) == ("citations", True)
    assert rails(without("citations")).receive(turn_of(WHERE, *FOUND), said) == AcceptReply(said)


@pytest.mark.spec("M4")
def test_a_file_outside_the_folder_the_message_names_is_sent_back() -> None:
    prompt = "Where is parse_line defined in src/net?"
    files = {"src/net/parse.py": ["def parse_line(text):"]}
    rounds = (
        round_of(searching("parse_line", files, exact="src/net/parse.py")),
        round_of(reading("src/net/parse.py"), reading("lib/parse.py", use_id="c2")),
    )
    said = answer("It is in lib/parse.py.")
    again = rails().receive(turn_of(prompt, *rounds), said)
    assert isinstance(again, RetryReply)
    assert "`src/net`" in again.note
    assert finished(rails().receive(turn_of(prompt, *rounds, retries={"citations": 1}), said)).stopped
    assert rails(without("scope")).receive(turn_of(prompt, *rounds), said) == AcceptReply(said)


@pytest.mark.spec("M4")
def test_files_of_a_listing_may_be_named() -> None:
    listed = round_of((use("file.list", "runtime-1", path="src"), listing("src", "one.py", "two.py")))
    turn = turn_of("list src/", listed)
    assert rails().receive(turn, answer("There are src/one.py and two.py.")) == AcceptReply(
        answer("There are src/one.py and two.py.")
    )
    assert isinstance(rails().receive(turn, answer("There is src/three.py.")), RetryReply)


@pytest.mark.spec("M4")
def test_files_read_for_an_earlier_message_or_named_by_this_one_may_be_named() -> None:
    said = answer("It is in src/parse.py, as in old.py and asked.py.")
    turn = turn_of(
        "Where is parse_line of asked.py defined?", *FOUND, earlier_replies=(round_of(reading("src/old.py")),)
    )
    assert rails().receive(turn, said) == AcceptReply(said)


@pytest.mark.spec("M4")
@pytest.mark.parametrize("prompt", ["git status", "Add a parser", "What is a lock file?"])
def test_only_where_files_are_asked_about_must_they_have_been_read(prompt: str) -> None:
    said = answer("Such as package.json.")
    assert rails().receive(turn_of(prompt), said) == AcceptReply(said)


@pytest.mark.spec("M4")
def test_files_that_came_with_the_message_are_not_known_here_so_nothing_is_sent_back() -> None:
    said = answer("See a.py.")
    assert rails().receive(turn_of(WHERE, has_foreign_text=True), said) == AcceptReply(said)

"""Calls that are refused: weak queries, searches, listings and reads beyond what a message needs, and repetitions."""

from __future__ import annotations

import pytest

from holdfast.agent.guard import AskModel
from holdfast.config.config import GuardrailsConfig
from holdfast.contract.result import Result, fail
from holdfast.guardrails.guardrails import GuardRails
from holdfast.models.text_protocol.syntax import short_name
from tests.guardrails.turns import (
    TOOLS,
    WHERE,
    denied,
    edited,
    finished,
    only,
    rails,
    reading,
    refusal,
    round_of,
    searching,
    turn_of,
    use,
    without,
)

CORRECTION = "[runtime:correction] "
DEFINES = {"src/parse.py": ["def parse_line(text):"]}


@pytest.mark.spec("M4")
@pytest.mark.parametrize("query", ["", " ", "a", "if", "git"])
def test_a_query_that_would_find_everything_is_refused_and_the_second_ends_the_turn(query: str) -> None:
    asked = use("code.search", query=query)
    text = refusal(rails(), turn_of(WHERE), asked)
    assert text is not None and text.startswith(CORRECTION)
    assert refusal(rails(without("weak_queries")), turn_of(WHERE), asked) is None
    slip = round_of((asked, denied()))
    assert isinstance(rails().prepare(turn_of(WHERE, slip)), AskModel)
    ended = finished(rails().prepare(turn_of(WHERE, slip, slip)))
    assert (ended.rule, ended.stopped) == ("weak_queries", True)


@pytest.mark.spec("M4")
def test_there_is_one_search_and_a_second_only_if_the_first_was_empty() -> None:
    again = use("code.search", query="other_name")
    empty, full = round_of(searching("nope_name", {})), round_of(searching("parse_line", DEFINES))
    assert refusal(rails(), turn_of(WHERE), again) is None
    assert refusal(rails(), turn_of(WHERE, empty), again) is None
    for rounds in ([full], [empty, full], [empty, empty]):
        text = refusal(rails(), turn_of(WHERE, *rounds), again)
        assert text is not None and text.startswith(f"{CORRECTION}No more searches")
        assert refusal(rails(without("search_budget", "evidence")), turn_of(WHERE, *rounds), again) is None


@pytest.mark.spec("M4")
def test_two_searches_in_one_reply_are_one_too_many() -> None:
    first, second = use("code.search", "c1", query="one_name"), use("code.search", "c2", query="two_name")
    assert refusal(rails(), turn_of(WHERE), first) is None
    text = refusal(rails(), turn_of(WHERE), first, second)
    assert text is not None and "One search at a time" in text


@pytest.mark.spec("M4")
def test_a_search_that_failed_does_not_count() -> None:
    failed = round_of((use("code.search", query="("), fail("unbalanced parenthesis")))
    assert refusal(rails(), turn_of(WHERE, failed), use("code.search", query="parse_line")) is None


@pytest.mark.spec("M4")
def test_asking_again_for_a_search_that_is_closed_ends_the_turn() -> None:
    full, more = round_of(searching("parse_line", DEFINES)), round_of((use("code.search", query="other"), denied()))
    config = only("search_budget")
    assert isinstance(rails(config).prepare(turn_of(WHERE, full, more)), AskModel)
    ended = finished(rails(config).prepare(turn_of(WHERE, full, more, more)))
    assert (ended.rule, ended.stopped) == ("search_budget", True)
    assert "`parse_line`" in ended.answer


@pytest.mark.spec("M4")
def test_a_listing_before_any_search_is_refused_while_investigating() -> None:
    asked = use("file.list", path="src")
    text = refusal(rails(), turn_of(WHERE), asked)
    assert text is not None and text.startswith(f"{CORRECTION}`src` was not listed")
    assert refusal(rails(without("list_before_search")), turn_of(WHERE), asked) is None
    assert refusal(rails(), turn_of("Add a file to the folder"), asked) is None
    assert refusal(rails(), turn_of(WHERE, round_of(searching("nope_name", {}))), asked) is None
    assert refusal(rails(), turn_of(WHERE), use("code.search", "c0", query="parse_line"), asked) is None


@pytest.mark.spec("M4")
def test_a_listing_is_not_refused_where_there_is_nothing_to_search_with() -> None:
    there = [TOOLS["file.list"], TOOLS["file.read"]]
    assert refusal(rails(tools=there), turn_of(WHERE), use("file.list", path="src")) is None


@pytest.mark.spec("M4")
def test_three_files_are_read_for_one_message_and_no_more() -> None:
    prompt = "Update the parser"
    reads = [round_of(reading(f"{name}.py")) for name in "abc"]
    asked = use("file.read", path="d.py")
    assert refusal(rails(), turn_of(prompt, *reads[:2]), asked) is None
    text = refusal(rails(), turn_of(prompt, *reads), asked)
    assert text is not None and "3 reads" in text
    assert refusal(rails(without("read_budget")), turn_of(prompt, *reads), asked) is None


@pytest.mark.spec("M4")
def test_reads_asked_for_in_one_reply_are_counted_together() -> None:
    asked = [use("file.read", f"c{place}", path=f"{place}.py") for place in range(4)]
    assert refusal(rails(), turn_of("Update the parser"), *asked[:3]) is None
    assert refusal(rails(), turn_of("Update the parser"), *asked) is not None


@pytest.mark.spec("M4")
def test_two_of_the_files_a_search_found_are_read_while_investigating() -> None:
    files = {f"{name}.py": ["import parse_line"] for name in "abc"}
    reads = [round_of(reading(f"{name}.py")) for name in "ab"]
    turn = turn_of(WHERE, round_of(searching("parse_line", files)), *reads)
    config = only("read_budget")
    text = refusal(rails(config), turn, use("file.read", path="c.py"))
    assert text is not None and "2 reads of files a search found" in text
    assert refusal(rails(config), turn, use("file.read", path="d.py")) is None


@pytest.mark.spec("M4")
def test_a_file_is_not_read_twice_but_its_next_page_is() -> None:
    config = only("read_budget")
    turn = turn_of("Update the parser", round_of(reading("a.py")), round_of(reading("b.py")))
    text = refusal(rails(config), turn, use("read_file", path="./a.py", limit=None, label="again"))
    assert text is not None and "content is above" in text
    assert refusal(rails(config), turn, use("file.read", path="a.py", offset=201)) is None


@pytest.mark.spec("M4")
def test_a_file_may_be_read_again_after_something_changed() -> None:
    edit = use("file.edit", path="a.py", search="x", replace="y")
    turn = turn_of("Update the parser", round_of(reading("a.py")), round_of((edit, edited("a.py"))))
    assert refusal(rails(without("own_answers")), turn, use("file.read", path="a.py")) is None


@pytest.mark.spec("M4")
def test_a_call_like_the_last_one_that_succeeded_is_refused() -> None:
    asked = use("git.status")
    turn = turn_of("git status", round_of((asked, Result(True, "clean"))))
    text = refusal(rails(), turn, use("git_status", label="once more"))
    assert text is not None and text.startswith(f"{CORRECTION}`git.status` was not run again")
    assert refusal(rails(without("duplicate_calls")), turn, asked) is None
    between = turn_of("git status", *turn.replies, round_of((use("git.log"), Result(True))))
    assert refusal(rails(), between, asked) is None


@pytest.mark.spec("M4")
def test_a_call_that_failed_may_be_tried_again() -> None:
    asked = use("git.status")
    failed = round_of((asked, fail("locked")))
    assert refusal(rails(), turn_of("git status", failed), asked) is None


@pytest.mark.spec("M4")
def test_the_same_call_twice_in_one_reply_is_refused_once() -> None:
    first, second = use("git.status", "c1"), use("git.status", "c2")
    assert refusal(rails(), turn_of("git status"), first) is None
    assert refusal(rails(), turn_of("git status"), first, second) is not None


@pytest.mark.spec("M4")
def test_tools_that_may_have_something_new_to_say_are_asked_as_often_as_the_model_likes() -> None:
    asked = use("process.status", id="p1")
    turn = turn_of("Wait for it", round_of((asked, Result(True, "running"))))
    assert refusal(rails(without("surfaces")), turn, asked) is None


@pytest.mark.spec("M4")
@pytest.mark.parametrize("rules", ["duplicate_calls", "read_budget"])
def test_of_a_call_that_has_no_result_yet_nobody_says_that_it_is_above(rules: str) -> None:
    first, second = use("file.read", "c1", path="a.py"), use("file.read", "c2", path="./a.py")
    text = refusal(rails(only(rules)), turn_of("Update the parser"), first, second)
    assert text is not None and "your reply asks for it already" in text
    assert "above" not in text
    done = turn_of("Update the parser", round_of(reading("a.py")))
    text = refusal(rails(only(rules)), done, second)
    assert text is not None and "is above" in text


@pytest.mark.spec("M4")
def test_notes_and_refusals_name_tools_as_the_model_writes_them() -> None:
    guard = GuardRails(GuardrailsConfig(), lambda: list(TOOLS.values()), lambda tool: short_name(tool.name))
    turn = turn_of("Where is parse_config defined?")
    sent = guard.prepare(turn)
    assert isinstance(sent, AskModel)
    assert "search_code" in " ".join(sent.notes) and "code.search" not in " ".join(sent.notes)
    text = refusal(guard, turn, use("git.status"))
    assert text is not None and "git_status is not among the tools" in text.replace("'", "").replace("`", "")
    assert "read_file" in text and "file.read" not in text

"""Evidence before an answer: what is read for it, by whom, and what happens to answers that come too early."""

from __future__ import annotations

import pytest

from holdfast.agent.guard import AcceptReply, AskModel, EndTurn, PastReply, ReplyCall, RetryReply
from holdfast.agent.surface import ANSWER_ONLY, RETRIEVAL_FIRST
from holdfast.contract.message import ToolResult, ToolUse
from holdfast.contract.result import Result, fail
from tests.guardrails.turns import (
    ALL_USES,
    TOOLS,
    USES,
    WHERE,
    acted,
    answer,
    denied,
    edited,
    finished,
    not_found,
    rails,
    read_file,
    reading,
    refusal,
    rejected,
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


def search(files: dict[str, list[str]] | None = None, exact: str = "src/parse.py") -> PastReply:
    return round_of(searching("parse_line", FILES if files is None else files, exact=exact))


def read(path: str, content: str = DEFINED, use_id: str = "c1") -> PastReply:
    return round_of(reading(path, read_file(path, content), use_id))


def runtime_read(path: str, result: Result | None = None) -> PastReply:
    return round_of((use("file.read", "runtime-1", path=path), result or read_file(path, USED)))


@pytest.mark.spec("M4")
def test_an_answer_before_any_search_is_sent_back_once_and_then_ends_the_turn() -> None:
    first = rails().receive(turn_of(WHERE), SAID)
    assert isinstance(first, RetryReply)
    assert (first.rule, first.note.startswith(CORRECTION)) == ("evidence", True)
    ended = finished(rails().receive(turn_of(WHERE, retries={"evidence": 1}), SAID))
    assert (ended.rule, ended.stopped) == ("evidence", True)
    assert rails(without("evidence")).receive(turn_of(WHERE), SAID) == AcceptReply(SAID)


@pytest.mark.spec("M4")
def test_an_answer_after_one_empty_search_is_sent_back_for_another_word() -> None:
    again = rails().receive(turn_of(WHERE, search({})), SAID)
    assert isinstance(again, RetryReply)
    assert "another name" in again.note


@pytest.mark.spec("M4")
def test_an_answer_before_what_was_found_is_read_makes_the_runtime_read_it() -> None:
    move = rails().receive(turn_of(WHERE, search()), SAID)
    assert acted(move) == ("evidence", "file.read", {"path": "src/parse.py"})
    assert rails(without("evidence")).receive(turn_of(WHERE, search()), SAID) == AcceptReply(SAID)


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
    assert isinstance(rails(without("evidence")).prepare(turn), AskModel)


@pytest.mark.spec("M4")
def test_two_empty_searches_do_not_end_a_turn_that_is_to_change_something() -> None:
    assert isinstance(rails().prepare(turn_of("Add a parser for lines", search({}), search({}))), AskModel)


@pytest.mark.spec("M4")
def test_with_evidence_only_an_answer_is_left() -> None:
    turn = turn_of(WHERE, search(), read("src/parse.py"))
    move = sent(rails().prepare(turn))
    assert move.surface == ANSWER_ONLY
    assert "`src/parse.py`" in move.notes[0]
    assert rails().receive(turn, SAID) == AcceptReply(SAID)
    assert sent(rails(without("evidence")).prepare(turn)).surface == RETRIEVAL_FIRST


@pytest.mark.spec("M4")
def test_a_call_after_evidence_is_refused_and_the_second_ends_the_turn() -> None:
    turn = turn_of(WHERE, search(), read("src/parse.py"))
    more = use("file.read", path="src/main.py")
    text = refusal(rails(), turn, more)
    assert text is not None and text.startswith(f"{CORRECTION}`file.read` was not run")
    slip = round_of((more, denied()))
    assert isinstance(rails().prepare(turn_of(WHERE, *turn.replies, slip)), AskModel)
    ended = finished(rails().prepare(turn_of(WHERE, *turn.replies, slip, slip)))
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
    assert isinstance(rails(without("evidence")).prepare(turn), AskModel)
    denied_read = turn_of(WHERE, *turn.replies, runtime_read("src/parse.py", denied()))
    assert isinstance(rails().prepare(denied_read), AskModel)


@pytest.mark.spec("M4")
def test_a_question_about_usages_has_its_likeliest_file_read_at_once() -> None:
    move = rails().prepare(turn_of(USES, search()))
    assert acted(move) == ("evidence", "file.read", {"path": "src/main.py"})
    done = turn_of(USES, search(), runtime_read("src/main.py"))
    assert sent(rails().prepare(done)).surface == ANSWER_ONLY
    assert isinstance(rails(without("evidence")).prepare(turn_of(USES, search())), AskModel)


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
    two = turn_of(ALL_USES, *one.replies, runtime_read("src/other.py"))
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
    after = turn_of(WHERE, *turn.replies, runtime_read("src/parse.py", denied()))
    assert isinstance(rails().prepare(after), AskModel)


@pytest.mark.spec("M4")
def test_a_file_the_message_asks_about_needs_no_search() -> None:
    prompt = "How does the retry in session.py work?"
    turn = turn_of(prompt, read("session.py"))
    assert rails().receive(turn, SAID) == AcceptReply(SAID)
    assert isinstance(rails().receive(turn_of(prompt, read("other.py")), SAID), RetryReply)


@pytest.mark.spec("M4")
@pytest.mark.parametrize("left", ["code.search", "file.read"])
def test_no_evidence_is_asked_for_where_it_cannot_be_had(left: str) -> None:
    assert rails(tools=[TOOLS[left]]).receive(turn_of(WHERE), SAID) == AcceptReply(SAID)


@pytest.mark.spec("M4")
def test_no_evidence_is_asked_for_where_a_file_came_with_the_message() -> None:
    assert rails().receive(turn_of(WHERE, has_foreign_text=True), SAID) == AcceptReply(SAID)


@pytest.mark.spec("M4")
def test_a_file_that_was_found_and_is_gone_is_said_to_be() -> None:
    found = search({"src/main.py": FILES["src/main.py"]})
    turn = turn_of(USES, found, runtime_read("src/main.py", not_found("src/main.py")))
    said = "I couldn't read `src/main.py`: File not found: src/main.py. No file contents were read."
    assert rails().prepare(turn) == EndTurn("own_answers", said)


@pytest.mark.spec("M4")
def test_where_results_are_gone_nothing_is_demanded_and_nothing_refused() -> None:
    gone: list[tuple[ToolUse, Result | None]] = [
        (use("code.search", query="parse_line"), None),
        (use("file.read", path="src/parse.py"), None),
    ]
    turn = turn_of(WHERE, *(round_of(each) for each in gone))
    assert sent(rails().prepare(turn)).surface == RETRIEVAL_FIRST
    assert refusal(rails(), turn, use("code.search", query="parse_line")) is None
    assert refusal(rails(), turn, use("file.read", path="src/parse.py")) is None
    assert rails().receive(turn, SAID) == AcceptReply(SAID)
    assert not any("Look before" in note for note in sent(rails().prepare(turn)).notes)


@pytest.mark.spec("M4")
def test_a_result_a_person_wrote_is_like_one_that_is_gone() -> None:
    turn = turn_of(WHERE, round_of((use("code.search", query="parse_line"), Result(True, "It is in src/parse.py."))))
    assert rails().receive(turn, SAID) == AcceptReply(SAID)


@pytest.mark.spec("M4")
def test_a_call_that_failed_and_is_gone_demands_as_much_as_before() -> None:
    failed = ReplyCall(use("code.search", query="parse_line"), ToolResult("c1", "code.search", "No.", error=True))
    assert isinstance(rails().receive(turn_of(WHERE, PastReply("", (failed,))), SAID), RetryReply)


@pytest.mark.spec("M4")
def test_where_results_are_gone_nobody_says_that_nothing_was_read_or_found() -> None:
    gone = round_of((use("file.read", path="src/parse.py"), None))
    assert isinstance(rails().prepare(turn_of(WHERE, gone, round_of(reading("b.py", not_found("b.py"))))), AskModel)
    assert isinstance(rails().prepare(turn_of(WHERE, gone, search({}), search({}))), AskModel)
    named = answer("See src/parse.py and other.py.")
    assert rails().receive(turn_of(WHERE, gone), named) == AcceptReply(named)
    slip = round_of((use("shell.exec", command="ls"), denied()))
    said = finished(rails().prepare(turn_of(WHERE, gone, slip, slip))).answer
    assert "nothing" not in said.lower()


@pytest.mark.spec("M4")
def test_a_file_that_was_read_and_whose_result_is_gone_may_be_named() -> None:
    gone = round_of((use("file.read", path="src/parse.py"), None))
    named = answer("See src/parse.py.")
    assert rails().receive(turn_of(WHERE, gone), named) == AcceptReply(named)
    turn = turn_of("Explain docs/guide.md", round_of(reading("docs/guide.md")), earlier_replies=(gone,))
    assert rails().receive(turn, named) == AcceptReply(named)


@pytest.mark.spec("M4")
@pytest.mark.parametrize(
    ("prompt", "path", "content", "counts"),
    [
        (WHERE, "src/parse.py", DEFINED, True),
        (WHERE, "src/main.py", USED, False),
        (WHERE, "src/parse.py", "def parse_lines(text):\n", False),
        (WHERE, "src/main.py", "from parse import parse_line\n", False),
        (USES, "src/main.py", USED, True),
        (USES, "src/parse.py", DEFINED, False),
        ("Where is parse_line configured?", "settings.toml", "parse_line = true\n", True),
        ("Where is parse_line configured?", "src/main.py", USED, False),
        ("Where is parse_line loaded?", "src/main.py", "load(parse_line)\n", True),
        ("Where is parse_line loaded?", "src/main.py", USED, False),
        ("How does parse_line work?", "src/parse.py", DEFINED, True),
        ("How does parse_line work?", "uv.lock", "parse_line\n", False),
        ("How does parse_line work in src/net?", "src/parse.py", DEFINED, False),
        ("Where are sessions created?", "src/main.py", "create session\n", False),
    ],
)
def test_a_file_that_was_read_without_a_search_counts_if_its_own_lines_show_it(
    prompt: str, path: str, content: str, counts: bool
) -> None:
    now, before = turn_of(prompt, read(path, content)), turn_of(prompt, earlier_replies=(read(path, content),))
    assert (sent(rails().prepare(now)).surface == ANSWER_ONLY) is counts
    assert (rails().receive(now, SAID) == AcceptReply(SAID)) is counts
    assert (rails().receive(before, SAID) == AcceptReply(SAID)) is counts
    assert sent(rails().prepare(before)).surface == RETRIEVAL_FIRST


@pytest.mark.spec("M4")
def test_a_scope_that_proves_to_be_none_changes_nothing_about_what_was_read_before() -> None:
    failed = round_of((use("code.search", query="parse_line", path="src/gone"), fail("There is no src/gone.")))
    turn = turn_of("Where is parse_line defined in src/gone?", read("src/parse.py"))
    again = use("file.read", path="src/main.py")
    assert refusal(rails(), turn, again) is None
    assert refusal(rails(), turn_of(turn.prompt, *turn.replies, failed), again) is None


@pytest.mark.spec("M4")
def test_one_usage_is_not_all_of_them_before_a_search() -> None:
    assert isinstance(rails().receive(turn_of(ALL_USES, read("src/main.py", USED)), SAID), RetryReply)
    both = turn_of(ALL_USES, read("src/main.py", USED), earlier_replies=(read("src/other.py", USED),))
    assert rails().receive(both, SAID) == AcceptReply(SAID)


@pytest.mark.spec("M4")
@pytest.mark.parametrize(
    ("change", "counts"),
    [
        ((use("file.edit", path="./src/parse.py", search="x", replace="y"), edited("src/parse.py")), False),
        ((use("file.edit", path="src/parse.py", search="x", replace="y"), None), False),
        ((use("shell.exec", command="make"), fail("It failed.")), False),
        ((use("file.edit", path="src/parse.py", search="x", replace="y"), rejected()), True),
        ((use("file.edit", path="src/main.py", search="x", replace="y"), edited("src/main.py")), True),
        ((use("file.list", path="src"), None), True),
    ],
)
def test_what_may_have_changed_since_it_was_read_is_no_evidence(
    change: tuple[ToolUse, Result | None], counts: bool
) -> None:
    turn = turn_of(WHERE, earlier_replies=(read("src/parse.py"), round_of(change)))
    assert (rails().receive(turn, SAID) == AcceptReply(SAID)) is counts


@pytest.mark.spec("M4")
def test_two_empty_searches_do_not_deny_what_an_earlier_message_had_read() -> None:
    turn = turn_of(WHERE, search({}), search({}), earlier_replies=(read("src/parse.py"),))
    assert isinstance(rails().prepare(turn), AskModel)
    assert rails().receive(turn, SAID) == AcceptReply(SAID)


@pytest.mark.spec("M4")
def test_what_was_read_and_listed_is_never_said_not_to_have_been() -> None:
    again = rails().receive(turn_of(WHERE, read("src/main.py", USED)), SAID)
    assert isinstance(again, RetryReply)
    assert "`src/main.py` does not show it" in again.note
    found = round_of((use("file.find", pattern="*"), Result(True, "a.py")))
    again = rails().receive(turn_of(WHERE, found), SAID)
    assert isinstance(again, RetryReply)
    assert "no search" not in again.note
    ended = finished(rails().receive(turn_of(WHERE, read("src/main.py", USED), retries={"evidence": 1}), SAID))
    assert ended.answer.startswith("What was read does not show the answer. Read: `src/main.py`.")
    ended = finished(rails().receive(turn_of(WHERE, found, retries={"evidence": 1}), SAID))
    assert "Searched for" not in ended.answer


@pytest.mark.spec("M4")
def test_files_of_earlier_messages_are_among_those_an_answer_may_name() -> None:
    turn = turn_of("Explain docs/guide.md", round_of(reading("docs/guide.md")), earlier_replies=(read("old.py"),))
    again = rails().receive(turn, answer("See new.py."))
    assert isinstance(again, RetryReply)
    assert "`old.py`" in again.note


@pytest.mark.spec("M4")
@pytest.mark.parametrize(
    "change",
    [
        (use("shell.exec", "c2", command="make"), Result(True, "Done.")),
        (use("file.edit", "c2", path="src/parse.py", search="x", replace="y"), edited("src/parse.py")),
    ],
)
def test_what_was_read_beside_a_change_in_one_reply_is_no_evidence_for_later_messages(
    change: tuple[ToolUse, Result | None],
) -> None:
    shown = reading("src/parse.py", read_file("src/parse.py", DEFINED))
    for both in (round_of(change, shown), round_of(shown, change)):
        assert rails().receive(turn_of(WHERE, earlier_replies=(both,)), SAID) != AcceptReply(SAID)
        assert rails().receive(turn_of(WHERE, earlier_replies=(both, round_of(shown))), SAID) == AcceptReply(SAID)


@pytest.mark.spec("M4")
@pytest.mark.parametrize("path", ["/project/src/parse.py", "src/x/../parse.py"])
def test_a_change_under_a_name_that_may_mean_any_file_leaves_no_evidence(path: str) -> None:
    change = use("file.edit", path=path, search="x", replace="y"), None
    turn = turn_of(WHERE, earlier_replies=(read("src/parse.py"), round_of(change)))
    assert rails().receive(turn, SAID) != AcceptReply(SAID)

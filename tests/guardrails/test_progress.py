"""What the runtime looks up before the model is asked, call by call."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.agent.guard import AskModel, PastReply, TurnHistory
from holdfast.contract.enums import Failure, State
from holdfast.contract.result import Result, fail, ok
from tests.guardrails.turns import (
    TOOLS,
    USES,
    WHERE,
    acted,
    all_acted,
    denied,
    direct_round,
    found,
    looked_up,
    not_found,
    rails,
    read_by_runtime,
    read_file,
    reading,
    rejected,
    round_of,
    searching,
    sent,
    state_of,
    turn_of,
    use,
    without,
)

HOW = "How does parse_line work?"
DEFINES = {"src/parse.py": ["def parse_line(text):"]}
LOST = Result(False, error="Nobody knows.", state=State.UNKNOWN, failure=Failure.OUTCOME_UNKNOWN)


def files(*paths: str) -> Result:
    listed: Any = list(paths)
    return ok("\n".join(paths), structured={"files": listed, "truncated": False, "unreadable_folders": 0})


def calls(turn: TurnHistory) -> list[tuple[str, dict[str, Any]]]:
    """The calls that the runtime makes now; none if it asks the model."""
    move = rails().prepare(turn)
    if isinstance(move, AskModel):
        return []
    return [(name, args) for _, name, args in all_acted(move)]


@pytest.mark.spec("M4")
def test_the_identifiers_of_a_message_are_searched_first() -> None:
    assert acted(rails().prepare(turn_of(HOW))) == ("evidence", "code.search", {"query": "parse_line"})
    both = calls(turn_of("How do parse_line and load_rows differ?"))
    assert both == [("code.search", {"query": "parse_line"}), ("code.search", {"query": "load_rows"})]
    assert sent(rails(without("evidence")).prepare(turn_of(HOW))).notes == ()


@pytest.mark.spec("M4")
def test_without_an_identifier_the_telling_words_are_searched_in_any_form() -> None:
    searched = calls(turn_of("How often are uploads retried?"))
    assert ("code.search", {"query": "upload", "case": "insensitive", "limit": 8}) in searched
    assert all(name == "code.search" for name, _ in searched)


@pytest.mark.spec("M4")
def test_the_words_of_an_identifier_are_searched_if_it_is_nowhere() -> None:
    turn = turn_of("How does upload_photo work?", looked_up("upload_photo", found({}, query="upload_photo")))
    assert [args["query"] for _, args in calls(turn)] == ["upload", "photo"]


@pytest.mark.spec("M4")
def test_the_best_file_is_read_and_then_the_model_is_asked() -> None:
    search = looked_up("parse_line", found({"src/main.py": ["parse_line(x)"], **DEFINES}, exact="src/parse.py"))
    assert calls(turn_of(HOW, search)) == [("file.read", {"path": "src/parse.py"})]
    assert calls(turn_of(HOW, search, read_by_runtime("src/parse.py"))) == []


@pytest.mark.spec("M4")
def test_for_a_question_without_an_identifier_the_file_that_gives_the_value_is_read() -> None:
    files = {"src/wait.py": ["wait(timeout)", "stop(timeout)"], "src/net.py": ["timeout = 12"]}
    search = looked_up("timeout", found(files, query="timeout"), case="insensitive", limit=8)
    move = rails().prepare(turn_of("How long is the timeout?", search))
    assert acted(move) == ("evidence", "file.read", {"path": "src/net.py"})


@pytest.mark.spec("M4")
def test_a_match_far_down_is_read_with_the_lines_around_it() -> None:
    far = found({"src/parse.py": [*["# parse_line"] * 200, "def parse_line(text):"]})
    assert far.structured is not None and isinstance(far.structured, dict)
    entries: Any = far.structured["files"]
    entries[0]["lines"] = [{"line": 201, "text": "def parse_line(text):"}]
    assert calls(turn_of(HOW, looked_up("parse_line", far))) == [
        ("file.read", {"path": "src/parse.py", "offset": 171, "limit": 150})
    ]


@pytest.mark.spec("M4")
@pytest.mark.parametrize("prompt", [WHERE, USES])
def test_a_search_that_shows_the_places_asked_for_is_enough(prompt: str) -> None:
    assert calls(turn_of(prompt, looked_up("parse_line", found(DEFINES)))) == []


@pytest.mark.spec("M4")
def test_the_files_that_a_message_names_are_read_one_after_the_other() -> None:
    prompt = "Compare src/a.py with src/b.py"
    assert calls(turn_of(prompt)) == [("file.read", {"path": "src/a.py"})]
    assert calls(turn_of(prompt, read_by_runtime("src/a.py"))) == [("file.read", {"path": "src/b.py"})]
    assert calls(turn_of(prompt, read_by_runtime("src/a.py"), read_by_runtime("src/b.py"))) == []


@pytest.mark.spec("M4")
@pytest.mark.parametrize("prompt", ["Which functions are in src/a.py?", "List the classes of src/a.py"])
def test_a_question_for_the_things_in_a_file_is_answered_from_the_file(prompt: str) -> None:
    assert calls(turn_of(prompt)) == [("file.read", {"path": "src/a.py"})]


@pytest.mark.spec("M4")
def test_a_name_is_looked_for_before_the_file_that_is_named_with_it() -> None:
    prompt = "Where is parse_line in a.py?"
    assert calls(turn_of(prompt)) == [("code.search", {"query": "parse_line"})]
    nothing = looked_up("parse_line", found({}))
    assert calls(turn_of(prompt, nothing)) == [("file.read", {"path": "a.py"})]
    assert calls(turn_of(prompt, looked_up("parse_line", found(DEFINES)))) == []


@pytest.mark.spec("M4")
def test_a_file_named_by_its_last_parts_is_found_and_read() -> None:
    prompt = "Compare web/app.py with the rest"
    missing = read_by_runtime("web/app.py", not_found("web/app.py"))
    assert calls(turn_of(prompt, missing)) == [("file.find", {"pattern": "**/web/app.py"})]
    one = direct_round("file.find", files("src/web/app.py"), pattern="**/web/app.py")
    assert calls(turn_of(prompt, missing, one)) == [("file.read", {"path": "src/web/app.py"})]
    two = direct_round("file.find", files("a/web/app.py", "b/web/app.py"), pattern="**/web/app.py")
    assert ("file.read", {"path": "a/web/app.py"}) not in calls(turn_of(prompt, missing, two))


@pytest.mark.spec("M4")
@pytest.mark.parametrize("path", ["/etc/a.py", "../a.py", "~/a.py", "C:\\a.py"])
def test_a_path_that_leads_out_of_the_project_is_not_looked_for_in_it(path: str) -> None:
    turn = turn_of(f"Compare {path} with the rest", read_by_runtime(path, not_found(path)))
    assert all(name != "file.find" for name, _ in calls(turn))


@pytest.mark.spec("M4")
def test_a_path_with_backslashes_is_looked_for_with_slashes() -> None:
    turn = turn_of("Compare src\\a.py with b", read_by_runtime("src\\a.py", not_found("src\\a.py")))
    assert calls(turn) == [("file.find", {"pattern": "**/src/a.py"})]


@pytest.mark.spec("M4")
def test_a_guess_at_a_path_does_not_end_the_look_up() -> None:
    prompt = "What does parse_line in parser.py do?"
    missing = read_by_runtime("parser.py", not_found("parser.py"))
    nowhere = direct_round("file.find", files(), pattern="**/parser.py")
    assert calls(turn_of(prompt, missing, nowhere)) == [("code.search", {"query": "parse_line"})]
    search = looked_up("parse_line", found(DEFINES))
    assert calls(turn_of(prompt, missing, nowhere, search)) == [("file.read", {"path": "src/parse.py"})]


@pytest.mark.spec("M4")
def test_for_a_file_that_may_be_new_no_other_file_is_read() -> None:
    missing = read_by_runtime("hello.py", not_found("hello.py"))
    nowhere = direct_round("file.find", files(), pattern="**/hello.py")
    assert calls(turn_of("Create hello.py that calls parse_line", missing, nowhere)) == []
    assert calls(turn_of("Fix parse_line in hello.py", missing, nowhere)) == [("code.search", {"query": "parse_line"})]


@pytest.mark.spec("M4")
@pytest.mark.parametrize("result", [fail("It failed."), denied(), denied(Failure.DENIED_BY_POLICY), LOST, None])
def test_a_call_of_the_runtimes_own_is_never_repeated_whatever_became_of_it(result: Result | None) -> None:
    assert calls(turn_of(HOW, looked_up("parse_line", result))) == []
    search = looked_up("parse_line", found(DEFINES))
    read = round_of((use("file.read", "runtime-1", path="src/parse.py"), result))
    assert calls(turn_of(HOW, search, read)) == []
    named = round_of((use("file.read", "runtime-1", path="a.py"), result))
    find = round_of((use("file.find", "runtime-1", pattern="**/a.py"), result))
    assert ("file.read", {"path": "a.py"}) not in calls(turn_of("Compare a.py with b", named))
    assert all(name == "code.search" for name, _ in calls(turn_of("Compare a.py with b", named, find)))


@pytest.mark.spec("M4")
def test_a_call_the_model_has_made_is_not_repeated_by_the_runtime() -> None:
    failed = round_of((use("search_code", query="parse_line"), fail("No.")))
    assert calls(turn_of(HOW, failed)) == []


@pytest.mark.spec("M4")
def test_after_a_rejection_or_a_change_nothing_more_is_looked_up() -> None:
    search = looked_up("parse_line", found(DEFINES))
    no = round_of((use("file.read", "runtime-1", path="a.py"), rejected()))
    assert calls(turn_of("Compare a.py with b.py", no)) == []
    shell = round_of((use("shell.exec", command="make"), Result(True, "Done.")))
    assert calls(turn_of(HOW, search, shell)) == []


@pytest.mark.spec("M4")
@pytest.mark.parametrize("missing", ["code.search", "file.read", "file.find"])
def test_a_tool_that_is_not_there_is_not_called(missing: str) -> None:
    some = [tool for name, tool in TOOLS.items() if name != missing]
    turns = [
        turn_of(HOW),
        turn_of(HOW, looked_up("parse_line", found(DEFINES))),
        turn_of("Compare a.py with b"),
        turn_of("Compare a.py with b", read_by_runtime("a.py", not_found("a.py"))),
    ]
    for turn in turns:
        move = rails(tools=some).prepare(turn)
        assert isinstance(move, AskModel) or all(name != missing for _, name, _ in all_acted(move))


@pytest.mark.spec("M4")
def test_a_search_keeps_to_the_folder_of_the_message_unless_there_is_none() -> None:
    prompt = "How does parse_line in src/net work?"
    assert calls(turn_of(prompt)) == [("code.search", {"query": "parse_line", "path": "src/net"})]
    gone = looked_up("parse_line", fail("src/net cannot be searched"), path="src/net")
    assert calls(turn_of(prompt, gone)) == [("code.search", {"query": "parse_line"})]


@pytest.mark.spec("M4")
@pytest.mark.parametrize("prompt", ["hello", "git status?", "yes", "Tell me a joke"])
def test_nothing_is_looked_up_for_a_message_that_asks_nothing_about_the_code(prompt: str) -> None:
    assert isinstance(rails(without("direct")).prepare(turn_of(prompt)), AskModel)


@pytest.mark.spec("M4")
def test_nothing_is_looked_up_where_the_words_are_not_all_the_users() -> None:
    assert rails().prepare(turn_of(HOW, has_foreign_text=True)) == AskModel()


TEXT = "def parse_line(text):\n    return text\n"


@pytest.mark.spec("M4")
@pytest.mark.parametrize(
    ("prompt", "rounds", "evidence"),
    [
        (HOW, [], False),
        (HOW, [round_of(reading("src/parse.py", read_file("src/parse.py", TEXT)))], True),
        (HOW, [round_of(reading("src/other.py"))], False),
        (WHERE, [looked_up("parse_line", found(DEFINES))], True),
        (HOW, [looked_up("parse_line", found(DEFINES))], False),
        ("Explain a.py", [read_by_runtime("a.py")], True),
        ("Explain a.py", [read_by_runtime("src/a.py")], True),
        ("Compare a.py, b.py and c.py", [read_by_runtime("a.py"), read_by_runtime("b.py")], False),
        ("Explain a.py", [read_by_runtime("a.py", read_file("a.py", next_offset=2, limited_by="limit"))], False),
        ("How often are uploads retried?", [read_by_runtime("a.py", read_file("a.py", "upload retry"))], True),
        ("How often are uploads retried?", [read_by_runtime("a.py", read_file("a.py", "upload"))], False),
        ("search", [read_by_runtime("a.py")], False),
        ("Update a.py", [read_by_runtime("a.py")], False),
        (HOW, [round_of((use("file.read", path="src/parse.py"), None))], False),
    ],
)
def test_a_question_can_be_answered_once_what_it_names_was_seen(
    prompt: str, rounds: list[PastReply], evidence: bool
) -> None:
    assert state_of(turn_of(prompt, *rounds)).has_evidence is evidence


@pytest.mark.spec("M4")
def test_a_search_whose_typed_result_is_gone_neither_found_something_nor_nothing() -> None:
    state = state_of(turn_of(HOW, round_of(searching("other_name", {})), looked_up("parse_line", None)))
    assert state.has_unknown_results
    assert not state.found

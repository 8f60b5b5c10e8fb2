"""Calls that repeat what is known, and edits with a placeholder, are refused."""

from __future__ import annotations

import pytest

from holdfast.agent.guard import PastReply, RefusedCall
from holdfast.contract.message import ToolUse
from holdfast.contract.result import Result, fail
from tests.guardrails.turns import asking, denied, edited, rails, reading, refusal, round_of, turn_of, use, without

CORRECTION = "[runtime:correction] "
ABOVE = "its result is above. Answer from it, or call something else."
FAILED = "it failed before. Change its arguments."
UNFILLED = "write the text itself in place of OLD TEXT and NEW TEXT."


@pytest.mark.spec("M4")
def test_a_file_is_not_read_twice_but_its_next_page_is() -> None:
    turn = turn_of("Update the parser", round_of(reading("a.py")), round_of(reading("b.py")))
    text = refusal(rails(), turn, use("read_file", path="./a.py", limit=None, label="again"))
    assert text is not None and "its result is above" in text
    assert refusal(rails(), turn, use("file.read", path="a.py", offset=201)) is None


@pytest.mark.spec("M4")
def test_a_file_may_be_read_again_after_something_changed() -> None:
    edit = use("file.edit", path="a.py", search="x", replace="y")
    turn = turn_of("Update the parser", round_of(reading("a.py")), round_of((edit, edited("a.py"))))
    assert refusal(rails(without("own_answers")), turn, use("file.read", path="a.py")) is None


@pytest.mark.spec("M4")
def test_a_call_that_succeeded_is_refused_while_nothing_changed() -> None:
    asked = use("git.status")
    turn = turn_of("git status", round_of((asked, Result(True, "clean"))))
    text = refusal(rails(), turn, use("git_status", label="once more"))
    assert text is not None and text == f"{CORRECTION}`git.status` was not run with these arguments: {ABOVE}"
    assert refusal(rails(without("duplicate_calls")), turn, asked) is None
    between = turn_of("git status", *turn.replies, round_of((use("git.log"), Result(True))))
    assert refusal(rails(), between, asked) is not None


@pytest.mark.spec("M4")
@pytest.mark.parametrize(
    "asked", [use("git.status"), use("file.edit", path="a.py", search="x", replace="y"), use("file.read", path="a.py")]
)
def test_a_call_that_failed_is_refused_while_nothing_changed(asked: ToolUse) -> None:
    failed = round_of((asked, fail("locked")))
    turn = turn_of("Update the parser", failed)
    assert refusal(rails(), turn, asked) == (f"{CORRECTION}`{asked.name}` was not run with these arguments: {FAILED}")
    assert refusal(rails(), turn, use(asked.name, path="b.py")) is None
    assert refusal(rails(without("duplicate_calls")), turn, asked) is None


@pytest.mark.spec("M4")
@pytest.mark.parametrize(
    ("between", "refused"),
    [
        (round_of((use("file.edit", path="b.py", search="x", replace="y"), edited("b.py"))), False),
        (round_of((use("shell.exec", command="x"), Result(True, "Done."))), False),
        (round_of(reading("b.py")), True),
    ],
)
def test_a_call_that_failed_may_be_tried_again_after_something_changed(between: PastReply, refused: bool) -> None:
    asked = use("file.edit", path="a.py", search="x", replace="y")
    turn = turn_of("Update the parser", round_of((asked, fail("Not found."))), between)
    assert (refusal(rails(), turn, asked) is not None) == refused


@pytest.mark.spec("M4")
@pytest.mark.parametrize(
    ("beside", "refused"),
    [
        ((use("file.edit", "c2", path="b.py", search="x", replace="y"), edited("b.py")), False),
        ((use("shell.exec", "c2", command="x"), Result(True, "Done.")), False),
        (reading("b.py", use_id="c2"), True),
    ],
)
def test_a_call_that_failed_next_to_a_change_in_the_same_reply_may_be_repeated(
    beside: tuple[ToolUse, Result], refused: bool
) -> None:
    asked = use("file.read", path="a.py")
    turn = turn_of("Update the parser", round_of((asked, fail("File not found: a.py")), beside))
    assert (refusal(rails(), turn, asked) is not None) == refused


@pytest.mark.spec("M4")
@pytest.mark.parametrize("result", [denied(), None])
def test_a_call_that_did_not_run_has_not_failed(result: Result | None) -> None:
    asked = use("file.read", path="a.py")
    assert refusal(rails(), turn_of("Update the parser", round_of((asked, result))), asked) is None


@pytest.mark.spec("M4")
@pytest.mark.parametrize(
    ("search", "replace", "refused"),
    [
        ("x = 1", "NEW TEXT", True),
        ("OLD TEXT", "NEW TEXT", True),
        ("NEW TEXT", "x = 1", False),
        ("OLD TEXT", "x = 1", False),
        ("x = 1", "the NEW TEXT", True),
        ("x = 1", "x = 1\nNEW TEXT", True),
        ("x = 1", "new text", False),
    ],
)
def test_an_edit_with_the_placeholder_for_the_new_text_is_refused(search: str, replace: str, refused: bool) -> None:
    asked = use("file.edit", path="a.py", search=search, replace=replace)
    turn = turn_of("Update a.py", round_of(reading("a.py", use_id="runtime-1")))
    no = rails().refusals(asking(turn, asked)).get(asked.id)
    expected = f"{CORRECTION}`file.edit` was not run with these arguments: {UNFILLED}"
    assert no == (RefusedCall("edit_repair", expected) if refused else None)
    assert refusal(rails(without("edit_repair")), turn, asked) is None
    assert refusal(rails(), turn, use("file.write", path="a.py", content="NEW TEXT")) is None


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
def test_of_a_call_that_has_no_result_yet_nobody_says_that_it_is_above() -> None:
    first, second = use("file.read", "c1", path="a.py"), use("file.read", "c2", path="./a.py")
    text = refusal(rails(), turn_of("Update the parser"), first, second)
    assert text is not None and "your reply asks for it already" in text
    assert "above" not in text
    text = refusal(rails(), turn_of("Update the parser", round_of(reading("a.py"))), second)
    assert text is not None and "is above" in text


@pytest.mark.spec("M4")
def test_what_the_runtime_looked_up_is_not_looked_up_again_by_the_model() -> None:
    turn = turn_of("Update a.py", round_of(reading("a.py", use_id="runtime-1")))
    asked = use("file.read", path="a.py")
    text = refusal(rails(), turn, asked)
    assert text is not None and text == f"{CORRECTION}`file.read` was not run with these arguments: {ABOVE}"
    assert refusal(rails(without("duplicate_calls")), turn, asked) is None

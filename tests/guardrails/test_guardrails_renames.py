"""A message that only renames something in one file: the runtime makes the edit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.agent.guard import AskModel, CallTools, PastReply
from holdfast.contract.enums import Failure
from holdfast.contract.message import ToolUse
from holdfast.contract.result import Result, fail
from tests.guardrails.turns import (
    TOOLS,
    acted,
    denied,
    direct_round,
    edited,
    finished,
    rails,
    read_by_runtime,
    read_file,
    rejected,
    round_of,
    sent,
    turn_of,
    use,
    without,
)

RENAME = "Rename open_it to open_socket in net.py"
CONTENT = "def open_it():\n    return 1\n\n\nopen_it()\n"
ARGS = {"path": "net.py", "search": "open_it", "replace": "open_socket", "mode": "all"}


def read(content: str = CONTENT, path: str = "net.py", *, more: bool = False) -> PastReply:
    cut = {"next_offset": 6, "limited_by": "lines"} if more else {}
    return read_by_runtime(path, read_file(path, content, **cut))


def renamed(result: Result | None) -> PastReply:
    """The round in which the runtime renames."""
    return direct_round("file.edit", result, **ARGS)


@pytest.mark.spec("M4")
@pytest.mark.parametrize(
    "prompt",
    [
        RENAME,
        "Please rename `open_it` to `open_socket` in net.py",
        "Can you rename open_it to open_socket in net.py?",
        "rename the function open_it to open_socket in the file net.py.",
    ],
)
def test_a_file_to_rename_in_is_read_and_then_edited_before_the_model_is_asked(prompt: str) -> None:
    assert acted(rails().prepare(turn_of(prompt))) == ("evidence", "file.read", {"path": "net.py"})
    move = rails().prepare(turn_of(prompt, read()))
    assert acted(move) == ("direct", "file.edit", ARGS)
    assert isinstance(move, CallTools) and move.reason == "the message renames `open_it`"
    assert isinstance(rails(without("direct")).prepare(turn_of(prompt, read())), AskModel)


@pytest.mark.spec("M4")
def test_a_file_is_renamed_in_at_the_place_where_it_was_found() -> None:
    missing = read_by_runtime("net.py", fail("File not found: net.py"))
    files = Result(
        True, "src/net.py", structured={"files": ["src/net.py"], "truncated": False, "unreadable_folders": 0}
    )
    found = round_of((use("file.find", "runtime-1", pattern="**/net.py"), files))
    move = rails().prepare(turn_of(RENAME, missing, found, read(path="src/net.py")))
    assert acted(move) == ("direct", "file.edit", {**ARGS, "path": "src/net.py"})


@pytest.mark.spec("M4")
@pytest.mark.parametrize(
    ("prompt", "rounds"),
    [
        (f"{RENAME} and update the tests", [read()]),
        (f"{RENAME} if it is used", [read()]),
        (f"{RENAME}, then run the tests", [read()]),
        (f"{RENAME}. Run the tests", [read()]),
        (f"{RENAME}, ask me before", [read()]),
        (f"{RENAME}. Keep the old name as an alias.", [read()]),
        ("Rename only the first open_it to open_socket in net.py", [read()]),
        (f"{RENAME} only in comments", [read()]),
        (f"{RENAME}; update callers", [read()]),
        (f"{RENAME} without touching strings", [read()]),
        (f"{RENAME} {'so that it is clear to everybody ' * 2}", [read()]),
        ("Rename open_it to open_socket in net.py, web.py", [read(), read(path="web.py")]),
        ("Rename open_it to open_socket", [read()]),
        (RENAME, [read(more=True)]),
        (RENAME, [read("def open_it_now():\n    open_it()\n")]),
        (RENAME, [read("reopen_it()\nopen_it()\n")]),
        (RENAME, [read("def close_it():\n    return 1\n")]),
        (RENAME, [read("")]),
        ("Do not rename open_it to open_socket in net.py", [read()]),
        ("Where do we rename open_it to open_socket in net.py?", [read()]),
    ],
)
def test_anything_but_a_certain_rename_is_left_to_the_model(prompt: str, rounds: list[PastReply]) -> None:
    move = rails(without("evidence")).prepare(turn_of(prompt, *rounds))
    assert isinstance(move, AskModel)


@pytest.mark.spec("M4")
def test_nothing_is_renamed_without_the_tool_or_in_words_that_are_not_all_the_users() -> None:
    some = [tool for name, tool in TOOLS.items() if name != "file.edit"]
    assert isinstance(rails(tools=some).prepare(turn_of(RENAME, read())), AskModel)
    assert rails().prepare(turn_of(RENAME, read(), has_foreign_text=True)) == AskModel()


@pytest.mark.spec("M4")
@pytest.mark.parametrize("result", [fail("No."), denied(Failure.DENIED_BY_POLICY), None])
def test_a_rename_that_was_not_made_is_not_tried_again(result: Result | None) -> None:
    assert isinstance(rails().prepare(turn_of(RENAME, read(), renamed(result))), AskModel)


@pytest.mark.spec("M4")
def test_a_rename_ends_the_turn_once_it_is_made_or_rejected() -> None:
    done = finished(rails().prepare(turn_of(RENAME, read(), renamed(edited("net.py")))))
    assert (done.rule, done.answer) == ("own_answers", "Successfully replaced text in net.py.\n> 1 | new text")
    no = finished(rails().prepare(turn_of(RENAME, read(), renamed(rejected()))))
    assert (no.rule, no.answer) == ("own_answers", "Canceled. No file was changed.")
    free = rails(without("own_answers"))
    for result in (edited("net.py"), rejected()):
        assert isinstance(free.prepare(turn_of(RENAME, read(), renamed(result))), AskModel)


@pytest.mark.spec("M4")
def test_a_rename_that_the_model_made_is_not_made_again() -> None:
    by_model = round_of((use("file.edit", **ARGS), fail("No.")))
    assert isinstance(rails().prepare(turn_of(RENAME, read(), by_model)), AskModel)


@pytest.mark.spec("M4")
@given(old=st.from_regex(r"[a-z]_[a-z]{1,3}", fullmatch=True), content=st.text(alphabet="ab_c \n.(é"))
def test_a_rename_never_touches_a_longer_name(old: str, content: str) -> None:
    prompt = f"Rename `{old}` to `new_name` in net.py"
    move = rails().prepare(turn_of(prompt, read(content)))
    if isinstance(move, CallTools):
        (asked,) = move.uses
        assert isinstance(asked, ToolUse) and asked.name == "file.edit"
        after = content.replace(old, "new_name")
        words = "".join(each if each.isalnum() or each == "_" else " " for each in after).split()
        assert "new_name" in words and all(word == "new_name" for word in words if "new_name" in word)


@pytest.mark.spec("M4")
@pytest.mark.parametrize("acts", [" and run the tests", ", then commit it", ". Install it"])
def test_a_change_does_not_end_a_turn_that_asks_for_something_else_too(acts: str) -> None:
    edit = round_of((use("file.edit", path="net.py", search="x", replace="y"), edited("net.py")))
    assert finished(rails().prepare(turn_of("Fix the typo in net.py", read(), edit))).rule == "own_answers"
    move = sent(rails().prepare(turn_of(f"Fix the typo in net.py{acts}", read(), edit)))
    assert move.surface is None

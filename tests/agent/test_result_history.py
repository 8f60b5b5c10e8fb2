"""Typed results are matched to exactly the results that were sent."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.agent.result_history import MAX_SEARCHES, ResultHistory
from holdfast.contract.enums import Failure, State
from holdfast.contract.message import ToolResult, ToolUse
from holdfast.contract.result import Result
from holdfast.contract.tool_finder import TOOL_SEARCH
from holdfast.tools import builtin_tools
from tests.runtime.support import run, runtime_in

pytestmark = pytest.mark.spec("M4")
READ = ToolUse("call-1", "file.read")
EDIT = ToolUse("call-1", "file.edit")


def told(use: ToolUse, output: str, *, error: bool = False) -> list[ToolResult]:
    return [ToolResult(use.id, use.name, output, error)]


@pytest.fixture
def notebook(tmp_path: Path) -> ResultHistory:
    return ResultHistory(runtime_in(tmp_path), "talk")


def test_an_output_does_not_match_its_suffix(notebook: ResultHistory) -> None:
    notebook.note(0, READ, Result(True, "two"))
    assert notebook.results([told(READ, "one\ntwo")]) == [{}]
    assert notebook.results([told(READ, "two\n")]) == [{"call-1": Result(True, "two")}]


def test_an_empty_output_matches_no_call(notebook: ResultHistory) -> None:
    notebook.note(0, READ, Result(True, "\n"))
    assert notebook.results([told(READ, "")]) == [{}]


def test_different_failures_do_not_match(notebook: ResultHistory) -> None:
    rejected = Result(False, error="Rejected.", state=State.REJECTED, failure=Failure.REJECTED)
    notebook.note(4, EDIT, rejected)
    assert notebook.results([told(EDIT, "Found 2 occurrences.", error=True)]) == [{}]
    assert notebook.results([told(EDIT, "Rejected.")]) == [{}]
    assert notebook.results([told(EDIT, "Rejected.", error=True)]) == [{"call-1": rejected}]


def test_a_denial_matches_whatever_its_wording(notebook: ResultHistory) -> None:
    denied = Result(False, error="Tool 'x' was denied: no.", state=State.DENIED, failure=Failure.DENIED_BY_POLICY)
    notebook.note(0, EDIT, denied)
    assert notebook.results([told(EDIT, "The tool was denied by a policy. no.", error=True)]) == [{"call-1": denied}]


def test_the_note_about_changed_arguments_is_ignored(notebook: ResultHistory) -> None:
    done = Result(True, "noted y")
    notebook.note(0, EDIT, done)
    changed = 'The arguments were changed to {"text":"y"} before it ran.\n\nnoted y'
    assert notebook.results([told(EDIT, changed)]) == [{"call-1": done}]


def test_replies_are_matched_from_the_last_to_the_first(notebook: ResultHistory) -> None:
    first, second = Result(True, "same"), Result(True, "same", structured={"second": True})
    notebook.note(0, READ, first)
    notebook.note(1, READ, second)
    assert notebook.results([told(READ, "same"), [], told(READ, "same")]) == [
        {"call-1": first}, {}, {"call-1": second},
    ]  # fmt: skip


@pytest.mark.spec("R9")
@pytest.mark.parametrize("together", [1, 3])
def test_a_process_keeps_as_many_searches_as_a_new_one_restores_from_the_ledger(tmp_path: Path, together: int) -> None:
    runtime = runtime_in(tmp_path, *builtin_tools())
    here = ResultHistory(runtime, "talk", only=TOOL_SEARCH)
    here.results([])  # it has begun before the first search
    said: list[list[ToolResult]] = []
    for reply in range(MAX_SEARCHES // together + 5):
        told_now: list[ToolResult] = []
        for number in range(together):
            use = ToolUse(f"c{number}", TOOL_SEARCH)
            args = {"query": f"file {reply} {number}"}
            done = run(runtime.call(TOOL_SEARCH, args, request=f"talk:{reply}", given_id=use.id))
            run(runtime.call("calculator", {"expression": "1"}, request=f"talk:{reply}", given_id=f"other{number}"))
            here.note(reply, use, done)
            told_now.append(ToolResult(use.id, use.name, done.text, not done.success))
        said.append(told_now)
    there = ResultHistory(runtime, "talk", only=TOOL_SEARCH)
    found = [[sorted(each) for each in notebook.results(said)] for notebook in (here, there)]
    assert found[0] == found[1]
    kept = MAX_SEARCHES // together
    assert [bool(each) for each in found[0]] == [False] * (len(said) - kept) + [True] * kept

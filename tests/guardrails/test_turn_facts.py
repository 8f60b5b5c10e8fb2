"""Facts about a turn: the outcome of each call, and the context of earlier calls."""

from __future__ import annotations

import pytest

from holdfast.agent.guard import PastReply, ReplyCall
from holdfast.contract.enums import Failure
from holdfast.contract.enums import State as Ended
from holdfast.contract.message import ToolResult
from holdfast.contract.result import Result, fail
from holdfast.guardrails.intent import EarlierContext
from holdfast.guardrails.turn_facts import Outcome, ToolIndex, earlier_context
from tests.guardrails.turns import (
    TOOLS,
    PlainStyle,
    denied,
    found,
    not_found,
    reading,
    rejected,
    round_of,
    use,
)

DEFINES = {"src/parse.py": ["def parse_line(text):"]}

LOST = Result(False, error="Nobody knows.", state=Ended.UNKNOWN, failure=Failure.OUTCOME_UNKNOWN)
STOPPED = Result(False, error="Aborted.", state=Ended.CANCELLED, failure=Failure.CANCELLED)


@pytest.mark.spec("M4")
@pytest.mark.parametrize(
    ("result", "outcome"),
    [
        (Result(True), Outcome.DONE),
        (fail("no"), Outcome.FAILED),
        (denied(Failure.NOT_ALLOWED), Outcome.NOT_RUN),
        (rejected(), Outcome.NOT_RUN),
        (STOPPED, Outcome.UNCLEAR),
        (LOST, Outcome.UNCLEAR),
        (None, Outcome.GONE),
    ],
)
def test_how_a_call_ended_is_read_from_its_typed_result(result: Result | None, outcome: Outcome) -> None:
    step = ReplyCall(use("file.read"), ToolResult("c1", "file.read", "whatever", error=True), result)
    assert ToolIndex([], PlainStyle()).called(step).outcome is outcome


@pytest.mark.spec("M4")
def test_earlier_calls_are_known_by_their_arguments_where_their_results_are_gone() -> None:
    tools = ToolIndex(list(TOOLS.values()), PlainStyle())
    gone = ReplyCall(use("read_file", path="src/a.py"), ToolResult("c1", "read_file", "x"))
    failed = ReplyCall(use("read_file", path="src/b.py"), ToolResult("c1", "read_file", "x", error=True))
    searched = round_of((use("code.search", query="parse_line", path="lib"), found(DEFINES)))
    refused = round_of(reading("c.py", not_found("c.py")))
    rounds = [searched, PastReply("", (gone,)), PastReply("", (failed,)), refused]
    assert earlier_context(rounds, tools) == EarlierContext("src/a.py", "parse_line", "src")
    assert earlier_context([], tools) == EarlierContext()

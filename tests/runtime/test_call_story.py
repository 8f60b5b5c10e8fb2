"""The story of a call says what happened to it, in order, and who authenticated."""

from __future__ import annotations

from holdfast.contract.call import Answer, Call, Caller, Decision
from holdfast.contract.enums import State, Verdict
from holdfast.runtime.call_story import answerer, call_origin, call_story, record_preview
from holdfast.store.queries import CallRecord, GivenAnswer

CALL = Call(
    id="c1",
    tool="file.write",
    name_used="file.write",
    args={"path": "a"},
    caller=Caller(interface="mcp", agent="ann", document="/d.chat"),
    cwd="/p",
    parent="c0",
)
ANSWER = Answer(kind="approve", by="page:ada", identity="token:ada", message="go on")
RECORD = CallRecord(
    call=CALL,
    state=State.DONE,
    received_at=1.0,
    began_at=3.0,
    ended_at=4.0,
    decisions=(Decision(Verdict.ASK, "urn:holdfast:approval:default", "no rule covers it"),),
    answers=(GivenAnswer(answer=ANSWER, digest="d", at=2.0),),
)


def test_the_origin_names_the_caller_the_document_and_the_parent() -> None:
    said = {line.label: line.text for line in call_origin(RECORD)}
    assert said == {
        "tool": "file.write",
        "state": "done",
        "caller": "mcp ann",
        "document": "/d.chat",
        "cwd": "/p",
        "parent": "c0",
    }


def test_the_story_is_in_the_order_of_what_happened() -> None:
    lines = list(call_story(RECORD))
    assert [line.label for line in lines] == ["received", "decided", "answer", "started", "ended"]
    assert [line.at for line in lines] == [1.0, None, 2.0, 3.0, 4.0]
    assert lines[1].text.startswith("ask: no rule covers it (")
    assert lines[2].text.startswith("approve by page:ada at ")
    assert lines[2].text.endswith(": go on")


def test_an_identity_that_differs_from_the_name_is_shown_with_it() -> None:
    assert answerer(ANSWER) == "page:ada"
    assert answerer(Answer(kind="approve", by="cli:bob", identity="os:ada")) == "cli:bob (os:ada)"


def test_a_recorded_preview_is_clipped() -> None:
    assert record_preview(CallRecord(call=CALL, state=State.DONE, received_at=0, preview="x" * 99), None, 10) == (
        "xxxxxxxxx…"
    )
    assert "file.write" in record_preview(RECORD, None, 80)

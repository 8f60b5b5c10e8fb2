"""Calls in other forms than the text protocol's: made if they can only be calls, else sent back."""

from __future__ import annotations

import pytest

from holdfast.contract.message import Text, Thinking
from holdfast.models.port import CORRECTION_MARK, ModelFault, PartEnded, ReplyEnded, Retrying, TextDelta
from holdfast.models.text_protocol.text_model import TextModel
from tests.models.exchanges import end, hear, parts, run
from tests.models.test_native import BROKEN, CALL, READ, after_retries, failing, shown
from tests.models.text_protocol.scripted_model import SPENT, TOOLS, Scripted, written

TWICE = SPENT + SPENT


@pytest.mark.parametrize("form", [CALL, f"```json\n{CALL}\n```", f"<tool_call>{CALL}</tool_call>"])
@pytest.mark.spec("M3c")
def test_a_reply_that_is_only_a_call_is_made_with_its_text_and_thinking(form: str) -> None:
    thought = PartEnded(Thinking("hm"))
    inner = Scripted([[thought, *written(f"Let me look.\n{form}")]])
    events = run(hear(TextModel(inner), tools=TOOLS))
    (told,) = [event for event in events if isinstance(event, Retrying)]
    assert told.reason == "The model wrote its call in another form; the call is made."
    assert parts(after_retries(events)) == [Thinking("hm"), Text("Let me look."), READ]
    assert shown(events) == "Let me look." and TextDelta("Let me look.") in after_retries(events)
    assert end(events) == ReplyEnded("tool_use", SPENT, "writer-1b") and len(inner.asked) == 1


@pytest.mark.parametrize("wrong", [f"{CALL}\nIt says hello.", BROKEN])
@pytest.mark.spec("M3c")
def test_an_unclear_call_is_sent_back_in_the_form_to_write(wrong: str) -> None:
    inner = Scripted([written(wrong), written("[read_file: a.py]")])
    events = run(hear(TextModel(inner), tools=TOOLS))
    assert parts(after_retries(events)) == [READ] and end(events).usage == TWICE
    told = inner.last().text
    assert told.startswith(f"{CORRECTION_MARK} Nothing was run: your reply has a tool call in another form.")
    assert told.endswith("[read_file: a.py]" if wrong != BROKEN else '[call: NAME]\n{"ARGUMENT": VALUE}\n[/call]')
    error, heard = failing(TextModel(Scripted([written(BROKEN)])))
    assert (error.fault, error.usage, parts(heard)) == (ModelFault.MALFORMED, TWICE, [])
    assert "wrote a tool call in a form of its own, and again after it was corrected; nothing was run" in str(error)


@pytest.mark.spec("M3c")
def test_a_truncated_reply_in_another_form_is_text() -> None:
    events = run(hear(TextModel(Scripted([written(CALL, stop="max_tokens")])), tools=TOOLS))
    assert parts(events) == [Text(CALL)] and end(events).stop == "max_tokens"


@pytest.mark.spec("M3c")
def test_a_call_of_a_tool_that_is_no_longer_offered_is_no_answer() -> None:
    model = TextModel(Scripted([written("ok"), written(CALL)]))
    run(hear(model, tools=TOOLS))
    assert parts(after_retries(run(hear(model, tools=())))) == [READ]

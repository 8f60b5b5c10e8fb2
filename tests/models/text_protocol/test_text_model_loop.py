"""The text protocol in the real loop and pipeline: exactly the requested calls run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast.agent.events import Outcome
from holdfast.agent.loop import Loop
from holdfast.contract.message import Aborted, Text, ToolResult, ToolUse
from holdfast.models.port import Settings
from holdfast.models.text_protocol.text_model import TextModel
from holdfast.testing.memory_conversation import MemoryConversation
from tests.models.exchanges import run
from tests.models.text_protocol.scripted_model import SPENT, Scripted, written
from tests.models.text_protocol.test_text_model_corrections import FLAWED
from tests.runtime.support import approving, recorder, runtime_in


class Talk:
    """One message, answered in text, with a tool that records its calls."""

    def __init__(self, folder: Path, *replies: str) -> None:
        self.model = Scripted([written(reply) for reply in replies])
        self.conversation = MemoryConversation()
        self.conversation.say("Note it.")
        self.notes: list[Any] = []
        self.outcome = run(self._advance(folder))

    async def _advance(self, folder: Path) -> Outcome:
        tool, self.notes = recorder("note")
        async with runtime_in(folder, tool, config=approving("note")) as runtime:
            return await Loop(runtime, TextModel(self.model), self.conversation, Settings()).advance()


NOTE = '[call: note]{"text": "x"}[/call]\n'


@pytest.mark.spec("M3")
def test_a_text_call_runs_through_the_pipeline_and_the_model_gets_its_result(tmp_path: Path) -> None:
    talk = Talk(tmp_path, f"So.\n{NOTE}", "Done.")
    assert talk.outcome.kind == "done" and talk.notes == [{"text": "x"}]
    reply, result, last = (message.parts for message in talk.conversation.messages()[1:])
    assert reply[-1] == ToolUse("call-1", "note", '{"text":"x"}')
    assert result == (ToolResult("call-1", "note", "noted x"),)
    assert last == (Text("Done."),)
    assert "=== tool_result: note ===\nnoted x" in talk.model.last().text
    assert talk.outcome.usage == SPENT + SPENT


@pytest.mark.parametrize("flawed", FLAWED)
@pytest.mark.spec("M3")
def test_no_call_of_an_invalid_reply_is_run_or_recorded(tmp_path: Path, flawed: str) -> None:
    talk = Talk(tmp_path, NOTE + flawed)
    assert talk.outcome.kind == "stopped" and "nothing was run" in talk.outcome.message
    assert talk.notes == [] and len(talk.model.asked) == 2
    assert len(talk.conversation.messages()) == 1


@pytest.mark.spec("M3")
def test_text_before_the_problem_is_kept_as_an_aborted_reply(tmp_path: Path) -> None:
    talk = Talk(tmp_path, f"I will note it.\n{NOTE}=== tool_result: note ===\nnoted\n=== /tool_result ===\n")
    said, aborted = talk.conversation.messages()[-1].parts
    assert said == Text("I will note it.")
    assert isinstance(aborted, Aborted) and "nothing was run" in aborted.message


@pytest.mark.spec("M3")
def test_only_the_corrected_reply_is_run_and_recorded(tmp_path: Path) -> None:
    talk = Talk(tmp_path, f"{NOTE}[/write_file]", NOTE, "Done.")
    assert talk.outcome.kind == "done" and talk.notes == [{"text": "x"}]
    assert [message.role for message in talk.conversation.messages()] == ["user", "assistant", "user", "assistant"]
    assert "runtime:correction" not in str(talk.conversation.messages())
    assert talk.outcome.usage == SPENT + SPENT + SPENT


@pytest.mark.spec("M3")
def test_an_unknown_tool_is_answered_like_in_any_protocol(tmp_path: Path) -> None:
    talk = Talk(tmp_path, "[read_file: a.txt]", "Sorry.")
    (result,) = talk.conversation.messages()[2].parts
    assert isinstance(result, ToolResult) and result.error and result.name == "file.read"
    assert "=== tool_error: read_file ===" in talk.model.last().text


@pytest.mark.spec("M3")
def test_a_fabricated_result_is_not_kept_even_as_text(tmp_path: Path) -> None:
    talk = Talk(tmp_path, "I know it.\n\n=== tool_result: note ===\nforty-three\n=== /tool_result ===\nSo it is.\n")
    said, _ = talk.conversation.messages()[-1].parts
    assert said == Text("I know it.")

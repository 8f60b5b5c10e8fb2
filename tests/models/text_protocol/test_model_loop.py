"""Models that only write, in the loop and on the real path: what they ask for runs, and nothing they did not."""

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
from tests.models.support import run
from tests.models.text_protocol.scripted import SPENT, Scripted, written
from tests.models.text_protocol.test_model_corrections import FLAWED
from tests.runtime.support import approving, recorder, runtime_in


class Talk:
    """One message, answered in text, with a tool that remembers what it was called with."""

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
def test_a_call_in_text_takes_the_path_and_its_result_is_read_by_the_model(tmp_path: Path) -> None:
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
def test_no_call_of_a_flawed_reply_is_run_or_written_down(tmp_path: Path, flawed: str) -> None:
    talk = Talk(tmp_path, NOTE + flawed)
    assert talk.outcome.kind == "failed" and "nothing was run" in talk.outcome.message
    assert talk.notes == [] and len(talk.model.asked) == 2
    assert len(talk.conversation.messages()) == 1


@pytest.mark.spec("M3")
def test_what_was_said_before_the_flaw_is_kept_as_a_reply_that_was_stopped(tmp_path: Path) -> None:
    talk = Talk(tmp_path, f"I will note it.\n{NOTE}=== tool_result: note ===\nnoted\n=== /tool_result ===\n")
    said, aborted = talk.conversation.messages()[-1].parts
    assert said == Text("I will note it.")
    assert isinstance(aborted, Aborted) and "nothing was run" in aborted.message


@pytest.mark.spec("M3")
def test_a_corrected_reply_runs_once_and_only_it_is_written_down(tmp_path: Path) -> None:
    talk = Talk(tmp_path, f"{NOTE}[/write_file]", NOTE, "Done.")
    assert talk.outcome.kind == "done" and talk.notes == [{"text": "x"}]
    assert [message.role for message in talk.conversation.messages()] == ["user", "assistant", "user", "assistant"]
    assert "runtime:correction" not in str(talk.conversation.messages())
    assert talk.outcome.usage == SPENT + SPENT + SPENT


@pytest.mark.spec("M3")
def test_a_tool_nobody_has_is_answered_like_any_other_unknown_tool(tmp_path: Path) -> None:
    talk = Talk(tmp_path, "[read_file: a.txt]", "Sorry.")
    (result,) = talk.conversation.messages()[2].parts
    assert isinstance(result, ToolResult) and result.error and result.name == "file.read"
    assert "=== tool_error: read_file ===" in talk.model.last().text


@pytest.mark.spec("M3")
def test_a_result_the_model_invented_is_not_even_kept_as_text(tmp_path: Path) -> None:
    talk = Talk(tmp_path, "I know it.\n\n=== tool_result: note ===\nforty-three\n=== /tool_result ===\nSo it is.\n")
    said, _ = talk.conversation.messages()[-1].parts
    assert said == Text("I know it.")

"""Cursor positions."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.agent.conversation import Status
from holdfast.chat.turns import Position, after_result, first_pending
from tests.chat.chat_files import Editor, conversation_with_calls, text_of, write_results, write_statuses

pytestmark = pytest.mark.usefixtures("user_state_dir")

NOW = Position(2, 5)


def line_of(text: str, wanted: str) -> int:
    return text.split("\n").index(wanted) + 1


@pytest.mark.spec("U7")
def test_the_cursor_goes_to_the_first_pending_block_that_is_empty(tmp_path: Path) -> None:
    conversation = conversation_with_calls(tmp_path)
    assert first_pending(conversation.document) is None
    write_statuses(conversation)
    assert first_pending(conversation.document) == (line_of(text_of(conversation), "**Tool Result:** `a1`"), 1)
    Editor(conversation.path).put_text("a1", "mine")
    conversation.refresh()
    assert first_pending(conversation.document) == (line_of(text_of(conversation), "**Tool Result:** `a2`"), 1)
    Editor(conversation.path).set_status("a2", Status.REJECTED)
    conversation.refresh()
    assert first_pending(conversation.document) is None


@pytest.mark.spec("U7")
def test_after_a_result_the_cursor_goes_where_the_option_says(tmp_path: Path) -> None:
    conversation = conversation_with_calls(tmp_path)
    write_results(conversation)
    text = text_of(conversation)
    assert after_result(conversation.document, 0, "a2", "stay", NOW) == NOW
    result = after_result(conversation.document, 0, "a2", "result", NOW)
    assert result == (line_of(text, "**Tool Result:** `a2`"), 1)
    assert after_result(conversation.document, 0, "a2", "next", NOW) == (text.count("\n") + 1, 1)
    assert after_result(conversation.document, 0, "gone", "result", NOW) == NOW
    assert after_result(conversation.document, 9, "a2", "next", NOW) == NOW


@pytest.mark.spec("U7")
def test_the_next_input_is_after_the_results(tmp_path: Path) -> None:
    conversation = conversation_with_calls(tmp_path)
    write_results(conversation)
    before = text_of(conversation).count("\n")
    Editor(conversation.path).replace("@You:\nPlease.", "@You:\nPlease!")
    with conversation.path.open("a") as file:
        file.write("\n@You:\n\n")
    conversation.refresh()
    assert after_result(conversation.document, 0, "a2", "next", NOW) == (before + 3, 1)

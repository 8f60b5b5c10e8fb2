"""The types of the conversation protocol: statuses, slots and changes. The conformance suites test its behaviour."""

from __future__ import annotations

import pytest

from holdfast.agent.conversation import NOT_RECORDED, SetResult, SetStatus, Status
from holdfast.contract.message import ToolUse
from holdfast.contract.result import ok
from holdfast.testing.memory_conversation import MemoryConversation, MemoryUser
from tests.agent.scripted_model import results_in

USE = ToolUse("a1", "note", "{}")


def with_call() -> MemoryConversation:
    conversation = MemoryConversation()
    MemoryUser(conversation.store).say("Go.")
    conversation.refresh()
    conversation.add_reply([USE])
    return conversation


@pytest.mark.parametrize("status", Status)
def test_a_slot_has_the_status_that_was_written(status: Status) -> None:
    conversation = with_call()
    [slot] = conversation.slots()
    assert (slot.use, slot.status, slot.call) == (USE, None, None)
    conversation.change([SetStatus(slot, status)])
    assert [slot.status for slot in conversation.slots()] == [status]


def test_a_result_closes_its_slot() -> None:
    conversation = with_call()
    [slot] = conversation.slots()
    conversation.change([SetResult(slot, ok("done"))])
    assert conversation.slots() == []
    [result] = results_in(conversation.messages())
    assert result.output == "done"


def test_a_repaired_call_says_that_it_was_not_run() -> None:
    conversation = with_call()
    MemoryUser(conversation.store).say("Never mind.")
    conversation.refresh()
    conversation.add_reply([ToolUse("b1", "note", "{}")])
    assert conversation.repair() == 1
    assert results_in(conversation.messages())[0].output == NOT_RECORDED

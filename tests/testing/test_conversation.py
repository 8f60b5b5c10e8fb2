"""The conformance suite of conversations fails for implementations with a defect."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from holdfast.agent.conversation import Conversation, SetResult, SetStatus
from holdfast.contract.message import Part
from holdfast.models.port import Usage
from holdfast.testing.conversation import ConcurrentUser, ConversationConformance
from holdfast.testing.memory_conversation import MemoryConversation, MemoryUser


class IgnoresConflicts(MemoryConversation):
    """Overwrites what a concurrent user has changed."""

    def add_reply(self, parts: Sequence[Part], *, aborted: str | None = None, usage: Usage | None = None) -> None:
        self.refresh()
        super().add_reply(parts, aborted=aborted, usage=usage)


class LosesChanges(MemoryConversation):
    def change(self, changes: Sequence[SetStatus | SetResult]) -> None:
        """Change nothing."""


def suite(kind: type[MemoryConversation]) -> ConversationConformance:
    class Suite(ConversationConformance):
        def make(self, folder: Path) -> Conversation:
            return kind()

        def user(self, conversation: Conversation) -> ConcurrentUser:
            assert isinstance(conversation, MemoryConversation)
            return MemoryUser(conversation.store)

    return Suite()


def test_a_reply_that_overwrites_a_concurrent_message_is_found(tmp_path: Path) -> None:
    suite(MemoryConversation).test_a_reply_to_a_changed_conversation_is_not_written(tmp_path)
    with pytest.raises(AssertionError):
        suite(IgnoresConflicts).test_a_reply_to_a_changed_conversation_is_not_written(tmp_path)


def test_a_lost_change_is_found(tmp_path: Path) -> None:
    suite(MemoryConversation).test_a_placeholder_can_be_written_repeatedly(tmp_path)
    with pytest.raises(AssertionError):
        suite(LosesChanges).test_a_placeholder_can_be_written_repeatedly(tmp_path)

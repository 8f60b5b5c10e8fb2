"""The conversation in memory is a conversation."""

from __future__ import annotations

from pathlib import Path

from holdfast.agent.conversation import Conversation
from holdfast.testing.conversation import ConcurrentUser, ConversationConformance
from holdfast.testing.memory_conversation import ConversationStore, MemoryConversation
from holdfast.testing.memory_conversation import MemoryUser as Visitor


class TestMemory(ConversationConformance):
    shelves: dict[Path, ConversationStore]

    def make(self, folder: Path) -> Conversation:
        self.shelves = {folder: ConversationStore()}
        return MemoryConversation(self.shelves[folder])

    def reopen(self, folder: Path) -> Conversation:
        return MemoryConversation(self.shelves[folder])

    def user(self, conversation: Conversation) -> ConcurrentUser:
        assert isinstance(conversation, MemoryConversation)
        return Visitor(conversation.store)

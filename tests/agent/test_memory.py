"""The conversation in memory is a conversation."""

from __future__ import annotations

from pathlib import Path

from holdfast.agent.conversation import Conversation
from holdfast.testing.conversation import ConversationConformance, Person
from holdfast.testing.memory_conversation import MemoryConversation, Shelf
from holdfast.testing.memory_conversation import Person as Visitor


class TestMemory(ConversationConformance):
    shelves: dict[Path, Shelf]

    def make(self, folder: Path) -> Conversation:
        self.shelves = {folder: Shelf()}
        return MemoryConversation(self.shelves[folder])

    def reopen(self, folder: Path) -> Conversation:
        return MemoryConversation(self.shelves[folder])

    def person(self, conversation: Conversation) -> Person:
        assert isinstance(conversation, MemoryConversation)
        return Visitor(conversation.shelf)

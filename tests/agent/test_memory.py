"""The conversation in memory is a conversation."""

from __future__ import annotations

from pathlib import Path

from holdfast.agent.conformance import ConversationConformance, Person
from holdfast.agent.conversation import Conversation
from holdfast.agent.memory import MemoryConversation, Shelf
from holdfast.agent.memory import Person as Visitor


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

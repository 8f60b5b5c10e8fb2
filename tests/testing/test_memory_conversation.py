"""The in-memory conversation passes the conformance suite, and can be stored."""

from __future__ import annotations

from pathlib import Path

from msgspec import json

from holdfast.agent.conversation import Conversation
from holdfast.testing.conversation import ConcurrentUser, ConversationConformance
from holdfast.testing.memory_conversation import ConversationStore, MemoryConversation, MemoryUser


class TestMemoryConversation(ConversationConformance):
    stores: dict[Path, ConversationStore]

    def make(self, folder: Path) -> Conversation:
        self.stores = {folder: ConversationStore()}
        return MemoryConversation(self.stores[folder])

    def reopen(self, folder: Path) -> Conversation:
        return MemoryConversation(self.stores[folder])

    def user(self, conversation: Conversation) -> ConcurrentUser:
        assert isinstance(conversation, MemoryConversation)
        return MemoryUser(conversation.store)


def test_a_store_can_be_encoded_and_decoded() -> None:
    stored: list[bytes] = []
    conversation = MemoryConversation(system="Be brief.", on_change=lambda store: stored.append(json.encode(store)))
    conversation.say("Hello.")
    conversation.add_reply([])
    again = MemoryConversation(json.decode(stored[-1], type=ConversationStore))
    assert (again.id, list(again.messages())) == (conversation.id, list(conversation.messages()))

"""A document passes the conversation conformance suite, with LF and CRLF."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.agent.conversation import Conversation
from holdfast.chat.conversation import DocumentConversation
from holdfast.testing.conversation import ConcurrentUser, ConversationConformance
from tests.chat.chat_files import Editor, open_conversation

pytestmark = pytest.mark.usefixtures("user_state_dir")


@pytest.mark.spec("D2")
@pytest.mark.spec("D5")
@pytest.mark.spec("U2")
@pytest.mark.spec("U3")
@pytest.mark.spec("U6")
@pytest.mark.spec("A13b")
class TestDocument(ConversationConformance):
    newline = "\n"
    beginning = ""

    def make(self, folder: Path) -> Conversation:
        return open_conversation(folder, self.beginning)

    def reopen(self, folder: Path) -> Conversation:
        return open_conversation(folder)

    def user(self, conversation: Conversation) -> ConcurrentUser:
        assert isinstance(conversation, DocumentConversation)
        return Editor(conversation.path, self.newline)


class TestDocumentOfWindows(TestDocument):
    newline = "\r\n"
    beginning = "\ufeff@System:\r\n\r\n@You:\r\n"


class TestDocumentWithRoom(TestDocument):
    beginning = "```toml\nx = 1\n```\n@You:\n\n"

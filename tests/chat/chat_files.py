"""Documents in a folder, and an editor that changes them like a person."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from holdfast.agent.conversation import LedgerCall, SetResult, SetStatus, Slot, Status
from holdfast.chat.conversation import DocumentConversation
from holdfast.contract.message import Part, Text, ToolUse
from holdfast.contract.result import ok

ONE = ToolUse("a1", "file.read", '{"path": "a"}')
TWO = ToolUse("a2", "shell.exec", '{"command": "ls"}')
THREE = ToolUse("a3", "file.read", '{"path": "b"}')
OPEN = LedgerCall(call_id="x-1", digest="d")


def open_conversation(folder: Path, text: str | bytes | None = None, name: str = "a.chat") -> DocumentConversation:
    """The conversation of a document, written first if `text` is given."""
    path = folder / name
    if text is not None:
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return DocumentConversation(path, state=folder / "state")


def conversation_with_calls(folder: Path, *parts: Part, text: str = "@You:\nPlease.\n") -> DocumentConversation:
    """A document whose last reply has these calls."""
    conversation = open_conversation(folder, text)
    conversation.messages()
    conversation.add_reply([Text("Calls."), *(parts or (ONE, TWO))])
    return conversation


def only_slot(conversation: DocumentConversation) -> Slot:
    [slot] = conversation.slots()
    return slot


def write_results(conversation: DocumentConversation, output: str = "content") -> None:
    conversation.change([SetResult(slot, ok(output)) for slot in conversation.slots()])


def write_statuses(conversation: DocumentConversation, status: Status = Status.PENDING) -> None:
    conversation.change([SetStatus(slot, status) for slot in conversation.slots()])


def text_of(conversation: DocumentConversation) -> str:
    return conversation.path.read_bytes().decode("utf-8", "surrogateescape")


class Editor:
    """Edits the last block with an id, like a person in a text editor."""

    def __init__(self, path: Path, newline: str = "\n") -> None:
        self._path = path
        self._newline = newline

    def say(self, text: str) -> None:
        old = self._read()
        markers = re.findall(r"^@(\w+):\r?$", old, re.MULTILINE)
        gap = "" if not old or old.endswith("\n") else self._newline
        marker = "" if markers and markers[-1] == "You" else f"{self._newline if old else ''}@You:{self._newline}"
        self._write(f"{old}{gap}{marker or self._newline}{text}{self._newline}")

    def set_status(self, use_id: str, status: Status) -> None:
        self._edit(use_id, lambda block: re.sub(r"status=\w+", f"status={status}", block))

    def put_text(self, use_id: str, text: str) -> None:
        inside = text.replace("\n", self._newline) + self._newline
        inner = re.compile(r"(```[^`]*?\n)(?:.*\n)?(```)", re.DOTALL)
        self._edit(use_id, lambda block: inner.sub(rf"\g<1>{inside}\g<2>", block))

    def remove_fence(self, use_id: str) -> None:
        self._edit(use_id, lambda block: re.sub(r"flemma:tool[^\r\n]*", "", block))

    def remove_placeholder(self, use_id: str) -> None:
        self._edit(use_id, lambda block: "")

    def edit_call(self, use_id: str, arguments: str) -> None:
        body = re.compile(r"(```json\r?\n).*?(\r?\n```)")
        self._edit(use_id, lambda block: body.sub(rf"\g<1>{arguments}\g<2>", block), "Use")

    def remove_call(self, use_id: str) -> None:
        if f"**Tool Result:** `{use_id}`" in self._read().rpartition("@Assistant:")[2]:
            self.remove_placeholder(use_id)
        self._edit(use_id, lambda block: "", "Use")

    def replace(self, old: str, new: str) -> None:
        text = self._read()
        assert text.count(old) == 1
        self._write(text.replace(old, new))

    def _edit(self, use_id: str, edit: Callable[[str], str], kind: str = "Result") -> None:
        text = self._read()
        header = rf"\*\*Tool {kind}:\*\* (?:`[^`\n]*` \()?`{re.escape(use_id)}`"
        block = re.compile(header + r"[^\n]*\n\s*(```+)[^`\n]*\n(?:.*?\n)??\1[ \r]*\n?", re.DOTALL)
        found = list(block.finditer(text))[-1]
        self._write(text[: found.start()] + edit(found[0]) + text[found.end() :])

    def _read(self) -> str:
        return self._path.read_bytes().decode("utf-8", "surrogateescape")

    def _write(self, text: str) -> None:
        """Replace the file, as most editors do."""
        beside = self._path.with_suffix(".edited")
        beside.write_bytes(text.encode("utf-8", "surrogateescape"))
        beside.replace(self._path)

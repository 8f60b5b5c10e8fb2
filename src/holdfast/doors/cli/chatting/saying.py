"""A person's words put into a document from the command line: as words, whatever they look like."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.chat import files
from holdfast.chat.document import Document
from holdfast.chat.escape import escape_lines
from holdfast.chat.grammar import reader_of
from holdfast.chat.turns import SYSTEM, YOU
from holdfast.doors.cli.chatting.documents import place
from holdfast.doors.cli.failures import UsageProblem

if TYPE_CHECKING:
    from holdfast.chat.conversation import DocumentConversation

_WAIT: Final = 5.0
_TRIES: Final = 20


def say(conversation: DocumentConversation, words: str) -> None:
    """Append a message; what somebody else saves meanwhile is kept."""
    path = conversation.path
    with conversation.held(_WAIT):
        for _ in range(_TRIES):
            known = files.read(path)
            document = Document.parse(files.decode(known.data))
            for found in document.diagnostics:
                if found.severity == "error":
                    raise UsageProblem(f"{place(path, found.line)}: {found.message}")
            try:
                files.replace(path, known, files.encode(spoken(document, words).text))
            except files.Changed:
                continue
            conversation.refresh()
            return
    raise UsageProblem(f"{place(path)} is changed all the time by something else; stop that and run again.")


def spoken(document: Document, words: str) -> Document:
    """The document with the words at its end: in the person's message if it ends with one, else in a new one."""
    newline = document.newline
    block = _lines(words, YOU, newline)
    if not document.messages or document.messages[-1].role != YOU:
        block = f"@{YOU}:{newline}{block}"
    text = document.text
    last = text[text.rfind("\n", 0, max(0, len(text) - 1)) + 1 :]
    gap = "" if not last.strip() or last.startswith(f"@{YOU}:") else newline
    if text and not text.endswith("\n"):
        gap += newline
    return document.append(gap + block)


def beginning(*, frontmatter: str, system: str, words: str) -> str:
    """The text of a new document."""
    parts = [frontmatter] if frontmatter else []
    if system.strip():
        parts.append(f"@{SYSTEM}:\n{_lines(system, SYSTEM, chr(10))}")
    parts.append(f"@{YOU}:\n{_lines(words, YOU, chr(10))}")
    return "\n".join(parts)


def _lines(words: str, role: str, newline: str) -> str:
    escaped = escape_lines(files.storable(words).strip("\n"), reader_of(role))
    return escaped.replace("\r\n", "\n").replace("\n", newline) + newline

"""A person's words put into a document from elsewhere: as words, whatever they look like.

What would be read as markup is escaped; templates and file references are the person's, and stay.
"""

from __future__ import annotations

from holdfast.chat import files
from holdfast.chat.document import Document
from holdfast.chat.escape import escape_lines
from holdfast.chat.grammar import reader_of
from holdfast.chat.nodes import ToolResultSegment
from holdfast.chat.turns import SYSTEM, YOU


def spoken(document: Document, words: str) -> Document:
    """The document with the words at its end: in the person's message if it ends with one, else in a new one."""
    newline = document.newline
    block = _lines(words, YOU, newline)
    if not document.messages or document.messages[-1].role != YOU or _awaits_fence(document):
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


def _awaits_fence(document: Document) -> bool:
    """Whether it ends with the header of a result, which would take what comes next for its content."""
    last = document.messages[-1].segments[-1:]
    return any(isinstance(segment, ToolResultSegment) and segment.problem is not None for segment in last)


def _lines(words: str, role: str, newline: str) -> str:
    escaped = escape_lines(files.storable(words).strip("\n"), reader_of(role))
    return escaped.replace("\r\n", "\n").replace("\n", newline) + newline

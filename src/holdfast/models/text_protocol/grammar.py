"""The words of the text protocol, and what a reply is made of: text, calls and flaws."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final

from msgspec import Struct

from holdfast.contract.values import Args

TOOLS: Final[dict[str, str]] = {
    "read_file": "file.read",
    "list_dir": "file.list",
    "search_code": "code.search",
    "git_status": "git.status",
    "git_diff": "git.diff",
    "git_log": "git.log",
    "write_file": "file.write",
    "edit_file": "file.edit",
}
"""The small names models know, and the tool each stands for."""
_SMALL: Final = {tool: name for name, tool in TOOLS.items()}

INLINE: Final = ("read_file", "list_dir", "search_code", "write_file")
"""Written with their argument, in one bracket."""
STATIC: Final = ("git_status", "git_diff", "git_log")
BLOCKS: Final = ("write_file", "edit_file", "search_code")
WRITE_EMPTY: Final = "[write_file:"
"""Opens the one bracket that is also a block."""
CALL: Final = "[call:"
"""Opens the form any tool can be called with."""
CALL_END: Final = "[/call]"
CONTENT: Final = "---content---"
FRAMES: Final = ("=== tool_result:", "=== tool_error:")
"""How results begin. Only the runtime writes them."""
TAGS: Final[tuple[str, ...]] = (
    *(f"[{name}:" for name in INLINE),
    *(f"[{name}]" for name in (*STATIC, *BLOCKS)),
    *(f"[/{name}]" for name in BLOCKS),
    CALL,
    CALL_END,
)
ANY_TAG: Final = (
    rf"\[(?:(?:{'|'.join(INLINE)}):|(?:{'|'.join((*STATIC, *BLOCKS))})\]|call:|/(?:{'|'.join((*BLOCKS, 'call'))})\])"
)
ANY_FRAME: Final = r"=== tool_(?:result|error):"
BLANKS: Final = " \t\r\f\v\N{NO-BREAK SPACE}"
"""White space that does not end a line."""


class Said(Struct, frozen=True):
    """Text that is no call."""

    text: str


class Asked(Struct, frozen=True):
    """A call."""

    name: str
    """The tool's own name for the small names, else what `[call: NAME]` says."""
    args: Args
    text: str
    """As it was written."""


class Fault(StrEnum):
    UNOPENED = "unopened"
    UNCLOSED = "unclosed"
    UNREADABLE = "unreadable"
    """A block whose meaning is not clear."""
    UNREADABLE_EDIT = "unreadable_edit"
    OPEN_FENCE = "open_fence"
    """A fence that is never closed, and holds a tag or comes after a call."""
    FABRICATED = "fabricated"
    """A result the model wrote itself."""


class Flaw(Struct, frozen=True):
    fault: Fault
    tag: str
    line: int
    """Where the tag is, or the fence; from 1."""


def small_name(tool: str) -> str:
    """The name a small model knows the tool by, or the tool's own name where it has no other."""
    return _SMALL.get(tool, tool)


_BEGUN: Final = frozenset(word[:size] for word in (*TAGS, *FRAMES, "```", "~~~") for size in range(1, len(word)))
_LONGEST: Final = max(map(len, _BEGUN))
_FIRST: Final = re.compile(r"[\[`~=]")


def unfinished(text: str) -> int:
    """Where a word of the grammar begins that the end of the text cuts; else where the text ends."""
    at = max(0, len(text) - _LONGEST)
    while found := _FIRST.search(text, at):
        if text[found.start() :] in _BEGUN:
            return found.start()
        at = found.end()
    return len(text)

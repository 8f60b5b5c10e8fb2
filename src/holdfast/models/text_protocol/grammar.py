"""The words of the text protocol: its tags, its frames, and which tool each small name stands for."""

from __future__ import annotations

import re
from typing import Final

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
_SEEDS: Final = {tool: seed for seed, tool in TOOLS.items()}

INLINE: Final = ("read_file", "list_dir", "search_code", "write_file")
"""Written with their argument, in one bracket."""
WRITE_EMPTY: Final = "[write_file:"
"""Opens the one bracket that is also a block."""
STATIC: Final = ("git_status", "git_diff", "git_log")
BLOCKS: Final = ("write_file", "edit_file", "search_code")
CALL: Final = "[call:"
"""Opens the form any tool can be called with."""
CALL_END: Final = "[/call]"
FRAMES: Final = ("=== tool_result:", "=== tool_error:")
"""How results begin. Only the runtime writes them."""

TAGS: Final[tuple[str, ...]] = (
    *(f"[{name}:" for name in INLINE),
    *(f"[{name}]" for name in (*STATIC, *BLOCKS)),
    *(f"[/{name}]" for name in BLOCKS),
    CALL,
    CALL_END,
)

BLANKS: Final = " \t\r\f\v\N{NO-BREAK SPACE}"
"""White space that does not end a line."""
ANY_TAG: Final = (
    rf"\[(?:(?:{'|'.join(INLINE)}):|(?:{'|'.join((*STATIC, *BLOCKS))})\]|call:|/(?:{'|'.join((*BLOCKS, 'call'))})\])"
)
ANY_FRAME: Final = r"=== tool_(?:result|error):"

_BEGUN: Final = frozenset(
    word[:size] for word in (*TAGS, *FRAMES, "```", "~~~") for size in range(1, len(word))
)
_LONGEST: Final = max(map(len, _BEGUN))
_FIRST: Final = re.compile(r"[\[`~=]")


def seed_name(tool: str) -> str:
    """What a small model calls the tool, or the tool's own name where it has no other."""
    return _SEEDS.get(tool, tool)


def unfinished(text: str, low: int) -> int:
    """Where a word of the grammar begins that the end of the text cuts, not before `low`; else where the text ends."""
    end = len(text)
    at = max(low, end - _LONGEST)
    while found := _FIRST.search(text, at):
        at = found.start()
        if text[at:] in _BEGUN:
            return at
        at += 1
    return end

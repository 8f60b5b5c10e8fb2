"""Cuts a long text into pages that fit the output of a call, so that the runtime does not cut them again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from holdfast.contract.context import Context
from holdfast.text.truncate import byte_size, truncate_by_bytes

DEFAULT_CHARS: Final = {"standard": 20_000, "small": 6_000}
MAX_CHARS: Final = 100_000
_OWN_LINES: Final = 60
_OWN_BYTES: Final = 6144
"""Of an output, what the lines about the text may need."""
_NOTE_LINES: Final = 4
_NOTE_BYTES: Final = 256
"""Of that, what `page_note` and the empty lines around the text need."""


def text_page(text: str, offset: int, wanted: int, ctx: Context, *, gutter: int = 0, head: Sequence[str] = ()) -> str:
    """Return the characters from `offset`: at most `wanted`, at least one if there is one, and no more than an output
    may have, in which each line has `gutter` characters more and `head` stands before the text. Ends after a line, if
    there is one to end in the last quarter."""
    page = text[offset : offset + wanted]
    limits = ctx.truncate
    own_lines = max(_OWN_LINES, sum(1 + line.count("\n") for line in head) + _NOTE_LINES)
    own_bytes = max(_OWN_BYTES, sum(1 + byte_size(line) for line in head) + _NOTE_BYTES)
    # At most half of an output is reserved: under a low limit, the text is what matters.
    room = limits.MAX_BYTES - min(own_bytes, limits.MAX_BYTES // 2)
    most = max(1, min(limits.MAX_LINES - min(own_lines, limits.MAX_LINES // 2), room // (gutter + 1)))
    page = "\n".join(page.split("\n", most)[:most])
    left = max(0, room - gutter * (1 + page.count("\n")))
    page = truncate_by_bytes(page, left, "head").content or text[offset : offset + 1]
    if offset + len(page) >= len(text):
        return page
    newline = page.rfind("\n")
    return page[: newline + 1] if newline >= len(page) * 3 // 4 else page


def page_note(offset: int, end: int, total: int, more: str = "") -> str | None:
    """Return the line about which part of the text is shown; None if it is the whole."""
    if end < total:
        return f"[Characters {offset}-{end} of {total}. Use offset={end} to continue{more}.]"
    return f"[Characters {offset}-{total} of {total}: the end.]" if offset else None

"""Cuts a long text into pages that fit the output of a call, so that the runtime does not cut them again."""

from __future__ import annotations

from typing import Final

from holdfast.contract.context import Context
from holdfast.text.truncate import truncate_by_bytes

DEFAULT_CHARS: Final = {"standard": 20_000, "small": 6_000}
MAX_CHARS: Final = 100_000
_OWN_LINES: Final = 60
_OWN_BYTES: Final = 6144
"""Of an output, what the lines about the text may need."""


def text_page(text: str, offset: int, wanted: int, ctx: Context, *, gutter: int = 0) -> str:
    """Return the characters from `offset`: at most `wanted`, and no more than an output may have, in which each line
    has `gutter` characters more. Ends after a line, if there is one to end in the last quarter."""
    page = text[offset : offset + wanted]
    limits = ctx.truncate
    most = max(1, limits.MAX_LINES - _OWN_LINES)
    page = "\n".join(page.split("\n", most)[:most])
    room = limits.MAX_BYTES - _OWN_BYTES - gutter * (1 + page.count("\n"))
    page = truncate_by_bytes(page, max(1, room), "head").content
    if offset + len(page) >= len(text):
        return page
    newline = page.rfind("\n")
    return page[: newline + 1] if newline >= len(page) * 3 // 4 else page


def page_note(offset: int, end: int, total: int, more: str = "") -> str | None:
    """Return the line about which part of the text is shown; None if it is the whole."""
    if end < total:
        return f"[Characters {offset}-{end} of {total}. Use offset={end} to continue{more}.]"
    return f"[Characters {offset}-{total} of {total}: the end.]" if offset else None

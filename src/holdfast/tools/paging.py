"""The start of a long text, by whole lines; where the first line alone is too long, the start of that."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from holdfast.text.truncate import byte_size, format_size, only_bytes

if TYPE_CHECKING:
    from holdfast.contract.context import Context


class Page(Struct, frozen=True):
    content: str
    lines: int
    """How many lines are shown, one that is cut among them."""
    cut: bool
    range: str
    """Which lines these are, in words."""


def page_of(text: str, first: int, ctx: Context) -> Page:
    """What is shown of a text whose first line has the number `first`."""
    found = ctx.truncate.head(text)
    if not found.first_line_exceeds_limit:
        last = first + found.output_lines - 1
        return Page(found.content, found.output_lines, found.truncated, f"lines {first}-{last}")
    line, newline, _ = text.partition("\n")
    start = only_bytes(line, ctx.truncate.MAX_BYTES, "head").content
    # A line that is not followed by another may have been cut before it came here.
    size = f"{'' if newline else 'at least '}{format_size(byte_size(line))}"
    return Page(start, 1, True, f"the first {format_size(byte_size(start))} of line {first} ({size} long)")

"""Results of browser tools: the page, a part of it, or what an action changed, and what happened meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, cast

from msgspec import Struct

from holdfast.contract.context import Context
from holdfast.contract.json import Args
from holdfast.contract.result import Attachment, Result
from holdfast.text.escape import escape_url
from holdfast.tools.browser.changes import compare, render_changes
from holdfast.tools.browser.protocol import PageEvent, PageView
from holdfast.tools.browser.service import Answer, BrowserSession
from holdfast.tools.browser.snapshot import quote_name
from holdfast.tools.schemas import INTEGER, INTEGER_OR_NULL, STRING, array, strict_object, text

FIRST_LINES: Final = 60
FIRST_CHARS: Final = 4_000
"""How much of a page is shown when it opens; `browser.text` shows the rest."""
MORE_LINES: Final = 200
MORE_CHARS: Final = 16_000

OUTPUT: Final = strict_object(
    url=text("The URL of the page."),
    title=text("The title of the page."),
    status=INTEGER_OR_NULL,
    view={"enum": ["page", "changes", "unchanged", "matches"]},
    content=text("Lines of the page, or the changed ones."),
    first_line=INTEGER,
    total_lines=INTEGER,
    events=array(strict_object(kind=STRING, text=STRING)),
)


class Shown(Struct, frozen=True, kw_only=True):
    """What a result shows of the page."""

    view: Literal["page", "changes", "unchanged", "matches"]
    lines: Sequence[str] = ()
    first: int = 1
    note: str = ""


def cut(lines: Sequence[str], first: int, limit: int, chars: int) -> Sequence[str]:
    """Return lines from number `first`: at most `limit`, of about `chars` characters together, but at least one."""
    chosen = lines[first - 1 : first - 1 + limit]
    size = 0
    for count, line in enumerate(chosen):
        size += len(line) + 1
        if size > chars and count:
            return chosen[:count]
    return chosen


def page_part(page: PageView, first: int, limit: int, chars: int) -> Shown:
    """Return lines of the page with a note about the rest."""
    lines = cut(page.lines, first, limit, chars)
    total = len(page.lines)
    last = first + len(lines) - 1
    note = f"[Lines {first}-{last} of {total}.{f' browser.text offset={last + 1} shows more.' if last < total else ''}]"
    if page.omitted and last == total:
        note += (
            f"\n[{page.omitted:,} more lines of this very large page cannot be shown; browser.find searches the rest.]"
        )
    return Shown(view="page", lines=lines, first=first, note=note if first > 1 or last < total or page.omitted else "")


def new_page(page: PageView, ctx: Context) -> Shown:
    """Return the beginning of a page that was just opened."""
    share = 2 if ctx.caps == "small" else 1
    return page_part(page, 1, FIRST_LINES // share, FIRST_CHARS // share)


def changes_since(before: PageView | None, page: PageView, ctx: Context) -> Shown:
    """Return what changed, or the page if it is another one or most of it changed."""
    if before is None or before.document != page.document:
        return new_page(page, ctx)
    hunks = compare(before.lines, page.lines)
    if not hunks:
        return Shown(view="unchanged", note="The page did not change.")
    lines = render_changes(hunks)
    if len(lines) > len(page.lines) or sum(len(line) + 1 for line in lines) > FIRST_CHARS:
        return new_page(page, ctx)
    return Shown(view="changes", lines=lines)


def page_result(
    session: BrowserSession, answer: Answer, shown: Shown, *, done: str = "", attachments: tuple[Attachment, ...] = ()
) -> Result:
    """Make the result of an operation, and remember the page as the one that the model knows."""
    page, before = answer.page, session.shown
    session.shown = page
    is_new = before is None or (before.url, before.title) != (page.url, page.title)
    structured = {
        "url": page.url,
        "title": page.title,
        "status": page.status,
        "view": shown.view,
        "content": "\n".join(shown.lines),
        "first_line": shown.first,
        "total_lines": len(page.lines) + page.omitted,
        "events": [{"kind": event.kind, "text": event.text} for event in answer.events],
    }
    parts = [done, _heading(page) if is_new else "", *map(_event_line, answer.events)]
    if shown.view == "changes":
        parts.append("Changed lines:")
    output = "\n".join(part for part in (*parts, *shown.lines, shown.note) if part)
    return Result(True, output, structured=cast(Args, structured), attachments=attachments)


def _heading(page: PageView) -> str:
    title = " ".join(page.title.split())
    name = f" {quote_name(title)}" if title else ""
    return f"{escape_url(page.url)}{name}" + (f" (HTTP {page.status})" if (page.status or 200) >= 400 else "")


def _event_line(event: PageEvent) -> str:
    return f"! {event.text}"

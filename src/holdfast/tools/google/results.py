"""What the results of Google tools share: one-line fields, text of others behind a gutter, pages, times, ids."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Any, Final, cast
from unicodedata import category

from holdfast.contract.context import Context
from holdfast.contract.json import Args
from holdfast.net.urls import BadUrl, parse_url
from holdfast.text.escape import clip_middle, escape
from holdfast.text.preview import with_label
from holdfast.text.quote import TEXT_GUTTER, behind_gutter
from holdfast.text.truncate import byte_size
from holdfast.tools.google.service import GoogleFailed
from holdfast.tools.schemas import INTEGER, INTEGER_OR_NULL, STRING, Schema, nullable
from holdfast.tools.text_page import DEFAULT_CHARS, MAX_CHARS, page_note, text_page

FIELD_CHARS: Final = 300
MAX_PAGE_TOKEN: Final = 4096
_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,200}")
_IN_URL: Final = re.compile(r"/(?:d|folders)/([A-Za-z0-9_-]{1,200})(?=/|\?|$)")
_URL_ID: Final = re.compile(r"[?&]id=([A-Za-z0-9_-]{1,200})(?=&|$)")
_PUBLISHED: Final = re.compile(r"/d/e/")
_URL_HOSTS: Final = frozenset({"docs.google.com", "drive.google.com"})
_BLANK: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp", "Zs"})
_JOINERS: Final = "\u200c\u200d"
"""Parts of letters and emoji; they neither hide nor reorder text."""

PAGE: Final[Schema] = nullable("string", "The next_page of an earlier result.", maxLength=MAX_PAGE_TOKEN)
OFFSET: Final[Schema] = nullable("integer", "The first character to return (default 0).", minimum=0)
CHARS: Final[Schema] = nullable("integer", "Number of characters (default 20000).", minimum=1, maximum=MAX_CHARS)
PAGED_TEXT: Final[dict[str, Schema]] = {
    "content": STRING,
    "offset": INTEGER,
    "next_offset": INTEGER_OR_NULL,
    "total_chars": INTEGER,
}
"""The part of an output schema that `paged` fills."""


def one_line(text: str, limit: int = FIELD_CHARS) -> str:
    """Return the text of others as part of a line of ours: without line breaks, control and bidi characters."""
    if not (text.isascii() and text.isprintable()):
        text = "".join(char if char in _JOINERS or category(char) not in _BLANK else " " for char in text)
    text = " ".join(text.split())
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def quoted_name(text: str, limit: int = 200) -> str:
    """Return a name for use in «», which it cannot end."""
    return one_line(text.translate({ord("«"): "", ord("»"): ""}), limit)


def clean_text(text: str) -> str:
    """Return a text of several lines whose only line breaks are newlines, without NUL."""
    return "\n".join(text.replace("\0", "").splitlines())


def in_quotes(text: str, otherwise: str = "", limit: int = FIELD_CHARS) -> str:
    """Return a title or a name in «», so that it cannot pass for one of our facts beside it."""
    return f"«{name}»" if (name := quoted_name(text, limit)) else otherwise


def head_room(ctx: Context) -> int:
    """Bytes of one list in the lines before a text, so that together they stay below half of the output."""
    return ctx.truncate.MAX_BYTES // 32


def fitting(items: Sequence[str], room: int) -> tuple[list[str], int]:
    """Return the first items that have `room` bytes together, at least one, and the number of those left out."""
    kept = list[str]()
    for item in items:
        room -= byte_size(item)
        if room < 0 and kept:
            break
        kept.append(item)
    return kept, len(items) - len(kept)


def listed(items: Sequence[str], room: int) -> str:
    """Return the items in one line: those that fit, and how many more there are."""
    kept, left = fitting(items, room)
    return f"{', '.join(kept)}{f' and {left} more' if left else ''}"


def note_lines(notes: Sequence[str], room: int) -> list[str]:
    kept, left = fitting(notes, room)
    return [*(f"[{note}]" for note in kept), *([f"[And {left} more notes like these.]"] if left else [])]


def paged(text: str, args: Args, ctx: Context, head: Sequence[str]) -> Args:
    """Return the fields of `PAGED_TEXT` for a text after the lines of `head`. Raises `GoogleFailed` for an offset
    beyond the end."""
    offset = cast("int | None", args.get("offset")) or 0
    if offset and offset >= len(text):
        raise GoogleFailed(f"Offset {offset} is beyond the end: the text has {len(text):,} characters.")
    wanted = cast("int | None", args.get("limit")) or DEFAULT_CHARS[ctx.caps]
    content = text_page(text, offset, wanted, ctx, gutter=len(TEXT_GUTTER), head=head)
    end = offset + len(content)
    next_offset = end if end < len(text) else None
    return {"content": content, "offset": offset, "next_offset": next_offset, "total_chars": len(text)}


def paged_lines(output: Args) -> list[str]:
    """Render the fields of `PAGED_TEXT`."""
    content, offset = str(output["content"]), cast(int, output["offset"])
    lines = ["", behind_gutter(content.removesuffix("\n"))] if content else []
    note = page_note(offset, offset + len(content), cast(int, output["total_chars"]))
    return [*lines, "", note] if note is not None else lines


def more_line(next_page: str | None) -> list[str]:
    return [] if next_page is None else ["", f"[There is more. Use page={next_page!r} to continue.]"]


def page_token(text: str | None) -> str | None:
    """Return the token of the next page; None if there is none, or one that cannot be an argument."""
    usable = text and len(text) <= MAX_PAGE_TOKEN and text.isascii() and text.isprintable()
    return text if usable else None


def document_id(given: str) -> str:
    """Return the id in an id or an address of Google Docs or Drive. Raises `GoogleFailed`."""
    text = given.strip()
    if _ID.fullmatch(text):
        return text
    try:
        url = parse_url(text)
    except BadUrl:
        url = None
    if url is not None and url.host in _URL_HOSTS:
        if _PUBLISHED.search(url.target):
            raise GoogleFailed(
                "This is the address of a published copy, which no API reads. Use the address of the document itself, "
                "or web.fetch."
            )
        found = _IN_URL.search(url.target) or _URL_ID.search(url.target)
        if found is not None:
            return found[1]
    shown = escape(clip_middle(text, 80))
    raise GoogleFailed(f"'{shown}' is neither an id nor an address of docs.google.com or drive.google.com.")


def plain_id(given: str, what: str) -> str:
    """Return an id as the APIs make them. Raises `GoogleFailed` for anything that could change the request."""
    if _ID.fullmatch(given):
        return given
    raise GoogleFailed(f"'{escape(clip_middle(given, 80))}' is not the id of {what}.")


def utc_time(milliseconds: str) -> str | None:
    """Return the time of an epoch in milliseconds, which the APIs send as text."""
    try:
        return datetime.fromtimestamp(int(milliseconds[:16]) / 1000, UTC).isoformat(timespec="seconds")
    except (ValueError, OverflowError, OSError):
        return None


def zone_of(name: str | None) -> tzinfo | None:
    """Return a zone by its IANA name; None for the machine's own. Raises `GoogleFailed`."""
    if name is None:
        return None
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError  # it loads sysconfig, which most runs do not need

    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        shown = escape(clip_middle(name, 60))
        raise GoogleFailed(f"There is no time zone '{shown}'. Use a name such as Europe/Berlin.") from None


def moment(text: str, zone: tzinfo | None, *, end: bool = False) -> datetime:
    """Return a time with its zone from an ISO date or time. A day means its start, or its end with `end`."""
    try:
        try:
            day = date.fromisoformat(text.strip())
        except ValueError:
            found = datetime.fromisoformat(text.strip())
        else:
            found = datetime.combine(day + timedelta(days=1 if end else 0), time())
        found = (found if found.tzinfo is not None else found.replace(tzinfo=zone)).astimezone(found.tzinfo or zone)
        found.astimezone(UTC)  # as it is sent
    except (ValueError, OverflowError, OSError):
        shown = escape(clip_middle(text, 60))
        raise GoogleFailed(f"Cannot read '{shown}' as a time. Use 2026-03-01 or 2026-03-01T09:00+01:00.") from None
    return found


def preview(*names: str) -> Any:
    """Return a `format_preview` that shows the named arguments."""

    def shown(args: Args, width: int) -> str:
        given = ((name, args.get(name)) for name in names)
        parts = [str(value) if name == names[0] else f"{name}={value}" for name, value in given if value is not None]
        return with_label(clip_middle("  ".join(parts), max(width, 20)), args)

    return shown


def joined(parts: Iterable[str | None]) -> str:
    return ", ".join(part for part in parts if part)

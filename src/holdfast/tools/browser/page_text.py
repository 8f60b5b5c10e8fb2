"""`browser.text`, `browser.find` and `browser.screenshot`: read the open page."""

from __future__ import annotations

from typing import Final, cast

from holdfast.contract.context import Context
from holdfast.contract.enums import Risk
from holdfast.contract.json import Args
from holdfast.contract.result import Attachment, Result, fail
from holdfast.text.escape import escape
from holdfast.text.preview import with_label
from holdfast.tools.browser import chromium
from holdfast.tools.browser.actions import ELEMENT, preview_target, target_of
from holdfast.tools.browser.navigation import TIMEOUT
from holdfast.tools.browser.protocol import Read, Screenshot
from holdfast.tools.browser.report import MORE_CHARS, MORE_LINES, OUTPUT, Shown, cut, page_part, page_result
from holdfast.tools.browser.service import BrowserError, no_new_host, session_of
from holdfast.tools.schemas import LABEL, Schema, builtin_tool, non_blank, nullable, strict_object

MAX_MATCHES: Final = 30


async def _text(args: Args, ctx: Context) -> Result:
    session = session_of(ctx)
    first = cast(int, args.get("offset") or 1)
    limit = cast(int, args.get("limit") or (MORE_LINES // 4 if ctx.caps == "small" else MORE_LINES))
    try:
        answer = await session.perform(Read(target=target_of(args), plain=args.get("mode") == "text"))
    except BrowserError as error:
        return fail(str(error))
    page = answer.page
    if first > max(1, len(page.lines)):
        return fail(f"Offset {first} is beyond the end of the page ({len(page.lines)} lines).")
    known = session.shown
    result = page_result(session, answer, page_part(page, first, limit, MORE_CHARS))
    if args.get("mode") == "text" or target_of(args) is not None:
        session.shown = known  # the next action compares with the snapshot of the whole page
    return result


async def _find(args: Args, ctx: Context) -> Result:
    session = session_of(ctx)
    query = cast(str, args["query"])
    try:
        answer = await session.perform(Read())
    except BrowserError as error:
        return fail(str(error))
    wanted = query.casefold().split()
    found = [
        f"{number}: {line.strip()}"
        for number, line in enumerate(answer.page.lines, 1)
        if all(word in line.casefold() for word in wanted)
    ]
    shown = cut(found, 1, MAX_MATCHES, MORE_CHARS)
    if not found:
        note = f"No line of the page contains «{escape(query[:200])}»."
    else:
        note = f"[{len(shown)} of {len(found)} matching lines. Use more words.]" if len(shown) < len(found) else ""
    return page_result(session, answer, Shown(view="matches", lines=shown, note=note))


async def _screenshot(args: Args, ctx: Context) -> Result:
    session = session_of(ctx)
    known = session.shown
    try:
        answer = await session.perform(Screenshot(target=target_of(args), full_page=bool(args.get("full_page"))))
    except BrowserError as error:
        return fail(str(error))
    reply = answer.reply
    name = f"screenshot.{'png' if reply.mime_type == 'image/png' else 'jpg'}"
    image = Attachment(kind="image", mime_type=reply.mime_type, data=reply.image, name=name)
    shown = Shown(view="unchanged")
    result = page_result(session, answer, shown, done="Screenshot taken.", attachments=(image,))
    session.shown = known
    return result


def _preview_text(args: Args, width: int) -> str:
    parts = [str(args.get("mode") or ""), preview_target(args)]
    if args.get("offset") or args.get("limit"):
        parts.append(f"+{args.get('offset') or 1},{args.get('limit') or MORE_LINES}")
    return with_label("  ".join(part for part in parts if part), args)


def _preview_query(args: Args, width: int) -> str:
    return with_label(str(args.get("query", "")), args)


def _preview_screenshot(args: Args, width: int) -> str:
    return with_label(preview_target(args) or ("the whole page" if args.get("full_page") else ""), args)


def _optional(element: Schema) -> Schema:
    return {**element, "description": element["description"] + " Without an element, the whole page."}


BROWSER_TEXT: Final = builtin_tool(
    name="browser.text",
    description="Read the page that is open in the browser: all elements with references, or only the visible text.",
    input_schema=strict_object(
        mode=nullable(
            "string",
            "snapshot: elements with references and text (default). text: the visible text only.",
            enum=["snapshot", "text", None],
        ),
        ref=_optional(ELEMENT["ref"]),
        offset=nullable("integer", "First line, counted from 1 (default 1).", minimum=1),
        limit=nullable("integer", f"Number of lines (default {MORE_LINES}).", minimum=1, maximum=2000),
        label=LABEL,
    ),
    output_schema=OUTPUT,
    execute=_text,
    timeout=TIMEOUT,
    risk=Risk.LOW,
    effects=frozenset({"network"}),
    reaches=no_new_host,
    sources=("web",),
    format_preview=_preview_text,
    groups=("browser", "web"),
    profiles=("coding",),
    presets=("$readonly",),
    unavailable=chromium.missing,
)
BROWSER_FIND: Final = builtin_tool(
    name="browser.find",
    description="Find lines of the open page that contain all words of a query: elements with references, and text.",
    input_schema=strict_object(query=non_blank("Words, such as 'button pay'."), label=LABEL),
    output_schema=OUTPUT,
    execute=_find,
    timeout=TIMEOUT,
    risk=Risk.LOW,
    effects=frozenset({"network"}),
    reaches=no_new_host,
    sources=("web",),
    format_preview=_preview_query,
    groups=("browser", "web"),
    profiles=("coding",),
    presets=("$readonly",),
    unavailable=chromium.missing,
)
BROWSER_SCREENSHOT: Final = builtin_tool(
    name="browser.screenshot",
    description="Take a screenshot of the open page. Passwords and typed secrets are covered.",
    input_schema=strict_object(
        full_page=nullable("boolean", "The whole page instead of the visible part (default false)."),
        ref=_optional(ELEMENT["ref"]),
        label=LABEL,
    ),
    output_schema=OUTPUT,
    execute=_screenshot,
    timeout=TIMEOUT,
    risk=Risk.LOW,
    effects=frozenset({"network"}),
    reaches=no_new_host,
    sources=("web",),
    format_preview=_preview_screenshot,
    groups=("browser", "web"),
    profiles=("coding",),
    presets=("$readonly",),
    unavailable=chromium.missing,
)

"""`browser.navigate`, `browser.back`, `browser.wait` and `browser.close`."""

from __future__ import annotations

from typing import Final, cast

from holdfast.contract.call import Proposal
from holdfast.contract.context import Context
from holdfast.contract.enums import Risk
from holdfast.contract.json import Args
from holdfast.contract.result import Result, fail, ok
from holdfast.contract.tool import Reach
from holdfast.text.escape import escape_url
from holdfast.text.preview import with_label
from holdfast.tools.browser import chromium
from holdfast.tools.browser.protocol import Back, Wait
from holdfast.tools.browser.report import OUTPUT, changes_since, new_page, page_result
from holdfast.tools.browser.service import BrowserError, Browsers, no_new_host, page_address, session_of
from holdfast.tools.schemas import BOOLEAN, LABEL, builtin_tool, non_blank, nullable, strict_object

MAX_WAIT: Final = 30.0
TIMEOUT: Final = 120.0
"""Seconds for a call; the limits of `[browser]` end it before."""


async def _propose_navigate(args: Args, ctx: Context) -> Proposal | Result:
    try:
        address = page_address(cast(str, args["url"]))
    except BrowserError as error:
        return fail(str(error))
    refusal = ctx.service(Browsers).refusal(address.host, address.port)
    if refusal is not None:
        return fail(refusal)
    return Proposal(
        tool_name="browser.navigate",
        summary=f"open {escape_url(address.url)} in the browser",
        risk=Risk.MEDIUM,
        payload={"url": address.url, "host": address.entry},
        preview=f"open {escape_url(address.url)}",
    )


async def _apply_navigate(payload: Args, ctx: Context) -> Result:
    session = session_of(ctx)
    ctx.progress(f"opening {payload['host']} in the browser…")
    try:
        answer = await session.navigate(cast(str, payload["url"]), cast(str, payload["host"]))
    except BrowserError as error:
        return fail(str(error))
    session.shown = None
    return page_result(session, answer, new_page(answer.page, ctx))


def _reaches(args: Args) -> Reach:
    try:
        return Reach((page_address(cast(str, args["url"])).entry,))
    except BrowserError:
        return Reach(())


def _preview_url(args: Args, width: int) -> str:
    return with_label(escape_url(str(args.get("url", ""))), args)


async def _back(args: Args, ctx: Context) -> Result:
    session = session_of(ctx)
    try:
        answer = await session.perform(Back())
    except BrowserError as error:
        return fail(str(error))
    return page_result(session, answer, new_page(answer.page, ctx))


async def _wait(args: Args, ctx: Context) -> Result:
    session = session_of(ctx)
    seconds = cast(float, args.get("seconds") or (5.0 if args.get("text") or args.get("gone") else 1.0))
    wait = Wait(text=cast(str | None, args.get("text")), gone=cast(str | None, args.get("gone")), seconds=seconds)
    try:
        answer = await session.perform(wait)
    except BrowserError as error:
        return fail(str(error))
    return page_result(session, answer, changes_since(session.shown, answer.page, ctx))


def _preview_wait(args: Args, width: int) -> str:
    wanted = [f"{name} «{args[name]}»" for name in ("text", "gone") if args.get(name)]
    return with_label(", ".join(wanted) or f"{args.get('seconds') or 1} s", args)


async def _close(args: Args, ctx: Context) -> Result:
    closed = await session_of(ctx).close()
    return ok("The browser is closed." if closed else "No browser was open.", structured={"closed": closed})


def _preview_label(args: Args, width: int) -> str:
    return with_label("", args)


BROWSER_NAVIGATE: Final = builtin_tool(
    name="browser.navigate",
    description="Open a page in the browser. Returns its elements with references (e12) and its text, line by line.",
    input_schema=strict_object(url=non_blank("The http or https URL to open."), label=LABEL),
    output_schema=OUTPUT,
    propose=_propose_navigate,
    apply=_apply_navigate,
    timeout=TIMEOUT,
    risk=Risk.MEDIUM,
    effects=frozenset({"network", "external"}),
    reaches=_reaches,
    sources=("web",),
    sinks=("web",),
    format_preview=_preview_url,
    groups=("browser", "web"),
    profiles=("coding",),
    unavailable=chromium.missing,
)
BROWSER_BACK: Final = builtin_tool(
    name="browser.back",
    description="Go back to the page before this one.",
    input_schema=strict_object(label=LABEL),
    output_schema=OUTPUT,
    execute=_back,
    timeout=TIMEOUT,
    risk=Risk.LOW,
    effects=frozenset({"network", "external"}),
    sources=("web",),
    sinks=("web",),
    format_preview=_preview_label,
    groups=("browser", "web"),
    profiles=("coding",),
    unavailable=chromium.missing,
)
BROWSER_WAIT: Final = builtin_tool(
    name="browser.wait",
    description="Wait until a text appears on the page or is gone, or for some seconds. Returns what changed.",
    input_schema=strict_object(
        text=nullable("string", "Wait until this text is on the page."),
        gone=nullable("string", "Wait until this text is no longer on the page."),
        seconds=nullable(
            "number", "Wait at most this long (default 5; without a text, exactly, default 1).", minimum=0, maximum=30
        ),
        label=LABEL,
    ),
    output_schema=OUTPUT,
    execute=_wait,
    timeout=TIMEOUT,
    risk=Risk.LOW,
    effects=frozenset({"network"}),
    reaches=no_new_host,
    sources=("web",),
    format_preview=_preview_wait,
    groups=("browser", "web"),
    profiles=("coding",),
    presets=("$readonly",),
    unavailable=chromium.missing,
)
BROWSER_CLOSE: Final = builtin_tool(
    name="browser.close",
    description="Close the browser. Its pages, logins and cookies are forgotten.",
    input_schema=strict_object(label=LABEL),
    output_schema=strict_object(closed=BOOLEAN),
    execute=_close,
    risk=Risk.LOW,
    effects=frozenset({"external"}),
    format_preview=_preview_label,
    groups=("browser", "web"),
    profiles=("coding",),
    presets=("$default",),
    unavailable=chromium.missing,
)

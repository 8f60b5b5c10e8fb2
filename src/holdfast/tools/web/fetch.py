"""`web.fetch`: request a page or an API and return what it says, page by page from a kept copy."""

from __future__ import annotations

import time
from collections.abc import Iterable
from datetime import UTC, datetime
from hashlib import sha256
from http import HTTPStatus
from typing import Any, Final, Literal, cast

from msgspec import Struct

from holdfast.contract.call import Proposal
from holdfast.contract.context import Context
from holdfast.contract.enums import Risk
from holdfast.contract.errors import HoldfastError, NetworkRefused, OutcomeUnknown
from holdfast.contract.json import Args
from holdfast.contract.result import Attachment, Result, fail
from holdfast.contract.tool import Reach
from holdfast.net.client import (
    READING_METHODS,
    Headers,
    HttpRequest,
    HttpResponse,
    RedirectRefused,
    RequestFailed,
    header_problem,
)
from holdfast.net.gateway import RefusedHost
from holdfast.net.urls import MAX_URL_CHARS, BadUrl, parse_url
from holdfast.text.attachments import pixels
from holdfast.text.escape import clip_middle, escape_url
from holdfast.text.preview import with_label
from holdfast.text.truncate import byte_size, format_size
from holdfast.tools.extraction.content import Content, classify
from holdfast.tools.schemas import (
    INTEGER,
    INTEGER_OR_NULL,
    LABEL,
    STRING,
    STRING_OR_NULL,
    array,
    builtin_tool,
    needs_extra,
    non_blank,
    nullable,
    strict_object,
)
from holdfast.tools.text_page import DEFAULT_CHARS, MAX_CHARS, page_note, text_page
from holdfast.tools.web.service import Cached, Fetched, Web
from holdfast.tools.worker_process import WorkerFailed

Mode = Literal["readable", "text", "raw", "links", "find"]
METHODS: Final = ("GET", "POST", "PUT", "DELETE", "HEAD", "PATCH")
DEFAULT_SECONDS: Final = 10.0
_MARGIN: Final = 0.1
"""Share of the time limit that is left for the result, so that the tool ends before it is stopped."""
_MAX_BODY: Final = 1024 * 1024
_MAX_HEADERS: Final = 50
_MAX_ATTACHMENT: Final = 5 * 1024 * 1024
_MAX_PIXELS: Final = 40_000_000
_ERROR_CHARS: Final = 4000
_HEADER_CHARS: Final = 300
_NOTE_CHARS: Final = 400
_CACHED: Final[dict[Cached, str]] = {
    "no": "",
    "fresh": ", from cache",
    "revalidated": ", revalidated",
    "kept": ", from the copy of an earlier call",
}


class _Rendered(Struct, frozen=True, kw_only=True):
    """What is shown of a response."""

    text: str = ""
    title: str | None = None
    notes: tuple[str, ...] = ()
    attachments: tuple[Attachment, ...] = ()


def _request(args: Args) -> HttpRequest:
    """Read the request from the arguments. Raises `BadUrl`."""
    pairs = cast("list[dict[str, str]]", args.get("headers") or [])
    headers: Headers = tuple((pair["name"], pair["value"].strip(" \t")) for pair in pairs)
    for name, value in headers:
        if (problem := header_problem(name, value)) is not None:
            raise BadUrl(problem)
    body = cast("str | None", args.get("body")) or ""
    method = _method(args)
    if body and method in READING_METHODS:
        raise BadUrl(f"A {method} request has no body. Use POST, PUT or PATCH to send one.")
    data = body.encode()
    if len(data) > _MAX_BODY:
        raise BadUrl(f"The body has {format_size(len(data))}. At most {format_size(_MAX_BODY)} can be sent.")
    return HttpRequest(url=parse_url(str(args.get("url") or "")), method=method, headers=headers, body=data)


def _method(args: Args) -> str:
    return str(args.get("method") or "GET")


def _mode(args: Args) -> Mode:
    return cast("Mode | None", args.get("mode")) or ("find" if args.get("find") else "readable")


def _reaches(args: Args) -> Reach:
    try:
        hosts = (parse_url(str(args.get("url") or "")).entry,)
    except BadUrl:
        hosts = ()
    return Reach(hosts, sends=_method(args) not in READING_METHODS)


async def _propose(args: Args, ctx: Context) -> Proposal | Result:
    try:
        request = _request(args)
    except HoldfastError as error:
        return fail(str(error))
    if _mode(args) == "find" and not str(args.get("find") or "").strip():
        return fail("The mode find needs the text to look for, in `find`.")
    web = ctx.service(Web)
    decision = web.network.gateway(_name(ctx)).check(request.url.host, request.url.port)
    if isinstance(decision, RefusedHost):
        return fail(decision.reason)
    lines = [f"{request.method} {request.url}", *(f"{name}: {value}" for name, value in request.headers)]
    if request.body:
        lines += ["", str(args["body"])]
    return Proposal(
        tool_name="web.fetch",
        summary=f"{request.method} {request.url}",
        risk=Risk.MEDIUM if request.method in READING_METHODS else Risk.HIGH,
        payload=args,
        preview="\n".join(lines),
    )


async def _apply(args: Args, ctx: Context) -> Result:
    web, request = ctx.service(Web), _request(args)
    limit = DEFAULT_SECONDS if ctx.timeout is None else ctx.timeout
    deadline = time.monotonic() + limit * (1 - _MARGIN)
    offset = cast("int | None", args.get("offset")) or 0
    try:
        ctx.progress(f"waiting for {request.url.entry}…")
        seconds = deadline - time.monotonic()
        fetched = await web.fetch(request, seconds=seconds, by=_name(ctx), kept=offset > 0)
    except RedirectRefused as refused:
        target = parse_url(refused.location)
        web.network.gateway(_name(ctx), hosts=(request.url.entry,)).check(target.host, target.port)
        return _not_followed(refused, request)
    except NetworkRefused as refused:
        return fail(str(refused))
    except RequestFailed as failed:
        if failed.sent and request.method not in READING_METHODS:
            raise OutcomeUnknown(f"{failed} Whether the {request.method} request took effect is not known.") from None
        return fail(str(failed))
    rendered = await _render(web, fetched.response, args, deadline)
    return _result(request, fetched, rendered, args, ctx)


def _name(ctx: Context) -> str:
    return f"web.fetch {ctx.call_id}"


def _not_followed(refused: RedirectRefused, request: HttpRequest) -> Result:
    hops = [{"url": hop.url, "status": hop.status} for hop in refused.redirects]
    structured = {"url": str(request.url), "redirects": hops, "location": refused.location}
    told = str(refused)
    if request.method not in READING_METHODS:
        told += f" The {request.method} request itself was sent and answered with status {refused.redirects[0].status}."
    return fail(told, structured=cast(Args, structured))


async def _render(web: Web, response: HttpResponse, args: Args, deadline: float) -> _Rendered:
    """Return the text of a response in the mode of the call."""
    content_type, body, mode = response.header("content-type"), response.body, _mode(args)
    content = classify(content_type, body)
    if not body:
        return _Rendered()
    if content.kind in ("image", "binary"):
        return _binary(content, response, mode)
    if content.kind == "pdf" and (mode == "raw" or response.cut):
        return _binary(content, response, mode)
    request = {
        "do": "render",
        "kind": content.kind,
        "mode": mode,
        "content_type": content_type,
        "url": str(response.url),
        "find": args.get("find"),
    }
    try:
        made = await web.extractor.ask_once(request, body, max(0.1, deadline - time.monotonic()))
    except WorkerFailed as error:
        what = "The PDF" if content.kind == "pdf" else "The page"
        return _Rendered(notes=(f"{what} ({format_size(len(body))}) cannot be read: {error}.",))
    return _Rendered(text=made["text"], title=made["title"], notes=tuple(_notes(made, mode, args)))


def _notes(made: dict[str, Any], mode: Mode, args: Args) -> Iterable[str]:
    yield from (str(note)[:_NOTE_CHARS] for note in made["notes"])
    if mode == "find":
        found, shown = made["found"], made["passages"]
        times = "once" if found == 1 else f"{found:,} times"
        yield f"{args['find']!r} was found {times}." if found else f"{args['find']!r} was not found on the page."
        if found:
            yield "Offsets count the characters of the mode text: use mode=text with an offset to read on there."
        if found > shown and shown:
            yield f"{shown} passages are shown; passages that touch are joined."
    if mode == "links" and not made["text"]:
        yield "The page has no links."


def _binary(content: Content, response: HttpResponse, mode: Mode) -> _Rendered:
    """Attach an image, and other content on request; else say what it is."""
    body, name = response.body, response.url.target.partition("?")[0].rpartition("/")[2] or None
    size = format_size(len(body))
    facts = f"The content is {content.mime}, {'more than ' if response.cut else ''}{size}"
    if response.cut:
        return _Rendered(notes=(f"{facts}, which is above the limit web.max_bytes, so it is not attached.",))
    if content.kind == "image":
        dimensions = pixels(body)
        if dimensions is None:
            return _Rendered(notes=(f"{facts}, but the image is damaged, so it is not attached.",))
        width, height = dimensions
        facts += f", {width} × {height} pixels"
        if width * height > _MAX_PIXELS:
            return _Rendered(notes=(f"{facts}, which is too large to be attached.",))
    elif mode != "raw":
        return _Rendered(notes=(f"{facts}, which has no text. Use mode=raw to get it as an attachment.",))
    if len(body) > _MAX_ATTACHMENT:
        return _Rendered(notes=(f"{facts}. At most {format_size(_MAX_ATTACHMENT)} can be attached.",))
    kind = "image" if content.kind == "image" else "file"
    attachment = Attachment(kind=kind, mime_type=content.mime, data=body, name=name)
    return _Rendered(notes=(f"{facts}; it is attached.",), attachments=(attachment,))


def _result(request: HttpRequest, fetched: Fetched, rendered: _Rendered, args: Args, ctx: Context) -> Result:
    response, text = fetched.response, rendered.text
    failed = response.status >= 400
    offset = cast("int | None", args.get("offset")) or 0
    notes = [*_request_notes(request, fetched, args), *rendered.notes]
    if offset and offset >= len(text):
        return fail(f"Offset {offset} is beyond the end: the text has {len(text):,} characters.")
    wanted = cast("int | None", args.get("limit")) or DEFAULT_CHARS[ctx.caps]
    content = text_page(text, offset, min(wanted, _ERROR_CHARS) if failed else wanted, ctx)
    end = offset + len(content)
    content_type = response.header("content-type")
    output: Args = {
        "url": str(request.url),
        "final_url": str(response.url),
        "method": request.method,
        "status": response.status,
        "redirects": [{"url": hop.url, "status": hop.status} for hop in response.redirects],
        "content_type": None if content_type is None else content_type[:_HEADER_CHARS],
        "fetched_at": datetime.fromtimestamp(response.fetched_at, UTC).isoformat(timespec="seconds"),
        "cached": fetched.cached,
        "sha256": sha256(response.body).hexdigest(),
        "bytes": len(response.body),
        "headers": [{"name": name, "value": value[:_HEADER_CHARS]} for name, value in response.headers[:_MAX_HEADERS]],
        "title": rendered.title,
        "mode": _mode(args),
        "notes": [*notes],
        "content": content,
        "offset": offset,
        "next_offset": end if end < len(text) else None,
        "total_chars": len(text),
    }
    metadata: Args = {"truncated": True} if end < len(text) or offset else {}
    shown = _text(output)
    if failed:
        error = f"{request.method} {response.url} answered {_status(response.status)}."
        return Result(False, shown, error, output, metadata, rendered.attachments)
    return Result(True, shown, None, output, metadata, rendered.attachments)


def _request_notes(request: HttpRequest, fetched: Fetched, args: Args) -> Iterable[str]:
    if args.get("offset") and fetched.cached == "no":
        yield "The copy of the earlier call is no longer kept, so this is a new one; its offsets may differ."
    if fetched.waited >= 0.05:
        yield f"The request waited {fetched.waited:.1f} seconds, because of web.rate."
    if fetched.response.cut:
        size = format_size(len(fetched.response.body))
        yield f"The answer is longer than web.max_bytes; only its first {size} were read."


def _status(code: int) -> str:
    try:
        return f"{code} {HTTPStatus(code).phrase}"
    except ValueError:
        return str(code)


def _text(output: Args) -> str:
    """Render the output."""
    facts = [_status(cast(int, output["status"])), str(output["content_type"] or "no content type")]
    cached = _CACHED[cast(Cached, output["cached"])]
    facts.append(f"{format_size(cast(int, output['bytes']))}, fetched {output['fetched_at']}{cached}")
    lines = [f"{output['final_url']} ({', '.join(facts)})"]
    hops = cast("list[dict[str, Any]]", output["redirects"])
    if hops:
        lines.append(f"Redirected from: {' → '.join(hop['url'] for hop in hops)}")
    if output["title"]:
        lines.append(f"Title: {output['title']}")
    if output["method"] != "GET":
        headers = cast("list[dict[str, str]]", output["headers"])
        lines += [f"{header['name']}: {header['value']}" for header in headers]
    lines += [f"[{note}]" for note in cast("list[str]", output["notes"])]
    content, offset, total = str(output["content"]), cast(int, output["offset"]), cast(int, output["total_chars"])
    if content:
        lines += ["", content]
    note = page_note(offset, offset + len(content), total, " in the same copy")
    if note is not None:
        lines += ["", note]
    return "\n".join(lines)


def _preview(args: Args, width: int) -> str:
    """`GET https://host/path`: the host in punycode and whole, the rest clipped in the middle."""
    text = str(args.get("url") or "")
    try:
        url = parse_url(text)
    except BadUrl:
        return with_label(f"{_method(args)} {escape_url(clip_middle(text, width))}", args)
    start = f"{_method(args)} {url.origin}"
    given = args.get("body")
    body = f"  ({format_size(byte_size(given))})" if isinstance(given, str) and given else ""
    found = f"  find {args['find']!r}" if args.get("find") else ""
    room = max(20, width - len(start) - len(body) - len(found))
    return with_label(f"{start}{clip_middle(url.target, room)}{body}{found}", args)


_HEADER: Final = strict_object(name=STRING, value=STRING)

WEB_FETCH: Final = builtin_tool(
    name="web.fetch",
    description="Fetch a web page, file or API from a public address and return its text. Long texts come in pages.",
    input_schema=strict_object(
        url={**non_blank("URL to fetch, with https:// or http://."), "maxLength": MAX_URL_CHARS},
        method=nullable("string", "HTTP method (default GET).", enum=[*METHODS, None]),
        headers=nullable("array", "HTTP headers; an object of names and values is accepted too.", items=_HEADER),
        body=nullable("string", "Request body."),
        timeout=nullable("number", "Timeout in milliseconds (default 10000).", exclusiveMinimum=0),
        mode=nullable(
            "string",
            "What to return: readable (the main text as Markdown, the default), text (all text), raw (the source), "
            "links (all links), find (passages around the text in `find`).",
            enum=["readable", "text", "raw", "links", "find", None],
        ),
        find=nullable("string", "Text to find on the page."),
        offset=nullable("integer", "First character, to continue in the same copy (default 0).", minimum=0),
        limit=nullable("integer", "Number of characters (default 20000).", minimum=1, maximum=MAX_CHARS),
        label=LABEL,
    ),
    output_schema=strict_object(
        url=STRING,
        final_url=STRING,
        method=STRING,
        status=INTEGER,
        redirects=array(strict_object(url=STRING, status=INTEGER)),
        content_type=STRING_OR_NULL,
        fetched_at=STRING,
        cached={"enum": ["no", "fresh", "revalidated", "kept"]},
        sha256=STRING,
        bytes=INTEGER,
        headers=array(_HEADER),
        title=STRING_OR_NULL,
        mode={"enum": ["readable", "text", "raw", "links", "find"]},
        notes=array(STRING),
        content=STRING,
        offset=INTEGER,
        next_offset=INTEGER_OR_NULL,
        total_chars=INTEGER,
    ),
    propose=_propose,
    apply=_apply,
    timeout=DEFAULT_SECONDS,
    risk=Risk.MEDIUM,
    effects=frozenset({"network"}),
    reaches=_reaches,
    sources=("web",),
    sinks=("web",),
    format_preview=_preview,
    groups=("web",),
    profiles=("minimal",),
    unavailable=needs_extra("web", "httpx2", "lxml", "protego", "pypdfium2", "trafilatura"),
)

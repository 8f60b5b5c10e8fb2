"""`gmail.search` and `gmail.read`: find messages, and read one."""

from __future__ import annotations

import asyncio
from html import unescape
from typing import Any, Final, Literal, cast

from msgspec import Struct

from holdfast.contract.context import Context
from holdfast.contract.json import Args, Json
from holdfast.contract.result import Attachment, Result, ok
from holdfast.text.truncate import format_size
from holdfast.tools.extraction.content import decode
from holdfast.tools.google.attached_file import MAX_ATTACHMENT, attached_file
from holdfast.tools.google.message import (
    MAX_ADDRESSES,
    Address,
    FilePart,
    Message,
    Part,
    PartBody,
    TextPart,
    attachments,
    decoded_base64,
    decoded_words,
    header_addresses,
    html_parts,
    text_parts,
    without_quotes,
)
from holdfast.tools.google.results import (
    CHARS,
    OFFSET,
    PAGE,
    PAGED_TEXT,
    clean_text,
    fitting,
    head_room,
    in_quotes,
    listed,
    more_line,
    note_lines,
    one_line,
    page_token,
    paged,
    paged_lines,
    plain_id,
    preview,
    utc_time,
)
from holdfast.tools.google.service import ApiSession, GoogleFailed, GoogleHasNone, api_tool
from holdfast.tools.schemas import (
    BOOLEAN,
    INTEGER,
    LABEL,
    STRING,
    STRING_OR_NULL,
    array,
    non_blank,
    nullable,
    strict_object,
)
from holdfast.tools.worker_process import WorkerFailed

DEFAULT_LIMIT: Final = 10
MAX_LIMIT: Final = 50
_AT_ONCE: Final = 5
_MAX_QUERY: Final = 2000
_MAX_LABELS: Final = 30
_MAX_HEADERS: Final = 200
_MAX_ATTACHMENTS: Final = 100
_LISTED_PEOPLE: Final = 400
"""Bytes of an address header in a list."""
_ROOT: Final = ("gmail", "v1", "users", "me", "messages")
_PART: Final = "mimeType,filename,body/attachmentId"
_LISTED: Final = (
    f"id,threadId,labelIds,snippet,internalDate,payload({_PART},headers,parts({_PART},parts({_PART},parts({_PART}))))"
)
"""A partial response: no bodies, which a list does not show."""


class _Entry(Struct, frozen=True):
    id: str = ""


class _MessageList(Struct, frozen=True, rename="camel"):
    messages: tuple[_Entry, ...] = ()
    next_page_token: str = ""
    result_size_estimate: int = 0


# ---------------------------------------------------------------------- search


async def _search(args: Args, ctx: Context, api: ApiSession) -> Result:
    query, limit = str(args["query"]), cast("int | None", args.get("limit")) or DEFAULT_LIMIT
    listing = await api.read(
        _MessageList,
        *_ROOT,
        query={"q": query, "maxResults": limit, "pageToken": cast("str | None", args.get("page"))},
        what="list of messages",
    )
    slots = asyncio.Semaphore(_AT_ONCE)

    async def fetched(entry: _Entry) -> Message | None:
        async with slots:
            message = plain_id(entry.id, "a message")
            query = {"format": "full", "fields": _LISTED}
            try:
                return await api.read(Message, *_ROOT, message, query=query, what=f"message '{message}'")
            except GoogleHasNone:  # deleted since it was listed
                return None

    try:
        async with asyncio.TaskGroup() as group:  # the first failure ends the others
            tasks = [group.create_task(fetched(entry)) for entry in listing.messages[:limit]]
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None
    found = [task.result() for task in tasks]
    gone = found.count(None)
    output: Args = {
        "query": query,
        "messages": [_listed(each) for each in found if each is not None],
        "notes": [f"Left out: {gone} that {'is' if gone == 1 else 'are'} no longer there."] if gone else [],
        "next_page": page_token(listing.next_page_token),
    }
    return ok(_list_text(output), structured=output)


def _listed(message: Message) -> Args:
    payload = message.payload
    return {
        **_envelope(message),
        "snippet": one_line(unescape(message.snippet)),
        "has_attachments": bool(attachments(payload)),
    }


def _envelope(message: Message) -> Args:
    payload = message.payload
    return {
        "id": one_line(message.id, 200),
        "thread": one_line(message.thread_id, 200),
        "from": _addresses(payload, "from"),
        "to": _addresses(payload, "to"),
        "subject": one_line(decoded_words(payload.header("subject"))),
        "date": utc_time(message.internal_date),
        "labels": [one_line(label, 100) for label in message.label_ids[:_MAX_LABELS]],
    }


def _addresses(payload: Part, header: str) -> list[Json]:
    found = header_addresses(payload, header)
    return [{"address": each.address, "name": each.name, "misleading": each.misleading} for each in found]


def _people(given: Json, room: int) -> str:
    found = cast("list[dict[str, Any]]", given)
    shown = [str(Address(each["address"], each["name"], each["misleading"])) for each in found]
    kept, left = fitting(shown, room)
    more = f" and {left} more" if len(shown) < MAX_ADDRESSES else " and more"
    return f"{', '.join(kept)}{more if left or len(shown) == MAX_ADDRESSES else ''}" or "(nobody)"


def _list_text(output: Args) -> str:
    messages = cast("list[dict[str, Any]]", output["messages"])
    notes = [f"[{note}]" for note in cast("list[str]", output["notes"])]
    if not messages:
        return "\n".join([f"No message matches {one_line(str(output['query']))!r}.", *notes])
    lines: list[str] = []
    for each in messages:
        marks = [*each["labels"], *(["has attachments"] if each["has_attachments"] else [])]
        lines += [
            f"{each['id']}  {each['date'] or 'no date'}  (thread {each['thread']}; {', '.join(marks) or 'no labels'})",
            f"  From: {_people(each['from'], _LISTED_PEOPLE)}",
            f"  To: {_people(each['to'], _LISTED_PEOPLE)}",
            f"  Subject: {each['subject']}",
            f"  | {each['snippet']}",
        ]
    return "\n".join([*lines, *notes, *more_line(cast("str | None", output["next_page"]))])


# ---------------------------------------------------------------------- read


async def _read(args: Args, ctx: Context, api: ApiSession) -> Result:
    message_id, shape = plain_id(str(args["id"]), "a message"), cast("str | None", args.get("format")) or "text"
    wanted = "metadata" if shape == "headers" else "full"
    message = await api.read(Message, *_ROOT, message_id, query={"format": wanted}, what=f"message '{message_id}'")
    payload, notes = message.payload, list[str]()
    text = ""
    if shape != "headers":
        parts = text_parts(payload) if shape == "text" else html_parts(payload)
        text = await _text(parts, api, notes, mode="links" if shape == "links" else "text")
        if args.get("trim_quotes"):
            shorter = without_quotes(text)
            if len(shorter) < len(text):
                notes.append(f"{len(text) - len(shorter):,} characters of quoted text are left out.")
            text = shorter
    files = attachments(payload)[:_MAX_ATTACHMENTS]
    attached = await _attached(args, files, message_id, api, notes)
    output: Args = {
        **_envelope(message),
        "cc": _addresses(payload, "cc"),
        "reply_to": _addresses(payload, "reply-to"),
        "sent": one_line(payload.header("date"), 100) or None,
        "headers": [_header(item.name, item.value) for item in payload.headers[:_MAX_HEADERS] if shape == "headers"],
        "attachments": [_file(number, each) for number, each in enumerate(files, 1)],
        "notes": [*notes],
    }
    head = _head(output, head_room(ctx))
    output |= paged(text, args, ctx, head)
    return ok("\n".join([*head, *paged_lines(output)]), structured=output, attachments=attached)


async def _text(parts: list[TextPart], api: ApiSession, notes: list[str], *, mode: Literal["text", "links"]) -> str:
    found: list[str] = []
    for part in parts:
        if part.damaged:
            notes.append(f"A part ({part.mime}) is damaged; what could be decoded is shown.")
        if part.mime == "text/plain" and mode == "text":
            decoded = decode(part.body, part.content_type)
            found.append(decoded.text)
            if decoded.damaged:
                notes.append(f"Bytes that are not valid {decoded.charset} were replaced.")
            continue
        request = {
            "do": "render",
            "kind": "html" if part.mime == "text/html" else "text",
            "mode": mode,
            "content_type": part.content_type,
            "url": "https://mail.google.com/",
            "find": None,
        }
        try:
            made = await api.google.extractor.ask_once(request, part.body, api.seconds_left)
            found.append(str(made["text"]))
        except WorkerFailed as error:
            notes.append(f"The HTML part ({format_size(len(part.body))}) cannot be read: {error}.")
    if not parts:
        notes.append("The message has no text.")
    return clean_text("\n\n".join(found))


async def _attached(
    args: Args, files: list[FilePart], message_id: str, api: ApiSession, notes: list[str]
) -> tuple[Attachment, ...]:
    """Fetch the attachment of that number."""
    number = cast("int | None", args.get("attachment"))
    if number is None:
        return ()
    if number > len(files):
        raise GoogleFailed(f"There is no attachment {number}: the message has {len(files)}.")
    file = files[number - 1]
    if file.size > MAX_ATTACHMENT:
        raise GoogleFailed(
            f"Attachment {number} has {format_size(file.size)}. At most {format_size(MAX_ATTACHMENT)} can be attached."
        )
    data = file.data
    if file.attachment_id:
        what = f"attachment {number} of message '{message_id}'"
        data = (await api.read(PartBody, *_ROOT, message_id, "attachments", file.attachment_id, what=what)).data
    content, damaged = decoded_base64(data)
    if damaged:
        raise GoogleFailed(f"Attachment {number} is damaged, so it is not attached.")
    facts = f"Attachment {number} is {file.mime}, {format_size(len(content))}"
    attached, note = attached_file(file.name, file.mime, content, facts)
    notes.append(note)
    return attached


def _header(name: str, value: str) -> Json:
    return {"name": one_line(name, 100), "value": one_line(decoded_words(value), 1000)}


def _file(number: int, each: FilePart) -> Args:
    return {"number": number, "name": each.name, "type": each.mime, "bytes": each.size}


def _head(output: Args, room: int) -> list[str]:
    """Return the lines before the text. Each of our facts stands before what the sender wrote, or outside its «»; no
    header and no attachment can push the text out of the output."""
    rows = [("From", _people(output["from"], room)), ("To", _people(output["to"], room))]
    rows += [("Cc", _people(output["cc"], room))] if output["cc"] else []
    rows += [("Reply-To", _people(output["reply_to"], room))] if output["reply_to"] else []
    sent = f" (the sender's clock says {in_quotes(str(output['sent']))})" if output["sent"] else ""
    rows += [("Subject", str(output["subject"])), ("Received", f"{output['date'] or 'no date'}{sent}")]
    rows.append(("Labels", listed(cast("list[str]", output["labels"]), room) or "none"))
    lines = [f"Message {output['id']} (thread {output['thread']})", *(f"{name}: {value}" for name, value in rows)]
    files, left = fitting([_file_line(each) for each in cast("list[dict[str, Any]]", output["attachments"])], 2 * room)
    lines += [*files, *([f"And {left} more attachments, up to number {len(files) + left}."] if left else [])]
    headers = cast("list[dict[str, str]]", output["headers"])
    lines += [f"  | {each['name']}: {each['value']}" for each in headers]
    return [*lines, *note_lines(cast("list[str]", output["notes"]), 2 * room)]


def _file_line(each: dict[str, Any]) -> str:
    return f"Attachment {each['number']} ({each['type']}, {format_size(each['bytes'])}): {in_quotes(each['name'])}"


_ADDRESSES: Final = array(strict_object(address=STRING, name=STRING, misleading=BOOLEAN))
_ENVELOPE: Final = {
    "id": STRING,
    "thread": STRING,
    "from": _ADDRESSES,
    "to": _ADDRESSES,
    "subject": STRING,
    "date": STRING_OR_NULL,
    "labels": array(STRING),
}

GMAIL_SEARCH: Final = api_tool(
    "gmail",
    _search,
    name="gmail.search",
    source="mail",
    description=(
        "Search the user's mail with Gmail's own syntax (from:, subject:, newer_than:7d, has:attachment, in:inbox). "
        "Returns senders, subjects, times and snippets; read a message with gmail.read."
    ),
    input_schema=strict_object(
        query={**non_blank("Query in Gmail's search syntax."), "maxLength": _MAX_QUERY},
        limit=nullable("integer", "Number of messages (default 10).", minimum=1, maximum=MAX_LIMIT),
        page=PAGE,
        label=LABEL,
    ),
    output_schema=strict_object(
        query=STRING,
        messages=array(strict_object(**_ENVELOPE, snippet=STRING, has_attachments=BOOLEAN)),
        notes=array(STRING),
        next_page=STRING_OR_NULL,
    ),
    format_preview=preview("query", "limit", "page"),
)
GMAIL_READ: Final = api_tool(
    "gmail",
    _read,
    name="gmail.read",
    source="mail",
    description="Read one message: who wrote it, its text, and a list of its attachments.",
    input_schema=strict_object(
        id={**non_blank("The id of the message, from gmail.search."), "maxLength": 200},
        format={
            "type": ["string", "null"],
            "enum": ["text", "html", "links", "headers", None],
            "description": (
                "text: the plain text (default). html: the text of the HTML part. links: every link with its address. "
                "headers: all headers."
            ),
        },
        trim_quotes=nullable("boolean", "Leave out the text that a reply quotes (default false)."),
        attachment=nullable("integer", "The number of an attachment to return.", minimum=1, maximum=_MAX_ATTACHMENTS),
        offset=OFFSET,
        limit=CHARS,
        label=LABEL,
    ),
    output_schema=strict_object(
        **_ENVELOPE,
        cc=_ADDRESSES,
        reply_to=_ADDRESSES,
        sent=STRING_OR_NULL,
        headers=array(strict_object(name=STRING, value=STRING)),
        attachments=array(strict_object(number=INTEGER, name=STRING, type=STRING, bytes=INTEGER)),
        notes=array(STRING),
        **PAGED_TEXT,
    ),
    format_preview=preview("id", "format", "attachment", "offset"),
)

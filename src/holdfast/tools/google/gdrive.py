"""`gdrive.search` and `gdrive.read`: find files in Drive, and read one."""

from __future__ import annotations

from typing import Any, Final, Literal, cast

from msgspec import Struct

from holdfast.contract.context import Context
from holdfast.contract.json import Args, Json
from holdfast.contract.result import Attachment, Result, ok
from holdfast.net.client import HttpResponse
from holdfast.text.attachments import pixels
from holdfast.text.truncate import format_size
from holdfast.tools.extraction.content import classify
from holdfast.tools.google.results import (
    CHARS,
    OFFSET,
    PAGE,
    PAGED_TEXT,
    clean_text,
    document_id,
    more_line,
    one_line,
    page_token,
    paged,
    paged_lines,
    plain_id,
    preview,
)
from holdfast.tools.google.service import ApiSession, GoogleFailed, api_tool
from holdfast.tools.schemas import (
    BOOLEAN,
    INTEGER_OR_NULL,
    LABEL,
    STRING,
    STRING_OR_NULL,
    array,
    nullable,
    strict_object,
)
from holdfast.tools.worker_process import WorkerFailed

DEFAULT_LIMIT: Final = 20
MAX_LIMIT: Final = 100
_MAX_QUERY: Final = 2000
_MAX_ATTACHMENT: Final = 5 * 1024 * 1024
_MAX_PIXELS: Final = 40_000_000
_GOOGLE_TYPE: Final = "application/vnd.google-apps."
_FILE: Final = (
    "id,name,mimeType,size,modifiedTime,webViewLink,shared,owners(displayName,emailAddress),"
    "shortcutDetails(targetId,targetMimeType)"
)
_EXPORTS: Final = {
    "document": {"text": "text/markdown", "plain": "text/plain"},
    "spreadsheet": {"text": "text/csv", "plain": "text/csv"},
    "presentation": {"text": "text/plain", "plain": "text/plain"},
    "drawing": {"text": "image/png", "plain": "image/png"},
    "script": {"text": "application/vnd.google-apps.script+json", "plain": "application/vnd.google-apps.script+json"},
}
"""The types that Google's own formats are exported as."""


class _Owner(Struct, frozen=True, rename="camel"):
    display_name: str = ""
    email_address: str = ""


class _Shortcut(Struct, frozen=True, rename="camel"):
    target_id: str = ""
    target_mime_type: str = ""


class _File(Struct, frozen=True, rename="camel"):
    id: str = ""
    name: str = ""
    mime_type: str = ""
    size: str = ""
    modified_time: str = ""
    web_view_link: str = ""
    shared: bool = False
    owners: tuple[_Owner, ...] = ()
    shortcut_details: _Shortcut = _Shortcut()


class _FileList(Struct, frozen=True, rename="camel"):
    files: tuple[_File, ...] = ()
    next_page_token: str = ""
    incomplete_search: bool = False


# ---------------------------------------------------------------------- search


def drive_literal(text: str) -> str:
    """Return the text as a string of Drive's query language, from which it cannot break out."""
    escaped = one_line(text, _MAX_QUERY).replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def drive_query(words: str | None, *, raw: bool) -> str:
    """Return the query for plain words, or the user's own query."""
    text = one_line(words or "", _MAX_QUERY)
    if raw and text:
        return text
    return f"fullText contains {drive_literal(text)} and trashed = false" if text else "trashed = false"


async def _search(args: Args, ctx: Context, api: ApiSession) -> Result:
    words, raw = cast("str | None", args.get("query")), bool(args.get("raw"))
    limit, query = cast("int | None", args.get("limit")) or DEFAULT_LIMIT, drive_query(words, raw=raw)
    found = await api.read(
        _FileList,
        "drive",
        "v3",
        "files",
        query={
            "q": query,
            # Drive sorts matches of a full-text search by relevance, and refuses another order.
            "orderBy": None if "fulltext" in query.lower() else "modifiedTime desc",
            "pageSize": limit,
            "pageToken": cast("str | None", args.get("page")),
            "fields": f"nextPageToken,incompleteSearch,files({_FILE})",
            "supportsAllDrives": True,
            "includeItemsFromAllDrives": True,
        },
        what="list of files",
    )
    output: Args = {
        "query": query,
        "files": [_file(each) for each in found.files[:limit]],
        "complete": not found.incomplete_search,
        "next_page": page_token(found.next_page_token),
    }
    return ok(_list_text(output), structured=output)


def _file(file: _File) -> Json:
    owners = file.owners[:5]
    return {
        "id": one_line(file.id, 200),
        "name": one_line(file.name),
        "type": one_line(file.mime_type, 120),
        "bytes": _size(file),
        "modified": one_line(file.modified_time, 60) or None,
        "owners": [one_line(each.email_address or each.display_name) for each in owners],
        "shared": file.shared,
        "link": one_line(file.web_view_link, 500) or None,
    }


def _size(file: _File) -> int | None:
    return int(file.size[:18]) if file.size.isascii() and file.size.isdigit() else None


def _list_text(output: Args) -> str:
    files = cast("list[dict[str, Any]]", output["files"])
    if not files:
        return f"No file matches {output['query']}."
    lines: list[str] = []
    for each in files:
        size = "" if each["bytes"] is None else f", {format_size(each['bytes'])}"
        owned = f", owned by {', '.join(each['owners'])}" if each["owners"] else ""
        shared = ", shared" if each["shared"] else ""
        lines.append(f"{each['id']}  {each['name']}")
        lines.append(f"  {each['type']}{size}, modified {each['modified'] or 'unknown'}{owned}{shared}")
    if not output["complete"]:
        lines += ["", "[Google could not search all drives; there may be more.]"]
    return "\n".join([*lines, *more_line(cast("str | None", output["next_page"]))])


# ---------------------------------------------------------------------- read


class _Shown(Struct, frozen=True, kw_only=True):
    text: str = ""
    notes: tuple[str, ...] = ()
    attachments: tuple[Attachment, ...] = ()


async def _read(args: Args, ctx: Context, api: ApiSession) -> Result:
    file = await _metadata(document_id(str(args["file"])), api)
    notes: list[str] = []
    if file.shortcut_details.target_id:
        notes.append(f"It is a shortcut; this is the file that it leads to ({one_line(file.name)}).")
        file = await _metadata(plain_id(file.shortcut_details.target_id, "a file"), api)
    response, kind = await _content(file, args, api, notes)
    shown = await _shown(file, response, kind, api, attach=bool(args.get("attach")))
    output: Args = {
        **cast(Args, _file(file)),
        "content_type": kind,
        "notes": [*notes, *shown.notes],
        **paged(shown.text, args, ctx),
    }
    return ok(_file_text(output), structured=output, attachments=shown.attachments)


async def _metadata(file_id: str, api: ApiSession) -> _File:
    query = {"fields": _FILE, "supportsAllDrives": True}
    found = await api.read(_File, "drive", "v3", "files", file_id, query=query, what=f"file '{file_id}'")
    if found.id != file_id:
        raise GoogleFailed(f"Drive answered about another file than '{file_id}'.")
    return found


async def _content(file: _File, args: Args, api: ApiSession, notes: list[str]) -> tuple[HttpResponse, str]:
    """Return the content of a file and its type: Google's own formats are exported, others downloaded."""
    what = f"file '{file.id}'"
    if not file.mime_type.startswith(_GOOGLE_TYPE):
        query = {"alt": "media", "supportsAllDrives": True}
        response = await api.download("drive", "v3", "files", file.id, query=query, what=what)
        return response, one_line(file.mime_type, 120) or "application/octet-stream"
    kind = file.mime_type.removeprefix(_GOOGLE_TYPE)
    if kind == "folder":
        listing = f"gdrive.search with raw=true and query=\"'{file.id}' in parents\""
        raise GoogleFailed(f"'{file.id}' is a folder. List it with {listing}.")
    exports = _EXPORTS.get(kind)
    if exports is None:
        raise GoogleFailed(f"Files of the type {one_line(file.mime_type, 120)} cannot be exported as text.")
    wanted = exports[cast("str | None", args.get("format")) or "text"]
    if kind == "spreadsheet":
        notes.append("Of a spreadsheet, only the first sheet is exported.")
    response = await api.download("drive", "v3", "files", file.id, "export", query={"mimeType": wanted}, what=what)
    return response, wanted


async def _shown(file: _File, response: HttpResponse, kind: str, api: ApiSession, *, attach: bool) -> _Shown:
    """Return the text of a content, an image as an attachment, or what else it is."""
    body = response.body
    size = f"{'more than ' if response.cut else ''}{format_size(len(body))}"
    facts = f"The content is {kind}, {size}"
    if not body:
        return _Shown(notes=("The file is empty.",))
    content = classify(kind, body)
    limit = f", which is above the limit google.max_bytes ({format_size(api.google.settings.max_bytes)})"
    if attach or content.kind in ("image", "binary"):
        if response.cut:
            return _Shown(notes=(f"{facts}{limit}, so it is not attached.",))
        if content.kind == "binary" and not attach:
            return _Shown(notes=(f"{facts}, which has no text here. Use attach=true to get the file itself.",))
        return _attached(file, content.mime, body, facts, is_image=content.kind == "image")
    if content.kind == "pdf" and response.cut:
        return _Shown(notes=(f"{facts}{limit}, so it cannot be read.",))
    request = {"do": "render", "kind": content.kind, "mode": "text", "content_type": kind, "url": "", "find": None}
    try:
        made = await api.google.extractor.ask_once(request, body, api.seconds_left)
    except WorkerFailed as error:
        return _Shown(notes=(f"{facts}, but it cannot be read: {error}.",))
    notes = [str(note)[:400] for note in made["notes"]]
    if response.cut:
        notes.append(f"The file is longer than google.max_bytes; only its first {format_size(len(body))} were read.")
    return _Shown(text=clean_text(str(made["text"])), notes=tuple(notes))


def _attached(file: _File, mime: str, body: bytes, facts: str, *, is_image: bool) -> _Shown:
    if len(body) > _MAX_ATTACHMENT:
        return _Shown(notes=(f"{facts}. At most {format_size(_MAX_ATTACHMENT)} can be attached.",))
    if is_image:
        dimensions = pixels(body)
        if dimensions is None:
            return _Shown(notes=(f"{facts}, but the image is damaged, so it is not attached.",))
        facts += f", {dimensions[0]} × {dimensions[1]} pixels"
        if dimensions[0] * dimensions[1] > _MAX_PIXELS:
            return _Shown(notes=(f"{facts}, which is too large to be attached.",))
    kind: Literal["image", "file"] = "image" if is_image else "file"
    attachment = Attachment(kind=kind, mime_type=mime, data=body, name=one_line(file.name, 200) or None)
    return _Shown(notes=(f"{facts}; it is attached.",), attachments=(attachment,))


def _file_text(output: Args) -> str:
    owners = cast("list[str]", output["owners"])
    facts = [str(output["type"]), f"modified {output['modified'] or 'unknown'}"]
    facts += [f"owned by {', '.join(owners)}"] if owners else []
    lines = [f"File {output['id']}: {output['name']} ({', '.join(facts)})"]
    lines += [f"[{note}]" for note in cast("list[str]", output["notes"])]
    return "\n".join([*lines, *paged_lines(output)])


_OUTPUT_FILE: Final = {
    "id": STRING,
    "name": STRING,
    "type": STRING,
    "bytes": INTEGER_OR_NULL,
    "modified": STRING_OR_NULL,
    "owners": array(STRING),
    "shared": BOOLEAN,
    "link": STRING_OR_NULL,
}

GDRIVE_SEARCH: Final = api_tool(
    "gdrive",
    _search,
    name="gdrive.search",
    source="documents",
    description="Search the user's Drive by words in names and contents. Read a file with gdrive.read.",
    input_schema=strict_object(
        query=nullable("string", "Words to find; without any, the files changed last.", maxLength=_MAX_QUERY),
        raw=nullable("boolean", "Whether query is in Drive's own query language (default false)."),
        limit=nullable("integer", "Number of files (default 20).", minimum=1, maximum=MAX_LIMIT),
        page=PAGE,
        label=LABEL,
    ),
    output_schema=strict_object(
        query=STRING, files=array(strict_object(**_OUTPUT_FILE)), complete=BOOLEAN, next_page=STRING_OR_NULL
    ),
    format_preview=preview("query", "raw", "limit"),
)
GDRIVE_READ: Final = api_tool(
    "gdrive",
    _read,
    name="gdrive.read",
    source="documents",
    description=(
        "Read a file in Drive: Google's formats as Markdown, CSV or text, PDF and text files as text, images as an "
        "attachment."
    ),
    input_schema=strict_object(
        file={"type": "string", "description": "The id or address of the file.", "minLength": 1, "maxLength": 2000},
        format={
            "type": ["string", "null"],
            "enum": ["text", "plain", None],
            "description": "text: Markdown where there is one (default). plain: text without marks.",
        },
        attach=nullable("boolean", "Return the file itself, up to 5 MB (default false)."),
        offset=OFFSET,
        limit=CHARS,
        label=LABEL,
    ),
    output_schema=strict_object(**_OUTPUT_FILE, content_type=STRING, notes=array(STRING), **PAGED_TEXT),
    format_preview=preview("file", "format", "attach", "offset"),
)

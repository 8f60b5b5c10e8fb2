"""`gdocs.read`: a document as Markdown, page by page."""

from __future__ import annotations

import asyncio
from typing import Final, cast

from holdfast.contract.context import Context
from holdfast.contract.json import Args
from holdfast.contract.result import Result, ok
from holdfast.tools.google.document import MAX_CHARS, Document, document_text
from holdfast.tools.google.results import (
    CHARS,
    OFFSET,
    PAGED_TEXT,
    document_id,
    head_room,
    in_quotes,
    listed,
    note_lines,
    one_line,
    paged,
    paged_lines,
    preview,
)
from holdfast.tools.google.service import ApiSession, api_tool
from holdfast.tools.schemas import LABEL, STRING, STRING_OR_NULL, array, non_blank, strict_object

_MAX_TABS: Final = 100


async def _read(args: Args, ctx: Context, api: ApiSession) -> Result:
    document_at = document_id(str(args["document"]))
    query = {"includeTabsContent": True, "suggestionsViewMode": "PREVIEW_WITHOUT_SUGGESTIONS"}
    document = await api.read(Document, "v1", "documents", document_at, query=query, what=f"document '{document_at}'")
    made = await asyncio.to_thread(document_text, document)
    notes = [f"The document is too long or too deeply nested; {MAX_CHARS:,} characters are read."] if made.cut else []
    notes += [] if made.text else ["The document is empty."]
    output: Args = {
        "id": document_at,
        "title": one_line(document.title),
        "revision": one_line(document.revision_id, 200) or None,
        "tabs": [*made.tabs[:_MAX_TABS]],
        "notes": [*notes],
    }
    head = _head(output, head_room(ctx))
    output |= paged(made.text, args, ctx, head)
    return ok("\n".join([*head, *paged_lines(output)]), structured=output)


def _head(output: Args, room: int) -> list[str]:
    tabs = cast("list[str]", output["tabs"])
    lines = [f"Document {output['id']}: {in_quotes(str(output['title']), '(no title)')}"]
    lines += [f"Tabs: {listed([in_quotes(tab, 'untitled') for tab in tabs], 2 * room)}"] if len(tabs) > 1 else []
    return [*lines, *note_lines(cast("list[str]", output["notes"]), 2 * room)]


GDOCS_READ: Final = api_tool(
    "gdocs",
    _read,
    name="gdocs.read",
    source="documents",
    description="Read a document of Google Docs as Markdown: headings, lists, tables, footnotes, all tabs.",
    input_schema=strict_object(
        document={**non_blank("The id or address of the document."), "maxLength": 2000},
        offset=OFFSET,
        limit=CHARS,
        label=LABEL,
    ),
    output_schema=strict_object(
        id=STRING, title=STRING, revision=STRING_OR_NULL, tabs=array(STRING), notes=array(STRING), **PAGED_TEXT
    ),
    format_preview=preview("document", "offset"),
)

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
    output: Args = {
        "id": document_at,
        "title": one_line(document.title),
        "revision": one_line(document.revision_id, 200) or None,
        "tabs": [*made.tabs[:_MAX_TABS]],
        "notes": [*notes],
        **paged(made.text, args, ctx),
    }
    return ok(_text(output), structured=output)


def _text(output: Args) -> str:
    tabs = cast("list[str]", output["tabs"])
    lines = [f"Document {output['id']}: {output['title'] or '(no title)'}"]
    lines += [f"Tabs: {', '.join(tabs)}"] if len(tabs) > 1 else []
    lines += [f"[{note}]" for note in cast("list[str]", output["notes"])]
    lines += [] if output["total_chars"] else ["[The document is empty.]"]
    return "\n".join([*lines, *paged_lines(output)])


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

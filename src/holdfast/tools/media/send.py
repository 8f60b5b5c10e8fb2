"""`media.send`: an image, a recording or another file for the person, through the interface that is attached."""

from __future__ import annotations

import re
from typing import Any, Final, cast
from unicodedata import normalize

from msgspec.structs import replace

from holdfast.contract.context import Context
from holdfast.contract.enums import Risk
from holdfast.contract.errors import HoldfastError
from holdfast.contract.json import Args
from holdfast.contract.result import Attachment, Result, fail, ok
from holdfast.text.attachments import file_name
from holdfast.text.truncate import format_size
from holdfast.tools.files.pages import attachment_kind
from holdfast.tools.media.content import PATH, file_preview, read_media, touched
from holdfast.tools.media.file_types import can_run
from holdfast.tools.media.service import MediaService
from holdfast.tools.schemas import INTEGER, LABEL, STRING, array, builtin_tool, nullable, strict_object


async def _execute(args: Args, ctx: Context) -> Result:
    try:
        media = await read_media(args, ctx, ctx.service(MediaService).settings.max_bytes)
    except HoldfastError as error:
        return fail(str(error))
    attachment = Attachment(
        kind=attachment_kind(media.mime_type),
        mime_type=media.mime_type,
        data=media.data,
        name=cast("str | None", args.get("filename")) or media.name,
        audience="person",
    )
    name = file_name(attachment)
    notes = [*media.notes]
    if attachment.name and _is_renamed(attachment.name, name):
        notes.append("The file name was changed to one that is safe and fits the content.")
    if can_run(media.mime_type):
        notes.append(f"A file of type {media.mime_type} can run code when it is opened.")
    output: dict[str, Any] = {
        "name": name,
        "kind": attachment.kind,
        "mime_type": media.mime_type,
        "bytes": len(media.data),
        "sha256": media.digest,
        "notes": notes,
    }
    return ok(_text(output), structured=output, attachments=(replace(attachment, name=name),))


def _is_renamed(given: str, name: str) -> bool:
    """Whether a person would be surprised: a space that became a dash and an extension that was missing are no
    change."""
    expected = re.sub(r"[ -]+", "-", normalize("NFC", given))
    return name != expected and ("." in expected or name.rpartition(".")[0] != expected)


def _text(output: dict[str, Any]) -> str:
    """Render the output."""
    head = f"Attached for the user: {output['name']} ({output['mime_type']}, {format_size(output['bytes'])})"
    return "\n".join([head, *(f"[{note}]" for note in output["notes"])])


MEDIA_SEND: Final = builtin_tool(
    name="media.send",
    description="Send a media attachment to the user",
    input_schema=strict_object(
        data=nullable("string", "Base64-encoded data"),
        mimeType=nullable("string", "MIME type (e.g., 'image/jpeg', 'audio/ogg')", maxLength=200),
        filename=nullable("string", "The name under which the user gets it.", maxLength=1000),
        path=PATH,
        label=LABEL,
    ),
    output_schema=strict_object(
        name=STRING,
        kind={"enum": ["image", "audio", "file"]},
        mime_type=STRING,
        bytes=INTEGER,
        sha256=STRING,
        notes=array(STRING),
    ),
    execute=_execute,
    risk=Risk.LOW,
    effects=frozenset({"person", "fs.read"}),
    touches=touched,
    format_preview=file_preview,
    groups=("media",),
    profiles=("messaging",),
    presets=("$readonly",),
)

"""Attachments of results: images and audio of known formats in place, everything else as a download.

What a tool or a server calls an image is shown as one only if its first bytes agree, and no content is ever given the
origin of the page: it is sandboxed by its own policy.
"""

from __future__ import annotations

import asyncio
from typing import Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from holdfast.contract.errors import UnknownCall
from holdfast.contract.result import Attachment
from holdfast.serve.projects import Projects, ServedProject
from holdfast.text.attachments import essence, file_name

_POLICY: Final = "sandbox; default-src 'none'"
_DOWNLOAD: Final = "application/octet-stream"
_SAME_TYPE: Final = {"image/jpg": "image/jpeg", "audio/x-wav": "audio/wav", "audio/wave": "audio/wav"}
_MAX_INDEX_DIGITS: Final = 4


class Media:
    """The content of attachments."""

    def __init__(self, projects: Projects) -> None:
        self._projects = projects

    def routes(self) -> list[Route]:
        return [Route("/media/{project}/{call_id}/{index}", self.attachment)]

    async def attachment(self, request: Request) -> Response:
        project = self._projects.get(request.path_params["project"])
        found = await asyncio.to_thread(_read, project, request.path_params["call_id"], request.path_params["index"])
        return media_reply(found)


def media_address(project: str, call_id: str, index: int) -> str:
    return f"/media/{project}/{quote(call_id, safe='')}/{index}"


def _read(project: ServedProject, call_id: str, index: str) -> Attachment:
    result = project.ledger.result(call_id)
    if result is None:
        project.ledger.call(call_id)  # raises if there is no such call
        raise UnknownCall(f"Call {call_id} has no result yet.")
    plain = index.isascii() and index.isdigit() and len(index) <= _MAX_INDEX_DIGITS
    if not plain or int(index) >= len(result.attachments):
        raise UnknownCall(f"The result of call {call_id} has no attachment {index}.")
    found = result.attachments[int(index)]
    if not found.data:
        what = "is a link" if not found.digest else "is no longer stored: it was pruned or removed"
        raise UnknownCall(f"The content of attachment {index} of call {call_id} {what}.")
    return found


def media_reply(item: Attachment) -> Response:
    """The content with headers that let a browser show it only if it is an image or audio."""
    kind = inline_type(item)
    name = file_name(item)
    ascii_name = name.encode("ascii", "replace").decode().replace("?", "_")
    way = "attachment" if kind is None else "inline"
    headers = {
        "Content-Security-Policy": _POLICY,
        "X-Content-Type-Options": "nosniff",
        "Content-Disposition": f"{way}; filename=\"{ascii_name}\"; filename*=UTF-8''{quote(name, safe='')}",
        "Cache-Control": "private, no-cache",
        "ETag": f'"{item.digest}"',
    }
    return Response(item.data, media_type=kind or _DOWNLOAD, headers=headers)


_SNIFFED: Final = {
    "image/png": "image/png", "image/jpeg": "image/jpeg", "image/gif": "image/gif", "image/webp": "image/webp",
    "audio/wav": "audio/wav", "audio/ogg": "audio/ogg", "audio/flac": "audio/flac", "audio/mpeg": "audio/mpeg",
    "audio/aac": "audio/mpeg", "audio/mp4": "video/mp4", "audio/webm": "video/webm",
}  # fmt: skip
"""The types that are shown in place, and what `sniff` says of each. Containers of audio and video begin alike, and so
do frames of AAC and MP3."""


def inline_type(item: Attachment) -> str | None:
    """The type of a raster image or audio whose declared type and first bytes agree, else None."""
    declared = essence(item.mime_type)
    declared = _SAME_TYPE.get(declared, declared)
    wanted = _SNIFFED.get(declared)
    return declared if wanted is not None and sniff(item.data) == wanted else None


def sniff(data: bytes) -> str | None:
    """The type by the first bytes, of the formats that browsers may show here."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if data.startswith(b"RIFF") and data[8:12] in (b"WEBP", b"WAVE"):
        return "image/webp" if data[8:12] == b"WEBP" else "audio/wav"
    if data.startswith(b"OggS"):
        return "audio/ogg"
    if data.startswith(b"fLaC"):
        return "audio/flac"
    if data.startswith(b"ID3") or (data[:1] == b"\xff" and len(data) > 1 and data[1] & 0xE0 == 0xE0):
        return "audio/mpeg"
    if data[4:8] == b"ftyp":
        return "video/mp4"
    return "video/webm" if data.startswith(b"\x1a\x45\xdf\xa3") else None

"""Results as HTML: text, error, JSON and attachments. What tools and servers return is shown, never run or followed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final
from urllib.parse import urlsplit

from markupsafe import Markup

from holdfast.contract.result import Attachment, Result
from holdfast.serve.text_view import block_html, fold_html, visible_html
from holdfast.text.attachments import describe, essence, file_name, pixels
from holdfast.text.escape import escape_url
from holdfast.text.pretty_json import pretty_json

MediaUrl = Callable[[Attachment], str]
"""Returns the address of stored content on this server."""

_RASTER: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""Formats without scripts, links or fonts. SVG is none of them."""
_AUDIO: Final = frozenset(f"audio/{name}" for name in ("mpeg", "wav", "x-wav", "ogg", "webm", "flac", "mp4", "aac"))
_MAX_PIXELS: Final = 16_000
"""Of each side of an image that the page shows: browsers decode it whole."""
_WEB_URL: Final = re.compile(r"https?://[!-~]+")


def result_html(result: Result, *, media_url: MediaUrl) -> Markup:
    """Return the result, whole. `media_url` is asked only for attachments with stored content."""
    return Markup('<div class="result">{}</div>').format(Markup("").join(_parts(result, media_url)))


def _parts(result: Result, media_url: MediaUrl) -> Iterator[Markup]:
    if not result.success:
        yield Markup('<div class="error">{}</div>').format(block_html(result.error or "Unknown error"))
    if result.output:
        title = "Output" if result.success else "Partial output"
        yield fold_html(title, result.output, block_html(result.output, name="output"))
    if result.structured is not None:
        text = pretty_json(result.structured)
        if text != result.output:
            yield fold_html("Structured", text, block_html(text, name="json"))
    yield from (attachment_html(item, media_url) for item in result.attachments)
    if result.success and not (result.output or result.structured is not None or result.attachments):
        yield Markup('<p class="muted">No output.</p>')


def attachment_html(item: Attachment, media_url: MediaUrl) -> Markup:
    """Return an image or audio in place, anything else as a download, and a link as its address."""
    said = visible_html(describe(item))
    if not item.digest:
        link = Markup("") if item.uri is None else link_html(item.uri)
        return Markup('<p class="attachment">{} {}</p>').format(said, link)
    url, kind = media_url(item), essence(item.mime_type)
    download = Markup('<a class="download" href="{}" download="{}">Download {}</a>').format(
        url, file_name(item), file_name(item)
    )
    body = Markup("")
    if kind in _RASTER and item.kind == "image":
        body = _image(item, url)
    elif kind in _AUDIO and item.kind == "audio":
        body = Markup('<audio controls preload="none" src="{}"></audio>').format(url)
    person = "" if item.audience == "everyone" else Markup(' <span class="tag">not shown to the model</span>')
    return Markup('<figure class="attachment">{}<figcaption>{}{} {}</figcaption></figure>').format(
        body, said, person, download
    )


def _image(item: Attachment, url: str) -> Markup:
    """The image with its size, so that the page does not move when it arrives; nothing for one of extreme size."""
    size = pixels(item.data)
    if size is None and not item.data:
        return Markup('<img loading="lazy" src="{}" alt="{}">').format(url, file_name(item))
    if size is None or max(size) > _MAX_PIXELS:
        return Markup("")
    return Markup('<img loading="lazy" src="{}" alt="{}" width="{}" height="{}">').format(url, file_name(item), *size)


def link_html(url: str) -> Markup:
    """Return an address of untrusted origin, whole: a link only for HTTP, and with its true host if that is unclear."""
    shown = visible_html(escape_url(url))
    if not is_web_url(url):
        return Markup("<code>{}</code>").format(shown)
    return Markup('<a href="{}" rel="noreferrer noopener">{}</a>').format(url, shown)


def is_web_url(url: str) -> bool:
    """Whether an address may become a link: HTTP, printable ASCII, with a host that all programs read the same."""
    if not _WEB_URL.fullmatch(url) or "\\" in url:
        return False
    try:
        parts = urlsplit(url)
        return bool(parts.hostname) and parts.username is None and parts.password is None
    except ValueError:
        return False
